"""Asking an engine: documents, how fast its probes answer, one short request, an idle connection.

Everything ends within TOTAL_S, whatever an engine does; what there was no time for is not known.
"""

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass, field
from typing import Any

import httpx2

from specgate.doctor.caller import ANSWER_S, CONNECT_S, FAILED, LEAST_S, Answer, Caller, why
from specgate.doctor.documents import first_of, mapped, number, real
from specgate.doctor.facts import Accepted, KeepAlive, OwnRequest, Read, Timed
from specgate.doctor.idle import WATCH_S, address, keep_alive
from specgate.doctor.reading import (
    LOADS,
    METRICS,
    PROPS,
    SERVER_INFO,
    SLOTS,
    VERSION,
    Asked,
    engine_in,
    in_flight,
)
from specgate.engines.base import (
    MODELS_PATH,
    READINESS_PATH,
    READY_PATH,
    Engine,
    tells_readiness,
)
from specgate.engines.replicas import METRICS_PATH

TOTAL_S = 26.0
HEALTH_S = 6.0
REQUEST_S = 12.0
TOKENS = 48
PROMPT = "The cat sat on the mat, and the dog lay by the door. " * 6
"""Text that repeats: a drafter that works guesses it, so that an accept length near 1 tells of the
drafter and not of the prompt."""

_QUERY = {SERVER_INFO: "?config_format=json", LOADS: "?include=core,spec"}


@dataclass(slots=True)
class _Found:
    """What is known so far."""

    documents: dict[str, Any] = field(default_factory=dict)
    metrics: str = ""
    metrics_status: int | None = None
    in_flight: list[Read] = field(default_factory=list)
    ready: Timed | None = None
    health: Timed | None = None
    request: OwnRequest | None = None
    request_failed: str | None = None


async def ask(label: str, url: str, key: str | None, tls: ssl.SSLContext) -> Asked:
    """Raises Unreachable, NeedsKey and NoEngine, each with one line that names the address."""
    deadline = time.monotonic() + TOTAL_S
    async with httpx2.AsyncClient(trust_env=False, verify=tls, follow_redirects=False) as http:
        caller = Caller(http, url, key, deadline)
        found = _Found(documents={MODELS_PATH: await caller.models()})
        addresses = await _addresses(url)
        resting = asyncio.ensure_future(keep_alive(url, key, tls))
        try:
            await _look(caller, found)
            rested = await _within(resting, min(WATCH_S + ANSWER_S, caller.left_s()))
        finally:
            resting.cancel()
            await asyncio.gather(resting, return_exceptions=True)
    return Asked(
        label=label,
        url=url,
        addresses=addresses,
        documents=found.documents,
        metrics=found.metrics,
        metrics_status=found.metrics_status,
        in_flight=tuple(found.in_flight),
        ready=found.ready,
        health=found.health,
        keep_alive=rested,
        request=found.request,
        request_failed=found.request_failed,
    )


async def _within(future: "asyncio.Future[KeepAlive | None]", most_s: float) -> KeepAlive | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            return await future
    return None


async def _look(caller: Caller, found: _Found) -> None:
    """In an order in which no question disturbs the next one: what is counted comes first."""
    if await _document(caller, found, SERVER_INFO) == 404:
        await _document(caller, found, SERVER_INFO, asked_as="/get_server_info")
    await _document(caller, found, LOADS)
    engine = engine_in(found.documents)
    more = {Engine.VLLM: (VERSION,), Engine.LLAMACPP: (PROPS, SLOTS)}
    for path in more.get(engine, ()):
        await _document(caller, found, path)
    if engine is Engine.UNKNOWN:
        await _balancer(caller, found)
    await _metrics(caller, found)
    _count(found)
    found.ready = await _timed(caller, READY_PATH, ANSWER_S)
    if found.ready is not None and found.ready.status is not None:
        # The first may have paid for a connection; what the second takes is the engine's.
        other = READINESS_PATH if READINESS_PATH in found.documents else MODELS_PATH
        path = other if found.ready.status == 404 else READY_PATH
        found.ready = await _timed(caller, path, ANSWER_S)
    await _again(caller, found, LOADS)
    _count(found)
    if found.ready is not None and found.ready.refuses:
        # Paused, or asleep: what generates a token would wait there, and harm one that sleeps.
        found.request_failed = f"it is not ready ({found.ready.path} said so)"
        return
    found.health = await _timed(caller, "/health", HEALTH_S)
    await _send(caller, found, engine)
    # By now something has been generated, and perhaps verified.
    await _again(caller, found, SERVER_INFO, LOADS)


async def _balancer(caller: Caller, found: _Found) -> None:
    """Whether it is one, in front of several engines."""
    answer = await caller.get(READINESS_PATH)
    if answer.status is not None and tells_readiness(answer.status, answer.body):
        found.documents[READINESS_PATH] = answer.json


async def _again(caller: Caller, found: _Found, *paths: str) -> None:
    """What answered before, once more."""
    for path in paths:
        if path in found.documents:
            await _document(caller, found, path)
    if found.metrics_status is not None:
        await _metrics(caller, found)


async def _timed(caller: Caller, path: str, most_s: float) -> Timed | None:
    answer = await caller.get(path, most_s=most_s)
    if answer.skipped:
        return None
    return Timed(path=path, status=answer.status, took_s=answer.took_s)


async def _document(
    caller: Caller, found: _Found, path: str, *, asked_as: str | None = None
) -> int | None:
    """The status of its answer. `asked_as`: its older name."""
    answer = await caller.get((asked_as or path) + _QUERY.get(path, ""))
    if answer.status == 200 and answer.json is not None:
        found.documents[path] = answer.json
    return answer.status


async def _metrics(caller: Caller, found: _Found) -> None:
    """As the gate asks, without a key; with it where that is refused."""
    path = METRICS_PATH if READINESS_PATH in found.documents else METRICS
    answer = await caller.get(path, bare=True)
    found.metrics_status = answer.status
    if answer.status in (401, 403) and caller.headers:
        answer = await caller.get(path)
    if answer.status == 200:
        found.metrics = answer.text


def _count(found: _Found) -> None:
    count = in_flight(found.documents, found.metrics)
    if count is not None:
        found.in_flight.append(count)


async def _send(caller: Caller, found: _Found, engine: Engine) -> None:
    """One request of TOKENS tokens, told apart from other traffic where the engine can."""
    path, body = _request(found.documents, engine)
    if caller.left_s() < LEAST_S:
        found.request_failed = "there was no time left for a request"
        return
    try:
        answer = await caller.post(path, body, REQUEST_S)
    except FAILED as error:
        found.request_failed = f"POST {path}: {why(error)}"
        return
    found.request = _told(path, answer) if answer.status == 200 else None
    if answer.status != 200:
        found.request_failed = f"POST {path} answered {answer.status}"
    elif found.request is None:
        found.request_failed = f"POST {path} gave no count of tokens"


def _request(documents: dict[str, Any], engine: Engine) -> tuple[str, dict[str, Any]]:
    if engine is Engine.SGLANG:
        sampling = {"max_new_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
        return "/generate", {"text": PROMPT, "sampling_params": sampling}
    body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    model = first_of(mapped(documents.get(MODELS_PATH)).get("data")).get("id")
    return "/v1/completions", body | {"model": model}


def _told(path: str, answer: Answer) -> OwnRequest | None:
    """SGLang's meta_info and llama.cpp's timings speak of this request alone. A request's first
    token comes from its prefill, which verifies nothing."""
    said = mapped(answer.json)
    meta, timings = mapped(said.get("meta_info")), mapped(said.get("timings"))
    counts = (meta.get("completion_tokens"), mapped(said.get("usage")).get("completion_tokens"))
    tokens = next((count for each in counts if (count := number(each))), None)
    if tokens is None:
        return None
    steps, where = number(meta.get("spec_verify_ct")), f"POST {path} meta_info"
    if real(timings.get("draft_n")):
        steps = tokens - 1 - round(real(timings.get("draft_n_accepted")) or 0.0)
        where = f"POST {path} timings"
    accepted = None
    if steps is not None and steps > 0:
        accepted = Accepted(length=max(1.0, (tokens - 1) / steps), over=steps, where=where)
    return OwnRequest(
        tokens=tokens, took_s=answer.took_s, accepted=accepted, tells=bool(meta or timings)
    )


async def _addresses(url: str) -> frozenset[tuple[str, int]]:
    """Where the URL leads; empty where that cannot be found out."""
    host, port = address(url)
    try:
        async with asyncio.timeout(CONNECT_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, port)
    except (OSError, UnicodeError, TimeoutError):
        return frozenset()
    return frozenset((str(at[0]), port) for *_, at in found)
