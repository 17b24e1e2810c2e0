"""One fluid on each lane, with the same arrivals: how many sequences fewer the other would hold."""

from specgate.core.curves import Curves
from specgate.core.demand import Demand
from specgate.core.fluid import each, flow
from specgate.core.lanes import Lane


class Alongside:
    """This lane, and the other one had it got the same, as fluids."""

    __slots__ = ("_came", "_here", "_side", "_there")

    def __init__(self) -> None:
        self._here = self._there = 0.0
        self._came = 0.0
        self._side: Lane | None = None

    def step(
        self, curves: Curves, side: Lane, load: float, demand: Demand, elapsed: float, *, anew: bool
    ) -> float:
        """How many sequences fewer the other holds. anew: both begin at what is in flight."""
        came = (demand.came - self._came) / elapsed + demand.taken() / demand.work
        self._came = demand.came
        if anew or side is not self._side:
            self._here = self._there = load
            self._side = side
            return 0.0
        here, there = curves.of(side), curves.of(side.other)
        self._here, _ = flow(self._here, came, each(here, self._here) / demand.work, elapsed)
        self._there, _ = flow(self._there, came, each(there, self._there) / demand.work, elapsed)
        return self._here - self._there
