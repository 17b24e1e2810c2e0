"""How the values of `specgate bench` are written: lists of levels, times, named addresses."""

import re
from typing import Any

import click

from specgate.bench.slo import Slo, slo
from specgate.cli.values import ENGINE_URL

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")
_RATE = re.compile(r"\d+(?:\.\d+)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")


class Numbers(click.ParamType[tuple[int, ...]]):
    """1,2,5: whole numbers above 0."""

    name = "N,..."

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


class Rates(click.ParamType[tuple[float, ...]]):
    """0.5,1,2: numbers above 0."""

    name = "0.5,1,2"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",")]
        if not all(map(_RATE.fullmatch, words)) or not all(map(float, words)):
            self.fail(f"{value!r} is no list of rates, in requests a second: 0.5,1,2", param, ctx)
        return tuple(sorted({float(word) for word in words}))


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
        name, equals, url = str(value).partition("=")
        if not equals or not _NAME.fullmatch(name):
            self.fail(f"{value!r} is no NAME=URL, such as spec=http://127.0.0.1:30000", param, ctx)
        return name, ENGINE_URL.convert(url, param, ctx)


class Limits(click.ParamType[Slo]):
    """ttft=2s,tpot=50ms,e2e=30s, or as vLLM's --goodput has it."""

    name = "ttft=2s,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> Slo:
        if isinstance(value, Slo):
            return value
        try:
            return slo(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


NUMBERS, RATES, DURATION = Numbers(), Rates(), Duration()
ARM, LIMITS = NamedUrl(), Limits()
