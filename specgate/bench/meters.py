"""What an engine says of its own work while a cell runs: in flight, running, accept length.

SGLang: /v1/loads, and its counters where /metrics is on. vLLM and llama.cpp: /metrics. An engine
that says nothing is measured all the same; what it does not tell is None, never 0.

Accept length: tokens a decode step, from differences of counters over the cell. llama.cpp and vLLM
count accepted drafts: every other token cost a step of its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import httpx2

from specgate.bench.asking import Arm
from specgate.engines.counters import counted

EVERY_S = 0.5
TIMEOUT_S = 5.0
RUNNING = ("vllm:num_requests_running", "llamacpp:requests_processing")
WAITING = ("vllm:num_requests_waiting", "llamacpp:requests_deferred")
ACCEPTED = (
    "vllm:spec_decode_num_accepted_tokens_total",
    "llamacpp:spec_decode_num_accepted_tokens_total",
)
DRAFTED = (
    "vllm:spec_decode_num_draft_tokens_total",
    "llamacpp:spec_decode_num_draft_tokens_total",
)
GENERATED = ("vllm:generation_tokens_total", "llamacpp:tokens_predicted_total")
SGLANG = ("sglang:generation_tokens_total", "sglang:num_requests_total")
VERIFIED = "sglang:spec_verify_calls_total"


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

    async def in_flight(self) -> int | None:
        """What the engine has running and waiting, from whomever."""
        loads = await self._loads()
        if loads is not None:
            return loads[0] + loads[1]
        text = await self._text("/metrics")
        running = _any_of(text, RUNNING)
        return None if running is None else round(running + (_any_of(text, WAITING) or 0))

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Seen]:
        """Samples while the block runs; the accept length stands when it has been left."""
        seen = Seen()
        before = await self._text("/metrics")
        sampling = asyncio.ensure_future(self._sample(seen))
        try:
            yield seen
        finally:
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
        after = await self._text("/metrics")
        seen.accept_length = accept_length(before, after)
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
        while "/metrics" not in self._missing:
            await asyncio.sleep(EVERY_S)
            text = await self._text("/metrics")
            for into, names in ((seen.running, RUNNING), (seen.waiting, WAITING)):
                value = _any_of(text, names)
                if value is not None:
                    into.append(round(value))

    async def _loads(self) -> tuple[int, int, float | None] | None:
        """SGLang's running, waiting and accept length, summed over its data-parallel ranks."""
        reply = await self._get("/v1/loads?include=core,spec")
        if reply is None:
            return None
        try:
            items: list[dict[str, Any]] = reply.json()["loads"]
            running = sum(int(item["num_running_reqs"]) for item in items)
            waiting = sum(int(item["num_waiting_reqs"]) for item in items)
            told = [item["speculative"]["accept_length"] for item in items if "speculative" in item]
        except (ValueError, KeyError, TypeError):
            return None
        return running, waiting, fmean(told) if told and running else None

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


def accept_length(before: str, after: str) -> float | None:
    """Tokens a decode step between two readings of /metrics; None without speculation."""
    verified = _grown(before, after, (VERIFIED,))
    if verified:
        tokens, requests = (_grown(before, after, (name,)) for name in SGLANG)
        if tokens and requests is not None:
            # A request's first token comes from its prefill, which verifies nothing.
            return (tokens - requests) / verified
    accepted, tokens = _grown(before, after, ACCEPTED), _grown(before, after, GENERATED)
    if accepted is None or not _grown(before, after, DRAFTED):
        return None
    if not tokens or accepted >= tokens:
        return None
    return tokens / (tokens - accepted)


def _grown(before: str, after: str, names: tuple[str, ...]) -> float | None:
    first, last = _any_of(before, names), _any_of(after, names)
    return None if first is None or last is None or last < first else last - first


def _any_of(text: str, names: tuple[str, ...]) -> float | None:
    return next((v for name in names if (v := counted(text, name)) is not None), None)
