"""The gate's own upstream: connections to lanes, kept for reuse.

Last in, first out: the warmest connection is used again and the others age out. No ceiling: every
stream in flight has its connection, and a pool that made one wait would add to the load unseen.
A connection rests for less than the 5 s after which SGLang, vLLM and llama.cpp close it themselves;
one that they closed all the same, just as it was used again, is replaced without a word, provided
that not one byte of a response came, that it died at once, and that the request can be sent again.

What is certain of a connection that died: that part of the request never left, or that a FIN left
part of it unacknowledged. Then the request was not worked on, and another lane may have it. An end
of a reused one that is not certain is nearly always its age; that is tried once more at the same
lane, and nowhere else: one that takes no connection any more has died, perhaps of the request.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from specgate.core.errors import ConnectFailed, LaneFault, NoAnswer, Unsent
from specgate.core.headers import Pairs
from specgate.upstream.base import Origin, Peeked, Request, Sink
from specgate.upstream.connecting import connect
from specgate.upstream.connection import Connection, DiedUnused

IDLE_S = 4.0
"""How long a connection may rest."""

SWEEP_S = 1.0
"""How often resting ones are looked at: none is open for longer than IDLE_S + SWEEP_S = 5 s."""

RETRY_WITHIN_S = 1.0
"""A reused connection that dies later than this died of something else than its age: the engine
had the request, may have worked on it, and it is not sent again."""


class PooledUpstream:
    """`connect_timeout_s`: for a lane to accept a connection, TLS included. `tls`: for https."""

    def __init__(self, *, connect_timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self._idle: dict[str, list[Connection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, origin: Origin, request: Request) -> "PooledResponse":
        """See `upstream.base.Upstream`."""
        loop = asyncio.get_running_loop()
        reused = self._take(origin)
        perhaps = ""
        """What became of a reused one that may have been heard."""
        if reused is not None:
            asked_at = loop.time()
            try:
                return await self._exchange(origin, reused, request)
            except DiedUnused as died:
                soon = loop.time() - asked_at < RETRY_WITHIN_S
                if request.rest is not None or not (died.unsent or soon):
                    raise _died(died, request, origin) from died
                perhaps = "" if died.unsent else str(died)
        try:
            fresh = await self._connect(origin)
        except ConnectFailed:
            if perhaps:
                raise NoAnswer(perhaps, lane=origin.lane, unheard=True) from None
            raise
        try:
            return await self._exchange(origin, fresh, request)
        except DiedUnused as died:
            if perhaps:
                raise NoAnswer(perhaps, lane=origin.lane, unheard=True) from died
            raise _died(died, request, origin) from died

    async def _exchange(
        self, origin: Origin, connection: Connection, request: Request
    ) -> "PooledResponse":
        upload: asyncio.Task[bool] | None = None
        try:
            head = connection.ask(request)
            if request.rest is not None:
                sending = connection.upload(request)
                upload = asyncio.get_running_loop().create_task(sending, name="upload")
                await _either(head, upload)
            await head
        except BaseException:
            connection.abort()
            _sent(upload)
            raise
        return PooledResponse(self, origin, connection, upload)

    async def aclose(self) -> None:
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    # Connections

    def _take(self, origin: Origin) -> Connection | None:
        idle = self._idle.get(origin.url)
        if not idle:
            return None
        oldest = asyncio.get_running_loop().time() - IDLE_S
        while idle:
            connection = idle.pop()
            if connection.closed:
                continue
            if connection.idle_since is None or connection.idle_since < oldest or connection.spoken:
                connection.abort()
                continue
            # Both lanes may be at one URL.
            connection.lane = origin.lane
            return connection
        return None

    def give_back(self, origin: Origin, connection: Connection) -> None:
        """Keep a connection for the next request to this origin."""
        if self._closed:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(origin.url, []).append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_S
        for url, connections in list(self._idle.items()):
            kept = []
            for connection in connections:
                if connection.idle_since is not None and connection.idle_since > oldest:
                    kept.append(connection)
                else:
                    connection.idle_since = None
                    connection.abort()
            if kept:
                self._idle[url] = kept
            else:
                del self._idle[url]
        self._sweeper = loop.call_later(SWEEP_S, self._sweep) if self._idle else None

    async def _connect(self, origin: Origin) -> Connection:
        return await connect(origin, self._connect_timeout_s, self._tls, self._forget)

    def _forget(self, connection: Connection) -> None:
        """An idle connection ended: `_take` passes over it and the sweep drops it."""
        connection.idle_since = None


class PooledResponse:
    """One response; see `upstream.base.Response`. Its connection goes back when all of it came."""

    __slots__ = (
        "_connection",
        "_origin",
        "_pool",
        "_upload",
        "headers",
        "lane",
        "reason",
        "status",
        "trailers",
    )

    def __init__(
        self,
        pool: PooledUpstream,
        origin: Origin,
        connection: Connection,
        upload: asyncio.Task[bool] | None,
    ) -> None:
        self._pool = pool
        self._origin = origin
        self._connection: Connection | None = connection
        self._upload = upload
        self.lane = origin.lane
        self.status = connection.status
        self.reason = connection.reason
        self.headers = connection.headers
        self.trailers: Pairs = []

    async def peek(self, undecided: Callable[[bytes], bool], within_s: float) -> Peeked:
        assert self._connection is not None
        return await self._connection.peek(undecided, within_s)

    async def deliver(self, sink: Sink, idle_s: float | None) -> None:
        assert self._connection is not None
        await self._connection.deliver(sink, idle_s)
        self.trailers = self._connection.trailers

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # First, and always: an upload that goes on has to end here, whatever becomes of the rest.
        sent = self._upload is None or _sent(self._upload)
        if sent and connection.reusable:
            self._pool.give_back(self._origin, connection)
        else:
            connection.abort()


def _died(died: DiedUnused, request: Request, origin: Origin) -> LaneFault:
    """The fault of a request whose connection ended before a byte of an answer."""
    if died.unsent and request.rest is None:
        return Unsent(str(died), lane=origin.lane)
    return NoAnswer(str(died), lane=origin.lane, unheard=True)


def _sent(upload: asyncio.Task[bool] | None) -> bool:
    """Whether a request was sent whole. One whose answer came first is not: what is left of it has
    no reader any more, and its sending ends here."""
    if upload is None:
        return True
    if not upload.done():
        upload.cancel()
        return False
    return not upload.cancelled() and upload.exception() is None and upload.result()


async def _either(head: asyncio.Future[None], upload: asyncio.Task[bool]) -> None:
    """Wait while a body is sent: an engine may answer before it has read all of it, and a client
    that leaves in mid-upload ends the exchange."""
    both: set[asyncio.Future[Any]] = {head, upload}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if upload.done() and not head.done():
        upload.result()
