"""Pages of vLLM and llama.cpp, made up: their names, and counters that go up.

The simulated engines have SGLang's surface. For queries on other engines' metrics there is a page
with each name that `exposed` knows, so that they are evaluated on data of the right shape.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.deploy.prometheus.exposed import LLAMACPP, VLLM

GAUGES = {
    "vllm:num_requests_running": 3.0,
    "vllm:num_requests_waiting": 2.0,
    "vllm:kv_cache_usage_perc": 0.4,
    "llamacpp:requests_processing": 3.0,
    "llamacpp:requests_deferred": 1.0,
    "llamacpp:n_busy_slots_per_decode": 2.5,
}
A_SECOND = {
    "vllm:spec_decode_num_drafts_total": 20.0,
    "vllm:spec_decode_num_accepted_tokens_total": 30.0,
    "llamacpp:spec_decode_num_drafts_total": 20.0,
    "llamacpp:spec_decode_num_accepted_tokens_total": 30.0,
}
"""Others go up by 100 a second."""


@asynccontextmanager
async def stand_in(kinds: dict[str, str], labels: str) -> AsyncIterator[str]:
    """Serve such a page at /metrics; yields host:port. `labels`: inside the braces, or empty."""
    began = time.monotonic()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        body = _page(kinds, labels, time.monotonic() - began).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield "{}:{}".format(*server.sockets[0].getsockname()[:2])


@asynccontextmanager
async def stand_ins() -> AsyncIterator[dict[str, str]]:
    """Addresses of a vLLM's and a llama.cpp's page."""
    labels = 'engine="0",model_name="m"'
    async with stand_in(VLLM, labels) as vllm, stand_in(LLAMACPP, "") as llamacpp:
        yield {"vllm": vllm, "llamacpp": llamacpp}


def _page(kinds: dict[str, str], labels: str, passed_s: float) -> str:
    lines = []
    for name, kind in kinds.items():
        count = A_SECOND.get(name, 100.0) * passed_s
        if kind == "gauge":
            series = {"": GAUGES[name]}
        elif kind == "histogram":
            series = {'le="0.1"': 0.5 * count, 'le="0.5"': 0.9 * count, 'le="+Inf"': count}
        elif "per_pos" in name:
            series = {'position="0"': count / 8, 'position="1"': count / 16}
        else:
            series = {"": count}
        for label, value in series.items():
            wanted = ",".join(each for each in (labels, label) if each)
            lines.append(f"{name}{{{wanted}}} {value}" if wanted else f"{name} {value}")
    return "\n".join(lines) + "\n"
