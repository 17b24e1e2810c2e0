"""Active health checks: ask each lane whether it is ready.

A status is a definite answer: 5xx means not ready, all else means that a server is there (401 too:
the clients may bring their own keys). No answer in time is slowness and no verdict. SGLang's
/health is never asked: it generates a token, takes a second when idle, and fails when the engine is
busy.

Asked is /ready; where there is none, /v1/models, and, of a server that names no engine, whether it
is a balancer that tells at /readiness if it has an engine left.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable

import httpx2

from specgate.control.gate import Gate
from specgate.control.lane_client import lane_client
from specgate.core.events import Observer, Probed
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.engines.base import (
    MODELS_PATH,
    READINESS_PATH,
    READY_PATH,
    Engine,
    engine_of,
    tells_readiness,
)
from specgate.upstream.base import Origin
from specgate.upstream.descriptors import is_ours
from specgate.upstream.stalls import Stalls

PROBE_TIMEOUT_S = 5.0
"""SGLang's /ready took 4 ms; an engine that needs seconds for it is busy: no verdict."""


PROBE_CONNECT_S = 2.0
"""A kernel takes a connection at once, however busy its engine is."""

STALL_S = PROBE_CONNECT_S / 4
"""A connection that was late is no verdict if the event loop stood still for so long meanwhile: it
may have been there, and nobody looked."""

READ_MOST = 256 * 1024
"""Bytes of an answer that are looked at; a list of models has a few hundred. It is decoded in the
event loop: one of 50 MB took it for half a minute."""

WRONG_KEY = ", to the key that the gate has for it"


class Prober:
    """Probes one lane a turn; reports to the gate. `clock`: monotonic seconds."""

    def __init__(
        self,
        *,
        gate: Gate,
        client: httpx2.AsyncClient,
        observe: Observer,
        clock: Callable[[], float],
    ) -> None:
        self._gate = gate
        self._client = client
        self._observe = observe
        self._clock = clock
        # Which path an origin without /ready is asked at, None: that is to be found out.
        self._path: dict[Lane, tuple[Origin, str | None]] = {}
        self._named: dict[Lane, Origin] = {}

    async def probe(self, lane: Lane) -> None:
        """One check, whatever comes of it; raises nothing that a network can cause. A lane that
        sleeps is left alone: what it says then is of no use."""
        if self._gate.lanes[lane].asleep:
            return
        origin = self._gate.origin(lane)
        started = self._clock()
        stalls = Stalls(STALL_S / 2)
        try:
            with stalls:
                sign, why = await self._ask(origin)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            sign, why = Sign.UNREACHED, str(error) or type(error).__name__
            if isinstance(error, httpx2.ConnectTimeout) and stalls.longest_s >= STALL_S:
                sign, why = Sign.SLOW, f"the gate stood still for {stalls.longest_s:.1f} s"
            elif is_ours(error):
                sign, why = Sign.SLOW, "the gate is short of files or memory"
        except (httpx2.TimeoutException, TimeoutError):
            sign, why = Sign.SLOW, f"no answer within {PROBE_TIMEOUT_S:g} s"
        except httpx2.HTTPError as error:
            # It took a connection and then broke it or spoke no HTTP: something is there, but
            # not an engine that is ready.
            sign, why = Sign.NOT_READY, str(error) or type(error).__name__
        self._observe(Probed(lane=lane, sign=sign, took_s=self._clock() - started))
        self._gate.saw(origin, sign, why)

    async def _ask(self, origin: Origin) -> tuple[Sign, str]:
        known, path = self._path.get(origin.lane, (origin, READY_PATH))
        if known != origin:
            path = READY_PATH
        if path == READY_PATH:
            status = (await self._get(origin, READY_PATH)).status_code
            if status != 404:
                return await self._named_too(origin, status)
            path = None
        elif path == READINESS_PATH:
            response = await self._get(origin, READINESS_PATH)
            if tells_readiness(response.status_code, response.content):
                return _verdict(response.status_code, READINESS_PATH)
            path = None
        found = await self._name(origin)
        if path is None:
            path, found = await self._readiness(origin, found)
            self._path[origin.lane] = origin, path
        return found

    async def _readiness(
        self, origin: Origin, models: tuple[Sign, str]
    ) -> tuple[str | None, tuple[Sign, str]]:
        """Of what is not SGLang: at which path it is to be asked from now on, None if that is not
        known yet, and the verdict. models: that of its models."""
        sign, why = models
        if sign is Sign.NOT_READY:
            return None, models
        if self._gate.engine(origin.lane) is not Engine.UNKNOWN:
            return MODELS_PATH, models
        try:
            response = await self._get(origin, READINESS_PATH)
        except (httpx2.HTTPError, TimeoutError):
            return None, models
        status = response.status_code
        if not tells_readiness(status, response.content):
            return (MODELS_PATH if status < 500 else None), models
        found = _verdict(status, READINESS_PATH)
        keep = found[0] is Sign.READY and why.endswith(WRONG_KEY)
        return READINESS_PATH, models if keep else found

    async def _named_too(self, origin: Origin, status: int) -> tuple[Sign, str]:
        """The verdict of a status at /ready; if it is ready, its engine is named, once."""
        sign, why = _verdict(status, READY_PATH)
        if sign is Sign.READY and self._named.get(origin.lane) != origin:
            # A lane that is ready stays so, whatever comes of asking for its name.
            with contextlib.suppress(httpx2.HTTPError, TimeoutError):
                _, named = await self._name(origin)
                why = named if named.endswith(WRONG_KEY) else why
        return sign, why

    async def _name(self, origin: Origin) -> tuple[Sign, str]:
        """Ask for the models, which name the engine."""
        response = await self._get(origin, MODELS_PATH)
        if response.is_success:
            try:
                engine = engine_of(response.json())
            except (ValueError, RecursionError):
                engine = Engine.UNKNOWN
            self._gate.name_engine(origin, engine)
            self._named[origin.lane] = origin
        sign, why = _verdict(response.status_code, MODELS_PATH)
        if origin.authorization and response.status_code in (401, 403):
            # No verdict on the lane, as it serves; but then not with this key.
            why += WRONG_KEY
        return sign, why

    async def _get(self, origin: Origin, path: str) -> httpx2.Response:
        # One limit for the whole exchange: httpx2's is per read, and a body may never end.
        asking = self._client.stream("GET", origin.url + path, headers=origin.credentials)
        async with asyncio.timeout(PROBE_TIMEOUT_S), asking as response:
            read = bytearray()
            async for part in response.aiter_bytes():
                read += part
                if len(read) > READ_MOST:
                    # The status is the answer; what was begun names no engine.
                    break
        return httpx2.Response(response.status_code, content=bytes(read[:READ_MOST]))


def _verdict(status: int, path: str) -> tuple[Sign, str]:
    sign = Sign.NOT_READY if status >= 500 else Sign.READY
    return sign, f"{path} answered {status}"


def probe_client(tls: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    """The client for probes. Connecting ends first: a host that takes no connection is unreached,
    and not just slow."""
    return lane_client(httpx2.Timeout(PROBE_TIMEOUT_S, connect=PROBE_CONNECT_S), tls)
