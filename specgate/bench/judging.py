"""From what each arm reached at each level to verdicts: the part that all sources of data share.

Cells of a run, tables that users have, and merged profiles all come here as levels whose arms hold
their repeats; what comes out is the same levels with ratios, intervals and standings, and a verdict
on each speculative arm. The verdict of the curve is that of one arm, as a gate has one spec lane:
the one that pays up to the highest load, and among equals the one that wins by most.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from specgate.bench.alarms import alarms_of
from specgate.core.breakeven import break_even
from specgate.core.crossover import CONFIDENCE, DRAWS, MARGIN, Finding, LevelRatio, find
from specgate.core.profile import (
    NOT_STATIC,
    PLAIN,
    SINGLE_RUN,
    ArmLevel,
    Curve,
    Engine,
    Fingerprint,
    Level,
    Objective,
    Profile,
    Verdict,
)
from specgate.core.ratios import Noise, Runs, pooled
from specgate.core.shape import Shape, Standing
from specgate.core.student import t_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How to judge. margin: a share; confidence: of intervals; draws, seed: of the bootstrap."""

    objective: Objective = Objective.THROUGHPUT
    margin: float = MARGIN
    confidence: float = CONFIDENCE
    draws: int = DRAWS
    seed: int = 0


def judged(
    levels: Sequence[Level],
    *,
    paired: bool,
    rules: Rules,
    context: int | None = None,
    max_tokens: int | None = None,
    engines: Mapping[str, Engine] | None = None,
    alarms: Sequence[str] = (),
) -> Curve:
    """The curve of levels (ascending) whose arms hold their runs; `alarms` are kept in front.

    Raises ValueError for a value that is not above 0.
    """
    engines = engines or {}
    names = sorted({name for level in levels for name in level.arms} - {PLAIN})
    findings = {name: _find(levels, name, paired=paired, rules=rules) for name in names}
    main = _main_arm({n: f for n, f in findings.items() if n not in NOT_STATIC})
    noise = {name: _tok_s_noise(levels, name) for name in [*names, PLAIN]}
    by_level = {n: {at.concurrency: at for at in f.levels} for n, f in findings.items()}
    done = tuple(
        _level(level, main, by_level, noise, rules, {n: e.steps for n, e in engines.items()})
        for level in levels
    )
    verdicts = {n: _verdict(n, f, rules) for n, f in findings.items()}
    verdict = (
        verdicts[main]
        if main is not None
        else Verdict(shape=Shape.INCONCLUSIVE, objective=rules.objective, margin=rules.margin)
    )
    curve = Curve(
        verdict=verdict,
        levels=done,
        context=context,
        max_tokens=max_tokens,
        by_arm=verdicts,
    )
    return replace(curve, alarms=(*alarms, *alarms_of(curve, engines)))


def profile_of(curves: Iterable[Curve], fingerprint: Fingerprint) -> Profile:
    """The most cautious curve first: the one whose threshold would be lowest."""
    first, *others = sorted(curves, key=_caution)
    return Profile(
        verdict=first.verdict,
        levels=first.levels,
        context=first.context,
        max_tokens=first.max_tokens,
        by_arm=first.by_arm,
        alarms=first.alarms,
        also=tuple(others),
        fingerprint=fingerprint,
    )


def _caution(curve: Curve) -> tuple[float, int]:
    verdict = curve.verdict
    pays = verdict.crossover if verdict.shape is Shape.CROSSES else None
    if verdict.shape is Shape.ALWAYS:
        pays = math.inf
    # What is undecided comes first: nobody may speculate on it.
    order = -1.0 if verdict.shape is Shape.INCONCLUSIVE else (pays or 0.0)
    return order, curve.context or 0


def _find(levels: Sequence[Level], name: str, *, paired: bool, rules: Rules) -> Finding:
    runs = [
        Runs(
            concurrency=level.concurrency,
            spec={run.repeat: run.value for run in level.arms[name].runs},
            plain={run.repeat: run.value for run in level.arms[PLAIN].runs},
            error=max(run.error for arm in (name, PLAIN) for run in level.arms[arm].runs),
        )
        for level in levels
        if name in level.arms and PLAIN in level.arms
    ]
    return find(
        runs,
        rng=Random(rules.seed),  # noqa: S311 - a bootstrap, and the same each time
        paired=paired,
        margin=rules.margin,
        confidence=rules.confidence,
        draws=rules.draws,
    )


def _main_arm(findings: Mapping[str, Finding]) -> str | None:
    def worth(name: str) -> tuple[float, float]:
        found = findings[name]
        pays = math.inf if found.shape is Shape.ALWAYS else (found.crossover or 0.0)
        return pays, fmean([math.log(level.ratio) for level in found.levels] or [-math.inf])

    return max(sorted(findings), key=worth, default=None)


def _verdict(name: str, found: Finding, rules: Rules) -> Verdict:
    interval = None
    if found.interval is not None:
        low, high = (None if math.isinf(end) else end for end in found.interval)
        interval = (low, high)
    return Verdict(
        shape=found.shape,
        arm=name,
        crossover=found.crossover,
        interval=interval,
        confidence=SINGLE_RUN if found.confidence is None else found.confidence,
        p_never=found.p_never,
        p_always=found.p_always,
        pays=found.pays,
        undecided=found.undecided,
        objective=rules.objective,
        margin=rules.margin,
        paired=found.paired,
    )


def _level(
    level: Level,
    main: str | None,
    ratios: Mapping[str, Mapping[int, LevelRatio]],
    noise: Mapping[str, Noise | None],
    rules: Rules,
    steps: Mapping[str, int | None],
) -> Level:
    arms = {}
    plain = level.arms.get(PLAIN)
    for name, arm in level.arms.items():
        at = ratios[name].get(level.concurrency) if name != PLAIN else None
        length = None
        if plain is not None and arm.accept_length is not None and name not in NOT_STATIC:
            length = break_even(
                arm.accept_length,
                spec_tok_s=arm.tok_s,
                plain_tok_s=plain.tok_s,
                steps=steps.get(name),
            ).accept_length
        arms[name] = replace(
            arm,
            tok_s_interval=_tok_s_interval(arm, noise[name], rules.confidence),
            ratio=None if at is None else at.ratio,
            ratio_interval=None if at is None else at.interval,
            standing=None if at is None else at.standing,
            break_even_accept_length=length,
        )
    chosen = arms.get(main) if main is not None else None
    return replace(
        level,
        arms=arms,
        ratio=None if chosen is None else chosen.ratio,
        ratio_interval=None if chosen is None else chosen.ratio_interval,
        standing=None if chosen is None else chosen.standing,
        best=_best(arms),
    )


def _best(arms: Mapping[str, ArmLevel]) -> str | None:
    if PLAIN not in arms:
        return None
    winners = {
        name: arm.ratio
        for name, arm in arms.items()
        if name not in NOT_STATIC and arm.standing is Standing.WIN and arm.ratio is not None
    }
    return max(winners, key=lambda name: winners[name]) if winners else PLAIN


def _tok_s_noise(levels: Sequence[Level], name: str) -> Noise | None:
    return pooled(
        [
            [math.log(run.tok_s) for run in level.arms[name].runs]
            for level in levels
            if name in level.arms and level.arms[name].runs
        ]
    )


def _tok_s_interval(
    arm: ArmLevel, noise: Noise | None, confidence: float
) -> tuple[float, float] | None:
    if noise is None or not arm.runs:
        return None
    half = t_quantile((1.0 + confidence) / 2.0, noise.df) * noise.sd / math.sqrt(len(arm.runs))
    return arm.tok_s * math.exp(-half), arm.tok_s * math.exp(half)
