"""What a response says of itself, read from its bytes as they pass: first output, token count.

Never counts chunks as tokens: under speculation one chunk holds several. The count is the
engine's own (`usage`, `meta_info` of SGLang's /generate, `timings` of llama.cpp), or unknown.
Names of fields: OpenAI's and Anthropic's public APIs; SGLang's /generate; Ollama's NDJSON;
llama.cpp's server.
"""

import json
import re
from typing import Any, Protocol

from specgate.core.headers import media_type
from specgate.core.sse import EventDecoder

TAIL = 16 * 1024
"""Bytes of a whole body's end that are kept: the count stands near it."""

STREAM_TAIL = 8 * 1024
"""The same of a stream, where it stands in one of the last events. With 16 KiB the tails were the
largest part of the memory that a stream takes."""

_LOOSE = 4 * 1024
"""Bytes that come on top until what is kept is cut to size again."""

_COUNT_KEYS = (b'"completion_tokens"', b'"output_tokens"', b'"eval_count"', b'"predicted_n"')
_PROMPT_KEYS = (b'"prompt_tokens"', b'"input_tokens"', b'"prompt_eval_count"')
_COUNT = re.compile(rb"\s*:\s*(\d{1,12})(?=\s*[,}])")


class Tap(Protocol):
    """Reads along. `first_output_at`, `last_at`: when the first output and the last bytes of a
    stream came, monotonic seconds; None if nothing came, or it is no stream."""

    @property
    def first_output_at(self) -> float | None: ...

    @property
    def last_at(self) -> float | None: ...

    def feed(self, chunk: bytes, now: float) -> None: ...

    def output_tokens(self) -> int | None:
        """The engine's count of output tokens, None if it gave none. Call it at the end."""
        ...

    def prompt_tokens(self) -> int | None:
        """The same of the prompt's."""
        ...


def tap_for(content_type: bytes | None) -> Tap:
    """The tap for a response's content type."""
    kind = media_type(content_type)
    if kind == b"text/event-stream":
        return StreamTap()
    if kind in (b"application/x-ndjson", b"application/jsonl"):
        return LinesTap()
    return BodyTap()


class _Tail:
    """The last `keep` bytes of what passed, at least; joined seldom. `_streams`: it has times."""

    __slots__ = ("_keep", "_most", "_pieces", "_size", "first_output_at", "last_at")

    _streams = True

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._most = keep + _LOOSE
        self._pieces: list[bytes] = []
        self._size = 0
        self.first_output_at: float | None = None
        self.last_at: float | None = None

    def feed(self, chunk: bytes, now: float) -> None:
        # One call a piece, for all taps: it is made for every chunk of every stream.
        self._pieces.append(chunk)
        self._size += len(chunk)
        if self._size > self._most:
            self._pieces = [b"".join(self._pieces)[-self._keep :]]
            self._size = self._keep
        if self._streams:
            self.last_at = now
            if self.first_output_at is None and self._carries(chunk):
                self.first_output_at = now

    def _carries(self, chunk: bytes) -> bool:
        """Whether it holds the first output, or a part of it."""
        raise NotImplementedError

    def output_tokens(self) -> int | None:
        return last_count(self._tail())

    def prompt_tokens(self) -> int | None:
        return last_count(self._tail(), _PROMPT_KEYS)

    @property
    def tail(self) -> bytes:
        """The last bytes that passed; empty if none did."""
        return self._tail()

    def _tail(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


class StreamTap(_Tail):
    """Server-Sent Events. The first output is the first event that carries any, not the role.

    Until then events are decoded; from then on only the stream's last bytes are kept, and the count
    is looked for in them at the end: a stream costs no decoding a chunk.
    """

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        super().__init__(STREAM_TAIL)
        self._decoder = EventDecoder()

    def _carries(self, chunk: bytes) -> bool:
        return any(carries_output(data) for data in self._decoder.feed(chunk))


class LinesTap(_Tail):
    """Newline-delimited JSON, as Ollama's API streams it; the count is in the last line."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(STREAM_TAIL)

    def _carries(self, chunk: bytes) -> bool:
        return bool(chunk.strip())


class BodyTap(_Tail):
    """A whole JSON body: no stream, and so no times; the count stands near its end."""

    __slots__ = ()

    _streams = False

    def __init__(self) -> None:
        super().__init__(TAIL)

    def output_tokens(self) -> int | None:
        tail = self._tail()
        if tail.startswith(b"["):
            # A batch of /generate: each reply has its own.
            counts = [count for reply in _listed(tail) if (count := last_count(reply)) is not None]
            return sum(counts) if counts else None
        return last_count(tail)


def last_count(text: bytes, keys: tuple[bytes, ...] = _COUNT_KEYS) -> int | None:
    """The last token count in a reply's or a stream's last bytes, None if there is none.

    Found by its key: within a JSON string the key's quotes would be escaped, so that text about
    token counts is never taken for one.
    """
    for key in keys:
        at = text.rfind(key)
        if at >= 0 and (found := _COUNT.match(text, at + len(key))):
            return int(found[1])
    return None


def _listed(body: bytes) -> list[bytes]:
    """The items of a JSON list, each as JSON again; none if it is not a whole list."""
    items = _loaded(body)
    return [json.dumps(item).encode() for item in items] if isinstance(items, list) else []


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


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
