"""Which way to serve: plain, static speculation, the engine's own table, or the gate.

Each way is given its gain over plain: at each level, and over the levels (geometric mean, each
level counted alike, which your load will not do). What was measured as an arm (`native`, `gate`)
is told as measured. What was not is modelled from the curves of the two engines alone:

    static      the ratio, at every level
    table       the best arm's ratio where it wins; elsewhere plain, less 4 to 11 % for what engines
                still pay with drafting off (vllm#53420; others have published nothing)
    gate        the ratio below the threshold, plain above it

The gate's model leaves out what two engines on one pool cost each other: half the KV cache each, a
split prefix cache, and the time around a switch in which both are busy.

The rule: the simplest way whose gain is within the margin of the best. Plain and static speculation
are one engine; a table is one engine and a file; the gate is two engines and a hop.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from specgate.bench.tables_of_engines import Native, native_table
from specgate.bench.wording import headline, number
from specgate.core.profile import GATE, NATIVE, Level, Profile
from specgate.core.shape import Shape, Standing
from specgate.core.threshold import threshold_and_band

OFF_COST = (0.04, 0.11)
"""Of decode time, with a table at zero drafts: vllm#53420, an MTP drafter, one boot an arm."""


class Way(StrEnum):
    """In order of what they cost to run."""

    PLAIN = "plain"
    STATIC = "static speculation"
    TABLE = "the engine's own table"
    GATE = "the gate"


COSTS: dict[Way, str] = {
    Way.PLAIN: "nothing: one engine, no draft",
    Way.STATIC: "one engine; the draft's weights and KV cache",
    Way.TABLE: "one engine; the draft stays loaded, and the engine pays for it with drafting off",
    Way.GATE: "two engines: two copies of the weights, and on one pool a split KV cache and a "
    "split prefix cache; one hop; a request stays where it began",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Over plain, as a factor: over all levels, with its interval, and at the worst and best."""

    mean: float
    low: float | None
    high: float | None
    worst: float
    best: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way. gain: None where it cannot be done, and `note` says why."""

    way: Way
    gain: Gain | None
    measured: bool
    cost: str
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The page. take: None while it is undecided. needed: whether that is specgate's gate."""

    said: str
    shape: Shape
    options: tuple[Option, ...]
    take: Way | None
    why: str
    threshold: float | None
    band: float
    caveat: str | None
    alarms: tuple[str, ...]

    @property
    def needed(self) -> bool:
        return self.take is Way.GATE


def advise(profile: Profile) -> Advice:
    """Weigh the ways for the profile's own curve."""
    derived = threshold_and_band(profile)
    native = native_table(profile)
    options = _options(profile, derived.threshold or 0.0, native)
    take, why = _choose(profile, options, native)
    return Advice(
        said=headline(profile),
        shape=profile.verdict.shape,
        options=options,
        take=take,
        why=why,
        threshold=derived.threshold,
        band=derived.band,
        caveat=derived.caveat,
        alarms=profile.alarms,
    )


def _options(profile: Profile, threshold: float, native: Native) -> tuple[Option, ...]:
    levels = [level for level in profile.levels if level.ratio is not None]
    if not levels:
        return ()
    arms = {name for level in levels for name in level.arms}
    plain = Gain(mean=1.0, low=None, high=None, worst=1.0, best=1.0)
    table = (
        _gain(levels, lambda level: _of_arm(level, NATIVE))
        if NATIVE in arms
        else _gain(levels, _table_at)
    )
    gate = (
        _gain(levels, lambda level: _of_arm(level, GATE))
        if GATE in arms
        else _gain(levels, lambda level: _gate_at(level, threshold))
    )
    note = native.why if NATIVE not in arms else None
    return (
        _option(Way.PLAIN, plain, measured=True),
        _option(Way.STATIC, _gain(levels, _static_at), measured=True),
        _option(
            Way.TABLE,
            table if NATIVE in arms or native.possible else None,
            measured=NATIVE in arms,
            note=note,
        ),
        _option(Way.GATE, gate, measured=GATE in arms),
    )


def _option(way: Way, gain: Gain | None, *, measured: bool, note: str | None = None) -> Option:
    return Option(way=way, gain=gain, measured=measured, cost=COSTS[way], note=note)


Spot = tuple[float, float, float]
"""A factor at one level, and its bounds."""


def _gain(levels: Sequence[Level], at: Callable[[Level], Spot | None]) -> Gain | None:
    spots = [spot for level in levels if (spot := at(level)) is not None]
    if not spots:
        return None
    mean, low, high = (math.exp(fmean(math.log(spot[i]) for spot in spots)) for i in range(3))
    sure = low < mean < high
    return Gain(
        mean=mean,
        low=low if sure else None,
        high=high if sure else None,
        worst=min(spot[0] for spot in spots),
        best=max(spot[0] for spot in spots),
    )


def _static_at(level: Level) -> Spot | None:
    if level.ratio is None:
        return None
    return (level.ratio, *(level.ratio_interval or (level.ratio, level.ratio)))


def _of_arm(level: Level, name: str) -> Spot | None:
    arm = level.arms.get(name)
    if arm is None or arm.ratio is None:
        return None
    return (arm.ratio, *(arm.ratio_interval or (arm.ratio, arm.ratio)))


def _table_at(level: Level) -> Spot | None:
    if level.best is not None and level.best in level.arms:
        spot = _of_arm(level, level.best)
        if spot is not None and level.arms[level.best].standing is Standing.WIN:
            return spot
    cheap, dear = (1.0 / (1.0 + cost) for cost in OFF_COST)
    return math.sqrt(cheap * dear), dear, cheap


def _gate_at(level: Level, threshold: float) -> Spot | None:
    return _static_at(level) if level.concurrency < threshold else (1.0, 1.0, 1.0)


def _choose(profile: Profile, options: Sequence[Option], native: Native) -> tuple[Way | None, str]:
    verdict = profile.verdict
    if not profile.levels:
        return None, "measure at levels of concurrency; until then serve plain, which cannot lose"
    if not options or verdict.shape is Shape.INCONCLUSIVE:
        levels = ", ".join(map(str, verdict.undecided))
        more = f" at {levels}" if levels else ""
        return None, f"repeat the measurement{more}; until then serve plain, which cannot lose"
    if verdict.shape is Shape.NEVER:
        return Way.PLAIN, (
            "specgate is not needed: speculation pays at no load that was measured, so one plain "
            "engine does best. If the profile names an alarm on the break-even accept length, the "
            "speculative engine's settings are worth a look first"
        )
    if verdict.shape is Shape.ALWAYS:
        top = profile.compared[-1].concurrency
        return Way.STATIC, (
            "specgate is not needed: speculation pays at every load that was measured. It is if "
            f"you serve more than {top} at once: measure there"
        )
    gains = {option.way: option.gain.mean for option in options if option.gain is not None}
    if verdict.shape in (Shape.INVERTED, Shape.MULTI):
        # A gate with one threshold follows at most the first range; a table follows all.
        gains.pop(Way.GATE, None)
    best = max(gains.values())
    take = next(way for way in Way if way in gains and gains[way] * (1 + verdict.margin) >= best)
    return take, _why(take, gains, best, native)


def _why(take: Way, gains: dict[Way, float], best: float, native: Native) -> str:
    worth = f"{number(gains[take])} times plain over the levels"
    if take is Way.PLAIN:
        return (
            "specgate is not needed: over the levels nothing that follows the load does better "
            f"than one plain engine by more than the margin ({number(best)} times). If your load "
            "stays within a range that pays, speculate there, always"
        )
    if take is Way.STATIC:
        return (
            f"specgate is not needed: static speculation does {worth}, and nothing that follows "
            f"the load does better by more than the margin ({number(best)})"
        )
    if take is Way.TABLE:
        to = f" --to {native.engine}" if native.engine else ""
        return (
            f"specgate's gate is not needed if the table does what it should ({worth}): write it "
            f"with `specgate export{to}`, serve with it, and measure it as the arm `native`"
        )
    return f"{worth}, and no simpler way comes within the margin of it"
