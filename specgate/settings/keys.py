"""Clients' keys, as they are written: in a setting, or in a file. Nothing here repeats one."""

import re
from collections.abc import Iterable
from pathlib import Path

from specgate.core.keys import KEYS_MAX, KeyHashes
from specgate.settings.kinds import MASK, Kind

_KEY = re.compile(r"[!-+\--~]+")  # visible ASCII but the comma
_FILE_MAX = 1024 * 1024


def _read_keys(written: object) -> KeyHashes:
    listed = written.split(",") if isinstance(written, str) else written
    if not isinstance(listed, list) or not all(isinstance(key, str) for key in listed):
        raise ValueError(f"must be {KEYS.allowed}")
    keys = [key.strip() for key in listed]
    # One comma at the end is no key; none at all would let nobody in, or everybody.
    keys = [key for key in keys if key] if any(keys) else keys
    if not all(_KEY.fullmatch(key) for key in keys) or not keys:
        raise ValueError(f"must be {KEYS.allowed}")
    return _hashed(keys)


KEYS = Kind(
    allowed="one or more keys of visible ASCII characters, separated by commas",
    read=_read_keys,
    show=lambda written: MASK,
)


def read_keys_file(path: str) -> KeyHashes:
    """The keys of a file; raises ValueError, which says why without any of its text."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_FILE_MAX + 1)
    except OSError as error:
        raise ValueError(error.strerror or "cannot be read") from error
    if len(raw) > _FILE_MAX:
        raise ValueError(f"larger than {_FILE_MAX} bytes")
    keys = []
    for number, line in enumerate(raw.decode("utf-8", "replace").splitlines(), start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if not _KEY.fullmatch(key):
            raise ValueError(
                f"line {number}: must be one key of visible ASCII characters, without commas"
            )
        keys.append(key)
    if not keys:
        # Writers empty a file before they fill it; and no keys must never mean: none is needed.
        raise ValueError("holds no keys")
    return _hashed(keys)


def _hashed(keys: Iterable[str]) -> KeyHashes:
    hashes = KeyHashes(keys)
    if len(hashes) > KEYS_MAX:
        raise ValueError(f"must be at most {KEYS_MAX} keys")
    return hashes
