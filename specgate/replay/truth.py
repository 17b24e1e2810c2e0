"""How fast the lanes really are at a time: the accept length of the moment, the prompts in flight.

With curves of several prompt lengths (`core.contexts`) the lanes are as fast as at the mean prompt
of what is in flight.
"""

import math

from specgate.core.contexts import Contexts
from specgate.core.curves import Curves
from specgate.core.lanes import Lane

STEP = math.log(1.05)
"""The mean prompt is taken in steps of 5 %."""


class Truth:
    """`curves`: where the prompts' lengths make no difference (`contexts` is None)."""

    def __init__(self, curves: Curves, contexts: Contexts | None) -> None:
        self._curves = curves
        self._contexts = contexts
        self._known: dict[tuple[float, int], Curves] = {}

    def at(self, factor: float, prompt_tokens: float) -> Curves:
        """At so many times the measured accept length; the same object for the same answer."""
        step = 0
        if self._contexts is not None:
            step = round(math.log(max(1.0, prompt_tokens)) / STEP)
        found = self._known.get((factor, step))
        if found is None:
            found = self._curves
            if self._contexts is not None:
                found = self._contexts.at(math.exp(step * STEP))
            if factor != 1.0:
                found = found.scaled(factor)
            self._known[factor, step] = found
        return found


def better(curves: Curves, offered: float) -> Lane:
    """The lane that would hold the smaller load at so many tokens a second."""
    spec, plain = (curves.of(lane).load_at(offered) for lane in (Lane.SPEC, Lane.PLAIN))
    if math.isinf(spec) and math.isinf(plain):
        return Lane.SPEC if curves.spec.top > curves.plain.top else Lane.PLAIN
    return Lane.SPEC if spec < plain else Lane.PLAIN
