"""The curves as they are now: a profile's, moved by the live accept length."""

from specgate.core.accept import AcceptLength, Counted, Estimate
from specgate.core.curves import Curves

GRID = 0.01
"""The factor is taken in steps of one per cent: less makes no difference that anyone could see."""

NOISE = 1.0
"""A difference of fewer standard errors moves nothing: on curves that are nearly parallel the loads
where speculation pays would wander with every reading."""


class Adaptive:
    """`base`: with an accept length. Times: monotonic seconds, in order."""

    __slots__ = ("_accept", "_base", "_current", "_step")

    def __init__(self, base: Curves) -> None:
        self._base = self._current = base
        self._accept = _estimator(base)
        self._step = round(1.0 / GRID)

    def use(self, base: Curves) -> None:
        """Other curves: what was seen of the engine stays, held against their accept length. With
        other draft steps it is another way to speculate, and all begins anew."""
        if base == self._base:
            return
        before, self._base = self._base, base
        if before.steps != base.steps:
            self._accept = _estimator(base)
        elif base.accept_length is not None:
            self._accept.against(
                base.accept_length, steps=base.steps, output_tokens=base.output_tokens
            )
        self._step = -1

    def saw(self, reading: Counted, now: float) -> bool:
        """A reading of the spec engine's counters; whether anything was learnt from it."""
        return self._accept.saw(reading, now)

    def forget(self) -> None:
        """Another engine speculates from now on."""
        self._accept.forget()

    def estimate(self, now: float) -> Estimate:
        return self._accept.estimate(now)

    @property
    def bench(self) -> float:
        """The measurement's accept length."""
        return self._accept.bench

    def curves(self, now: float) -> Curves:
        """The same object while the factor is within its noise of the last one."""
        found = self._accept.estimate(now)
        # Rounded never above what a step can yield at most.
        step = min(round(found.factor / GRID), int(self._accept.most / self.bench / GRID + 1e-9))
        off = abs(found.factor - self._step * GRID) > NOISE * found.noise
        if step != self._step and (off or self._step < 0):
            self._step = step
            same = step == round(1.0 / GRID)
            self._current = self._base if same else self._base.scaled(step * GRID)
        return self._current

    def break_even(self, load: float) -> float:
        """The accept length at which speculation would just pay at a load (`core.breakeven`)."""
        base = self._base
        load = max(load, min(base.spec.loads[0], base.plain.loads[0]))
        return self._accept.bench * base.plain.rate(load) / base.spec.rate(load)


def adaptive_of(curves: Curves | None) -> Adaptive | None:
    """None where the measurement does not say which accept length it was of."""
    if curves is None or curves.accept_length is None:
        return None
    return Adaptive(curves)


def _estimator(base: Curves) -> AcceptLength:
    assert base.accept_length is not None
    return AcceptLength(base.accept_length, steps=base.steps, output_tokens=base.output_tokens)
