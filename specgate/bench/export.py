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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from specgate.bench.wording import headline
from specgate.core.antitonic import between
from specgate.core.profile import NOT_STATIC, PLAIN, Level, Profile
from specgate.core.shape import Shape

Target = Literal["sglang", "vllm", "trtllm"]
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
    """text: the file's. notes: a line for each thing that the format cannot hold."""

    text: str
    notes: tuple[str, ...]


def exported(
    profile: Profile,
    to: Target,
    steps: Mapping[str, int] | None = None,
    context: int | None = None,
) -> Exported:
    """`steps`: draft steps by arm, where the profile does not say. `context`: of a profile with
    several prompt lengths, which; without one its most cautious curve. Raises ExportError."""
    taken = _which(profile, context)
    profile = _with(profile, context)
    found = ranges(profile, steps or {})
    top = profile.levels[-1].concurrency
    notes = [
        f"from a specgate profile: {headline(profile)}",
        "not in this format: intervals, the band (an engine switches at the edge itself), and "
        "prompt or output length",
    ]
    if profile.levels[0].concurrency > 1:
        notes.append(f"nothing was measured below {profile.levels[0].concurrency}")
    if taken is not None:
        notes.insert(1, taken)
    most = max(part.steps for part in found)
    if most == 0:
        notes.append("speculation pays nowhere here: serving without it says the same, at no cost")
    text, more = _WRITERS[to](found, top, most or _most(profile, steps or {}))
    comment = [*notes, *more]
    if to == "vllm":
        return Exported(text=text, notes=tuple(comment))
    if to == "sglang":
        table = {"_comment": comment, **json.loads(text)}
        return Exported(text=json.dumps(table, indent=2) + "\n", notes=tuple(comment))
    lines = "".join(f"# {line}\n" for line in comment)
    return Exported(text=lines + text, notes=tuple(comment))


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


def _which(profile: Profile, context: int | None) -> str | None:
    """What of a profile with several curves a table is of; None where there is one curve alone."""
    if not profile.also:
        return None
    taken = _with(profile, context)
    tokens = f" and {taken.max_tokens} output tokens" if taken.max_tokens is not None else ""
    length = f"taken at {_length(taken.context)}{tokens}"
    curves = (profile, *profile.also)
    rivals = len([c for c in curves if context is None or c.context == context])
    why = f", the most cautious of {rivals} curves" if rivals > 1 else ""
    others = sorted({c.context for c in curves if c.context not in (None, taken.context)})
    more = f"; --context takes another: {', '.join(map(str, others))}" if others else ""
    return f"{length}{why}{more}"


def _length(context: int | None) -> str:
    return "prompts as they are" if context is None else f"{context} prompt tokens"


def ranges(profile: Profile, steps: Mapping[str, int]) -> list[Range]:
    """From 1 to the highest level; neighbours differ in their steps. Raises ExportError."""
    if profile.verdict.shape is Shape.INCONCLUSIVE or not profile.levels:
        raise InconclusiveError("the profile is inconclusive: no table can be made of it")
    levels = [level for level in profile.levels if level.best is not None]
    if not levels:
        raise ExportError("no level has both a plain and a speculative arm")
    if profile.verdict.shape is Shape.ALWAYS:
        # A level that only ties costs nothing to draft at, and a table with fewer edges is simpler.
        levels = [
            replace(level, best=profile.verdict.arm) if _best(level) == PLAIN else level
            for level in levels
        ]
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
