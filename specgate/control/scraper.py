"""Reading engines' own counters. What is read here is shown, and decides nothing.

Missing, malformed or stale is unknown, never 0: an engine without metrics has no series.
"""

import asyncio
from collections.abc import Callable

import httpx2

from specgate.control.gate import Gate
from specgate.core.lanes import Lane
from specgate.core.view import EngineCounters
from specgate.engines.base import Engine
from specgate.engines.counters import OUTPUT_TOKENS, counted

SCRAPE_TIMEOUT_S = 5.0
PAGE_LIMIT = 4 * 1024 * 1024
"""Bytes of a /metrics page; SGLang's is below 200 KiB."""


class Scraper:
    """`clock`: monotonic seconds. `latest` holds the last good reading of each lane."""

    def __init__(self, *, gate: Gate, clock: Callable[[], float]) -> None:
        self._gate = gate
        self._clock = clock
        self.latest: dict[Lane, EngineCounters] = {}

    async def scrape(self, client: httpx2.AsyncClient, lane: Lane) -> None:
        """One reading; whatever comes of it, nothing is raised that a network can cause."""
        origin = self._gate.origin(lane)
        known = self.latest.get(lane)
        if known is not None and known.url != origin.url:
            del self.latest[lane]
        name = OUTPUT_TOKENS.get(Engine(self._gate.view().lanes[lane].engine))
        if name is None:
            return
        try:
            async with asyncio.timeout(SCRAPE_TIMEOUT_S):
                page = await _page(client, origin.url + "/metrics")
        except (httpx2.HTTPError, TimeoutError):
            return
        tokens = None if page is None else counted(page, name)
        if tokens is not None:
            self.latest[lane] = EngineCounters(
                url=origin.url, output_tokens=tokens, at=self._clock()
            )


async def _page(client: httpx2.AsyncClient, url: str) -> str | None:
    async with client.stream("GET", url) as response:
        if not response.is_success:
            return None
        parts = bytearray()
        async for part in response.aiter_bytes():
            parts += part
            if len(parts) > PAGE_LIMIT:
                return None
    return parts.decode("utf-8", "replace")
