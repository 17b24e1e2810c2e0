"""How the values of `specgate replay` are written: shares, a threshold, changes, traffic."""

from pathlib import Path
from typing import Any, NamedTuple

import click

from specgate.cli.completion import Completions, named
from specgate.cli.values import number_of
from specgate.core.config import ALWAYS, NEVER
from specgate.replay.run import Change
from specgate.replay.shipped import TRACES, trace
from specgate.replay.traces import read_trace
from specgate.replay.traffic import PATTERNS, Arrival, TrafficError

LOAD = (0.01, 10.0)
"""Below, hours pass without a request; above, everything waits."""


class Traffic(NamedTuple):
    """`recorded`: None for a pattern."""

    name: str
    recorded: list[Arrival] | None


class TrafficParam(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """A pattern, a trace that comes with specgate, or a file."""

    name = "NAME|FILE"

    def convert(self, value: Any, param: Any, ctx: Any) -> Traffic:
        if isinstance(value, Traffic):
            return value
        if value in PATTERNS:
            return Traffic(value, None)
        if value in TRACES:
            return Traffic(value, trace(value))
        if not value:
            self.fail("an empty name: give a trace's name, a pattern's or a file", param, ctx)
        path = Path(value)
        try:
            return Traffic(path.name, read_trace(path))
        except FileNotFoundError:
            known = ", ".join([*TRACES, *PATTERNS])
            self.fail(f"{value}: no such file, and none of {known}", param, ctx)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param, ctx)
        except TrafficError as error:
            self.fail(f"{value}: {error}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> Completions:
        return named([*TRACES, *PATTERNS], incomplete)


class Shares(click.ParamType):  # type: ignore[type-arg]
    """0.3,0.6: numbers in a range."""

    name = "0.3,0.6"

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        found = []
        for word in str(value).split(","):
            number = number_of(word)
            if number is None or not self._low <= number <= self._high:
                said = f"a number from {self._low:g} to {self._high:g}, or several: 0.3,0.6"
                self.fail(f"{word.strip()!r} is not {said}", param, ctx)
            found.append(number)
        return tuple(dict.fromkeys(found))


class Threshold(click.ParamType):  # type: ignore[type-arg]
    """A load, `never` or `always`."""

    name = "LOAD|never|always"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        words = {"never": NEVER, "always": ALWAYS}
        text = str(value).strip().lower()
        number = words.get(text, number_of(text))
        if number is None or number < 0.0:
            self.fail(f"{value!r} must be a positive number, never or always", param, ctx)
        return number


class Changes(click.ParamType):  # type: ignore[type-arg]
    """600:0.5,1200:2: at so many seconds, so many times the measured accept length."""

    name = "T:FACTOR,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[Change, ...]:
        if isinstance(value, tuple):
            return value
        found = []
        for word in str(value).split(","):
            at, _, factor = (number_of(part) for part in word.partition(":"))
            if at is None or factor is None or at < 0.0 or not 0.05 <= factor <= 20.0:
                said = "SECONDS:FACTOR with a factor from 0.05 to 20, such as 600:0.5"
                self.fail(f"{word.strip()!r} is not {said}", param, ctx)
            found.append(Change(at, factor))
        return tuple(sorted(found))


TRAFFIC, THRESHOLD, CHANGES = TrafficParam(), Threshold(), Changes()
LOADS, CONTENTIONS = Shares(*LOAD), Shares(0.0, 1.0)
