"""What of a measurement an engine's own table does not hold, line by line.

A table says how many steps are drafted at which batch sizes, and nothing else of an arm. So a line
is due wherever an arm was measured otherwise than an engine with that table would draft, wherever
the engine would not follow it at all, and wherever the levels say more than steps can.

What engines do with their tables is as of SGLang 0.5.23, vLLM 0.33.0 and TensorRT-LLM 1.3.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from specgate.bench.tables_of_engines import ENGINES, first_of, refused
from specgate.core.profile import NOT_STATIC, PLAIN, Engine, Level, Scalar
from specgate.core.shape import Standing

Target = Literal["sglang", "vllm", "trtllm"]

NAMES: dict[str, str] = {"sglang": "SGLang", "vllm": "vLLM", "trtllm": "TensorRT-LLM"}
CAPS = ("effective_max_running_requests", "max_running_requests", "total_slots")


def of_arm(name: str, engine: Engine | None, steps: int, to: Target) -> list[str]:
    """engine: as recorded, None if it was not. steps: that the table has for this arm."""
    if engine is None:
        return []
    found = [*_other_engine(name, engine, to), *_other_steps(name, engine, steps)]
    settings = engine.settings
    tree = _tree(name, settings, steps, to)
    if tree is not None:
        found.append(tree)
    why = refused(to, {flag: value for flag, value in settings.items() if "topk" not in flag})
    if why is not None:
        found.append(f"{why}, as arm {name} was measured: it would not follow this table")
    if settings.get("speculative_adaptive"):
        found.append(
            f"arm {name} was measured while its engine chose the steps itself "
            f"(speculative_adaptive): {steps} is only where it began"
        )
    return found


def _other_engine(name: str, engine: Engine, to: Target) -> list[str]:
    known = next((word for word in ENGINES if word in (engine.name or "").lower()), None)
    if known is None or ENGINES[known] == to:
        return []
    theirs = NAMES.get(ENGINES[known] or "", "llama.cpp")
    return [f"arm {name} was measured on {theirs}: with {NAMES[to]} the edges may lie elsewhere"]


def _other_steps(name: str, engine: Engine, steps: int) -> list[str]:
    if engine.steps in (None, steps):
        return []
    return [f"arm {name} was measured with {engine.steps} steps, and --steps says {steps}"]


def _tree(name: str, settings: Mapping[str, Scalar], steps: int, to: Target) -> str | None:
    """A table's draft is a chain of its steps: one candidate each, steps + 1 tokens verified."""
    topk = first_of(settings, "speculative_eagle_topk", "topk")
    tokens = first_of(settings, "speculative_num_draft_tokens", "draft_tokens")
    wide = isinstance(topk, int) and topk > 1
    more = isinstance(tokens, int) and tokens != steps + 1
    if not wide and not more:
        return None
    measured = [f"topk {topk}"] if wide else []
    measured += [f"{tokens} draft tokens verified a step"] if more else []
    said = (
        f"arm {name} was measured with {' and '.join(measured)}; all that this can say is a chain "
        f"of {steps} (topk 1, {steps + 1} verified), which yields and costs otherwise: its edges "
        "are not those of what was measured"
    )
    if wide and to == "sglang":
        said += f". Started with topk {topk}, SGLang ignores the table and speculates at every load"
    return said


def of_levels(
    levels: Sequence[Level],
    engines: Mapping[str, Engine],
    *,
    drafting: Sequence[int],
    pays: Sequence[tuple[int, int]] = (),
) -> list[str]:
    """drafting: the levels at which the table speculates. pays: the verdict's ranges."""
    found = []
    open_at = [level.concurrency for level in levels if _open(level)]
    without = [at for at in open_at if at not in drafting]
    if without:
        found.append(f"not decided at {_listed(without)}: this drafts nothing there")
    within = [at for at in open_at if at in drafting]
    if within:
        found.append(f"not decided at {_listed(within)}: this drafts there")
    little = [
        level.concurrency
        for level in levels
        if any(low <= level.concurrency <= high for low, high in pays)
        and level.concurrency not in (*drafting, *open_at)
    ]
    if little:
        found.append(f"pays by no more than the margin at {_listed(little)}: this drafts nothing")
    return found + _capped(levels, engines)


def _listed(levels: Sequence[int]) -> str:
    return ", ".join(map(str, levels))


def _open(level: Level) -> bool:
    """No arm wins for sure, and one may."""
    arms = [arm for name, arm in level.arms.items() if name not in NOT_STATIC]
    return (level.best or PLAIN) == PLAIN and any(arm.standing is Standing.OPEN for arm in arms)


def _capped(levels: Sequence[Level], engines: Mapping[str, Engine]) -> list[str]:
    """Above an engine's cap a level is the cap's batch and a queue: no batch of that size."""
    top = levels[-1].concurrency
    found = []
    for name, engine in engines.items():
        cap = first_of(engine.settings, *CAPS)
        if isinstance(cap, bool) or not isinstance(cap, int) or not 0 < cap < top:
            continue
        found.append(
            f"arm {name} ran at most {cap} at once: the levels above were batches of {cap} and a "
            f"queue, and an engine with that cap never comes to what this says of batches above it"
        )
    return found
