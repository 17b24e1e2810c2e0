"""The portable upstream, on httpx2's transport.

The transport and not the client: a client would follow redirects, keep cookies, decode bodies,
add headers of its own and read proxies from the environment. None of httpx2's limits is left on:
its default pool of 100 connections would queue streams, and its 5 s read time-out would cut
prefills.
"""

from collections.abc import AsyncGenerator, AsyncIterator

import httpx2

from specgate.core.errors import ConnectFailed, NoAnswer, StreamBroken
from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin, Request

KEEPALIVE_EXPIRY_S = 4.0
"""Below the 5 s after which SGLang, vLLM and llama.cpp close an idle connection themselves."""

_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class HttpxUpstream:
    """`connect_timeout_s`: for a lane to accept a connection."""

    def __init__(self, *, connect_timeout_s: float) -> None:
        self._timeouts = {
            "connect": connect_timeout_s,
            "read": None,
            "write": None,
            "pool": None,
        }
        self._transport = httpx2.AsyncHTTPTransport(
            trust_env=False,
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=None,
                keepalive_expiry=KEEPALIVE_EXPIRY_S,
            ),
        )

    async def send(self, origin: Origin, request: Request) -> "HttpxResponse":
        outgoing = httpx2.Request(
            request.method.decode("ascii"),
            f"{origin.scheme}://{origin.authority.decode('ascii')}/",
            headers=request.headers,
            stream=_Body(request.body),
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
    """One response; see `upstream.base.Response`."""

    __slots__ = ("_response", "headers", "lane", "status")

    def __init__(self, response: httpx2.Response, lane: Lane) -> None:
        self._response = response
        self.lane = lane
        self.status = response.status_code
        self.headers: Pairs = list(response.headers.raw)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        stream = self._response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        try:
            async for chunk in stream:
                yield chunk
        except httpx2.TransportError as error:
            raise StreamBroken(_said(error), lane=self.lane) from error

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        except httpx2.TransportError:
            # The connection is gone, which is all that closing it wants.
            return


class _Body(httpx2.AsyncByteStream):
    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            yield chunk


def _said(error: Exception) -> str:
    """The library's own words; they name no header and no body."""
    return str(error) or type(error).__name__
