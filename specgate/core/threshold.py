"""From a profile to the threshold and the band that a gate should have.

threshold   `crosses`: the crossover itself, not rounded (the gate speculates strictly below).
            `never`: never. `always`: always, which reaches beyond the levels that were measured.
            `multi`: the end of the first range that pays, if it begins at the lowest level, else
            never. `inverted`: never, as one threshold cannot say it. `inconclusive`: none, so the
            gate serves the plain lane as if nothing had been measured.
band        the larger of the default and 1 - low / threshold, where low is the lower end of the
            interval, at most 0.8: the gate comes back to the spec side only where speculation
            pays for all that the measurement knows. In between both lanes are as good as each
            other, for all that it knows.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from specgate.core.config import ALWAYS, NEVER, PolicyConfig
from specgate.core.contexts import Contexts
from specgate.core.curves import Curve, Curves
from specgate.core.profile import PLAIN, Fingerprint, Level, Profile, Verdict
from specgate.core.profile import Curve as Measured
from specgate.core.shape import Shape

DEFAULT_BAND = PolicyConfig().band

WIDEST_BAND = 0.8
"""Wider, the gate would hardly ever come back."""


class Derived(NamedTuple):
    """`caveat`: what the threshold does not say, for a log line; None where there is nothing."""

    threshold: float | None
    band: float
    caveat: str | None


def threshold_and_band(profile: Profile, default_band: float = DEFAULT_BAND) -> Derived:
    """Apply the rules above to the profile's own curve, which is its most cautious one."""
    verdict = profile.verdict
    top = profile.compared[-1].concurrency if profile.levels else 0
    match verdict.shape:
        case Shape.NEVER:
            return Derived(NEVER, default_band, None)
        case Shape.ALWAYS:
            return Derived(
                ALWAYS,
                default_band,
                f"speculation paid at every level; nothing is known above {top}",
            )
        case Shape.CROSSES:
            threshold = verdict.crossover or 0.0
            caveat = None
            if verdict.interval is None:
                caveat = "nothing was repeated, so the crossover has no interval"
            return Derived(threshold, _band(threshold, verdict, default_band), caveat)
        case Shape.MULTI:
            return Derived(
                _first_range(profile),
                default_band,
                "the curves cross more than once: the gate speculates in the first range alone",
            )
        case Shape.INVERTED:
            return Derived(
                NEVER,
                default_band,
                "speculation pays only above some load, which a threshold cannot say",
            )
        case Shape.INCONCLUSIVE if not profile.levels:
            return Derived(
                None,
                default_band,
                "the profile has no levels of concurrency, so it tells no crossover",
            )
        case Shape.INCONCLUSIVE:
            return Derived(None, default_band, "the profile is inconclusive: it needs more repeats")


def _band(threshold: float, verdict: Verdict, default: float) -> float:
    if verdict.interval is None or threshold <= 0.0:
        return default
    low = verdict.interval[0]
    # A low end beyond the range cannot be, with a crossover within it.
    asked = 1.0 - (math.inf if low is None else low) / threshold
    return max(default, min(asked, WIDEST_BAND))


def _first_range(profile: Profile) -> float:
    pays = profile.verdict.pays
    if not pays or not profile.levels or pays[0][0] != profile.compared[0].concurrency:
        return NEVER
    return float(pays[0][1])


OUTPUT_TOKENS = 256
"""Of a sequence, where the profile does not say."""


def curves_of(profile: Profile, *, adaptive: bool = False) -> Curves | None:
    """What the gate weighs the lanes by; None where the shape leaves nothing to weigh (never,
    always, inconclusive) or the curves are missing.

    adaptive: the accept length is followed, which may end what was always so in the measurement.
    (What never was stays: with the spec lane off nothing is seen that could change it.)
    """
    weighed = (Shape.CROSSES, Shape.MULTI, Shape.INVERTED)
    if profile.verdict.shape not in ((*weighed, Shape.ALWAYS) if adaptive else weighed):
        return None
    return measured_curves(profile)


def measured_curves(profile: Profile) -> Curves | None:
    """Both lanes' curves, whatever the shape; None where an arm or a second level is missing."""
    return _curves(profile, profile.verdict, profile.fingerprint)


def contexts_of(profile: Profile, *, adaptive: bool = False) -> Contexts | None:
    """The curves by prompt length; None where fewer than two lengths were measured, or speculation
    pays at none of them, or at all of them always (unless `adaptive`, as in `curves_of`).

    Of several curves of one length the most cautious one counts. At a length whose verdict is
    `never` or `inconclusive` the spec lane is taken to give no more than the plain one, so that
    nothing speaks for it there.
    """
    arm = profile.verdict.arm
    found: dict[int, tuple[Shape, Curves]] = {}
    for each in (profile, *profile.also):
        verdict = each.verdict if each.verdict.arm == arm else each.by_arm.get(arm or "")
        if each.context is None or verdict is None:
            continue
        curves = _curves(each, verdict, profile.fingerprint)
        if curves is not None:
            found.setdefault(max(1, each.context), (verdict.shape, _cautious(verdict, curves)))
    main = measured_curves(profile)
    shapes = {shape for shape, _ in found.values()}
    never = shapes <= _NOT_PAYING
    always = shapes == {Shape.ALWAYS} and not adaptive
    if main is None or len(found) < 2 or never or always:
        return None
    measured = tuple((context, curves) for context, (_, curves) in sorted(found.items()))
    return Contexts(_cautious(profile.verdict, main), measured)


_NOT_PAYING = {Shape.NEVER, Shape.INCONCLUSIVE}


def _cautious(verdict: Verdict, curves: Curves) -> Curves:
    if verdict.shape not in _NOT_PAYING:
        return curves
    least = (min(pair) for pair in zip(curves.spec.tok_s, curves.plain.tok_s, strict=True))
    return replace(curves, spec=Curve(curves.spec.loads, tuple(least)))


def _curves(measured: Measured, verdict: Verdict, fingerprint: Fingerprint) -> Curves | None:
    if verdict.arm is None:
        return None
    levels = [each for each in measured.levels if {verdict.arm, PLAIN} <= each.arms.keys()]
    if len(levels) < 2:
        return None
    loads = tuple(float(level.concurrency) for level in levels)
    arms = [level.arms[verdict.arm] for level in levels]
    accepted = [arm.accept_length for arm in arms if arm.accept_length is not None]
    engine = fingerprint.engines.get(verdict.arm)
    return Curves(
        spec=Curve(loads, tuple(arm.tok_s for arm in arms)),
        plain=Curve(loads, tuple(level.arms[PLAIN].tok_s for level in levels)),
        open=tuple(_open(verdict, loads)),
        margin=verdict.margin,
        spread=_spread(levels),
        output_tokens=float(measured.max_tokens or OUTPUT_TOKENS),
        accept_length=fmean(accepted) if accepted else None,
        steps=None if engine is None else engine.steps,
    )


def _spread(levels: Sequence[Level]) -> float | None:
    widths = [
        math.log(high / low) / 2
        for low, high in (level.ratio_interval or (0.0, 0.0) for level in levels)
        if 0.0 < low < high
    ]
    return fmean(widths) if widths else None


def _open(verdict: Verdict, loads: tuple[float, ...]) -> Iterator[tuple[float, float]]:
    if verdict.interval is not None:
        low, high = verdict.interval
        yield (loads[-1] if low is None else low), (math.inf if high is None else high)
