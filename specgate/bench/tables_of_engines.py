"""Whether the engine of a profile has a table of its own, by batch size, that would do the same.

What engines can do is as of SGLang 0.5.23, vLLM 0.33.0 and TensorRT-LLM 1.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from specgate.core.profile import Profile, Scalar

ENGINES = {
    "sglang": "sglang",
    "vllm": "vllm",
    "tensorrt": "trtllm",
    "trtllm": "trtllm",
    "llama": None,
}

_FOLLOW_A_TABLE = ("EAGLE", "EAGLE3", "NEXTN")
"""NEXTN is EAGLE by another name."""
_SGLANG_WITHOUT = {
    "enable_dp_attention": "under DP attention",
    "enable_multi_layer_eagle": "with a multi-layer EAGLE",
    "enable_two_batch_overlap": "with two-batch overlap",
    "enable_pdmux": "with pdmux",
    "enable_lora": "with LoRA",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """engine: as `specgate export --to` calls it, None if not known. possible: unless ruled out."""

    engine: str | None
    possible: bool
    why: str


def native_table(profile: Profile) -> Native:
    """From the engine of the verdict's arm, and those of its settings that rule a table out."""
    engine = profile.fingerprint.engines.get(profile.verdict.arm or "")
    name = (engine.name or "").lower() if engine else ""
    settings = engine.settings if engine else {}
    known = next((word for word in ENGINES if word in name), None)
    if known is None:
        return Native(
            engine=None,
            possible=True,
            why="not measured here; the profile does not name its engine, and some have none",
        )
    short = ENGINES[known]
    if short is None:
        return Native(engine=None, possible=False, why=f"{name} has no table by batch size")
    why = refused(short, settings)
    if why is not None:
        return Native(engine=short, possible=False, why=why)
    return Native(engine=short, possible=True, why=f"{short} has one, by hand; not measured here")


def refused(engine: str, settings: Mapping[str, Scalar]) -> str | None:
    """Why an engine with these settings follows no table; None: nothing here says so."""
    topk = first_of(settings, "speculative_eagle_topk", "topk")
    if engine == "sglang" and topk is not None and topk != 1:
        return f"SGLang follows a table with topk 1 only, and this one drafts with topk {topk}"
    algorithm = settings.get("speculative_algorithm")
    if engine == "sglang" and algorithm is not None and algorithm not in _FOLLOW_A_TABLE:
        return f"SGLang follows a table with EAGLE and EAGLE3 only, and not with {algorithm}"
    if engine == "sglang":
        without = (what for flag, what in _SGLANG_WITHOUT.items() if settings.get(flag))
        what = next(without, None)
        if what is not None:
            return f"SGLang follows no table {what}"
    parallel = first_of(settings, "data_parallel_size", "dp_size")
    if engine == "vllm" and isinstance(parallel, int) and parallel > 1:
        return "vLLM follows no table with data parallelism"
    return None


def first_of(settings: Mapping[str, Scalar], *names: str) -> Scalar:
    """The first of these settings that is there and is not null."""
    return next((found for name in names if (found := settings.get(name)) is not None), None)
