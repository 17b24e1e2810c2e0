"""A client's connection: uvicorn's server hands it over, and we carry it ourselves.

`proxy.messages` reads it. Requests for engines go to `proxy.forward` as an `Exchange`, the gate's
own paths to the FastAPI application. Pipelined requests are answered in order, one at a time.

The client's leaving is its FIN or RST. A half-close looks the same and is taken for it: nothing
tells the one from the other, and a stream that nobody reads costs a place on the GPU.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from specgate.core.errors import ClientStalled, Fault, RequestRefused
from specgate.proxy.app import Carrier, is_own
from specgate.proxy.bridge import App, serve_asgi
from specgate.proxy.ending import Ending
from specgate.proxy.exchange import Exchange
from specgate.proxy.inflow import Inflow
from specgate.proxy.keys import Keyring
from specgate.proxy.limits import Deadline, Limits
from specgate.proxy.messages import Messages
from specgate.proxy.watch import within

PIPELINE_MAX = 8
"""Requests that wait behind the one being answered; beyond it the client is not read."""

PIPELINE_LIMIT = 1000
"""What one read may hold all the same: the smallest requests cost 25 times their size in memory."""

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
        forwarder: Carrier,
        keyring: Keyring,
        limits: Limits,
        server_state: ServerState,
        state: dict[str, Any],
    ) -> None:
        self._app = app
        self._forwarder = forwarder
        self._keyring = keyring
        self._limits = limits
        self._server = server_state
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._messages = Messages(self)
        self._deadline = Deadline(self._loop, self._expired)
        self._queue: deque[Exchange] = deque()
        self._current: Exchange | None = None
        self._worker: asyncio.Task[None] | None = None
        self._resting: asyncio.Future[None] | None = None
        self._refused = False
        self._gone = False
        self._drained: asyncio.Future[None] | None = None
        self.blocked = False
        self.send: Callable[[bytes], None] = _nowhere

    # What the event loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ending = Ending(self._loop, self._transport, self._limits.flush_s)
        self._inflow = Inflow(self._loop, self._transport, self._ending)
        self.send = self._transport.write
        self._server.connections.add(self)
        self._await_client()

    def data_received(self, data: bytes) -> None:
        if self._ending.begun:
            self._ending.heard()
        elif not self._refused:
            try:
                self._messages.feed(data)
            except RequestRefused as fault:
                self._refuse(fault)
            self._await_client()

    def eof_received(self) -> bool:
        if self._current is None:
            self._ending.close()
        else:
            # Ended in `_after`, once whoever works for it has let go.
            self._leave()
        # Only TCP can stay open in one direction; TLS closes by itself.
        return self._transport.get_extra_info("ssl_object") is None

    def connection_lost(self, error: Exception | None) -> None:
        self.send = _nowhere
        self._server.connections.discard(self)
        self._deadline.cancel()
        self._ending.over()
        self._leave()
        self._rouse()

    def pause_writing(self) -> None:
        self.blocked = True
        if self._drained is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        self.blocked = False
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    # What its messages say

    def head_came(self, exchange: Exchange) -> None:
        self._server.total_requests += 1
        limit = self._limits.body_bytes
        if limit is not None and exchange.length is not None and exchange.length > limit:
            exchange.fail(_body_too_large(limit))
        # Before `100 Continue`, and before anything of the body is kept.
        if self._keyring.keys is not None and not is_own(exchange.path):
            self._check_key(exchange)
        self._queue.append(exchange)
        if self._deadline.kind == "head":
            self._deadline.clear()
        if self._current is None:
            self._next()
        if len(self._queue) >= PIPELINE_MAX:
            self._pause()
            if len(self._queue) >= PIPELINE_LIMIT:
                raise RequestRefused(400, "too many requests at once", code="bad_http")

    def _check_key(self, exchange: Exchange) -> None:
        if (fault := self._keyring.refusal(exchange)) is not None:
            exchange.fail(fault)

    def body_came(self, exchange: Exchange, piece: bytes) -> None:
        if exchange.finished:
            return
        limit = self._limits.body_bytes
        exchange.received += len(piece)
        if limit is not None and exchange.received > limit:
            exchange.fail(_body_too_large(limit))
        elif not exchange.receive(piece):
            # Now the lane is the slow one, and the client is not to blame.
            self._pause()

    def body_ended(self, exchange: Exchange) -> None:
        exchange.end_of_body()

    # What an exchange asks of its wire

    async def writable(self) -> None:
        if self._drained is not None and not self._gone:
            await asyncio.shield(self._drained)

    def body_wanted(self) -> None:
        self._resume()

    # One exchange after the other

    def _next(self) -> None:
        exchange = self._current = self._queue.popleft()
        if exchange.expects_continue:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._worker is None or self._worker.done():
            self._worker = self._loop.create_task(self._work(), name="connection")
        else:
            self._rouse()

    async def _work(self) -> None:
        """Its exchanges, one after the other. One task for all of a connection's: one for each took
        4 % of a request, since asyncio keeps a weak set of all tasks, in Python."""
        task = asyncio.current_task()
        assert task is not None
        while True:
            if (exchange := self._current) is not None:
                self._server.tasks.add(task)
                try:
                    await self._run(exchange)
                finally:
                    self._server.tasks.discard(task)
            elif self._ending.begun:
                return
            else:
                self._resting = self._loop.create_future()
                await self._resting

    def _rouse(self) -> None:
        resting, self._resting = self._resting, None
        if resting is not None and not resting.done():
            resting.set_result(None)

    async def _run(self, exchange: Exchange) -> None:
        try:
            if self.blocked:
                # Responses that nobody reads must not pile up behind each other.
                await within(self._limits.flush_s, self.writable(), _unread)
            if exchange.refusal is not None:
                await self._forwarder.refuse(exchange, exchange.refusal)
            elif is_own(exchange.path):
                await self._serve_own(exchange)
            else:
                await self._forwarder.carry(exchange)
        except ClientStalled:
            pass  # cut in `_after`
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
        try:
            await serve_asgi(
                self._app,
                exchange,
                client=client[:2] if client else None,
                server=server[:2] if server else None,
                scheme="https" if info("ssl_object") else "http",
                state=self._state,
                send_s=self._limits.flush_s,
            )
        except RequestRefused as fault:
            # Its body broke off.
            await self._forwarder.refuse(exchange, fault)

    def _after(self, exchange: Exchange) -> None:
        """The exchange is over: go on with the next, or end the connection as it deserves."""
        if self._ending.begun:
            return
        if not exchange.finished:
            self._cut(exchange)
        elif exchange.keep_alive:
            if self._queue:
                self._next()
            self._resume()
            self._await_client()
        elif exchange.body_ended and exchange.refusal is None:
            self._ending.close()
        else:
            self._ending.linger()

    def _cut(self, exchange: Exchange) -> None:
        """The response is not whole, and the client must be able to tell."""
        exchange.flush()
        if exchange.until_close or self.blocked:
            # A FIN would look like the end; and what a client does not read cannot be flushed.
            self._ending.reset()
        else:
            self._ending.close()

    def _refuse(self, fault: RequestRefused) -> None:
        """What came cannot be read on: answer it in its turn, and end."""
        self._refused = True
        if self._messages.incoming is not None:
            # Its head was good and its body is not: the request is the one that is answered.
            self._messages.incoming.fail(fault)
            return
        self._queue.append(Exchange.unread(self, fault))
        if self._current is None:
            self._next()

    def _leave(self) -> None:
        """The client is gone: whoever works for it is told."""
        self._gone = True
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
        for exchange in (self._current, *self._queue):
            if exchange is not None:
                exchange.left()
        self._queue.clear()

    def shutdown(self) -> None:
        """uvicorn stops: an idle connection ends now, a busy one with its response."""
        if self._current is None:
            self._ending.close()
            return
        for exchange in (self._current, *self._queue):
            exchange.keep_alive = False

    def cut_short(self, fault: Fault) -> None:
        """What is answered on it ends now, with this fault; what waits behind it is not begun."""
        self._queue.clear()
        if self._current is not None:
            self._current.cut_short(fault)

    # Waiting for the client

    def _await_client(self) -> None:
        """What it is to do next, and by when."""
        messages, deadline, limits = self._messages, self._deadline, self._limits
        if self._refused or not self._inflow.reading:
            deadline.clear()
        elif messages.in_head:
            if deadline.kind != "head":
                deadline.within(limits.head_s, "head")
        elif messages.incoming is not None:
            # One that waits for its turn, and for `100 Continue` then, is not to blame either.
            if messages.incoming is self._current or not messages.incoming.expects_continue:
                deadline.within(limits.body_s, "body")
        elif self._current is None:
            deadline.within(limits.idle_s, "idle")
        else:
            deadline.clear()

    def _expired(self, kind: str) -> None:
        incoming = self._messages.incoming
        if kind == "idle":
            self._ending.close()
        elif kind == "head":
            self._refuse(RequestRefused(408, "the request's head took too long", code="slow_head"))
        elif incoming is not None:
            incoming.fail(RequestRefused(408, "the request's body took too long", code="slow_body"))

    def _pause(self) -> None:
        if self._inflow.reading:
            self._inflow.pause()
            self._deadline.clear()

    def _resume(self) -> None:
        paused = not self._inflow.reading and not self._ending.begun
        if paused and len(self._queue) < PIPELINE_MAX:
            self._inflow.resume()
            self._await_client()


def _nowhere(data: bytes) -> None:
    """What is sent to a client that is gone."""


def _unread() -> ClientStalled:
    return ClientStalled("the client does not read what it asked for before")


def _body_too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        413, f"the request's body is larger than {limit} bytes", code="body_too_large"
    )
