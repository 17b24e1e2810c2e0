"""Several profiles as one: further levels, further repeats, further arms, other lengths.

Curves of one prompt and output length are joined: the repeats of an arm at a level are put together
(numbered on, file after file) and judged again. Blocks stay blocks where every file has them. Times
and accept lengths are means weighted by requests. Curves of other lengths stand side by side, and
so do open loops, each as it was measured.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

from specgate.bench.judging import Rules, judged, profile_of
from specgate.core.profile import ArmLevel, Curve, Engine, Fingerprint, Level, Profile, Times


class MergeRefusedError(ValueError):
    """The profiles do not belong together; says why."""


def merged(profiles: Sequence[Profile], *, rules: Rules | None = None) -> Profile:
    """`rules`: margin, confidence, draws and seed to judge by; the objective is the profiles'.

    Raises MergeRefusedError for profiles of different models, or that compare different things.
    """
    models = {p.fingerprint.model for p in profiles if p.fingerprint.model is not None}
    if len(models) > 1:
        raise MergeRefusedError(f"different models: {', '.join(sorted(models))}")
    curves = [c for profile in profiles for c in (profile, *profile.also) if c.levels]
    # Profiles of open loops alone have a curve each that says nothing.
    curves = curves or [profiles[0]]
    objectives = {curve.verdict.objective for curve in curves}
    if len(objectives) != 1:
        raise MergeRefusedError(f"different objectives: {', '.join(sorted(objectives))}")
    rules = replace(rules or Rules(), objective=objectives.pop())
    engines: dict[str, Engine] = {}
    for profile in profiles:
        engines = profile.fingerprint.engines | engines
    groups: dict[tuple[int | None, int | None], list[Curve]] = {}
    for curve in curves:
        groups.setdefault((curve.context, curve.max_tokens), []).append(curve)
    joined = [
        judged(
            _levels(group),
            # A file that has one arm alone says nothing of blocks, and none can be in it.
            paired=all(c.verdict.paired for c in group),
            rules=rules,
            context=context,
            max_tokens=max_tokens,
            engines=engines,
            alarms=list(dict.fromkeys(a for c in group for a in c.alarms if _lasts(a))),
        )
        for (context, max_tokens), group in groups.items()
    ]
    loops = tuple(loop for profile in profiles for loop in profile.open_loop)
    return replace(profile_of(joined, _fingerprint(profiles, engines)), open_loop=loops)


def _levels(curves: Sequence[Curve]) -> list[Level]:
    found: dict[int, dict[str, list[ArmLevel]]] = {}
    offset = 0
    for curve in curves:
        numbers = [r.repeat for level in curve.levels for a in level.arms.values() for r in a.runs]
        for level in curve.levels:
            arms = found.setdefault(level.concurrency, {})
            for name, arm in level.arms.items():
                runs = tuple(replace(run, repeat=run.repeat + offset) for run in arm.runs)
                arms.setdefault(name, []).append(replace(arm, runs=runs))
        offset += max(numbers, default=-1) + 1
    return [
        Level(concurrency=c, arms={name: _arm(arms) for name, arms in found[c].items()})
        for c in sorted(found)
    ]


def _arm(arms: Sequence[ArmLevel]) -> ArmLevel:
    if len(arms) == 1:
        return arms[0]
    runs = tuple(run for arm in arms for run in arm.runs)
    tok_s = [run.tok_s for run in runs]
    classes = sorted({name for arm in arms for name in arm.accept_length_by_class})
    return ArmLevel(
        tok_s=fmean(tok_s),
        tok_s_spread=stdev(tok_s) / fmean(tok_s) if len(tok_s) > 1 else None,
        runs=runs,
        requests=sum(arm.requests for arm in arms),
        tok_s_per_request=_weighted([(a.tok_s_per_request, a.requests) for a in arms]),
        ttft_s=_times([(a.ttft_s, a.requests) for a in arms]),
        tpot_s=_times([(a.tpot_s, a.requests) for a in arms]),
        e2e_s=_times([(a.e2e_s, a.requests) for a in arms]),
        slo_goodput=_weighted([(a.slo_goodput, len(a.runs)) for a in arms]),
        accept_length=_weighted([(a.accept_length, a.requests) for a in arms]),
        accept_length_by_class={
            name: mean
            for name in classes
            if (mean := _weighted([(a.accept_length_by_class.get(name), a.requests) for a in arms]))
            is not None
        },
    )


def _weighted(values: Sequence[tuple[float | None, int]]) -> float | None:
    """Mean of what is known, by weight; where no weight is known, all count alike."""
    known = [(value, weight) for value, weight in values if value is not None]
    if not known:
        return None
    weights = [weight for _, weight in known]
    if sum(weights) == 0:
        weights = [1] * len(known)
    return sum(v * w for (v, _), w in zip(known, weights, strict=True)) / sum(weights)


def _times(values: Sequence[tuple[Times | None, int]]) -> Times | None:
    known = [(times, weight) for times, weight in values if times is not None]
    mean = _weighted([(times.mean, weight) for times, weight in known])
    if mean is None:
        return None
    return Times(
        mean=mean,
        p50=_weighted([(times.p50, weight) for times, weight in known]),
        p90=_weighted([(times.p90, weight) for times, weight in known]),
        p99=_weighted([(times.p99, weight) for times, weight in known]),
    )


def _lasts(alarm: str) -> bool:
    """Of single cells, which stay what they were; the others are raised again where they hold."""
    return alarm.startswith(("void: ", "Little's law: ", "the machine did other work"))


def _fingerprint(profiles: Sequence[Profile], engines: dict[str, Engine]) -> Fingerprint:
    """What all agree on, and the engines of all."""
    first, *others = [profile.fingerprint for profile in profiles]
    agreed = {
        name: getattr(first, name)
        for name in ("hardware", "source", "measured_at", "specgate", "prompts", "settings")
        if all(getattr(other, name) == getattr(first, name) for other in others)
    }
    model = next((p.fingerprint.model for p in profiles if p.fingerprint.model is not None), None)
    return Fingerprint(model=model, engines=engines, **agreed)
