"""What each engine does under speculation to a request's features: changes or refuses, from its
sources, by the field's name in the body.

A field counts where its value asks for something: not null, false, 0 or empty, and not what
NEUTRAL says. `sampling_params` of /generate holds the same names. What cannot be told from a
request is not here: a LoRA adapter looks like a model's name.
"""

from typing import Any, NamedTuple

from specgate.core.rules import Effect
from specgate.engines.base import Engine


class Feature(NamedTuple):
    """A field, what speculation does to it, in words, and where that is from."""

    field: str
    effect: Effect
    what: str
    source: str


_SGLANG_SAMPLER = "SGLang 0.5.23, speculative/eagle_utils.py"
_SGLANG_CHECKS = "SGLang 0.5.23, managers/tokenizer_manager.py"
_RELAXED = "counts are moved once a verification, so that a draft's tokens escape it"
_VLLM_CHECK = "vLLM 0.33.0, sampling_params.py"
_VLLM_MATRIX = "vLLM 0.33.0, docs/features/README.md"
_LLAMACPP = "llama.cpp, tools/server/server-context.cpp"
_CERTAIN = "tokens of an accepted draft come back as certain (log-probability 0), without a list"

FEATURES: dict[Engine, tuple[Feature, ...]] = {
    Engine.SGLANG: (
        Feature(
            "custom_logit_processor",
            Effect.CHANGES,
            "ignored after the first token",
            f"{_SGLANG_SAMPLER}; sglang#21724",
        ),
        Feature("min_p", Effect.CHANGES, "ignored", f"{_SGLANG_SAMPLER}; sglang#10617"),
        *(
            Feature(name, Effect.CHANGES, _RELAXED, f"{_SGLANG_SAMPLER}; sglang#22049")
            for name in ("frequency_penalty", "presence_penalty", "repetition_penalty")
        ),
        Feature("beam_width", Effect.REFUSES, "an error", _SGLANG_CHECKS),
        Feature("return_sampling_mask", Effect.REFUSES, "400", _SGLANG_CHECKS),
    ),
    Engine.VLLM: (
        Feature("min_p", Effect.REFUSES, "400", _VLLM_CHECK),
        Feature("logit_bias", Effect.REFUSES, "400", _VLLM_CHECK),
        Feature("use_beam_search", Effect.REFUSES, "not supported", _VLLM_MATRIX),
        Feature("best_of", Effect.REFUSES, "not supported", _VLLM_MATRIX),
        Feature("prompt_embeds", Effect.REFUSES, "not supported", _VLLM_MATRIX),
    ),
    Engine.LLAMACPP: tuple(
        Feature(name, Effect.CHANGES, _CERTAIN, _LLAMACPP) for name in ("logprobs", "n_probs")
    ),
}

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1,),
    "beam_width": (1,),
    "best_of": (1,),
}
"""Values that ask for nothing, besides null, false, 0 and what is empty."""

NAMES: tuple[str, ...] = tuple(
    dict.fromkeys(feature.field for features in FEATURES.values() for feature in features)
)
"""Every field that some engine has a rule for."""


def _effects(engine: Engine) -> dict[str, Effect]:
    if engine in FEATURES:
        return {feature.field: feature.effect for feature in FEATURES[engine]}
    # Not known: what any engine would change without a word. A refusal at least is heard.
    return {
        feature.field: feature.effect
        for features in FEATURES.values()
        for feature in features
        if feature.effect is Effect.CHANGES
    }


EFFECTS: dict[Engine, dict[str, Effect]] = {engine: _effects(engine) for engine in Engine}
"""By engine and field; of an unknown engine all that some engine changes silently."""


def asks(name: str, value: Any) -> bool:
    """Whether a field's value asks for its feature."""
    return bool(value) and value not in NEUTRAL.get(name, ())
