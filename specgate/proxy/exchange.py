"""One request and its response on a client's connection: `proxy.downstream.Downstream`, our own.

It keeps what ASGI loses: the target's bytes, the case and order of header names, the engine's
reason phrase, trailers, HTTP/1.0. Framing of the response is decided here, from its head:

- no body for HEAD, 204 and 304, whatever their head says of a length;
- a length, if the engine gave one;
- else chunks, or for an HTTP/1.0 client the end of the connection.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol

from specgate.core.errors import ClientGone, Fault, RequestRefused
from specgate.core.headers import Pairs, body_length, value_of

BODY_HIGH = 64 * 1024
"""Bytes of a request's body that wait for the lane; beyond it the client is not read."""

_PHRASES = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}


class Wire(Protocol):
    """What an exchange needs of its connection."""

    blocked: bool
    """The client does not read: the write buffer is over its high-water mark."""
    send: Callable[[bytes], None]
    """Write to the client; harmless once it is gone."""

    async def writable(self) -> None:
        """Returns when the write buffer is low again, or the connection is gone."""
        ...

    def body_wanted(self) -> None:
        """The exchange took what of the body had come: read on."""
        ...


class Exchange:
    """`keep_alive`: whether the connection goes on after it. `length`: of the body, None where only
    its end tells. `received`: bytes of the body so far. `refusal`: why it is not to be carried, or
    its body not to be had, if so.
    """

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_gone",
        "_held",
        "_pieces",
        "_tell",
        "_waiter",
        "_waiting",
        "_wire",
        "body_ended",
        "finished",
        "headers",
        "http10",
        "keep_alive",
        "length",
        "method",
        "path",
        "received",
        "refusal",
        "started",
        "target",
        "until_close",
        "values",
    )

    def __init__(
        self,
        wire: Wire,
        method: bytes,
        target: bytes,
        path: str,
        headers: Pairs,
        values: Mapping[bytes, bytes],
        *,
        http10: bool,
        keep_alive: bool,
    ) -> None:
        self._wire = wire
        self.method = method
        self.target = target
        self.path = path
        self.headers = headers
        self.values: Mapping[bytes, bytes] = values
        self.http10 = http10
        self.keep_alive = keep_alive
        self.length = body_length(values)
        self.body_ended = False
        self.started = False
        self.finished = False
        self.until_close = False
        self.received = 0
        self.refusal: RequestRefused | None = None
        self._bodiless = method == b"HEAD"
        self._chunked = False
        self._gone = False
        self._held = b""
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._waiter: asyncio.Future[None] | None = None
        self._tell: Callable[[Fault], None] | None = None

    @classmethod
    def unread(cls, wire: Wire, fault: RequestRefused) -> "Exchange":
        """For what came and could not be read: nothing but an answer, and the end."""
        exchange = cls(wire, b"", b"", "", [], {}, http10=False, keep_alive=False)
        exchange.fail(fault)
        return exchange

    # The request

    @property
    def expects_continue(self) -> bool:
        """Whether the client holds its body back until it is told to go on."""
        held = self.values.get(b"expect", b"").lower() == b"100-continue"
        waits = self.length != 0 and not self.body_ended
        return held and waits and not self.http10 and self.refusal is None

    def whole(self) -> bytes | None:
        # Most bodies have come, and in one piece, before their request's task begins.
        if not self.body_ended or len(self._pieces) != 1:
            return None
        self._waiting = 0
        return self._pieces.popleft()

    async def read(self) -> bytes | None:
        while not self._pieces:
            if self.refusal is not None:
                raise self.refusal
            if self.body_ended:
                return None
            if self._gone:
                raise ClientGone("the client left while it sent its request")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        piece = self._pieces.popleft()
        self._waiting -= len(piece)
        if not self._pieces and not self.body_ended:
            self._wire.body_wanted()
        return piece

    def on_gone(self, tell: Callable[[Fault], None] | None) -> None:
        self._tell = tell
        if tell is not None and self._gone:
            self.cut_short(ClientGone("the client left"))

    # The response

    async def start(self, status: int, reason: bytes, headers: Pairs) -> None:
        self.started = True
        if not self.body_ended and self.length != 0:
            # What the client still sends has no reader any more: the connection ends with this.
            self.keep_alive = False
        self._bodiless = self._bodiless or status in (204, 304)
        extra = b""
        if not self._bodiless and value_of(headers, b"content-length") is None:
            if self.http10:
                self.until_close, self.keep_alive = True, False
            else:
                self._chunked = True
                extra = b"transfer-encoding: chunked\r\n"
        if not self.keep_alive:
            extra += b"connection: close\r\n"
        elif self.http10:
            extra += b"connection: keep-alive\r\n"
        first = b"HTTP/1.1 %d %b" % (status, reason or _PHRASES.get(status, b""))
        self._held = b"\r\n".join([first, *map(b": ".join, headers), extra + b"\r\n"])
        # Most answers have come whole by now: head and body leave in one write, where two took a
        # tenth of a request. A stream's head waits for no more than the loop's next turn.
        asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Send the head, if it has not left yet."""
        if self._held:
            head, self._held = self._held, b""
            self._wire.send(head)

    def write(self, piece: bytes) -> bool:
        wire = self._wire
        if not piece:
            return wire.blocked  # as a chunk it would be the last
        if self._chunked:
            # One write a piece: the head, the bytes and the end of a chunk leave together.
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        elif self._bodiless:
            return wire.blocked
        if self._held:
            piece, self._held = self._held + piece, b""
        wire.send(piece)
        return wire.blocked

    def last(self) -> None:
        self.keep_alive = False

    async def drain(self) -> None:
        await self._wire.writable()

    async def finish(self, trailers: Pairs) -> None:
        self.flush()
        if self._chunked:
            lines = [b"%b: %b\r\n" % pair for pair in trailers]
            self._wire.send(b"".join([b"0\r\n", *lines, b"\r\n"]))
        self.finished = True

    # What the connection tells it

    def receive(self, piece: bytes) -> bool:
        """A piece of the body came; False if no more should for now."""
        self._pieces.append(piece)
        self._waiting += len(piece)
        self._wake()
        return self._waiting < BODY_HIGH

    def end_of_body(self) -> None:
        self.body_ended = True
        self._wake()

    def fail(self, fault: RequestRefused) -> None:
        """The request cannot be carried, or the rest of its body not be had: whoever reads it is
        told why. The connection ends with it: what follows may be meant otherwise than we read it.
        """
        self.refusal = self.refusal or fault
        self.keep_alive = False
        self._wake()

    def left(self) -> None:
        """The client is gone."""
        self._gone = True
        self.keep_alive = False
        self._wake()
        self.cut_short(ClientGone("the client left"))

    def cut_short(self, fault: Fault) -> None:
        """End it with this fault, unless its response is complete."""
        self.keep_alive = False
        tell, self._tell = self._tell, None
        if tell is not None and not self.finished:
            tell(fault)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
