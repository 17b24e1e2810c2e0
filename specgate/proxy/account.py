"""What is known of one request as it goes: filled in along the way, told once at its end."""

from collections.abc import Callable
from dataclasses import dataclass

from specgate.core.errors import ClientGone, ClientStalled, CutShort, Fault, GateFault, LaneFault
from specgate.core.events import Outcome, RequestEnded
from specgate.core.tap import LinesTap, StreamTap, Tap


@dataclass(slots=True)
class Account(RequestEnded):
    """The fact of step 7 while it comes about. Times are monotonic seconds. The gate's own time is
    what passes between `taken_in_at` and `sent_at` (deciding), and between `head_at` and
    `answered_at` (starting the answer). `wire_id`: the request id as it travels in headers.
    `learn`: who is to be told of an id in the response. `stream`: what reads along in a stream
    to which an error may be added, if it breaks off."""

    wire_id: bytes = b""
    started_at: float = 0.0
    asks_usage: bool = False
    taken_in_at: float | None = None
    sent_at: float | None = None
    head_at: float | None = None
    answered_at: float | None = None
    tap: Tap | None = None
    stream: StreamTap | LinesTap | None = None
    learn: Callable[[str], None] | None = None

    def failed(self, fault: Fault) -> None:
        """How it ended, by whose fault."""
        match fault:
            case ClientGone():
                self.outcome = Outcome.CLIENT_GONE
            case ClientStalled():
                self.outcome = Outcome.CLIENT_STALLED
            case LaneFault():
                self.outcome = Outcome.LANE_FAILED
            case CutShort():
                self.outcome = Outcome.CUT_SHORT
            case GateFault():
                self.outcome, self.turned_away = Outcome.REFUSED, fault.turned_away
            case _:
                self.outcome = Outcome.REFUSED

    def ended(self, now: float) -> RequestEnded:
        """The fact, whole."""
        self.duration_s = now - self.started_at
        tap = self.tap
        if tap is not None:
            first = tap.first_output_at
            self.ttft_s = None if first is None else first - self.started_at
            self.output_tokens = tap.output_tokens()
            self.prompt_tokens = tap.prompt_tokens()
            self.tpot_s = self._tpot_s(tap)
        if self.answered_at is not None:
            assert self.taken_in_at is not None
            assert self.sent_at is not None
            assert self.head_at is not None
            before = self.sent_at - self.taken_in_at
            self.overhead_s = before + (self.answered_at - self.head_at)
        return self

    def _tpot_s(self, tap: Tap) -> float | None:
        """(last - first) / (tokens - 1): several sequences share a stream's time, and their sum of
        tokens over it would be no one's pace."""
        tokens = self.output_tokens
        if tap.first_output_at is None or tap.last_at is None:
            return None
        if tokens is None or tokens < 2 or self.sequences != 1:
            return None
        return (tap.last_at - tap.first_output_at) / (tokens - 1)
