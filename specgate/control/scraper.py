"""Reading what engines count themselves: tokens, decode steps, and the requests they have in hand.

Missing, malformed or stale is unknown, never 0: an engine without metrics has no series. A turn
that learns nothing leaves what is known to age.

Where a lane's engine is not known, or has no such page, a balancer may stand before several, and
have a page of them all (`engines.replicas`): they are read as one.
"""

import asyncio
from collections.abc import Awaitable, Callable

import httpx2

from specgate.control.gate import Gate
from specgate.core.lanes import Lane
from specgate.core.replicas import Summed, Together
from specgate.core.view import EngineCounters
from specgate.engines.accepting import accepted
from specgate.engines.base import Engine
from specgate.engines.counters import OUTPUT_TOKENS, counted
from specgate.engines.loads import LOADS_PATH, InHand, in_hand, told
from specgate.engines.replicas import METRICS_PATH, is_read, told_of_all
from specgate.upstream.base import Origin

SCRAPE_TIMEOUT_S = 5.0
PAGE_LIMIT = 1024 * 1024
"""Bytes of a /metrics page; SGLang's is below 200 KiB. It is read in the event loop."""

PAGES_LIMIT = 64 * 1024 * 1024
"""Bytes of the page of several engines, some hundreds of them: it is read line by line."""

LINES_LIMIT = 1024 * 1024
"""Bytes of the lines that are kept of it: some 2 KiB of each engine."""

LINE_LIMIT = 64 * 1024
"""Bytes of one line there."""

REFUSES = frozenset({401, 403, 404})
"""An engine without that route, or one that wants a key which the gate does not have. With a new
key it is asked again: an origin of its own."""

NO_SUCH_PAGE = 404

Read = Callable[[httpx2.Response], Awaitable[str | None]]


class _Behind:
    """What is known of the engines behind one origin. has_page: None as long as nobody knows."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.has_page: bool | None = None
        self.steps = Together()
        self.tokens = Summed()


class Scraper:
    """`clock`: monotonic seconds. `latest` holds the last good reading of each lane."""

    def __init__(self, *, gate: Gate, clock: Callable[[], float]) -> None:
        self._gate = gate
        self._clock = clock
        self._without_loads: dict[Lane, Origin] = {}
        self._behind: dict[Lane, _Behind] = {}
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
            await self._several(client, origin)
            return
        status, page = await self._get(client, origin, "/metrics", _body)
        if status == NO_SUCH_PAGE and await self._several(client, origin):
            return
        tokens = None if page is None else counted(page, name)
        if tokens is not None:
            self._counted(origin, tokens)
        if page is not None and lane is Lane.SPEC:
            reading = accepted(engine, page)
            if reading is not None:
                self._gate.saw_accept_length(origin, reading)
        load = await self._load(client, origin, engine, page)
        if load is not None:
            self._gate.saw_engine_load(origin, load.total)

    async def _several(self, client: httpx2.AsyncClient, origin: Origin) -> bool:
        """The same of all engines behind a balancer; whether it has a page of them."""
        behind = self._behind.get(origin.lane)
        if behind is None or behind.origin is not origin:
            behind = self._behind[origin.lane] = _Behind(origin)
        if behind.has_page is False:
            return False
        status, page = await self._get(client, origin, METRICS_PATH, _read_lines)
        if status in REFUSES:
            behind.has_page = False
        # In a thread: of a hundred engines it is some ten milliseconds' work.
        told = None if page is None else await asyncio.to_thread(told_of_all, page)
        if told is None:
            # While no engine is up there is none on the page.
            return behind.has_page is True
        behind.has_page = True
        if told.tokens:
            self._counted(origin, behind.tokens.saw(told.tokens))
        if told.steps and origin.lane is Lane.SPEC:
            self._gate.saw_accept_length(origin, behind.steps.saw(told.steps))
        if told.in_hand is not None:
            self._gate.saw_engine_load(origin, told.in_hand.total)
        return True

    def _counted(self, origin: Origin, tokens: float) -> None:
        self.latest[origin.lane] = EngineCounters(
            url=origin.url, output_tokens=tokens, at=self._clock()
        )

    async def _load(
        self, client: httpx2.AsyncClient, origin: Origin, engine: Engine, page: str | None
    ) -> InHand | None:
        if engine is Engine.SGLANG and self._without_loads.get(origin.lane) is not origin:
            status, body = await self._get(client, origin, LOADS_PATH, _body)
            if body is not None:
                return told(body)
            if status in REFUSES:
                self._without_loads[origin.lane] = origin
        return None if page is None else in_hand(engine, page)

    async def _get(
        self, client: httpx2.AsyncClient, origin: Origin, path: str, read: Read
    ) -> tuple[int | None, str | None]:
        """The status, and of a success what is read of its body; None for what did not come."""
        try:
            asking = client.stream("GET", origin.url + path, headers=origin.credentials)
            async with asyncio.timeout(SCRAPE_TIMEOUT_S), asking as response:
                if not response.is_success:
                    return response.status_code, None
                return response.status_code, await read(response)
        except (httpx2.HTTPError, TimeoutError):
            return None, None


async def _body(response: httpx2.Response) -> str | None:
    parts = bytearray()
    async for part in response.aiter_bytes():
        parts += part
        if len(parts) > PAGE_LIMIT:
            return None
    return parts.decode("utf-8", "replace")


async def _read_lines(response: httpx2.Response) -> str | None:
    """The lines that are read, of a page that may be long; None for one that is none."""
    kept = bytearray()
    rest, size = b"", 0
    async for part in response.aiter_bytes():
        size += len(part)
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if is_read(line):
                kept += line + b"\n"
        if size > PAGES_LIMIT or len(kept) > LINES_LIMIT or len(rest) > LINE_LIMIT:
            return None
    return (kept + (rest if is_read(rest) else b"")).decode("utf-8", "replace")
