"""How each engine gives its memory back and takes it again, and how one tells that it does its work
afterwards: calls as data, answers read from text.

sglang   Paused first: then it takes no step, whatever comes, and `/ready` says 503, so that whoever
         asks later can see that it sleeps. (Released and not paused it fences nothing: the next
         request runs into memory that is not there.) It must be idle, or it dies of an assertion;
         to resume one that was not released kills it too. Its weights are gone unless it was
         started with --enable-weights-cpu-backup, its draft's unless with
         --enable-draft-weights-cpu-backup, and even then the accept length may stay at 1
         (sglang#31674).
vllm     Needs --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1. Level 1 keeps the weights in main
         memory; mode `wait` lets requests end, where the default would abort them.

No other engine has such calls: there a command parks and wakes. From the sources of sglang 0.5.23
and vllm 0.33.0.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from specgate.engines.base import Engine

SLEEPING_PATH = "/is_sleeping"
"""vLLM's."""

PING_PATH = "/ping"
"""SGLang's: 200 while it is paused, unlike `/ready`."""


class Call(NamedTuple):
    """One POST. optional: an older version may not know it, and answer 404."""

    path: str
    body: Mapping[str, Any] | None = None
    optional: bool = False


PARK: dict[Engine, tuple[Call, ...]] = {
    Engine.SGLANG: (
        Call("/pause_generation", {"mode": "retract"}, optional=True),
        Call("/release_memory_occupation", {}),
    ),
    Engine.VLLM: (Call("/sleep?level=1&mode=wait"),),
}

WAKE: dict[Engine, tuple[Call, ...]] = {
    Engine.SGLANG: (
        Call("/resume_memory_occupation", {}),
        Call("/continue_generation", {}, optional=True),
    ),
    Engine.VLLM: (Call("/wake_up"),),
}

UNDO: dict[Engine, Call] = {Engine.SGLANG: Call("/continue_generation", {})}
"""After a park that got only half way."""

DIES_BUSY = frozenset({Engine.SGLANG})
"""Engines that must be known to be idle before they are parked."""


def is_sleeping(body: str) -> bool | None:
    """From the answer of SLEEPING_PATH; None for any other text."""
    try:
        said = json.loads(body)["is_sleeping"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return said if isinstance(said, bool) else None


TOKENS = 48
"""Of the trial's answer: enough steps to tell an accept length of 1 from another."""

SENTENCE = "The gate counts what is in flight on both of its lanes."
PROMPT = " ".join([SENTENCE] * 6) + " The gate"
"""A text that every model goes on with, and every draft too, n-grams among them."""

LEAST_ACCEPT = 1.05
"""Below it no draft was accepted, but for one or two of TOKENS by chance."""


class Trial(NamedTuple):
    """A generation that is asked for to see whether an engine does its work."""

    path: str
    body: Mapping[str, Any]


def trial(engine: Engine, model: str | None) -> Trial:
    """SGLang's own route tells the accept length; the others have OpenAI's."""
    if engine is Engine.SGLANG:
        sampling = {"max_new_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
        return Trial("/generate", {"text": PROMPT, "sampling_params": sampling})
    body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    return Trial("/v1/completions", body if model is None else {"model": model, **body})


class Said(NamedTuple):
    """An answer to a trial. accept_length: None where it does not tell."""

    text: str
    accept_length: float | None


def said(engine: Engine, body: str) -> Said | None:
    """From the answer's body; None for any other text."""
    try:
        answer = json.loads(body)
        if engine is not Engine.SGLANG:
            text = answer["choices"][0]["text"]
            return Said(text, None) if isinstance(text, str) else None
        text, meta = answer["text"], answer["meta_info"]
        tokens, steps = meta.get("completion_tokens"), meta.get("spec_verify_ct")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(text, str):
        return None
    known = all(isinstance(each, int | float) and each > 0 for each in (tokens, steps))
    # The first token comes from the prefill and costs no step.
    return Said(text, (tokens - 1) / steps if known else None)


_LETTERS = 4
_WORDS = 3
_TELLING = frozenset({"gate", "counts", "what", "flight", "both", "lanes"})
"""Words of SENTENCE that no other text has all of."""


def makes_sense(text: str, before: str | None) -> bool:
    """Whether the answer to PROMPT is one of a model that has its weights.

    Lost weights give one token again and again, or random ones. before: what an engine in these
    lanes said that served well; None: not known yet, and then only the former is found out.
    """
    if len({letter for letter in text.lower() if letter.isalnum()}) < _LETTERS:
        return False
    words = text.split()
    if before is None or words[:_WORDS] == before.split()[:_WORDS]:
        return True
    return len(_TELLING & {word.lower().strip(".") for word in words}) >= _WORDS
