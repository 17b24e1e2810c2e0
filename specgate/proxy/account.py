"""What is known of one request as it goes: filled in along the way, told once at its end."""

from dataclasses import dataclass

from specgate.core.errors import ClientGone, ClientStalled, Fault, LaneFault
from specgate.core.events import Outcome, Phase, RequestEnded
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass
from specgate.core.tap import Tap


@dataclass(slots=True, kw_only=True)
class Account:
    """Times are monotonic seconds. The gate's own time is what passes between `taken_in_at` and
    `sent_at` (deciding), and between `head_at` and `answered_at` (starting the answer)."""

    request_id: bytes
    method: str
    path: str
    started_at: float
    route: RouteClass = RouteClass.OTHER
    sequences: int = 0
    phase: Phase = Phase.UPLOAD
    lane: Lane | None = None
    reason: Reason | None = None
    rerouted: bool = False
    asks_usage: bool = False
    status: int | None = None
    outcome: Outcome = Outcome.COMPLETED
    taken_in_at: float | None = None
    sent_at: float | None = None
    head_at: float | None = None
    answered_at: float | None = None
    tap: Tap | None = None

    def failed(self, fault: Fault) -> None:
        """How it ended, by whose fault."""
        match fault:
            case ClientGone():
                self.outcome = Outcome.CLIENT_GONE
            case ClientStalled():
                self.outcome = Outcome.CLIENT_STALLED
            case LaneFault():
                self.outcome = Outcome.LANE_FAILED
            case _:
                self.outcome = Outcome.REFUSED

    def ended(self, now: float) -> RequestEnded:
        """The fact of step 7."""
        tap = self.tap
        first = None if tap is None else tap.first_output_at
        tokens = None if tap is None else tap.output_tokens()
        return RequestEnded(
            request_id=self.request_id.decode("ascii"),
            method=self.method,
            path=self.path,
            route=self.route,
            sequences=self.sequences,
            lane=self.lane,
            reason=self.reason,
            rerouted=self.rerouted,
            status=self.status,
            outcome=self.outcome,
            phase=self.phase,
            duration_s=now - self.started_at,
            ttft_s=None if first is None else first - self.started_at,
            tpot_s=self._tpot_s(tokens),
            output_tokens=tokens,
            overhead_s=self._overhead_s(),
        )

    def _tpot_s(self, tokens: int | None) -> float | None:
        """(last - first) / (tokens - 1): several sequences share a stream's time, and their sum of
        tokens over it would be no one's pace."""
        tap = self.tap
        if tap is None or tap.first_output_at is None or tap.last_at is None:
            return None
        if tokens is None or tokens < 2 or self.sequences != 1:
            return None
        return (tap.last_at - tap.first_output_at) / (tokens - 1)

    def _overhead_s(self) -> float | None:
        if self.taken_in_at is None or self.sent_at is None:
            return None
        before = self.sent_at - self.taken_in_at
        if self.head_at is None or self.answered_at is None:
            return None
        return before + (self.answered_at - self.head_at)
