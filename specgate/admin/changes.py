"""What a change of settings is told as: the values before and after, and of a secret none."""

from collections.abc import Iterable

from pydantic import SecretStr

from specgate.core.config import PolicyConfig
from specgate.core.events import Change
from specgate.core.keys import KeyHashes
from specgate.settings import Settings, kind_of


def of_settings(names: Iterable[str], was: Settings, now: Settings) -> tuple[Change, ...]:
    """Of those that differ, by name; the threshold is told by `of_threshold`."""
    found: list[Change] = []
    for name in sorted(set(names) - {"threshold"}):
        before, after = getattr(was, name), getattr(now, name)
        if not isinstance(before, SecretStr | KeyHashes) and not isinstance(
            after, SecretStr | KeyHashes
        ):
            found += _differing(name, _text(name, before), _text(name, after))
    return tuple(found)


def of_threshold(was: PolicyConfig, now: PolicyConfig) -> tuple[Change, ...]:
    """Of what was in force, by whomever it was set; none where it stays."""
    return _differing("threshold", _threshold(was), _threshold(now))


def of_mode(was: str, now: str) -> tuple[Change, ...]:
    return _differing("mode", was, now)


def _differing(name: str, was: str, now: str) -> tuple[Change, ...]:
    return () if was == now else (Change(name, was, now),)


def _threshold(policy: PolicyConfig) -> str:
    text = _text("threshold", policy.threshold)
    return text if policy.curves is None else f"{text} (weighed by the profile)"


def _text(name: str, value: object) -> str:
    written = kind_of(name).write(value)
    if written is None:
        return "unset"
    return str(written).lower() if isinstance(written, bool) else str(written)
