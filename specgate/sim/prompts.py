"""Which class a prompt belongs to, and what that means for acceptance and for natural length.

The class is guessed from a few words of the prompt, or named by the request itself (header
`x-sim-class` or body field of that name). A prompt that says nothing is `mix`, the traffic for
which the profiles' curves were measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from specgate.sim.accept import shift_odds

READ_CHARACTERS = 2_000
CHARACTERS_PER_TOKEN = 4


class PromptClass(StrEnum):
    MIX = "mix"
    CHAT = "chat"
    CODE = "code"
    SUMMARY = "summary"
    EXTRACTION = "extraction"
    MATHS = "maths"
    TRANSLATION = "translation"
    FAVOURABLE = "favourable"


@dataclass(frozen=True, slots=True)
class _Traits:
    """`p`: mean acceptance per draft token, as published for one draft model. `median_tokens`:
    of the natural output length, an assumption of ours.
    """

    p: float
    median_tokens: int


# p: params.json, `acceptance` (chat from MT-bench, code from HumanEval, maths from MATH-500,
# extraction from BFCL's function calls, translation from C-Eval, the only other language there).
# Nothing was published for summaries: they get the mix.
_MIX_P: Final = 0.704
_TRAITS: Final[Mapping[PromptClass, _Traits]] = {
    PromptClass.MIX: _Traits(_MIX_P, 260),
    PromptClass.CHAT: _Traits(0.739, 200),
    PromptClass.CODE: _Traits(0.87, 420),
    PromptClass.SUMMARY: _Traits(_MIX_P, 160),
    PromptClass.EXTRACTION: _Traits(0.966, 90),
    PromptClass.MATHS: _Traits(0.881, 480),
    PromptClass.TRANSLATION: _Traits(0.635, 150),
    PromptClass.FAVOURABLE: _Traits(0.906, 600),
}

# The first class with a matching word wins: what is asked for before what it is about.
_WORDS: Final[tuple[tuple[PromptClass, tuple[str, ...]], ...]] = (
    (PromptClass.TRANSLATION, ("translate", "translation", "into french", "into german")),
    (PromptClass.SUMMARY, ("summar", "tl;dr", "in one sentence", "key points")),
    (PromptClass.EXTRACTION, ("extract", "as json", "json object", "fill in the fields")),
    (
        PromptClass.CODE,
        ("```", "def ", "python", "javascript", "write a function", "refactor", "unit test", "sql"),
    ),
    (
        PromptClass.MATHS,
        ("solve", "equation", "integral", "prove that", "calculate", "probability", "how many"),
    ),
    (
        PromptClass.CHAT,
        ("hello", "how are you", "what do you think", "tell me a", "advice", "recommend"),
    ),
)


def classify(prompt: str) -> PromptClass:
    """By keyword, over the last part of the prompt, where the question usually stands."""
    text = prompt[-READ_CHARACTERS:].lower()
    for prompt_class, words in _WORDS:
        if any(word in text for word in words):
            return prompt_class
    return PromptClass.MIX


def class_p(prompt_class: PromptClass, profile_p: float) -> float:
    """Mean p of a class under a draft whose mixed traffic has `profile_p`; 0 without a draft."""
    if not 0 < profile_p < 1:
        return profile_p
    return shift_odds(_TRAITS[prompt_class].p, _MIX_P, profile_p)


def median_tokens(prompt_class: PromptClass) -> int:
    return _TRAITS[prompt_class].median_tokens


def count_tokens(prompt: str) -> int:
    """About a token for four characters, at least one."""
    return max(1, -(-len(prompt) // CHARACTERS_PER_TOKEN))
