"""Streams asked for and read: `python -m tests.perf.load PORT STREAMS CHUNKS GAP_MS` -> JSON."""

import asyncio
import json
import re
import statistics
import sys
import time
from dataclasses import asdict, dataclass

BODY = json.dumps(
    {
        "model": "m",
        "messages": [{"role": "user", "content": "hello " * 150}],
        "stream": True,
        "max_tokens": 100,
    }
).encode()
_STAMP = re.compile(rb'"t": ?(\d+)}')


def request(target: bytes = b"/v1/chat/completions", body: bytes = BODY) -> bytes:
    head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % target
    return head + b"authorization: Bearer k\r\ncontent-length: %d\r\n\r\n" % len(body) + body


@dataclass(frozen=True, slots=True)
class Seen:
    """Chunks that came, how long each was on its way (median), and streams that were not whole."""

    chunks: int
    delay_p50_ms: float
    bad: int


async def read_streams(port: int, streams: int, chunks: int, gap_ms: float) -> Seen:
    """All at once, each on a connection of its own."""
    target = b"/v1/chat/completions?chunks=%d&gap_ms=%d" % (chunks, gap_ms)
    delays: list[int] = []

    async def one() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(target))
        seen, rest = 0, b""
        while not rest.endswith(b"\r\n0\r\n\r\n"):
            data = await reader.read(65536)
            now = time.perf_counter_ns()
            if not data:
                break
            rest += data
            last = 0
            for stamp in _STAMP.finditer(rest):
                delays.append(now - int(stamp[1]))
                seen += 1
                last = stamp.end()
            rest = rest[last:]
        writer.close()
        return seen == chunks

    whole = await asyncio.gather(*(one() for _ in range(streams)))
    return Seen(len(delays), statistics.median(delays or [0]) / 1e6, whole.count(False))


if __name__ == "__main__":
    import uvloop

    port, streams, chunks = map(int, sys.argv[1:4])
    print(json.dumps(asdict(uvloop.run(read_streams(port, streams, chunks, float(sys.argv[4]))))))
