"""The last hour of the gate: a point every few seconds, in arrays whose size never changes.

Half of a point is the gate's state when it is taken, half is of what ended since the last one.
What is missing is NaN: no request ended, no profile, no count of the engine's.
"""

import math
from array import array
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from specgate.core.events import Event, LaneFailed, RequestEnded
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.outlook import outlook
from specgate.core.policy import Reason
from specgate.core.view import EngineCounters, GateView
from specgate.telemetry.output_rate import OutputRate

EVERY_S = 5.0
KEPT = 720
"""An hour of points: with all columns about 200 KiB."""

RECENT = 6
"""Points that `recent` looks back on: half a minute, in which most requests end."""

_LANES = tuple(Lane)
_REASONS = tuple(Reason)
_HEALTHS = tuple(Health)
_GATE = ("at", "load", "low", "high", "offered_tok_s", "accept_length", "break_even")
_GATE_WHOLE = ("side", "reason", "count", "queued")
_LANE = ("tok_s", "ttft_s", "tpot_s")
_LANE_WHOLE = ("in_flight", "ended", "errors", "health", "ttft_of", "tpot_of")
"""`ttft_of`, `tpot_of`: of how many requests the mean is."""


class Recent(NamedTuple):
    """A lane over the last half minute. ttft_s, tpot_s: means over the requests that ended, None if
    none did that has one. tok_s: output tokens a second, None before there is a point."""

    tok_s: float | None
    ttft_s: float | None
    tpot_s: float | None
    ended: int
    errors: int


class _Since:
    """What ended on a lane since the last point."""

    __slots__ = ("ended", "errors", "tokens", "tpot_of", "tpot_s", "ttft_of", "ttft_s")

    def __init__(self) -> None:
        self.ended = self.errors = self.tokens = self.ttft_of = self.tpot_of = 0
        self.ttft_s = self.tpot_s = 0.0


class History:
    """An observer of facts; `sample` it every EVERY_S. `view` reads the gate's state, `engines`
    what was last read of theirs; `clock`: monotonic seconds; `wall`: since the epoch."""

    def __init__(
        self,
        *,
        view: Callable[[], GateView],
        engines: Callable[[], Mapping[Lane, EngineCounters]],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._view = view
        self._engines = engines
        self._clock = clock
        self._wall = wall
        self._taken = 0
        self._at = clock()
        self._since = {lane: _Since() for lane in _LANES}
        self._rates = {lane: OutputRate() for lane in _LANES}
        self._gate = _columns(_GATE, _GATE_WHOLE)
        self._lanes = {lane: _columns(_LANE, _LANE_WHOLE) for lane in _LANES}

    def __call__(self, event: Event) -> None:
        if isinstance(event, RequestEnded):
            if event.lane is not None and event.route.is_generation:
                self._ended(event, self._since[event.lane])
        elif isinstance(event, LaneFailed):
            self._since[event.lane].errors += 1

    def sample(self) -> None:
        """Take a point; the oldest makes room for it."""
        view, now = self._view(), self._clock()
        slot = self._taken % KEPT
        elapsed, self._at = now - self._at, now
        edges, accept, weighed = outlook(view), view.accept, view.weighed
        gate = self._gate
        gate["at"][slot] = round(self._wall(), 3)
        gate["side"][slot] = _LANES.index(view.side)
        gate["reason"][slot] = _REASONS.index(view.reason)
        gate["count"][slot] = view.counts.total + view.beyond.total
        gate["queued"][slot] = view.queued
        gate["load"][slot] = _kept(view.load)
        gate["low"][slot] = _kept(edges.low)
        gate["high"][slot] = _kept(edges.high)
        gate["offered_tok_s"][slot] = _kept(None if weighed is None else weighed.offered)
        gate["accept_length"][slot] = _kept(None if accept is None else accept.live)
        gate["break_even"][slot] = _kept(None if accept is None else accept.break_even)
        engines = self._engines()
        # One engine in both lanes counts both lanes' tokens.
        apart = len({seen.url for seen in view.lanes.values()}) == len(view.lanes)
        for lane, columns in self._lanes.items():
            since, self._since[lane] = self._since[lane], _Since()
            counted = engines.get(lane) if apart else None
            rate = self._rates[lane].over(elapsed, since.tokens, counted, now)
            columns["tok_s"][slot] = _kept(rate)
            columns["ttft_s"][slot] = _kept(_mean(since.ttft_s, since.ttft_of))
            columns["tpot_s"][slot] = _kept(_mean(since.tpot_s, since.tpot_of))
            columns["in_flight"][slot] = view.counts.of(lane)
            columns["health"][slot] = _HEALTHS.index(view.lanes[lane].health)
            for name in ("ended", "errors", "ttft_of", "tpot_of"):
                columns[name][slot] = getattr(since, name)
        self._taken += 1

    def columns(self, since: float | None = None) -> dict[str, Any]:
        """The points after a time (since the epoch), oldest first, as lists by name: `at` and the
        gate's others, and `lanes` with each lane's. A missing number is NaN."""
        slots = self._slots()
        if since is not None:
            at = self._gate["at"]
            slots = [slot for slot in slots if at[slot] > since]
        gate: dict[str, Any] = {name: _read(of, slots) for name, of in self._gate.items()}
        gate["side"] = [_LANES[code].value for code in gate["side"]]
        gate["reason"] = [_REASONS[code].value for code in gate["reason"]]
        gate["lanes"] = {lane.value: self._lane(lane, slots) for lane in _LANES}
        return gate

    def recent(self, lane: Lane) -> Recent:
        """The last points, and what ended since them."""
        slots, columns, since = self._slots()[-RECENT:], self._lanes[lane], self._since[lane]

        def summed(name: str) -> int:
            return int(sum(_read(columns[name], slots)) + getattr(since, name))

        def mean(name: str) -> float | None:
            means, of = columns[f"{name}_s"], columns[f"{name}_of"]
            total = sum(means[slot] * of[slot] for slot in slots if of[slot])
            total += getattr(since, f"{name}_s")
            return _mean(total, summed(f"{name}_of"))

        rates = [rate for rate in _read(columns["tok_s"], slots) if not math.isnan(rate)]
        return Recent(
            tok_s=_mean(sum(rates), len(rates)),
            ttft_s=mean("ttft"),
            tpot_s=mean("tpot"),
            ended=summed("ended"),
            errors=summed("errors"),
        )

    def _lane(self, lane: Lane, slots: list[int]) -> dict[str, Any]:
        columns = self._lanes[lane]
        found = {name: _read(of, slots) for name, of in columns.items() if not name.endswith("_of")}
        found["health"] = [_HEALTHS[code].value for code in found["health"]]
        return found

    def _slots(self) -> list[int]:
        """Of the kept points, oldest first."""
        return [taken % KEPT for taken in range(max(0, self._taken - KEPT), self._taken)]

    @staticmethod
    def _ended(event: RequestEnded, since: _Since) -> None:
        since.ended += 1
        since.tokens += event.output_tokens or 0
        if event.ttft_s is not None:
            since.ttft_s += event.ttft_s
            since.ttft_of += 1
        if event.tpot_s is not None:
            since.tpot_s += event.tpot_s
            since.tpot_of += 1


def _columns(numbers: tuple[str, ...], whole: tuple[str, ...]) -> "dict[str, array[Any]]":
    found: dict[str, array[Any]] = {name: array("d", [math.nan]) * KEPT for name in numbers}
    found |= {name: array("l", [0]) * KEPT for name in whole}
    return found


def _read(column: "array[Any]", slots: list[int]) -> list[Any]:
    return [column[slot] for slot in slots]


def _kept(value: float | None) -> float:
    """To the millionth: more digits only make the page longer."""
    return math.nan if value is None else round(value, 6)


def _mean(total: float, of: int) -> float | None:
    return total / of if of else None
