"""A pool on a clock: its operations end when they are due, `time_scale` times as fast as real.

One timer serves the whole pool; there is no task per sequence and no timer per token.
"""

from collections.abc import Callable
from typing import Protocol

from specgate.core.lanes import Lane
from specgate.sim.model import Job, LaneModel, Sequence
from specgate.sim.pool import Ended, Pool

# A timer may fire a little early; whatever is due within this is run rather than waited for.
SLACK_S = 0.0005
# Operations run in one turn of the event loop, so that catching up never starves it.
OPERATIONS_PER_TURN = 64
# Further behind than this (a suspended machine) the pool does not catch up.
FORGIVEN_LAG_S = 1.0


class Timer(Protocol):
    def cancel(self) -> object: ...


class Clock(Protocol):
    """What a driver needs of an event loop; tests pass one whose time jumps."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer: ...


class PoolDriver:
    """Lanes attached to one driver contend for one pool.

    An operation begins when the one before it was *due*, not when the timer got round to it, so a
    busy process does not slow the simulated lanes.
    """

    def __init__(self, *, clock: Clock, kappa: float = 0.0, time_scale: float = 1.0) -> None:
        if not time_scale > 0:
            raise ValueError(f"time_scale is {time_scale}: it must be above 0")
        self.time_scale = time_scale
        self._pool = Pool(kappa=kappa)
        self._sinks: dict[Lane, Callable[[Ended], None]] = {}
        self._clock = clock
        self._origin = clock.time()
        self._timer: Timer | None = None

    def attach(self, model: LaneModel, sink: Callable[[Ended], None]) -> None:
        """Add a lane; `sink` is told of each of its operations when it has ended."""
        lane = model.shape.lane
        if lane in self._sinks:
            raise ValueError(f"the pool has a {lane.value} lane already")
        self._pool.models[lane] = model
        self._sinks[lane] = sink

    def time(self) -> float:
        """Seconds on the driver's clock, not simulated ones."""
        return self._clock.time()

    def submit(self, lane: Lane, job: Job) -> Sequence:
        """Raises CannotFitError."""
        now = self._now()
        self._run(now)
        sequence = self._pool.submit(lane, job, now)
        self._arm()
        return sequence

    def abort(self, lane: Lane, sequence: Sequence) -> bool:
        """False if it had left already."""
        return self._pool.abort(lane, sequence)

    def thaw(self, lane: Lane) -> None:
        """A lane that was frozen goes on."""
        self._run(self._now())
        self._pool.begin(lane)
        self._arm()

    def close(self) -> None:
        """Stop: no further operation ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> float:
        return (self._clock.time() - self._origin) * self.time_scale

    def _tick(self) -> None:
        self._timer = None
        now = self._now()
        self._run(now + SLACK_S * self.time_scale)
        behind_s = (now - self._pool.now) / self.time_scale
        if behind_s > FORGIVEN_LAG_S:
            self._origin += behind_s
        self._arm()

    def _run(self, until: float) -> None:
        for ended in self._pool.advance(until, most=OPERATIONS_PER_TURN):
            self._sinks[ended.lane](ended)

    def _arm(self) -> None:
        self.close()
        next_at = self._pool.next_at
        if next_at is not None:
            self._timer = self._clock.call_at(self._origin + next_at / self.time_scale, self._tick)
