"""The pool that the lanes contend for, as a pure discrete-event machine.

Each lane has at most one operation in flight. Alone it progresses at rate 1; when n lanes have one
in flight, each progresses at

    rate = (1 + kappa (n - 1)) / n        two lanes: (1 + kappa) / 2

kappa 0 is time slicing (the pool does no more than it would for one lane), kappa 1 means that the
lanes do not disturb each other. Times are seconds on the caller's clock and never go back.
"""

from collections.abc import Iterable
from typing import NamedTuple

from specgate.core.lanes import Lane
from specgate.sim.model import Done, Job, LaneModel, Sequence

# Remaining work at or below this is done; far above rounding at a day's seconds, far below a step.
NEGLIGIBLE_S = 1e-9


class Ended(NamedTuple):
    """An operation that ended: in which lane, when, and what it gave."""

    lane: Lane
    at: float
    done: Done


class Pool:
    """Lanes and the time they share. The caller asks `next_at`, waits however it likes, and calls
    `advance`. `submit` and `abort` take effect at once and may start an operation.
    """

    def __init__(self, models: Iterable[LaneModel] = (), *, kappa: float = 0.0) -> None:
        if not 0 <= kappa <= 1:
            raise ValueError(f"kappa is {kappa}: it lies between 0 and 1")
        self.models: dict[Lane, LaneModel] = {model.shape.lane: model for model in models}
        self._kappa = kappa
        self._remaining: dict[Lane, float] = {}
        self._now = 0.0

    @property
    def now(self) -> float:
        return self._now

    @property
    def next_at(self) -> float | None:
        """When the next operation ends if nothing else happens; None when every lane is idle."""
        if not self._remaining:
            return None
        return self._now + min(self._remaining.values()) / self._rate()

    def submit(self, lane: Lane, job: Job, now: float) -> Sequence:
        """Hand a job to a lane at `now`; if operations due before are still to be run, at the
        time of the first of them. Raises CannotFitError.
        """
        due = self.next_at
        self._pass_time(max(now, self._now) if due is None else min(max(now, self._now), due))
        sequence = self.models[lane].submit(job, self._now)
        self._begin(lane)
        return sequence

    def abort(self, lane: Lane, sequence: Sequence) -> bool:
        """False if the sequence had left already."""
        return self.models[lane].abort(sequence)

    def begin(self, lane: Lane) -> None:
        """Let a lane begin that was frozen."""
        self._begin(lane)

    def advance(self, now: float, *, most: int = 1_000_000) -> list[Ended]:
        """Let time pass to `now`; every operation that ends by then, in order of time.

        After `most` of them it stops early, at the time of the last, so that a caller who has
        fallen behind can catch up in slices.
        """
        ended: list[Ended] = []
        while len(ended) < most:
            at = self.next_at
            if at is None or at > now:
                self._pass_time(max(now, self._now))
                break
            self._pass_time(at)
            for lane in [x for x, left in self._remaining.items() if left <= NEGLIGIBLE_S]:
                del self._remaining[lane]
                ended.append(Ended(lane, at, self.models[lane].finish()))
                self._begin(lane)
        return ended

    def _begin(self, lane: Lane) -> None:
        if lane not in self._remaining:
            work_s = self.models[lane].begin()
            if work_s is not None:
                self._remaining[lane] = work_s

    def _pass_time(self, to: float) -> None:
        if self._remaining and to > self._now:
            gone = (to - self._now) * self._rate()
            for lane in self._remaining:
                self._remaining[lane] -= gone
        self._now = to

    def _rate(self) -> float:
        n = len(self._remaining)
        return (1 + self._kappa * (n - 1)) / n
