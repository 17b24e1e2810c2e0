"""What going to the other lane costs, and what staying misses, remembered.

Both are asked four times a second for ever, of loads and rates that move little (`core.fluid` finds
them in some hundred steps). So they are found on a grid, and kept.
"""

import math

from specgate.core.curves import Curves
from specgate.core.fluid import missed, switch_cost
from specgate.core.lanes import Lane

REMEMBERED = 4096
"""Costs that are kept; they are found anew after."""


class Costs:
    """In sequence-seconds. offered: tokens a second. work: tokens of a sequence."""

    __slots__ = ("_curves", "_found", "_horizon", "_over", "_share")

    def __init__(self, curves: Curves, *, share: float, over: float, horizon: float) -> None:
        """share: of its speed that a lane has while both work. over: how far ahead is looked, in
        durations of a sequence. horizon: as in `Curve.load_for`."""
        self._curves = curves
        self._share = share
        self._over = over
        self._horizon = horizon
        self._found: dict[tuple[object, ...], float] = {}

    def use(self, curves: Curves) -> None:
        """Other curves from now on."""
        self._curves = curves
        self._found.clear()

    def of_going(
        self, there: Lane, *, old: float, new: float, offered: float, work: float
    ) -> float:
        """`switch_cost`, with so many sequences in the lane that is left, and in the other."""
        loads = (_cell(old), _cell(new))
        key = (there, *loads, *self._asked(offered, work))
        found = self._found.get(key)
        if found is None:
            found = switch_cost(
                self._curves,
                there,
                old=_load(loads[0]),
                new=_load(loads[1]),
                offered=offered,
                work=work,
                share=self._share,
                over=self._over,
            )
            self._keep(key, found)
        return found

    def missed(self, here: Lane, load: float, *, offered: float, work: float) -> float:
        """`missed`; 0 where the measurement does not say which lane is better."""
        key = (here, _cell(load), *self._asked(offered, work))
        found = self._found.get(key)
        if found is None:
            curves, over = self._curves, self._over
            at = [curves.of(lane).load_for(offered, self._horizon) for lane in Lane]
            found = 0.0
            if any(curves.standing(held) for held in at):
                load = _load(_cell(load))
                found = missed(curves, here, load=load, offered=offered, work=work, over=over)
            self._keep(key, found)
        return found

    def _asked(self, offered: float, work: float) -> tuple[int, int]:
        return round(100.0 * offered / self._curves.top), round(16.0 * math.log2(work))

    def _keep(self, key: tuple[object, ...], found: float) -> None:
        if len(self._found) > REMEMBERED:
            self._found.clear()
        self._found[key] = found


def _cell(load: float) -> int:
    """Of a grid whose steps are a twelfth of a load."""
    return round(8.0 * math.log2(1.0 + load))


def _load(cell: int) -> float:
    return math.pow(2.0, cell / 8.0) - 1.0
