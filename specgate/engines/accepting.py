"""How much each engine's speculation yields, read from its /metrics: text in, counts out.

The accept length is the mean of output tokens that a decode step yields a sequence.

sglang     output tokens over verifications, both counted when a request ends; a request's first
           token comes from its prefill and is left out. A version without that counter has a gauge
           of the last 40 steps, which stands still while the engine is idle. (What /v1/loads and
           /server_info tell is over the engine's whole life and follows nothing.)
vllm       1 + accepted over drafts, its own definition: a drafter that proposes nothing in a step,
           as n-gram ones do, has no draft counted there.
llamacpp   output tokens over those that were no accepted draft: each of them cost a step. Counted
           when a request ends; the counters are there without a drafter too, and stay at 0.
"""

from specgate.core.accept import Counted, between
from specgate.engines.base import Engine
from specgate.engines.counters import OUTPUT_TOKENS, counted

VERIFIED = "sglang:spec_verify_calls_total"
GAUGE = "sglang:spec_accept_length"
ENDED = {
    Engine.SGLANG: "sglang:num_requests_total",
    Engine.VLLM: "vllm:request_success_total",
}
"""Requests that ended. llama.cpp counts none."""


def _spec_decode(what: str) -> dict[Engine, str]:
    return {
        engine: f"{engine}:spec_decode_num_{what}_total"
        for engine in (Engine.VLLM, Engine.LLAMACPP)
    }


DRAFTS = _spec_decode("drafts")
DRAFTED = _spec_decode("draft_tokens")
ACCEPTED = _spec_decode("accepted_tokens")


def accepted(engine: Engine, page: str) -> Counted | None:
    """What a page says of decode steps; None where it says nothing of them."""
    ended = ENDED.get(engine)
    requests = None if ended is None else counted(page, ended)
    match engine:
        case Engine.SGLANG:
            return _sglang(page, requests)
        case Engine.VLLM:
            drafts, taken = counted(page, DRAFTS[engine]), counted(page, ACCEPTED[engine])
            if drafts is None or taken is None:
                return None
            return Counted(drafts + taken, drafts, requests)
        case Engine.LLAMACPP:
            tokens, taken = counted(page, OUTPUT_TOKENS[engine]), counted(page, ACCEPTED[engine])
            if tokens is None or taken is None:
                return None
            return Counted(tokens, max(0.0, tokens - taken))
        case _:
            return None


def accept_length(before: str, after: str) -> float | None:
    """Of whichever engine's pages these are, between two of them; None without speculation."""
    for engine in OUTPUT_TOKENS:
        first, last = accepted(engine, before), accepted(engine, after)
        if first is None or last is None or last.steps is None:
            continue
        drafted = DRAFTED.get(engine)
        if drafted is not None and counted(before, drafted) == counted(after, drafted):
            continue
        sample = between(first, last)
        return None if sample is None else sample.length
    return None


def _sglang(page: str, requests: float | None) -> Counted | None:
    tokens, verified = counted(page, OUTPUT_TOKENS[Engine.SGLANG]), counted(page, VERIFIED)
    if tokens is None:
        return None
    if verified is not None and requests is not None:
        return Counted(tokens - requests, verified, requests)
    length = counted(page, GAUGE)
    return None if length is None else Counted(tokens, None, requests, length)
