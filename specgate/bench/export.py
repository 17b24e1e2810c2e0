"""The engine's own table of draft lengths by batch size, from a profile.

    ranges(profile, steps)     (first batch size, last, draft steps) of what was measured
    exported(profile, to, ...) the text, and what the format cannot hold

A range speculates with the arm that wins by most at its levels, and with none where none wins.
Between two levels the change is where ln(ratio) is zero, as in the fit; at the crossover itself,
strictly below, where the curves cross once. A batch is not the load: the engine counts sequences in
its batch, the bench requests in flight, and they are the same while nothing queues.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from specgate.bench.not_held import Target, of_arm, of_levels
from specgate.bench.wording import headline
from specgate.core.antitonic import between
from specgate.core.profile import NOT_STATIC, PLAIN, SINGLE_RUN, Level, Profile
from specgate.core.shape import Shape

TARGETS: tuple[Target, ...] = ("sglang", "vllm", "trtllm")


class ExportError(ValueError):
    """No table can be written; the text says what is missing."""


class InconclusiveError(ExportError):
    """The profile decides nothing."""


class Range(NamedTuple):
    """Batch sizes first to last, both included, and how many steps to draft."""

    first: int
    last: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """text: the file's. notes: what it is of, how it is used, and what its format cannot hold;
    lost: those of them that are of this measurement, and not of every one."""

    text: str
    notes: tuple[str, ...]
    lost: tuple[str, ...] = ()


def exported(
    profile: Profile,
    to: Target,
    steps: Mapping[str, int] | None = None,
    context: int | None = None,
) -> Exported:
    """`steps`: draft steps by arm, where the profile does not say. `context`: of a profile with
    several prompt lengths, which; without one its most cautious curve. Raises ExportError."""
    given = steps or {}
    _known(profile, given)
    profile, taken, one_of_several = _with(profile, context), *_which(profile, context)
    found = ranges(profile, given)
    levels = _served(profile)
    top = levels[-1].concurrency
    notes = [
        f"from a specgate profile: {headline(profile)}",
        "not in this format: intervals, the band (an engine switches at the edge itself), and "
        "prompt or output length; a batch is taken for the load, which it is while nothing queues",
    ]
    lost = _lost(profile, levels, given, to)
    if taken is not None:
        notes.insert(1, taken)
        lost = [taken, *lost] if one_of_several else lost
    if levels[0].concurrency > 1:
        notes.append(f"nothing was measured below {levels[0].concurrency}")
    most = max(part.steps for part in found)
    if most == 0:
        notes.append("speculation pays nowhere here: serving without it says the same, at no cost")
    # The headline says of a single run that it is one.
    alarms = [alarm for alarm in profile.alarms if not alarm.startswith(SINGLE_RUN)]
    notes += [f"alarm: {alarm}" for alarm in alarms]
    text, more = _WRITERS[to](found, top, most or _most(profile, given))
    comment = [*notes, *(line for line in lost if line not in notes), *more]
    if to == "vllm":
        return Exported(text=text, notes=tuple(comment), lost=tuple(lost))
    if to == "sglang":
        table = {"_comment": comment, **json.loads(text)}
        text = json.dumps(table, indent=2) + "\n"
    else:
        text = "".join(f"# {line}\n" for line in comment) + text
    return Exported(text=text, notes=tuple(comment), lost=tuple(lost))


def _known(profile: Profile, given: Mapping[str, int]) -> None:
    """Raises ExportError for steps of what is no arm of the profile, and for less than one."""
    arms = {
        name for curve in (profile, *profile.also) for level in curve.levels for name in level.arms
    } - {PLAIN}
    for name, steps in given.items():
        if name == PLAIN:
            raise ExportError(f"--steps {name}={steps}: the plain arm drafts nothing")
        if name not in arms:
            raise ExportError(f"no arm {name}; it has: {', '.join(sorted(arms)) or 'none'}")
        if steps < 1:
            raise ExportError(
                f"--steps {name}={steps}: it was measured while it drafted: give 1 or more"
            )


def _lost(
    profile: Profile, levels: Sequence[Level], given: Mapping[str, int], to: Target
) -> list[str]:
    engines = profile.fingerprint.engines
    arms = sorted({_best(level) for level in levels} - {PLAIN})
    if not arms and profile.verdict.arm is not None and profile.verdict.arm in engines:
        # It drafts nowhere, and an arm that drafted otherwise might have.
        arms = [profile.verdict.arm]
    lost = []
    for name in arms:
        lost += of_arm(name, engines.get(name), _steps(profile, name, given), to)
    drafting = [level.concurrency for level in levels if _best(level) != PLAIN]
    pays = profile.verdict.pays
    return lost + of_levels(levels, engines, drafting=drafting, pays=pays)


def _with(profile: Profile, context: int | None) -> Profile:
    """The profile with the curve of a prompt length as its own."""
    if context is None:
        return profile
    curves = (profile, *profile.also)
    # The most cautious one first, as in the profile.
    chosen = next((curve for curve in curves if curve.context == context), None)
    if chosen is None:
        known = ", ".join(dict.fromkeys(_length(curve.context) for curve in curves))
        raise ExportError(f"the profile has no context {context}; it has {known}")
    return replace(
        profile,
        verdict=chosen.verdict,
        levels=chosen.levels,
        context=chosen.context,
        max_tokens=chosen.max_tokens,
        by_arm=chosen.by_arm,
        alarms=chosen.alarms,
    )


def _which(profile: Profile, context: int | None) -> tuple[str | None, bool]:
    """What a table is of, None where nothing was said of lengths; and whether there are others."""
    taken = _with(profile, context)
    tokens = f" and {taken.max_tokens} output tokens" if taken.max_tokens is not None else ""
    length = f"taken at {_length(taken.context)}{tokens}"
    if not profile.also:
        return (length if taken.context is not None or tokens else None), False
    curves = (profile, *profile.also)
    rivals = len([c for c in curves if context is None or c.context == context])
    why = f", the most cautious of {rivals} curves" if rivals > 1 else ""
    others = sorted({c.context for c in curves if c.context not in (None, taken.context)})
    more = f"; --context takes another: {', '.join(map(str, others))}" if others else ""
    return f"{length}{why}{more}", True


def _length(context: int | None) -> str:
    return "prompts as they are" if context is None else f"{context} prompt tokens"


def ranges(profile: Profile, steps: Mapping[str, int]) -> list[Range]:
    """From 1 to the highest level; neighbours differ in their steps. Raises ExportError."""
    if profile.verdict.shape is Shape.INCONCLUSIVE or not profile.levels:
        raise InconclusiveError("the profile is inconclusive: no table can be made of it")
    levels = _served(profile)
    drafts = {name: _steps(profile, name, steps) for name in {_best(level) for level in levels}}
    found: list[Range] = []
    first = 1
    for here, there in pairwise(levels):
        if drafts[_best(here)] == drafts[_best(there)]:
            continue
        last = _last_before(profile, here, there)
        if last >= first:
            found.append(Range(first, last, drafts[_best(here)]))
            first = last + 1
    found.append(Range(first, levels[-1].concurrency, drafts[_best(levels[-1])]))
    return found


def _served(profile: Profile) -> list[Level]:
    """The levels that a table is made of. Raises ExportError where there is none."""
    levels = [level for level in profile.levels if level.best is not None]
    if not levels:
        raise ExportError("no level has both a plain and a speculative arm")
    if profile.verdict.shape is not Shape.ALWAYS:
        return levels
    # A level that only ties costs nothing to draft at, and a table with fewer edges is simpler.
    return [
        replace(level, best=profile.verdict.arm) if _best(level) == PLAIN else level
        for level in levels
    ]


def _steps(profile: Profile, name: str, given: Mapping[str, int]) -> int:
    if name == PLAIN:
        return 0
    engine = profile.fingerprint.engines.get(name)
    steps = given.get(name, engine.steps if engine else None)
    if steps is None:
        raise ExportError(
            f"the profile does not say how many steps arm {name} drafts: give --steps {name}=N"
        )
    return steps


def _best(level: Level) -> str:
    return level.best or PLAIN


def _last_before(profile: Profile, here: Level, there: Level) -> int:
    """The last batch size that is served as `here`: it stays below the point where both meet."""
    verdict = profile.verdict
    low, high = here.concurrency, there.concurrency
    point: float | None = None
    if (
        verdict.crossover is not None
        and {_best(here), _best(there)} == {verdict.arm, PLAIN}
        and low <= verdict.crossover <= high
    ):
        point = verdict.crossover
    else:
        ends = _log_ratios(here, there)
        if ends is not None and ends[0] * ends[1] < 0.0:
            point = between(low, high, *ends)
        elif _best(here) not in NOT_STATIC and _best(there) not in NOT_STATIC:
            point = math.sqrt(low * high)
        else:
            # It wins at one of them and only ties at the other: no further than where it wins.
            point = low + 1.0 if _best(there) == PLAIN else float(high)
    return min(max(low, math.ceil(point) - 1), high - 1)


def _log_ratios(here: Level, there: Level) -> tuple[float, float] | None:
    name = _best(here) if _best(here) != PLAIN else _best(there)
    arms = here.arms.get(name), there.arms.get(name)
    ratios = [arm.ratio for arm in arms if arm is not None and arm.ratio is not None]
    return (math.log(ratios[0]), math.log(ratios[1])) if len(ratios) == 2 else None


def _most(profile: Profile, given: Mapping[str, int]) -> int:
    """What an engine is told to draft at most where the table never lets it; 1 if not known."""
    engine = profile.fingerprint.engines.get(profile.verdict.arm or "")
    return given.get(profile.verdict.arm or "", (engine.steps if engine else None) or 1)


def _vllm(found: list[Range], top: int, most: int) -> tuple[str, list[str]]:
    table = {
        "num_speculative_tokens": most,
        "num_speculative_tokens_per_batch_size": [list(part) for part in found],
    }
    return json.dumps(table) + "\n", [
        "these two keys go into --speculative-config, beside method and model",
        f"above {top}, where nothing was measured, vLLM goes on with the last entry",
        "with data parallelism vLLM ignores the table; at 0 it still pays 4 to 11 % of decode "
        "time in one report (vllm#53420)",
    ]


def _sglang(found: list[Range], top: int, most: int) -> tuple[str, list[str]]:
    first = max(part.steps for part in found)
    table = {str(part.first): {"candidate_steps": [part.steps]} for part in found}
    return json.dumps(table), [
        f"for --speculative-adaptive-config, with --speculative-adaptive, --speculative-eagle-topk "
        f"1 and --speculative-num-steps {first}",
        f"above {top}, where nothing was measured, SGLang goes on with the last entry",
        "SGLang pads a batch to a captured graph's size before it looks up, so the edge may be "
        "off by a graph; without --max-running-requests no batch goes above 48",
    ]


def _trtllm(found: list[Range], top: int, most: int) -> tuple[str, list[str]]:
    steps = [part.steps for part in found]
    if steps != sorted(steps, reverse=True):
        raise ExportError(
            "TensorRT-LLM's draft_len_schedule is for drafts that shrink with the batch, and "
            "here they grow"
        )
    if not any(steps):
        return "speculative_config: null\n", []
    entries = ", ".join(f"{part.last}: {part.steps}" for part in found if part.steps)
    text = f"speculative_config:\n  max_draft_len: {most}\n  draft_len_schedule: {{{entries}}}\n"
    return text, [
        "draft_len_schedule gives the last batch size of each draft length, and above the last "
        "entry there is no speculation; older versions take the first one instead, and one "
        "length alone is max_concurrency",
        "goes beside decoding_type and speculative_model",
    ]


_WRITERS = {"sglang": _sglang, "vllm": _vllm, "trtllm": _trtllm}
