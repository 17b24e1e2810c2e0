"""How the values of `specgate bench` are written: lists of levels, times, named addresses."""

import re
from typing import Any

import click

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")


class Numbers(click.ParamType[tuple[int, ...]]):
    """1,2,5: whole numbers above 0."""

    name = "1,2,5"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(int(word) for word in str(value).split(","))
        except ValueError:
            found = ()
        if not found or min(found) < 1:
            self.fail(f"{value!r} is no list of whole numbers above 0, such as 1,2,5", param, ctx)
        return tuple(dict.fromkeys(found))


class Duration(click.ParamType[float]):
    """90s, 15m, 2h, or seconds; in seconds."""

    name = "15m"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, int | float):
            return float(value)
        match = _DURATION.fullmatch(str(value).strip())
        if match is None or float(match[1]) == 0:
            self.fail(f"{value!r} is no time, such as 90s, 15m or 2h", param, ctx)
        return float(match[1]) * _UNITS[match[2] or "s"]


class NamedUrl(click.ParamType[tuple[str, str]]):
    """NAME=URL."""

    name = "NAME=URL"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, _, url = str(value).partition("=")
        if not _NAME.fullmatch(name) or not url.startswith(("http://", "https://")):
            self.fail(f"{value!r} is no NAME=URL, such as spec=http://127.0.0.1:30000", param, ctx)
        return name, url


NUMBERS, DURATION, ARM = Numbers(), Duration(), NamedUrl()
