"""The portable upstream, on httpx2's transport.

The transport and not the client: a client would follow redirects, keep cookies, decode bodies,
add headers of its own and read proxies from the environment. None of httpx2's limits is left on:
its default pool of 100 connections would queue streams, and its 5 s read time-out would cut
prefills.

One request a connection. httpcore2 reads what an engine sends beyond a response's end as the
answer to the next request on that connection, which may be another client's, and cannot be told
not to. Its other limits stand in docs/reference/portable-form.md.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

import httpx2

from specgate.core.errors import ConnectFailed, FailureKind, NoAnswer, StreamBroken
from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.upstream.base import PEEK_LIMIT, Origin, Peeked, Request, Sink
from specgate.upstream.stalls import PARTS, Stalls
from specgate.upstream.tcp import KEEP_ALIVE

_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class HttpxUpstream:
    """`connect_timeout_s`: for a lane to accept a connection. `tls`: for https lanes."""

    def __init__(self, *, connect_timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        self._timeouts = {
            "connect": connect_timeout_s,
            "read": None,
            "write": None,
            "pool": None,
        }
        self._transport = httpx2.AsyncHTTPTransport(
            trust_env=False,
            # Without https lanes nothing is verified, and no store of authorities is loaded.
            verify=tls if tls is not None else False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            socket_options=KEEP_ALIVE,
        )

    async def send(self, origin: Origin, request: Request) -> "HttpxResponse":
        outgoing = httpx2.Request(
            request.method.decode("ascii"),
            f"{origin.scheme}://{origin.authority.decode('ascii')}/",
            headers=request.headers,
            stream=_Body(request),
            extensions={"timeout": self._timeouts, "target": request.target},
        )
        try:
            response = await self._connected(outgoing)
        except _UNREACHED as error:
            raise ConnectFailed(_said(error), lane=origin.lane) from error
        except httpx2.TransportError as error:
            raise NoAnswer(_said(error), lane=origin.lane, unheard=_is_end(error)) from error
        return HttpxResponse(response, origin.lane)

    async def _connected(self, outgoing: httpx2.Request) -> httpx2.Response:
        """The answer; a connection that came too late for a loop that stood still is made anew, as
        nothing of the request was sent."""
        limit_s = self._timeouts["connect"]
        assert limit_s is not None
        every_s = limit_s / PARTS
        stalls = Stalls(every_s)
        try:
            with stalls:
                return await self._transport.handle_async_request(outgoing)
        except httpx2.ConnectTimeout:
            if stalls.longest_s < every_s / 2:
                raise
        return await self._transport.handle_async_request(outgoing)

    async def aclose(self) -> None:
        await self._transport.aclose()


class HttpxResponse:
    """One response; see `upstream.base.Response`. httpx2 keeps no trailers."""

    __slots__ = (
        "_ahead",
        "_broken",
        "_pieces",
        "_response",
        "headers",
        "lane",
        "reason",
        "status",
        "trailers",
    )

    def __init__(self, response: httpx2.Response, lane: Lane) -> None:
        self._response = response
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._pieces = _pieces(stream)
        self._ahead = _Ahead(self._pieces)
        self._broken: StreamBroken | None = None
        self.lane = lane
        self.status = response.status_code
        self.reason: bytes = response.extensions.get("reason_phrase", b"")
        self.headers: Pairs = list(response.headers.raw)
        self.trailers: Pairs = []

    async def peek(self, undecided: Callable[[bytes], bool], within_s: float) -> Peeked:
        deadline = asyncio.get_running_loop().time() + within_s
        ahead = self._ahead
        try:
            while not ahead.complete and len(ahead.body) < PEEK_LIMIT and undecided(ahead.body):
                if not await ahead.read(deadline):
                    break
        except httpx2.TransportError as error:
            self._broken = StreamBroken(_said(error), lane=self.lane)
            if not ahead.body:
                raise self._broken from error
        return Peeked(ahead.body, ahead.complete)

    async def deliver(self, sink: Sink, idle_s: float | None) -> None:
        try:
            async with aclosing(self._pieces):
                if self._ahead.body and sink.write(self._ahead.body):
                    await sink.drain()
                if self._broken is not None:
                    raise self._broken
                while (piece := await self._next(idle_s)) is not None:
                    if sink.write(piece):
                        await sink.drain()
        except httpx2.TransportError as error:
            raise StreamBroken(_said(error), lane=self.lane) from error

    async def _next(self, idle_s: float | None) -> bytes | None:
        limit = asyncio.timeout(idle_s)
        try:
            async with limit:
                reading, self._ahead.reading = self._ahead.reading, None
                return await (reading or anext(self._pieces, None))
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"the {self.lane} lane sent nothing for {idle_s:g} s"
            raise StreamBroken(message, lane=self.lane, kind=FailureKind.IDLE_TIMEOUT) from None

    async def aclose(self) -> None:
        await self._ahead.aclose()
        try:
            await self._pieces.aclose()
            await self._response.aclose()
        except httpx2.TransportError:
            # The connection is gone, which is all that closing it wants.
            return


class _Ahead:
    """The beginning of a body, read in a task of its own: what reading is given up within is lost,
    and a look may be over before the next piece comes. `reading`: one that is under way."""

    __slots__ = ("_pieces", "body", "complete", "reading")

    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        self._pieces = pieces
        self.body = b""
        self.complete = False
        self.reading: asyncio.Task[bytes | None] | None = None

    async def read(self, deadline: float) -> bool:
        """Take in one piece more, or the end; False if neither came in time."""
        loop = asyncio.get_running_loop()
        if self.reading is None:
            self.reading = loop.create_task(_next_of(self._pieces), name="ahead")
        await asyncio.wait({self.reading}, timeout=max(0.0, deadline - loop.time()))
        if not self.reading.done():
            return False
        done, self.reading = self.reading, None
        piece = done.result()
        self.body += piece or b""
        self.complete = piece is None
        return True

    async def aclose(self) -> None:
        reading, self.reading = self.reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})
            if not reading.cancelled():
                reading.exception()  # looked at: nobody waits for it any more


async def _next_of(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(pieces, None)


async def _pieces(stream: httpx2.AsyncByteStream) -> AsyncGenerator[bytes, None]:
    async for piece in stream:
        yield piece


class _Body(httpx2.AsyncByteStream):
    def __init__(self, request: Request) -> None:
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._request.pieces:
            yield piece
        if self._request.rest is not None:
            async for piece in self._request.rest:
                yield piece


def _is_end(error: httpx2.TransportError) -> bool:
    """Whether the connection ended; whether a byte of a head had come, the library does not say."""
    ended = isinstance(error, httpx2.NetworkError)
    return ended or "disconnected without sending" in str(error)


def _said(error: Exception) -> str:
    """The library's own words; they name no header and no body."""
    return str(error) or type(error).__name__
