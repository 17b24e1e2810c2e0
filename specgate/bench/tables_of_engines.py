"""Whether the engine of a profile has a table of its own, by batch size, that would do the same.

What engines can do is as of SGLang 0.5.23, vLLM 0.33.0 and TensorRT-LLM 1.3.
"""

from dataclasses import dataclass

from specgate.core.profile import Profile, Scalar

ENGINES = {
    "sglang": "sglang",
    "vllm": "vllm",
    "tensorrt": "trtllm",
    "trtllm": "trtllm",
    "llama": None,
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
    refused = _refused(short, settings)
    if refused is not None:
        return Native(engine=short, possible=False, why=refused)
    return Native(engine=short, possible=True, why=f"{short} has one, by hand; not measured here")


def _refused(engine: str, settings: dict[str, Scalar]) -> str | None:
    topk = _first(settings, "speculative_eagle_topk", "topk")
    if engine == "sglang" and topk is not None and topk != 1:
        return f"SGLang follows a table with topk 1 only, and this one drafts with topk {topk}"
    if engine == "sglang" and settings.get("enable_dp_attention"):
        return "SGLang follows no table under DP attention"
    parallel = _first(settings, "data_parallel_size", "dp_size")
    if engine == "vllm" and isinstance(parallel, int) and parallel > 1:
        return "vLLM follows no table with data parallelism"
    return None


def _first(settings: dict[str, Scalar], *names: str) -> Scalar:
    return next((settings[name] for name in names if name in settings), None)
