"""Kinds of settings: what a person may write, how it is read, and how it is written back.

A Kind stands in a field's annotation. Pydantic asks it before it looks at the value itself, so
every refusal is worded here, once, and the reference page quotes the same words.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import GetCoreSchemaHandler, SecretStr
from pydantic_core import CoreSchema, core_schema

from specgate.core.keys import KeyHashes

MASK = "***"

Written = str | int | float | bool | None
"""A value as a person would write it; None: not set, and there is no word for that."""

_LONGEST_SHOWN = 160
_LONGEST_WHOLE = 1e15


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One kind of setting.

    allowed: completes the sentence "must be ...".
    read: the value from what was written; raises ValueError with the whole sentence.
    words: what may be written instead of a plain value, and what it means.
    show: what was written, fit for an error message: no secret, no control character, not long.
    """

    allowed: str
    read: Callable[[object], object]
    words: Mapping[str, object] = field(default_factory=dict)
    show: Callable[[object], str] = field(default_factory=lambda: quoted)

    def parse(self, written: object) -> object:
        """The value; raises ValueError. None, which only code can pass, is left to the type."""
        if isinstance(written, str):
            written = written.strip()
            if written.lower() in self.words:
                return self.words[written.lower()]
        return None if written is None else self.read(written)

    def write(self, value: object) -> Written:
        """The value as a person would write it, secrets masked."""
        for word, meaning in self.words.items():
            if value == meaning and type(value) is type(meaning):
                return word
        if isinstance(value, SecretStr | KeyHashes):
            return MASK
        if isinstance(value, float) and value.is_integer() and value < _LONGEST_WHOLE:
            return int(value)
        return cast("Written", value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.parse, handler(source))


def quoted(written: object) -> str:
    """What was written, as a literal; control characters escaped, cut when long."""
    text = str(written).lower() if isinstance(written, bool) else repr(written)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def number(
    allowed: str, accepts: Callable[[float], bool], words: Mapping[str, object] | None = None
) -> Kind:
    """A finite number that `accepts` accepts, or one of the words."""

    def read(written: object) -> float:
        value = _finite(written)
        if value is None or not accepts(value):
            raise ValueError(f"must be {allowed}")
        return value

    return Kind(allowed=allowed, read=read, words=words or {})


def choice(*words: str, off: bool = False) -> Kind:
    """One of a few words, in capitals or not; `off` is one more, and means None."""
    told = (*words, "off") if off else words
    allowed = f"{', '.join(told[:-1])} or {told[-1]}"
    meanings: dict[str, object] = {word: word for word in words}
    if off:
        meanings["off"] = None
    return Kind(allowed=allowed, read=_refuse(allowed), words=meanings)


def _refuse(allowed: str) -> Callable[[object], object]:
    def read(written: object) -> object:
        raise ValueError(f"must be {allowed}")

    return read


_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def _finite(written: object) -> float | None:
    # A bool is an int to Python, and float() reads "1_0", "infinity" and digits of all scripts.
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        return None
    if isinstance(written, str) and not _DECIMAL.fullmatch(written):
        return None
    try:
        value = float(written)
    except OverflowError:
        return None
    # `or` turns -0.0, which prints oddly, into 0.0.
    return (value or 0.0) if math.isfinite(value) else None


_TRUE_AND_FALSE = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def _read_flag(written: object) -> bool:
    meaning = _TRUE_AND_FALSE.get(written.lower()) if isinstance(written, str) else written
    if not isinstance(meaning, bool):
        raise ValueError(f"must be {FLAG.allowed}")
    return meaning


FLAG = Kind(allowed="true or false", read=_read_flag)


def _read_secret(written: object) -> str:
    # It travels in a header: other characters would not arrive, or arrive as something else.
    if not isinstance(written, str) or not re.fullmatch(r"[!-~]+", written):
        raise ValueError(f"must be {SECRET.allowed}")
    return written


def _masked(written: object) -> str:
    return MASK


def _read_path(written: object) -> str:
    if not isinstance(written, str) or not written.strip() or "\0" in written:
        raise ValueError(f"must be {PATH.allowed}")
    return written


PATH = Kind(allowed="the path of a file", read=_read_path)


SECRET = Kind(
    allowed="one or more visible ASCII characters, no spaces between",
    read=_read_secret,
    show=_masked,
)
