"""Who decides in a replay: the gate itself, and what it is held against."""

from collections.abc import Sequence
from typing import NamedTuple

from specgate.control.admission import Admission
from specgate.control.gate import Gate
from specgate.core.accept import Counted
from specgate.core.config import PolicyConfig
from specgate.core.curves import Curves
from specgate.core.events import Event, Switched
from specgate.core.hold import Hold, holds
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.regret import CONSTANTS, Constants
from specgate.core.routes import RouteClass
from specgate.ledger.local import LocalLedger
from specgate.upstream.base import Origin

READ_EVERY_S = 5.0
"""As often as a gate reads its engines."""


class Switch(NamedTuple):
    """When a gate went to which side, and why."""

    at: float
    side: Lane
    reason: Reason


class Policy:
    """The gate's own code, with the replay's clock."""

    def __init__(
        self,
        config: PolicyConfig,
        constants: Constants = CONSTANTS,
        *,
        hold: Hold | None = None,
    ) -> None:
        """hold: what comes after a switch may wait; with curves."""
        self._now = 0.0
        self._hold = hold
        self._held: float | None = None
        """Of which switch the hold is over."""
        self._open: dict[int, Admission] = {}
        self._counted, self._read_at = Counted(0.0, 0.0, 0.0), 0.0
        self.switched: list[Switch] = []
        """Every switch, in the order of time."""
        self.gate = Gate(
            policy=config,
            origins={lane: Origin.of(lane, "http://replay.invalid") for lane in Lane},
            ledger=LocalLedger(),
            observe=self._saw,
            clock=lambda: self._now,
            constants=constants,
        )

    def arrived(self, number: int, now: float) -> Lane:
        self._now = now
        admission = self.gate.admit(RouteClass.CHAT, 1)
        self._open[number] = admission.__enter__()
        return admission.lane

    def ended(self, number: int, now: float, prompt_tokens: int) -> None:
        self._now = now
        self._open.pop(number).__exit__(None, None, None)
        self.gate.saw_prompt(prompt_tokens)

    def accepted(self, now: float, tokens: int, accept_length: float) -> None:
        """Counted as an engine would; the gate reads it at the next scrape."""
        was = self._counted
        assert was.steps is not None
        assert was.requests is not None
        self._counted = Counted(
            was.tokens + tokens, was.steps + tokens / accept_length, was.requests + 1.0
        )

    def tick(self, now: float) -> None:
        self._now = now
        if now >= self._read_at:
            self._read_at = now + READ_EVERY_S
            self.gate.saw_accept_length(self.gate.origin(Lane.SPEC), self._counted)
        self.gate.tick()

    def holding(self, now: float, waiting: int) -> bool:
        """As the live gate's queue does."""
        self._now = now
        left_at = self.gate.left_at
        held = False
        if self._hold is not None and left_at is not None and left_at != self._held:
            drain = self.gate.draining()
            if drain is not None:
                old, held_s, duration_s = drain
                held = holds(self._hold, old=old, held_s=held_s, duration_s=duration_s)
            if not held:
                self._held = left_at
        self.gate.queued = waiting if held else 0
        return held

    @property
    def side(self) -> Lane:
        return self.gate.side

    @property
    def switches(self) -> int:
        return self.gate.switches

    def _saw(self, event: Event) -> None:
        if isinstance(event, Switched):
            self.switched.append(Switch(self._now, event.side, event.reason))


class _Heedless:
    """Decides by little, and holds nothing."""

    def ended(self, number: int, now: float, prompt_tokens: int) -> None: ...

    def accepted(self, now: float, tokens: int, accept_length: float) -> None: ...

    def tick(self, now: float) -> None: ...

    def holding(self, now: float, waiting: int) -> bool:
        return False


class Fixed(_Heedless):
    """Always the same lane."""

    switches = 0

    def __init__(self, lane: Lane) -> None:
        self.side = lane

    def arrived(self, number: int, now: float) -> Lane:
        return self.side


class Instant(_Heedless):
    """The bare count against the loads where speculation pays: what a naive toggle does."""

    def __init__(self, curves: Curves) -> None:
        self._paying = curves.paying
        self._count = 0
        self.switches = 0
        self.side = self._better(1)

    def arrived(self, number: int, now: float) -> Lane:
        self._count += 1
        side = self._better(self._count)
        self.switches += side is not self.side
        self.side = side
        return side

    def ended(self, number: int, now: float, prompt_tokens: int) -> None:
        self._count -= 1

    def _better(self, load: int) -> Lane:
        pays = any(low <= load < high for low, high in self._paying)
        return Lane.SPEC if pays else Lane.PLAIN


class Scheduled(_Heedless):
    """A side for every time, made beforehand."""

    def __init__(self, sides: Sequence[tuple[float, Lane]]) -> None:
        self._sides = list(sides)
        self._next = 1
        self.side = self._sides[0][1]
        self.switches = 0

    def arrived(self, number: int, now: float) -> Lane:
        self.tick(now)
        return self.side

    def tick(self, now: float) -> None:
        while self._next < len(self._sides) and self._sides[self._next][0] <= now:
            self.switches += self._sides[self._next][1] is not self.side
            self.side = self._sides[self._next][1]
            self._next += 1
