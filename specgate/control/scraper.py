"""Reading what engines count themselves: tokens, decode steps, and the requests they have in hand.

Missing, malformed or stale is unknown, never 0: an engine without metrics has no series. A turn
that learns nothing leaves what is known to age.
"""

import asyncio
from collections.abc import Callable

import httpx2

from specgate.control.gate import Gate
from specgate.core.lanes import Lane
from specgate.core.view import EngineCounters
from specgate.engines.accepting import accepted
from specgate.engines.base import Engine
from specgate.engines.counters import OUTPUT_TOKENS, counted
from specgate.engines.loads import LOADS_PATH, InHand, in_hand, told
from specgate.upstream.base import Origin

SCRAPE_TIMEOUT_S = 5.0
PAGE_LIMIT = 4 * 1024 * 1024
"""Bytes of a /metrics page; SGLang's is below 200 KiB."""

REFUSES = frozenset({401, 403, 404})
"""An engine without that route, or one that wants a key which the gate does not have. With a new
key it is asked again: an origin of its own."""


class Scraper:
    """`clock`: monotonic seconds. `latest` holds the last good reading of each lane."""

    def __init__(self, *, gate: Gate, clock: Callable[[], float]) -> None:
        self._gate = gate
        self._clock = clock
        self._without_loads: dict[Lane, Origin] = {}
        self.latest: dict[Lane, EngineCounters] = {}

    async def scrape(self, client: httpx2.AsyncClient, lane: Lane) -> None:
        """One reading; whatever comes of it, nothing is raised that a network can cause."""
        if self._gate.lanes[lane].asleep:
            return  # and what is known of it ages
        origin = self._gate.origin(lane)
        known = self.latest.get(lane)
        if known is not None and known.url != origin.url:
            del self.latest[lane]
        engine = Engine(self._gate.view().lanes[lane].engine)
        name = OUTPUT_TOKENS.get(engine)
        if name is None:
            return
        _, page = await self._get(client, origin, "/metrics")
        tokens = None if page is None else counted(page, name)
        if tokens is not None:
            self.latest[lane] = EngineCounters(
                url=origin.url, output_tokens=tokens, at=self._clock()
            )
        if page is not None and lane is Lane.SPEC:
            reading = accepted(engine, page)
            if reading is not None:
                self._gate.saw_accept_length(origin, reading)
        load = await self._load(client, origin, engine, page)
        if load is not None:
            self._gate.saw_engine_load(origin, load.total)

    async def _load(
        self, client: httpx2.AsyncClient, origin: Origin, engine: Engine, page: str | None
    ) -> InHand | None:
        if engine is Engine.SGLANG and self._without_loads.get(origin.lane) is not origin:
            status, body = await self._get(client, origin, LOADS_PATH)
            if body is not None:
                return told(body)
            if status in REFUSES:
                self._without_loads[origin.lane] = origin
        return None if page is None else in_hand(engine, page)

    async def _get(
        self, client: httpx2.AsyncClient, origin: Origin, path: str
    ) -> tuple[int | None, str | None]:
        """The status, and the body of a success; None for what did not come."""
        try:
            asking = client.stream("GET", origin.url + path, headers=origin.credentials)
            async with asyncio.timeout(SCRAPE_TIMEOUT_S), asking as response:
                if not response.is_success:
                    return response.status_code, None
                return response.status_code, await _body(response)
        except (httpx2.HTTPError, TimeoutError):
            return None, None


async def _body(response: httpx2.Response) -> str | None:
    parts = bytearray()
    async for part in response.aiter_bytes():
        parts += part
        if len(parts) > PAGE_LIMIT:
            return None
    return parts.decode("utf-8", "replace")
