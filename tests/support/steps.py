"""What a scripted lane can be told to do: steps, bytes, and ready-made good and bad answers.

`tests.support.lanes` performs them, and has every name too: tests import from there.
"""

import asyncio
import itertools
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

DONE = b"data: [DONE]\n\n"
LAST_CHUNK = b"0\r\n\r\n"

HeaderPairs = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Send:
    """Write exactly these bytes, and wait until the kernel has taken them all."""

    data: bytes


@dataclass(frozen=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True)
class WaitFor:
    """Do nothing until the test sets the event."""

    event: asyncio.Event


@dataclass(frozen=True)
class Signal:
    """Tell the test that the script has come this far."""

    event: asyncio.Event


@dataclass(frozen=True)
class Fin:
    """End our direction, and wait for the peer to close its own; until then we are not idle."""


@dataclass(frozen=True)
class Rst:
    """Reset the connection."""


@dataclass(frozen=True)
class Silent:
    """Never answer: the script ends when the peer leaves."""


@dataclass(frozen=True)
class ReadBody:
    """Read the request's body here, not before the script."""


@dataclass(frozen=True)
class DontReadBody:
    """Leave the body unread; the connection ends with the script unless `ReadBody()` follows."""


Handler = Callable[[Any, Any], Awaitable[None]]
Step = Send | Pause | WaitFor | Signal | Fin | Rst | Silent | ReadBody | DontReadBody | Handler
Script = Step | Sequence[Step]


def frame(obj: object) -> bytes:
    """One event of a stream: `data: {...}` and the empty line."""
    return b"data: " + json.dumps(obj, separators=(",", ":")).encode() + b"\n\n"


def delta(text: str | None, **extra: object) -> bytes:
    """A chat completion frame with this text."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return frame({"id": "c", "object": "chat.completion.chunk", "choices": [choice], **extra})


def usage(prompt_tokens: int, completion_tokens: int) -> bytes:
    """The frame that ends a stream with `include_usage`: no choices, the counts."""
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    counts["total_tokens"] = prompt_tokens + completion_tokens
    return frame({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": counts})


def chunk(data: bytes) -> bytes:
    """These bytes as one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunked(*pieces: bytes) -> bytes:
    """A whole chunked body."""
    return b"".join(map(chunk, pieces)) + LAST_CHUNK


def head(status: int, headers: HeaderPairs = ()) -> bytes:
    """A response head with these headers and no others."""
    lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def sse_head(headers: HeaderPairs = (), content_type: bytes = b"text/event-stream") -> bytes:
    """The head of a chunked event stream."""
    framing = [(b"content-type", content_type), (b"transfer-encoding", b"chunked")]
    return head(200, [*framing, *headers])


def sse_response(
    frames: Iterable[bytes],
    pause_s: float = 0,
    headers: HeaderPairs = (),
    content_type: bytes = b"text/event-stream",
) -> list[Step]:
    """A chunked event stream: a piece is one chunk in one write, wherever it cuts a frame."""
    steps: list[Step] = [Send(sse_head(headers, content_type))]
    for piece in frames:
        steps += [Pause(pause_s), Send(chunk(piece))]
    return [*steps, Send(LAST_CHUNK)]


def response(status: int, body: bytes = b"", headers: HeaderPairs = ()) -> Send:
    """A whole response in one write, with its length."""
    return Send(head(status, [*headers, (b"content-length", b"%d" % len(body))]) + body)


def json_response(status: int, obj: object, headers: HeaderPairs = ()) -> Send:
    """A whole JSON response in one write."""
    pairs = [(b"content-type", b"application/json"), *headers]
    return response(status, json.dumps(obj).encode(), pairs)


def error_response(status: int, message: str, headers: HeaderPairs = ()) -> Send:
    """An error as engines word it."""
    error = {"message": message, "type": HTTPStatus(status).phrase, "param": None, "code": status}
    return json_response(status, {"error": error}, headers)


# Ill-behaved answers


def accepts_and_hangs() -> Step:
    return Silent()


def status_500() -> Step:
    return error_response(500, "the engine broke")


def headers_then_nothing() -> list[Step]:
    return [Send(sse_head()), Silent()]


def closes_mid_stream(frames: int = 3, how: Fin | Rst | None = None) -> list[Step]:
    """Some frames, then a FIN (or `how=Rst()`) where the next chunk should be."""
    pieces = [Send(chunk(delta(f"t{number}"))) for number in range(frames)]
    return [Send(sse_head()), *pieces, how or Fin()]


def one_byte_at_a_time(data: bytes, pause_s: float = 0) -> list[Step]:
    """The whole response (head included) in one-byte writes."""
    return [step for byte in data for step in (Send(bytes([byte])), Pause(pause_s))]


def giant_event(size: int = 4_000_000) -> list[Step]:
    return sse_response([delta("x" * size), DONE])


def wrong_content_type(content_type: bytes = b"text/html") -> list[Step]:
    """A proper event stream under another name."""
    return sse_response([delta("a"), delta("b"), DONE], content_type=content_type)


def never_ending_stream(pause_s: float = 0.01) -> Handler:
    async def stream(_request: Any, connection: Any) -> None:
        await connection.send(sse_head())
        for number in itertools.count():
            await connection.send(chunk(delta(f"t{number} ")))
            await asyncio.sleep(pause_s)

    return stream


def reset(writer: asyncio.StreamWriter) -> None:
    """Close at once with a RST."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
