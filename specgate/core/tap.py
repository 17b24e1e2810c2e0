"""What a response says of itself, read from its bytes as they pass: first output, token count.

Never counts chunks as tokens: under speculation one chunk holds several. The count is the
engine's own (`usage`, or `meta_info` of SGLang's /generate), or unknown. Names of fields: OpenAI's
and Anthropic's public APIs; SGLang's /generate; Ollama's NDJSON.
"""

import json
from typing import Any, Protocol

from specgate.core.headers import media_type
from specgate.core.sse import EventDecoder

_COUNT_MARKS = (b'"completion_tokens"', b'"output_tokens"', b'"eval_count"')
_BODY_TAIL = 64 * 1024


class Tap(Protocol):
    """Reads along. `first_output_at`: monotonic seconds; None if nothing came, or no stream."""

    first_output_at: float | None

    def feed(self, chunk: bytes, now: float) -> None: ...

    def output_tokens(self) -> int | None:
        """The engine's count of output tokens, None if it gave none. Call it at the end."""
        ...


def tap_for(content_type: bytes | None) -> Tap:
    """The tap for a response's content type."""
    kind = media_type(content_type)
    if kind == b"text/event-stream":
        return StreamTap()
    if kind in (b"application/x-ndjson", b"application/jsonl"):
        return LinesTap()
    return BodyTap()


class StreamTap:
    """Server-Sent Events. The first output is the first event that carries any, not the role."""

    __slots__ = ("_counted", "_decoder", "first_output_at")

    def __init__(self) -> None:
        self._decoder = EventDecoder()
        self._counted: bytes | None = None
        self.first_output_at: float | None = None

    def feed(self, chunk: bytes, now: float) -> None:
        for data in self._decoder.feed(chunk):
            if self.first_output_at is None and carries_output(data):
                self.first_output_at = now
            if any(mark in data for mark in _COUNT_MARKS):
                # Kept as bytes and read once, at the end: some engines repeat it in every event.
                self._counted = data

    def output_tokens(self) -> int | None:
        return None if self._counted is None else count_in(_loaded(self._counted))


class LinesTap:
    """Newline-delimited JSON, as Ollama's API streams it; the count is in the last line."""

    __slots__ = ("_rest", "first_output_at")

    def __init__(self) -> None:
        self._rest = b""
        self.first_output_at: float | None = None

    def feed(self, chunk: bytes, now: float) -> None:
        if self.first_output_at is None and chunk.strip():
            self.first_output_at = now
        self._rest = (self._rest + chunk)[-_BODY_TAIL:]

    def output_tokens(self) -> int | None:
        lines = self._rest.strip().rsplit(b"\n", 1)
        return count_in(_loaded(lines[-1]))


class BodyTap:
    """A whole JSON body: no first output; the count is looked for in the body's tail."""

    __slots__ = ("_tail", "first_output_at")

    def __init__(self) -> None:
        self._tail = b""
        self.first_output_at: float | None = None

    def feed(self, chunk: bytes, now: float) -> None:
        self._tail = (self._tail + chunk)[-_BODY_TAIL:]

    def output_tokens(self) -> int | None:
        """Of the whole body where it fits; else of the `usage` object in its tail."""
        if (whole := _loaded(self._tail)) is not None:
            return count_in(whole)
        # Inside a JSON string the quotes would be escaped, so this only finds the real key.
        at = self._tail.rfind(b'"usage":')
        if at < 0:
            return None
        text = self._tail[at + len(b'"usage":') :].decode("utf-8", "replace").lstrip()
        try:
            usage, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return None
        return count_in({"usage": usage})


def carries_output(data: bytes) -> bool:
    """Whether an event's data carries output: text, reasoning, a tool call, token ids.

    The role chunk, usage, errors and the end mark carry none. What is not JSON, or of a shape not
    known here, is taken for output.
    """
    if data.strip() == b"[DONE]":
        return False
    event = _loaded(data)
    if not isinstance(event, dict):
        return True
    if "error" in event:
        return False
    choices = event.get("choices")
    if isinstance(choices, list):
        return any(_choice_carries(choice) for choice in choices)
    kind = event.get("type")
    if isinstance(kind, str):
        # Anthropic's and the Responses API's typed events: text arrives in the deltas.
        return kind.endswith("delta") and kind != "message_delta"
    if "text" in event or "output_ids" in event:
        return bool(event.get("text") or event.get("output_ids"))
    return "usage" not in event


def _choice_carries(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return False
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    return isinstance(delta, dict) and any(
        value for name, value in delta.items() if name not in ("role", "refusal")
    )


def count_in(reply: Any) -> int | None:
    """The output tokens that a reply or event states, None if it states none."""
    if isinstance(reply, list):
        counts = [count for item in reply if (count := count_in(item)) is not None]
        return sum(counts) if counts else None
    if not isinstance(reply, dict):
        return None
    response = reply.get("response")
    for place in (
        reply.get("usage"),
        reply.get("meta_info"),
        response.get("usage") if isinstance(response, dict) else None,
        reply,
    ):
        if not isinstance(place, dict):
            continue
        for name in ("completion_tokens", "output_tokens", "eval_count"):
            count = place.get(name)
            if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
                return count
    return None


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
