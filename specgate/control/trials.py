"""The switchback experiment, joined to the gate: it holds a side, and hears how requests ended."""

from collections.abc import Callable
from random import Random

from specgate.control.gate import Gate
from specgate.core.config import Placement
from specgate.core.curves import Curves
from specgate.core.events import Event, Outcome, RequestEnded
from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from specgate.core.switchback import Switchback
from specgate.core.view import GateView

EVERY_S = 0.5


class Trials:
    """An observer of facts, and a loop's turn. `clock`: monotonic seconds."""

    def __init__(self, gate: Gate, share: float, clock: Callable[[], float], *, seed: int) -> None:
        self._gate = gate
        self._clock = clock
        chance = Random(seed)  # noqa: S311 - an order, not a secret
        self._switchback = Switchback(share, clock(), first=lambda: chance.choice(list(Lane)))

    def __call__(self, event: Event) -> None:
        if (
            isinstance(event, RequestEnded)
            and event.outcome is Outcome.COMPLETED
            and event.lane is not None
            and event.output_tokens is not None
            and event.sequences == 1
        ):
            self._switchback.ended(self._clock(), event.lane, event.duration_s, event.output_tokens)

    def turn(self) -> None:
        """Without curves nothing says what is calm, and nothing is tried."""
        view = self._gate.view()
        weighed, curves = view.weighed, view.curves
        if weighed is None or curves is None:
            self._gate.put_on_trial(None)
            return
        tops = [curves.spec.top, curves.plain.top]
        self._gate.put_on_trial(
            self._switchback.step(
                self._clock(),
                side=view.side,
                offered=weighed.offered,
                weaker_top=min(tops),
                duration_s=weighed.duration_s,
                expected=_expected(curves, weighed.offered),
                free=_is_free(view),
            )
        )
        self._gate.experiment = self._switchback.read()


def _is_free(view: GateView) -> bool:
    return (
        view.mode is Mode.AUTO
        and view.policy.placement is Placement.SHARED
        and view.policy.shadow is None
    )


def _expected(curves: Curves, offered: float) -> float:
    """By Little's law paces are as the loads at which the lanes give what is offered."""
    spec = curves.spec.load_for(offered, 1.0)
    return curves.plain.load_for(offered, 1.0) / spec if spec > 0.0 else 1.0
