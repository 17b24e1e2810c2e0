"""The profile: a file of both lanes' measured curves, with where, when and how.

Versioned JSON. `schema` is "specgate-profile/1"; a later writer may add fields, which this reader
passes over, and changes the number when it changes what a field means. `docs/reference/profile.md`
prints every field from here.

    loads(text)        the profile; raises ProfileError, whose text names the field
    dumps(profile)     its text; loads(dumps(profile)) == profile
    schema()           its JSON Schema
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from specgate.core.record import RecordError, Says, json_schema, read, written
from specgate.core.shape import Shape, Standing

SCHEMA = "specgate-profile/1"

PLAIN = "plain"
"""The arm that does not speculate: all others are held against it."""

NATIVE = "native"
"""The arm whose engine follows its own table, or its own adaptive mode."""

GATE = "gate"
"""The arm that is a running specgate."""

NOT_STATIC = (PLAIN, NATIVE, GATE)
"""Arms of any other name speculate, always and in one way."""

LEAST_TOK_S, MOST_TOK_S = 1e-3, 1e12
"""Output tokens a second that some arm may give. What lies beyond is no measurement, and what is
reckoned with it overflows."""

MOST_CONCURRENCY = 10**9

SINGLE_RUN: Literal["single run"] = "single run"

Scalar = str | int | float | bool | None
Bounds = tuple[float | None, float | None]


class ProfileError(ValueError):
    """Not a profile; the text says which field, and what it must be."""


class Objective(StrEnum):
    """What the arms are compared by. Of times, less is better, and so the ratio is turned over."""

    THROUGHPUT = "throughput"
    TPOT = "tpot"
    E2E = "e2e"
    GOODPUT = "goodput"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """One quantity over an arm's requests at a level, in seconds."""

    mean: Annotated[float, Says("mean over requests")]
    p50: Annotated[float | None, Says("median")] = None
    p90: Annotated[float | None, Says("90th percentile")] = None
    p99: Annotated[float | None, Says("99th percentile")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One repeat of one arm at one level."""

    repeat: Annotated[int, Says("its number; paired arms of one number were measured back to back")]
    tok_s: Annotated[float, Says("output tokens a second", above=0)]
    value: Annotated[float, Says("what is compared, more being better", above=0)]
    error: Annotated[
        float, Says("systematic, of the value's logarithm: what repeats do not make smaller")
    ] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLevel:
    """One arm at one level."""

    tok_s: Annotated[float, Says("output tokens a second, mean over repeats", above=0)]
    tok_s_interval: Annotated[
        tuple[float, float] | None,
        Says("its interval, with the spread pooled over levels; null without repeats"),
    ] = None
    tok_s_spread: Annotated[float | None, Says("standard deviation, as a share of tok_s")] = None
    ratio: Annotated[float | None, Says("over the plain arm, by the objective", above=0)] = None
    ratio_interval: Annotated[tuple[float, float] | None, Says("its interval")] = None
    standing: Annotated[Standing | None, Says("how the ratio stands against the margin")] = None
    runs: Annotated[tuple[Run, ...], Says("the repeats")] = ()
    requests: Annotated[int, Says("requests that count, all repeats; 0 where not known")] = 0
    tok_s_per_request: Annotated[float | None, Says("mean over requests of tokens over E2E")] = None
    ttft_s: Annotated[Times | None, Says("time to first token")] = None
    tpot_s: Annotated[Times | None, Says("time for each output token after the first")] = None
    e2e_s: Annotated[Times | None, Says("from sending to the last token")] = None
    slo_goodput: Annotated[float | None, Says("requests a second that met the SLO")] = None
    accept_length: Annotated[float | None, Says("tokens a step, bonus included")] = None
    accept_length_by_class: Annotated[dict[str, float], Says("by prompt class")] = field(
        default_factory=dict
    )
    break_even_accept_length: Annotated[
        float | None,
        Says("at which speculation would just pay at this load: accept_length x plain / this arm"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One concurrency, all arms. Ratio, interval and standing are those of the verdict's arm."""

    concurrency: Annotated[int, Says("requests held in flight", above=0)]
    arms: Annotated[dict[str, ArmLevel], Says("by the arm's name")]
    ratio: Annotated[float | None, Says("the verdict's arm over plain", above=0)] = None
    ratio_interval: Annotated[tuple[float, float] | None, Says("its interval")] = None
    standing: Annotated[Standing | None, Says("how it stands")] = None
    best: Annotated[
        str | None, Says("the speculative arm that wins by most here, or plain where none wins")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the levels say together about one speculative arm."""

    shape: Annotated[Shape, Says("over the loads that were measured")]
    arm: Annotated[str | None, Says("the speculative arm; null if there is none")] = None
    crossover: Annotated[float | None, Says("a load; 0 for never; else null")] = None
    interval: Annotated[
        Bounds | None,
        Says(
            "of the crossover: 0 is below the lowest level, null as an end beyond "
            "the highest; null as a whole without repeats and for inverted and multi"
        ),
    ] = None
    confidence: Annotated[
        float | Literal["single run"], Says("of all intervals; nothing was repeated: no intervals")
    ] = SINGLE_RUN
    p_never: Annotated[float | None, Says("probability that it never pays in the range")] = None
    p_always: Annotated[float | None, Says("probability that it always pays in the range")] = None
    pays: Annotated[tuple[tuple[int, int], ...], Says("ranges whose lower bound is above 1")] = ()
    undecided: Annotated[tuple[int, ...], Says("levels where more repeats help most")] = ()
    objective: Annotated[Objective, Says("what was compared")] = Objective.THROUGHPUT
    margin: Annotated[float, Says("a share: smaller differences are worth nothing")] = 0.03
    paired: Annotated[bool, Says("whether the arms were measured in blocks")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What was measured with one length of prompts and outputs."""

    verdict: Annotated[Verdict, Says("what the levels say together")]
    levels: Annotated[tuple[Level, ...], Says("ascending in concurrency")]
    context: Annotated[int | None, Says("prompt tokens aimed at; null: as they are")] = None
    max_tokens: Annotated[int | None, Says("output tokens asked for")] = None
    by_arm: Annotated[dict[str, Verdict], Says("the verdict on each speculative arm")] = field(
        default_factory=dict
    )
    alarms: Annotated[tuple[str, ...], Says("what makes the figures doubtful")] = ()

    @property
    def compared(self) -> tuple[Level, ...]:
        """The levels that the verdict is of: those with its arm and plain, as a run that broke off
        leaves levels with one of them alone. All, where nothing is compared at any."""
        return tuple(level for level in self.levels if level.ratio is not None) or self.levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What served one arm."""

    name: Annotated[str | None, Says("sglang, vllm, llamacpp, ...")] = None
    version: Annotated[str | None, Says("as the engine says")] = None
    steps: Annotated[int | None, Says("draft steps: a step yields at most one more")] = None
    settings: Annotated[dict[str, Scalar], Says("flags that matter")] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What the figures hold for."""

    model: Annotated[str | None, Says("its name")] = None
    hardware: Annotated[str | None, Says("in words")] = None
    source: Annotated[str | None, Says("who measured it, or where it was published")] = None
    measured_at: Annotated[str | None, Says("date and time, ISO 8601")] = None
    specgate: Annotated[str | None, Says("the version that wrote the file")] = None
    prompts: Annotated[str | None, Says("which, and how many")] = None
    settings: Annotated[dict[str, Scalar], Says("how it was measured")] = field(
        default_factory=dict
    )
    engines: Annotated[dict[str, Engine], Says("by the arm's name")] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRate:
    """One arm at one rate of arrivals. Saturated, it has no figures that would last."""

    runs: Annotated[tuple[int, ...], Says("the numbers of the repeats")]
    saturated: Annotated[
        str | None,
        Says("why the arm cannot carry the rate, in one repeat at least; null if it can"),
    ] = None
    requests: Annotated[int, Says("requests that count, all repeats")] = 0
    in_flight: Annotated[
        float | None, Says("its mean; null where saturated, and so are the figures that follow")
    ] = None
    tok_s: Annotated[float | None, Says("output tokens a second")] = None
    ttft_s: Annotated[Times | None, Says("time to first token, waiting in queues included")] = None
    tpot_s: Annotated[Times | None, Says("time for each output token after the first")] = None
    e2e_s: Annotated[Times | None, Says("from sending to the last token")] = None
    slo_goodput: Annotated[float | None, Says("requests a second that met the SLO")] = None
    accept_length: Annotated[float | None, Says("tokens a step, bonus included")] = None
    ratio: Annotated[
        float | None, Says("over the plain arm, by what is compared; null where one is saturated")
    ] = None
    ratio_interval: Annotated[tuple[float, float] | None, Says("its interval")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One rate of arrivals, all arms."""

    rate: Annotated[float, Says("Poisson arrivals, requests a second", above=0)]
    arms: Annotated[dict[str, ArmRate], Says("by the arm's name")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Latency by rate of arrivals, with one length of prompts and outputs. Decides nothing."""

    rates: Annotated[tuple[Rate, ...], Says("ascending")]
    context: Annotated[int | None, Says("prompt tokens aimed at; null: as they are")] = None
    max_tokens: Annotated[int | None, Says("output tokens asked for")] = None
    compared: Annotated[Objective, Says("what the ratios are of")] = Objective.E2E
    alarms: Annotated[tuple[str, ...], Says("what makes the figures doubtful")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Curve):
    """A measurement. Its own curve is the most cautious one; others, by length, are beside it."""

    also: Annotated[tuple[Curve, ...], Says("the same for other lengths")] = ()
    open_loop: Annotated[
        tuple[OpenLoop, ...], Says("latency by rate of arrivals; no part of the verdict")
    ] = ()
    fingerprint: Annotated[Fingerprint, Says("what it holds for")] = field(
        default_factory=Fingerprint
    )


def loads(text: str | bytes) -> Profile:
    """Raises ProfileError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"not JSON: {error}") from error
    if not isinstance(value, dict) or "schema" not in value:
        raise ProfileError(f'schema: is missing, so this is no profile ("{SCHEMA}")')
    if value["schema"] != SCHEMA:
        raise ProfileError(f'schema: must be "{SCHEMA}", not {value["schema"]!r}')
    try:
        profile = read(Profile, value)
    except RecordError as error:
        raise ProfileError(str(error)) from error
    for curve in (profile, *profile.also):
        _check(curve)
    return profile


def dumps(profile: Profile) -> str:
    """Indented JSON with a line's end."""
    return json.dumps({"schema": SCHEMA, **written(profile)}, indent=1, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    found = json_schema(Profile)
    found["properties"] = {"schema": {"const": SCHEMA}, **found["properties"]}
    found["required"] = ["schema", *found["required"]]
    return found


def _check(curve: Curve) -> None:
    levels = [level.concurrency for level in curve.levels]
    if levels != sorted(set(levels)):
        raise ProfileError(f"levels: concurrency must ascend, not {levels}")
    if levels and levels[-1] > MOST_CONCURRENCY:
        raise ProfileError(f"levels: concurrency must be at most {MOST_CONCURRENCY}")
    for number, level in enumerate(curve.levels):
        for name, arm in level.arms.items():
            if not LEAST_TOK_S <= arm.tok_s <= MOST_TOK_S:
                between = f"must lie within {LEAST_TOK_S:g} and {MOST_TOK_S:g}, not {arm.tok_s:g}"
                raise ProfileError(f"levels[{number}].arms.{name}.tok_s: {between}")
    verdict = curve.verdict
    if verdict.shape is Shape.CROSSES:
        if verdict.crossover is None or not verdict.crossover > 0.0:
            raise ProfileError(
                "verdict.crossover: must be above 0 where the shape is crosses, "
                f"not {verdict.crossover}"
            )
        if levels and not levels[0] <= verdict.crossover <= levels[-1]:
            raise ProfileError(
                f"verdict.crossover: must lie within the levels, {levels[0]} to {levels[-1]}, "
                f"not {verdict.crossover:g}"
            )
    for each in (verdict, *curve.by_arm.values()):
        if not 0.0 <= each.margin <= 1.0:
            raise ProfileError(f"verdict.margin: must lie within 0 and 1, not {each.margin:g}")
    if verdict.interval is not None and not _ordered(verdict.interval):
        raise ProfileError(f"verdict.interval: must ascend, not {list(verdict.interval)}")


def _ordered(bounds: Sequence[float | None]) -> bool:
    low, high = bounds
    return high is None or (low is not None and low <= high)
