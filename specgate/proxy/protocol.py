"""A client's connection: uvicorn's server hands it over, and we carry it ourselves.

Requests for engines go to `proxy.forward` as an `Exchange`, the gate's own paths to the FastAPI
application. The parser is llhttp (httptools), strict as it comes; `proxy.head` closes what it
leaves open. Pipelined requests are answered in order, one at a time.

The client's leaving is its FIN or RST. A half-close looks the same and is taken for it: nothing
tells the one from the other, and a stream that nobody reads costs a place on the GPU.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

import httptools

from specgate.core.errors import RequestRefused
from specgate.core.headers import Pairs
from specgate.proxy.app import is_own
from specgate.proxy.bridge import App, serve_asgi
from specgate.proxy.exchange import Exchange
from specgate.proxy.forward import Forwarder
from specgate.proxy.head import HEAD_LIMIT, framing_again, read_head
from specgate.proxy.limits import Deadline, Limits, peer_has_left

PIPELINE_MAX = 8
"""Requests that wait behind the one being answered; beyond it the client is not read."""

LINGER_S = 2.0
"""How long what a client still sends is read and dropped after an early answer: closing at once
would reset the connection, and take the answer with it."""

PAUSED_LOOK_S = 0.5
"""How often a connection that is not being read is asked whether its client is still there."""

_log = logging.getLogger("specgate.connection")


class ServerState(Protocol):
    """uvicorn's account of what is open; it waits for both sets to empty when it stops."""

    total_requests: int
    connections: set[Any]
    tasks: set[asyncio.Task[None]]


class GateProtocol(asyncio.Protocol):
    """`app`: the FastAPI application; `state`: what its lifespan made."""

    def __init__(
        self,
        *,
        app: App,
        forwarder: Forwarder,
        limits: Limits,
        server_state: ServerState,
        state: dict[str, Any],
    ) -> None:
        self._app = app
        self._forwarder = forwarder
        self._limits = limits
        self._server = server_state
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._deadline = Deadline(self._loop, self._expired)
        self._queue: deque[Exchange] = deque()
        self._current: Exchange | None = None
        self._incoming: Exchange | None = None
        self._upgraded: Exchange | None = None
        self._replaying = False
        self._target = b""
        self._headers: Pairs = []
        self._values: dict[bytes, bytes] = {}
        self._head_size = 0
        self._refused = False
        self._closing = False
        self._lost = False
        self._reading = True
        self._drained: asyncio.Future[None] | None = None
        self.blocked = False
        self.send: Callable[[bytes], None] = _nowhere

    # What the event loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.send = self._transport.write
        self._server.connections.add(self)
        self._deadline.within(self._limits.idle_s, "idle")

    def data_received(self, data: bytes) -> None:
        if self._closing or self._refused:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_after_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(RequestRefused(400, f"not HTTP: {error}", code="bad_http"))
        else:
            if self._incoming is None:
                self._head_size += len(data)
                if self._head_size > HEAD_LIMIT and self._headers:
                    self._refuse(_head_too_large())

    def eof_received(self) -> None:
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self.send = _nowhere
        self._server.connections.discard(self)
        self._deadline.cancel()
        self.resume_writing()
        self._leave()

    def pause_writing(self) -> None:
        self.blocked = True
        if self._drained is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        self.blocked = False
        if self._drained is not None:
            if not self._drained.done():
                self._drained.set_result(None)
            self._drained = None

    # What the parser says

    def on_message_begin(self) -> None:
        if self._replaying:
            return
        self._target = b""
        self._headers = []
        self._values = {}
        self._head_size = 0
        if self._current is None:
            self._deadline.within(self._limits.head_s, "head")

    def on_url(self, url: bytes) -> None:
        if not self._replaying:
            self._target += url
            self._head_size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come here too, after the head: they never act as headers, and end here.
        if self._incoming is None and not self._replaying:
            self._headers.append((name, value))
            self._values.setdefault(name.lower(), value)
            self._head_size += len(name) + len(value) + 4

    def on_headers_complete(self) -> None:
        if self._replaying:
            return
        parser = self._parser
        exchange = read_head(
            self,
            method=parser.get_method(),
            target=self._target,
            headers=self._headers,
            values=self._values,
            version=parser.get_http_version(),
            keep_alive=parser.should_keep_alive(),
        )
        if self._head_size > HEAD_LIMIT:
            exchange.refusal = exchange.refusal or _head_too_large()
        limit = self._limits.body_bytes
        if limit is not None and exchange.length is not None and exchange.length > limit:
            exchange.refusal = exchange.refusal or _body_too_large(limit)
        self._server.total_requests += 1
        self._incoming = exchange
        if parser.should_upgrade() and exchange.refusal is None:
            self._upgraded = exchange
        if exchange.length != 0:
            self._deadline.within(self._limits.body_s, "body")
        self._queue.append(exchange)
        self._next()
        if len(self._queue) >= PIPELINE_MAX:
            self._pause()

    def on_body(self, piece: bytes) -> None:
        exchange = self._incoming
        if exchange is None or exchange.finished:
            return
        limit = self._limits.body_bytes
        exchange.received += len(piece)
        if limit is not None and exchange.received > limit:
            exchange.fail(_body_too_large(limit))
            return
        if exchange.receive(piece):
            self._deadline.within(self._limits.body_s, "body")
        else:
            # Now the lane is the slow one, and the client is not to blame.
            self._deadline.clear()
            self._pause()

    def on_message_complete(self) -> None:
        if self._upgraded is not None and not self._replaying:
            return
        exchange, self._incoming = self._incoming, None
        self._upgraded, self._replaying = None, False
        self._head_size = 0
        self._headers = []
        self._deadline.clear()
        if exchange is not None:
            exchange.end_of_body()
            if exchange.finished and self._current is None:
                self._after(exchange)

    # What an exchange asks of its wire

    async def writable(self) -> None:
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def body_wanted(self) -> None:
        if not self._reading and len(self._queue) < PIPELINE_MAX:
            self._reading = True
            if not self._lost:
                self._transport.resume_reading()
                self._deadline.within(self._limits.body_s, "body")

    # One exchange after the other

    def _next(self) -> None:
        if self._current is not None or not self._queue or self._lost:
            return
        exchange = self._current = self._queue.popleft()
        if exchange.expects_continue:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        task = self._loop.create_task(self._run(exchange), name="request")
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    async def _run(self, exchange: Exchange) -> None:
        try:
            if exchange.refusal is not None:
                await self._forwarder.refuse(exchange, exchange.refusal)
            elif is_own(exchange.path):
                await self._serve_own(exchange)
            else:
                await self._forwarder.carry(exchange)
        except Exception:  # noqa: BLE001 - one request's error ends one request
            _log.exception("a request met an error of the gate's")
            if not exchange.started:
                await exchange.start(500, b"", [(b"content-length", b"0")])
                await exchange.finish([])
        finally:
            self._current = None
            self._after(exchange)

    async def _serve_own(self, exchange: Exchange) -> None:
        info = self._transport.get_extra_info
        client, server = info("peername"), info("sockname")
        await serve_asgi(
            self._app,
            exchange,
            client=client[:2] if client else None,
            server=server[:2] if server else None,
            scheme="https" if info("ssl_object") else "http",
            state=self._state,
        )

    def _after(self, exchange: Exchange) -> None:
        """The exchange is over: go on with the next, or end the connection as it deserves."""
        if self._lost or self._closing:
            return
        if not exchange.finished:
            self._cut(exchange)
        elif not exchange.keep_alive:
            if exchange.body_ended:
                self._close()
            else:
                self._linger()
        elif exchange.body_ended:
            self._next()
            if self._current is None:
                self._deadline.within(self._limits.idle_s, "idle")
            if not self._reading and len(self._queue) < PIPELINE_MAX:
                self._reading = True
                self._transport.resume_reading()

    def shutdown(self) -> None:
        """uvicorn stops: an idle connection ends now, a busy one with its response."""
        if self._current is None and not self._queue:
            self._transport.close()
            return
        for exchange in (self._current, *self._queue):
            if exchange is not None:
                exchange.keep_alive = False

    # Endings

    def _refuse(self, fault: RequestRefused) -> None:
        """What came cannot be read on: answer it in its turn, and end."""
        self._refused = True
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            # Its head was good and its body is not: the request is the one that is answered.
            incoming.fail(fault)
            return
        exchange = Exchange(
            self,
            method=b"",
            target=b"",
            path="",
            headers=[],
            values={},
            http10=False,
            keep_alive=False,
        )
        exchange.body_ended = True
        exchange.refusal = fault
        self._queue.append(exchange)
        self._next()

    def _expired(self, kind: str) -> None:
        if kind == "idle":
            self._close()
        elif kind == "head":
            self._refuse(RequestRefused(408, "the request's head took too long", code="slow_head"))
        elif self._incoming is not None:
            self._incoming.fail(
                RequestRefused(408, "the request's body took too long", code="slow_body")
            )

    def _cut(self, exchange: Exchange) -> None:
        """The response is not whole, and the client must be able to tell."""
        if exchange.until_close or self.blocked:
            # A FIN would look like the end; and what a client does not read cannot be flushed.
            self._reset()
        else:
            self._close()

    def _close(self) -> None:
        """Flush, then end; but wait for a client that does not read no longer than for a stream."""
        self._closing = True
        self._transport.close()
        if self._limits.flush_s is not None:
            self._loop.call_later(self._limits.flush_s, self._abort)

    def _linger(self) -> None:
        self._closing = True
        self._resume()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._loop.call_later(LINGER_S, self._abort)

    def _reset(self) -> None:
        sock: socket.socket | None = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._closing = True
        self._transport.abort()

    def _abort(self) -> None:
        if not self._lost:
            self._transport.abort()

    def _leave(self) -> None:
        """The client is gone: whoever works for it is told."""
        for exchange in (self._current, *self._queue):
            if exchange is not None:
                exchange.left()
        self._queue.clear()

    # Reading and not reading

    def _pause(self) -> None:
        if self._reading and not self._lost:
            self._reading = False
            self._transport.pause_reading()
            self._loop.call_later(PAUSED_LOOK_S, self._look)

    def _resume(self) -> None:
        if not self._reading and not self._lost:
            self._reading = True
            self._transport.resume_reading()

    def _look(self) -> None:
        if self._reading or self._lost:
            return
        if peer_has_left(self._transport.get_extra_info("socket")):
            self._transport.abort()
        else:
            self._loop.call_later(PAUSED_LOOK_S, self._look)

    def _go_on_after_upgrade(self, rest: bytes) -> None:
        """An upgrade that we do not make leaves the parser blind to the body: a new one takes the
        rest, told how it is framed."""
        exchange = self._upgraded
        if exchange is None:
            return
        self._parser = httptools.HttpRequestParser(self)
        self._replaying = True
        self._parser.feed_data(framing_again(exchange))
        if rest:
            self.data_received(rest)


def _nowhere(data: bytes) -> None:
    """What is sent to a client that is gone."""


def _head_too_large() -> RequestRefused:
    return RequestRefused(
        431, f"the request's head is larger than {HEAD_LIMIT} bytes", code="head_too_large"
    )


def _body_too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        413, f"the request's body is larger than {limit} bytes", code="body_too_large"
    )
