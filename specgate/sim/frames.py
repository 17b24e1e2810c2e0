"""Replies as SGLang frames them: three formats, each as server-sent events and as one JSON body.

    ChatFrames         /v1/chat/completions: a role chunk, content, the finish reason alone, usage
    CompletionFrames   /v1/completions: content, the finish reason on the last, usage
    GenerateFrames     /generate: the whole text so far in each event, with meta_info

A chunk carries all tokens of a step. The parts of a chunk that never change are serialised once.
"""

import json
import time
from collections.abc import Sequence as Several
from typing import Any, Protocol

from specgate.sim.call import Ticket
from specgate.sim.engine import Engine
from specgate.sim.intake import Ask

DONE = b"data: [DONE]\n\n"
STOP_TOKEN = 163_586


class Frames(Protocol):
    """One reply's framing; `news` and `whole` take the tickets' own state into account."""

    def news(self, ticket: Ticket, start: int, stop: int) -> bytes:
        """Every event that tokens start..stop, and perhaps the end, of a sequence deserve."""

    def closing(self, tickets: Several[Ticket]) -> bytes:
        """Events after the last sequence has ended, [DONE] included."""

    def whole(self, tickets: Several[Ticket]) -> bytes:
        """The reply as one JSON body."""


class ChatFrames:
    def __init__(self, engine: Engine, ask: Ask) -> None:
        self._engine = engine
        self._ask = ask
        self._head = _head(engine, ask)
        self._parts: dict[int, tuple[str, str]] = {}

    def news(self, ticket: Ticket, start: int, stop: int) -> bytes:
        text = ""
        if start == 0 and stop > 0:
            text = self._event(ticket, {"role": "assistant", "content": ""}, None)
        if stop > start:
            before, after = self._parts.get(ticket.index) or self._make_parts(ticket)
            words = self._engine.tape.words(ticket.order.place, start, stop)
            usage = _usage_text(self._ask, ticket) if self._ask.continuous_usage else "null"
            text = f"{text}{before}{words}{after}{usage}}}\n\n"
        if ticket.finished:
            text += self._event(ticket, {"content": None}, ticket)
        return text.encode()

    def closing(self, tickets: Several[Ticket]) -> bytes:
        return _closing(self._ask, self._head, "chat.completion.chunk", tickets)

    def whole(self, tickets: Several[Ticket]) -> bytes:
        choices = [
            {
                "index": ticket.index,
                "message": {
                    "role": "assistant",
                    "content": _answer(self._engine, ticket),
                    "reasoning_content": None,
                    "tool_calls": None,
                },
                "logprobs": None,
                **_finish(ticket),
            }
            for ticket in tickets
        ]
        return _whole(self._ask, self._head, "chat.completion", choices, tickets)

    def _make_parts(self, ticket: Ticket) -> tuple[str, str]:
        mark = "\0"
        event = self._event(ticket, {"content": mark}, None).removesuffix("null}\n\n")
        before, _, after = event.partition(json.dumps(mark)[1:-1])
        self._parts[ticket.index] = (before, after)
        return before, after

    def _event(self, ticket: Ticket, delta: dict[str, Any], ended: Ticket | None) -> str:
        delta = {
            "role": None,
            "content": None,
            "reasoning_content": None,
            "tool_calls": None,
        } | delta
        choice = {"index": ticket.index, "delta": delta, "logprobs": None, **_finish(ended)}
        return _event(self._head, "chat.completion.chunk", [choice], None)


class CompletionFrames:
    def __init__(self, engine: Engine, ask: Ask) -> None:
        self._engine = engine
        self._ask = ask
        self._head = _head(engine, ask)

    def news(self, ticket: Ticket, start: int, stop: int) -> bytes:
        words = self._engine.tape.words(ticket.order.place, start, stop)
        ended = ticket if ticket.finished else None
        choice = {"index": ticket.index, "text": words, "logprobs": None, **_finish(ended)}
        usage = _usage(self._ask, [ticket]) if self._ask.continuous_usage else None
        return _event(self._head, "text_completion", [choice], usage).encode()

    def closing(self, tickets: Several[Ticket]) -> bytes:
        return _closing(self._ask, self._head, "text_completion", tickets)

    def whole(self, tickets: Several[Ticket]) -> bytes:
        choices = [
            {
                "index": ticket.index,
                "text": _answer(self._engine, ticket),
                "logprobs": None,
                **_finish(ticket),
            }
            for ticket in tickets
        ]
        return _whole(self._ask, self._head, "text_completion", choices, tickets)


class GenerateFrames:
    def __init__(self, engine: Engine, ask: Ask) -> None:
        self._engine = engine
        self._ask = ask
        self._several = ask.batched or ask.choices > 1

    def news(self, ticket: Ticket, start: int, stop: int) -> bytes:
        del start  # the text is cumulative
        item = self._item(ticket, stop)
        if self._several:
            item["index"] = ticket.index
        return b"data: %s\n\n" % json.dumps(item).encode()

    def closing(self, tickets: Several[Ticket]) -> bytes:
        return DONE

    def whole(self, tickets: Several[Ticket]) -> bytes:
        items = [self._item(ticket, ticket.taken) for ticket in tickets]
        return json.dumps(items if self._several else items[0]).encode()

    def _item(self, ticket: Ticket, stop: int) -> dict[str, Any]:
        tape, place = self._engine.tape, ticket.order.place
        return {
            "text": tape.words(place, 0, stop),
            "output_ids": tape.ids(place, 0, stop),
            "meta_info": self._meta_info(ticket, stop),
        }

    def _meta_info(self, ticket: Ticket, stop: int) -> dict[str, Any]:
        finish: dict[str, Any] | None = None
        if ticket.finished:
            finish = {"type": ticket.finish}
            if ticket.finish == "length":
                finish["length"] = stop
            elif ticket.finish == "stop":
                finish["matched"] = STOP_TOKEN
            else:
                finish["message"] = "Aborted"
        rid = self._ask.rid
        info: dict[str, Any] = {
            "id": f"{rid}_{ticket.index}" if self._several else rid,
            "finish_reason": finish,
            "prompt_tokens": ticket.sequence.job.prompt_tokens,
            "completion_tokens": stop,
            "cached_tokens": 0,
            "weight_version": "default",
            "e2e_latency": ticket.last_at - ticket.sent_at,
        }
        draft, sequence = self._engine.shape.draft, ticket.sequence
        if draft and ticket.finished:
            proposed = sequence.verified_steps * draft.steps
            info |= {
                "spec_accept_rate": sequence.accepted_drafts / proposed if proposed else 0.0,
                "spec_accept_length": (
                    stop / sequence.verified_steps if sequence.verified_steps else 0.0
                ),
                "spec_num_correct_drafts": sequence.accepted_drafts,
                "spec_num_proposed_drafts": proposed,
                "spec_verify_ct": sequence.verified_steps,
                "spec_correct_drafts_histogram": list(sequence.accepted_histogram),
            }
        return info


def _head(engine: Engine, ask: Ask) -> dict[str, Any]:
    return {
        "id": ask.rid,
        "created": int(time.time()),
        "model": ask.model or engine.model_name,
    }


def _event(
    head: dict[str, Any], kind: str, choices: list[dict[str, Any]], usage: dict[str, Any] | None
) -> str:
    body = _body(head, kind, choices, usage)
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n"


def _closing(ask: Ask, head: dict[str, Any], kind: str, tickets: Several[Ticket]) -> bytes:
    if not ask.include_usage:
        return DONE
    return _event(head, kind, [], _usage(ask, tickets)).encode() + DONE


def _whole(
    ask: Ask,
    head: dict[str, Any],
    kind: str,
    choices: list[dict[str, Any]],
    tickets: Several[Ticket],
) -> bytes:
    body = _body(head, kind, choices, _usage(ask, tickets))
    return json.dumps(body | {"metadata": {"weight_version": "default"}}).encode()


def _body(
    head: dict[str, Any], kind: str, choices: list[dict[str, Any]], usage: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "id": head["id"],
        "object": kind,
        "created": head["created"],
        "model": head["model"],
        "choices": choices,
        "usage": usage,
    }


def _finish(ticket: Ticket | None) -> dict[str, Any]:
    if ticket is None:
        return {"finish_reason": None, "matched_stop": None}
    matched = STOP_TOKEN if ticket.finish == "stop" else None
    return {"finish_reason": ticket.finish, "matched_stop": matched}


def _usage(ask: Ask, tickets: Several[Ticket]) -> dict[str, Any]:
    """A prompt counts once, however many choices it has."""
    prompt = ask.prompt_tokens
    completion = sum(ticket.taken for ticket in tickets)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }


def _usage_text(ask: Ask, ticket: Ticket) -> str:
    return json.dumps(_usage(ask, [ticket]), separators=(",", ":"))


def _answer(engine: Engine, ticket: Ticket) -> str:
    return engine.tape.words(ticket.order.place, 0, ticket.taken)
