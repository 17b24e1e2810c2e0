"""One response to a bench's request, read as it comes: when, how many tokens, and whether whole.

Tokens are the engine's own count (`usage`, `meta_info`, `timings`), never chunks. What a response
says of itself stands at its end: only its last bytes are kept, and decoded once, when it is over.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from specgate.core.headers import Pairs, media_type, value_of
from specgate.core.sse import EventDecoder
from specgate.core.tap import carries_output, last_count

TAIL = 64 * 1024
"""Bytes that are kept: SGLang's /generate says all of its text again in its last event."""

LAST = 4 * 1024
"""Bytes that are enough for the last events of the other APIs."""

SHOWN = 300
"""Characters of an engine's own words in a message of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a response said. `ended`: its own mark of the end came; `steps`: decode steps."""

    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    steps: int | None = None
    finish: str | None = None
    error: str | None = None
    ended: bool = True


class Reading:
    """A sink for one response's body. `now`: a clock, monotonic seconds.

    `first_output_at`: of the first event with output, None in a body that is no stream.
    """

    __slots__ = ("_clock", "_decoder", "_pieces", "_size", "first_output_at", "last_at", "stream")

    def __init__(self, clock: Any, headers: Pairs) -> None:
        kind = media_type(value_of(headers, b"content-type"))
        self.stream = kind == b"text/event-stream"
        self._clock = clock
        self._decoder = EventDecoder()
        self._pieces: list[bytes] = []
        self._size = 0
        self.first_output_at: float | None = None
        self.last_at: float | None = None

    def write(self, piece: bytes) -> bool:
        self.last_at = self._clock()
        waiting = self.stream and self.first_output_at is None
        if waiting and any(carries_output(data) for data in self._decoder.feed(piece)):
            self.first_output_at = self.last_at
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > 2 * TAIL:
            self._pieces = [b"".join(self._pieces)[-TAIL:]]
            self._size = TAIL
        return False

    async def drain(self) -> None:
        """It is never full."""

    def told(self) -> Told:
        """What it said, once it is over."""
        tail = b"".join(self._pieces)
        if not self.stream:
            return _told_by_body(tail)
        told = _told_by_stream(tail[-LAST:])
        return told if told.tokens is not None and told.finish else _told_by_stream(tail)

    def text(self) -> str:
        """Its last words, for a message."""
        return b"".join(self._pieces).decode(errors="replace").strip()[:SHOWN]


def _told_by_stream(tail: bytes) -> Told:
    """The last events; the first of a cut tail is half a one, and is no JSON."""
    events = EventDecoder(limit=2 * TAIL).feed(tail)
    ended = bool(events) and events[-1].strip() == b"[DONE]"
    merged: dict[str, Any] = {}
    for data in events:
        found = _object(data)
        for key in ("usage", "meta_info", "timings", "error", "metrics"):
            if found.get(key):
                merged[key] = found[key]
        if finish := _finish(found):
            merged["finish"] = finish
    return _told(merged, count=last_count(tail), ended=ended)


def _told_by_body(tail: bytes) -> Told:
    found = _object(tail)
    return _told({**found, "finish": _finish(found)}, count=last_count(tail), ended=True)


def _told(found: dict[str, Any], *, count: int | None, ended: bool) -> Told:
    usage, meta, timings = (_dict(found.get(key)) for key in ("usage", "meta_info", "timings"))
    tokens = _first_int(usage.get("completion_tokens"), meta.get("completion_tokens"))
    if tokens is None:
        tokens = _first_int(timings.get("predicted_n"), count)
    details = _dict(usage.get("prompt_tokens_details"))
    return Told(
        tokens=tokens,
        prompt_tokens=_first_int(
            usage.get("prompt_tokens"), meta.get("prompt_tokens"), timings.get("prompt_n")
        ),
        cached_tokens=_first_int(
            details.get("cached_tokens"), meta.get("cached_tokens"), timings.get("cache_n")
        ),
        steps=_steps(tokens, meta, timings),
        finish=found.get("finish"),
        error=_error(found.get("error")),
        ended=ended,
    )


def _steps(tokens: int | None, meta: dict[str, Any], timings: dict[str, Any]) -> int | None:
    """Decode steps after the first token: SGLang counts verifications, llama.cpp drafted tokens."""
    verified = _first_int(meta.get("spec_verify_ct"))
    if verified:
        return verified
    accepted = _first_int(timings.get("draft_n_accepted"))
    if accepted is not None and tokens is not None and timings.get("draft_n"):
        return max(tokens - 1 - accepted, 1)
    return None


def _finish(found: dict[str, Any]) -> str | None:
    choices = found.get("choices")
    if isinstance(choices, list) and choices:
        reason = _dict(choices[0]).get("finish_reason")
        return reason if isinstance(reason, str) else None
    reason = _dict(found.get("meta_info")).get("finish_reason")
    kind = reason.get("type") if isinstance(reason, dict) else reason
    return kind if isinstance(kind, str) else None


def _error(error: Any) -> str | None:
    if not error:
        return None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or error)[:SHOWN]


def _object(data: bytes) -> dict[str, Any]:
    try:
        return _dict(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first_int(*values: Any) -> int | None:
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool)), None)
