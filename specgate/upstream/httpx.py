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
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import httpx2

from specgate.core.errors import ConnectFailed, FailureKind, NoAnswer, StreamBroken
from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin, Request, Sink
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
            response = await self._transport.handle_async_request(outgoing)
        except _UNREACHED as error:
            raise ConnectFailed(_said(error), lane=origin.lane) from error
        except httpx2.TransportError as error:
            raise NoAnswer(_said(error), lane=origin.lane) from error
        return HttpxResponse(response, origin.lane)

    async def aclose(self) -> None:
        await self._transport.aclose()


class HttpxResponse:
    """One response; see `upstream.base.Response`. httpx2 keeps no trailers."""

    __slots__ = ("_response", "headers", "lane", "reason", "status", "trailers")

    def __init__(self, response: httpx2.Response, lane: Lane) -> None:
        self._response = response
        self.lane = lane
        self.status = response.status_code
        self.reason: bytes = response.extensions.get("reason_phrase", b"")
        self.headers: Pairs = list(response.headers.raw)
        self.trailers: Pairs = []

    async def deliver(self, sink: Sink, idle_s: float | None) -> None:
        stream = self._response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        try:
            async with aclosing(_pieces(stream)) as pieces:
                while (piece := await self._next(pieces, idle_s)) is not None:
                    if sink.write(piece):
                        await sink.drain()
        except httpx2.TransportError as error:
            raise StreamBroken(_said(error), lane=self.lane) from error

    async def _next(
        self, pieces: AsyncGenerator[bytes, None], idle_s: float | None
    ) -> bytes | None:
        limit = asyncio.timeout(idle_s)
        try:
            async with limit:
                return await anext(pieces, None)
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"the {self.lane} lane sent nothing for {idle_s:g} s"
            raise StreamBroken(message, lane=self.lane, kind=FailureKind.IDLE_TIMEOUT) from None

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        except httpx2.TransportError:
            # The connection is gone, which is all that closing it wants.
            return


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


def _said(error: Exception) -> str:
    """The library's own words; they name no header and no body."""
    return str(error) or type(error).__name__
