"""The last switches, each with what was known when it happened: a listener that keeps a ring."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from specgate.core.events import Event, Switched
from specgate.core.lanes import Lane
from specgate.core.outlook import outlook
from specgate.core.policy import Reason
from specgate.core.view import GateView

KEPT = 256
"""Twenty hours of as many switches as the policy allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The gate changed side for new requests.

    number: 1 for the first since the start. at: seconds since the epoch. count: sequences in flight
    at that moment, what engines had besides, and the request that arrived, if one did. load: what
    the policy compared, smoothed; low, high: the band about the nearest edge. threshold: NEVER,
    ALWAYS, or None. accept_length, break_even: tokens a step, None without a profile that has the
    bench's. offered_tok_s: with a profile's curves, what was asked of both lanes together.
    """

    number: int
    at: float
    side: Lane
    reason: Reason
    count: int
    load: float
    low: float | None
    high: float | None
    threshold: float | None
    accept_length: float | None
    break_even: float | None
    offered_tok_s: float | None


class Switches:
    """An observer of facts. `view` reads the gate's state, `wall` the time of day; `tell` hears of
    each switch as it is kept."""

    def __init__(
        self,
        *,
        view: Callable[[], GateView],
        wall: Callable[[], float],
        tell: Callable[[Switch], None],
    ) -> None:
        self._view = view
        self._wall = wall
        self._tell = tell
        self._kept: deque[Switch] = deque(maxlen=KEPT)

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Switched):
            return
        # The fact is told in the same turn of the loop in which the side moved: this is that state.
        view = self._view()
        edges = outlook(view)
        switch = Switch(
            number=view.switches,
            at=self._wall(),
            side=event.side,
            reason=event.reason,
            count=event.count,
            load=event.load,
            low=edges.low,
            high=edges.high,
            threshold=event.threshold,
            accept_length=None if view.accept is None else view.accept.live,
            break_even=None if view.accept is None else view.accept.break_even,
            offered_tok_s=None if view.weighed is None else view.weighed.offered,
        )
        self._kept.append(switch)
        self._tell(switch)

    def latest(self, count: int = KEPT) -> list[Switch]:
        """Up to so many, the newest first."""
        kept = self._kept
        return [kept[-at] for at in range(1, min(count, len(kept)) + 1)]
