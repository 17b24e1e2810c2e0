"""The lanes in turn, on a pool that holds one of them: its words, and the pause after a failure.

An alternation goes through the steps of `Step` in their order, while nobody is admitted. A step
that fails ends it: the gate goes back to the lane that works, and tries again after a pause that
doubles with each failure.
"""

from dataclasses import dataclass

from specgate.core.label import Label
from specgate.core.lanes import Lane


class Step(Label):
    """Of an alternation, in their order: all that is in flight ends, the engine is idle, it is
    parked, the other one wakes, it answers well, and its drafts are accepted."""

    DRAIN = "drain"
    IDLE = "idle"
    PARK = "park"
    WAKE = "wake"
    CHECK = "check"
    ACCEPT = "accept"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternationView:
    """awake: the lane that serves, None: neither is known to. wanted: the side's. step: of the
    alternation that is under way. failed: the step that failed last, since the last alternation
    that did not, and why; retry_s: seconds until it is tried again. alternations: since the start.
    """

    awake: Lane | None
    wanted: Lane
    step: Step | None = None
    failed: Step | None = None
    why: str | None = None
    retry_s: float | None = None
    alternations: int = 0


class Backoff:
    """A pause that doubles from `first_s` up to `most_s` with each failure in a row. `now`:
    monotonic seconds."""

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s
        self._until: float | None = None

    def failed(self, now: float) -> None:
        self._until = now + self._next_s
        self._next_s = min(2 * self._next_s, self._most_s)

    def left_s(self, now: float) -> float:
        """Seconds of the pause that are left, 0 for none."""
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def over(self) -> None:
        """It may be tried at once; the next pause is as long as it would have been."""
        self._until = None

    def clear(self) -> None:
        """It worked: the next pause is the first again."""
        self._until = None
        self._next_s = self._first_s
