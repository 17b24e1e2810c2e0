"""A bare engine for measuring what stands in front of it: `python -m tests.perf.engine PORT`.

A POST gets a short whole answer; with `?chunks=200&gap_ms=20` in its target, a stream of that many
chunks at that pace (0: as fast as the event loop turns). Each chunk carries the sender's clock.
"""

import asyncio
import json
import sys
import time
from typing import cast
from urllib.parse import parse_qs, urlsplit

import httptools

_ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 700}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 100, "total_tokens": 110},
    }
).encode()
_LENGTH = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


def chunk(number: int) -> bytes:
    event = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {"content": f"token {number} "}}],
            "t": time.perf_counter_ns(),
        }
    )
    data = b"data: " + event.encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


class Engine(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._streams: set[asyncio.Task[None]] = set()

    def connection_lost(self, error: Exception | None) -> None:
        for stream in self._streams:
            stream.cancel()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._asked = parse_qs(urlsplit(url.decode()).query)

    def on_message_complete(self) -> None:
        if "chunks" in self._asked:
            chunks, gap_s = int(self._asked["chunks"][0]), float(self._asked["gap_ms"][0]) / 1000
            stream = asyncio.get_running_loop().create_task(self._stream(chunks, gap_s))
            self._streams.add(stream)
            stream.add_done_callback(self._streams.discard)
        else:
            self._transport.write(_LENGTH % len(_ANSWER) + _ANSWER)

    async def _stream(self, chunks: int, gap_s: float) -> None:
        self._transport.write(_STREAM)
        start = time.perf_counter()
        for number in range(chunks):
            self._transport.write(chunk(number))
            due_s = start + (number + 1) * gap_s - time.perf_counter()
            await asyncio.sleep(max(0.0, due_s) if gap_s else 0)
        self._transport.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


async def _main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Engine, "127.0.0.1", port, backlog=4096)
    async with server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_main(int(sys.argv[1])))
