"""What an engine says of its own work while a cell runs: in flight, running, accept length.

SGLang: /v1/loads, and its counters where /metrics is on. vLLM and llama.cpp: /metrics. Several
behind sglang-router: /engine_metrics. An engine that says nothing is measured all the same; what it
does not tell is None, never 0.

Accept length: tokens a decode step, from differences of counters over the cell, as the gate reads
it live (`engines.accepting`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import httpx2

from specgate.bench.asking import Arm
from specgate.engines.accepting import accept_length
from specgate.engines.loads import InHand, of_any, told
from specgate.engines.replicas import METRICS_PATH, accept_length_of_all, told_of_all

EVERY_S = 0.5
TIMEOUT_S = 5.0


@dataclass(slots=True)
class Seen:
    """Over one cell. `running`, `waiting`: the engine's own counts, sampled. `accept_length`:
    tokens a decode step, None where it is not known."""

    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    accept_samples: list[float] = field(default_factory=list)
    accept_length: float | None = None

    def summary(self) -> dict[str, float | None]:
        return {
            "running_max": max(self.running, default=None),
            "waiting_max": max(self.waiting, default=None),
        }


class Meter:
    """Asks one arm's engine; remembers which of its routes are there."""

    def __init__(self, arm: Arm, http: httpx2.AsyncClient) -> None:
        self._arm = arm
        self._http = http
        self._missing: set[str] = set()

    @property
    def url(self) -> str:
        return self._arm.url

    async def in_flight(self) -> int | None:
        """What the engine has running and waiting, from whomever."""
        loads = await self._loads()
        if loads is not None:
            return loads[0] + loads[1]
        found = _in_hand(await self._page())
        return None if found is None else found.total

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Seen]:
        """Samples while the block runs; the accept length stands when it has been left."""
        seen = Seen()
        before = await self._page()
        sampling = asyncio.ensure_future(self._sample(seen))
        try:
            yield seen
        finally:
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
        after = await self._page()
        seen.accept_length = accept_length(before, after) or accept_length_of_all(before, after)
        if seen.accept_length is None and seen.accept_samples:
            seen.accept_length = fmean(seen.accept_samples)

    async def _sample(self, seen: Seen) -> None:
        while "/v1/loads" not in self._missing:
            await asyncio.sleep(EVERY_S)
            loads = await self._loads()
            if loads is not None:
                running, waiting, accepted = loads
                seen.running.append(running)
                seen.waiting.append(waiting)
                if accepted:
                    seen.accept_samples.append(accepted)
        while not {"/metrics", METRICS_PATH} <= self._missing:
            await asyncio.sleep(EVERY_S)
            found = _in_hand(await self._page())
            if found is not None:
                seen.running.append(found.running)
                seen.waiting.append(found.waiting)

    async def _loads(self) -> tuple[int, int, float | None] | None:
        """SGLang's running, waiting and accept length, summed over its data-parallel ranks."""
        reply = await self._get("/v1/loads?include=core,spec")
        if reply is None:
            return None
        found = told(reply.text)
        if found is None:
            return None
        ranks: list[dict[str, Any]] = reply.json()["loads"]
        lengths = [(rank.get("speculative") or {}).get("accept_length") for rank in ranks]
        known = [length for length in lengths if isinstance(length, int | float)]
        return found.running, found.waiting, fmean(known) if known and found.running else None

    async def _page(self) -> str:
        """Of the engine, or of those behind a balancer."""
        page = await self._text("/metrics")
        return await self._text(METRICS_PATH) if "/metrics" in self._missing else page

    async def _text(self, path: str) -> str:
        reply = await self._get(path)
        return reply.text if reply is not None else ""

    async def _get(self, path: str) -> httpx2.Response | None:
        route = path.partition("?")[0]
        if route in self._missing:
            return None
        headers = {"authorization": f"Bearer {self._arm.api_key}"} if self._arm.api_key else {}
        try:
            async with asyncio.timeout(TIMEOUT_S):
                reply = await self._http.get(self._arm.url.rstrip("/") + path, headers=headers)
        except (httpx2.HTTPError, TimeoutError):
            return None
        if reply.status_code != 200:
            self._missing.add(route)
            return None
        return reply


def _in_hand(page: str) -> InHand | None:
    if (found := of_any(page)) is not None:
        return found
    several = told_of_all(page)
    return None if several is None else several.in_hand
