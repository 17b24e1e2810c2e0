"""One HTTP/1.1 connection to a lane: sending, flow control, one exchange at a time.

How an answer reads, and which are refused, is in `upstream.reading`. The body is *pushed*: the
parser's callback hands each piece to a sink in the same turn of the event loop in which it came. A
task wakes only when the sink is full, at the end, or on an error, so a steady stream costs no task
switch a chunk.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import cast

import httptools

from specgate.core.errors import FailureKind, NoAnswer, StreamBroken
from specgate.core.lanes import Lane
from specgate.upstream.base import Request, Sink
from specgate.upstream.reading import EARLY_LIMIT, HEAD_LIMIT, Reading
from specgate.upstream.tcp import reset_on_close, taken_whole


class DiedUnused(Exception):
    """A connection ended before a byte of the response; the request may never have been read.
    `unsent`: part of it never left, so that it was not."""

    def __init__(self, message: str, *, unsent: bool) -> None:
        super().__init__(message)
        self.unsent = unsent


class Connection(Reading, asyncio.Protocol):
    """`lane` names it in errors; `on_idle_end` is told when it ends while it rests in a pool;
    `sock` is what it runs on."""

    def __init__(
        self, lane: Lane, on_idle_end: Callable[["Connection"], None], sock: socket.socket
    ) -> None:
        self.lane = lane
        self.idle_since: float | None = None
        self._on_idle_end = on_idle_end
        self._sock = sock
        self._readable: select.poll | None = None
        self._loop = asyncio.get_running_loop()
        self._writable: asyncio.Future[None] | None = None
        self._uploading = False
        self._lost = False
        super().__init__()

    # The exchange, as its task sees it

    def ask(self, request: Request) -> asyncio.Future[None]:
        """Send a request's head and what of its body is in memory; `upload` sends the rest.

        The future is done when the response's head has come. It raises DiedUnused, NoAnswer.
        """
        self.idle_since = None
        self._uploading = request.rest is not None
        self._reset(head_only=request.method == b"HEAD")
        self._head = head = self._loop.create_future()
        if self._lost:
            head.set_exception(DiedUnused("the connection had ended", unsent=True))
            return head
        self._transport.write(request.opening())
        # If the kernel took nothing, the transport says so at once, and in no other way.
        self._refused = self._transport.is_closing()
        return head

    async def upload(self, request: Request) -> bool:
        """Send the rest of a body as it arrives, at the pace at which the lane takes it.

        Returns whether all of it was sent: it stops if the response ends first. Raises what reading
        it raises; so does `deliver`, if the response has begun by then: half a request gets no
        other half of an answer.
        """
        assert request.rest is not None
        try:
            return await self._send_rest(request.rest, chunked=request.chunked)
        except Exception as error:
            if self._head_done and not self._ended and self._error is None:
                self._error = error
                self._wake_up()
                self.abort()
            raise

    async def _send_rest(self, rest: AsyncIterator[bytes], *, chunked: bool) -> bool:
        async for piece in rest:
            if self._lost or self._ended:
                return False
            if not piece:
                # As a chunk it would be the last one.
                continue
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            if self._writable is not None:
                await self._writable
        if self._lost:
            return False
        if chunked:
            self._transport.write(b"0\r\n\r\n")
        self._uploading = False
        return True

    async def deliver(self, sink: Sink, idle_s: float | None) -> None:
        """Push the body into `sink` until its end. Raises StreamBroken, what the sink's `drain`
        raises, and what ended the upload."""
        for piece in self._early:
            self._full = sink.write(piece)
        self._early.clear()
        self._write = sink.write
        if not (self._full or self._reading):
            self._resume()
        while True:
            if self._full:
                self._pause()
                self._full = False
                await sink.drain()
                if not self._full:
                    self._resume()
                continue
            if self._error is not None:
                raise self._error
            if self._ended:
                return
            await self._until_woken(idle_s)

    async def _until_woken(self, idle_s: float | None) -> None:
        self._wake = self._loop.create_future()
        if idle_s is None:
            await self._wake
            return
        # One timer an idle time and none a chunk: it looks whether anything came meanwhile.
        seen = self._progress
        try:
            async with asyncio.timeout(idle_s):
                await self._wake
        except TimeoutError:
            if self._progress == seen and not self._ended:
                message = f"the {self.lane} lane sent nothing for {idle_s:g} s"
                raise StreamBroken(message, lane=self.lane, kind=FailureKind.IDLE_TIMEOUT) from None

    @property
    def reusable(self) -> bool:
        """Whether another request may follow, once this exchange is over. Not if the sink was
        full to the last: what is not being read is not seen to end."""
        return (
            self._ended
            and self._reading
            and not (self._unusable or self._lost or self._error is not None)
        )

    @property
    def closed(self) -> bool:
        return self._lost or self._transport.is_closing()

    @property
    def spoken(self) -> bool:
        """Whether there is something to read that the event loop has not come to yet: on a resting
        connection the engine's FIN, or bytes that would be taken for the next answer."""
        if self._readable is None:
            # Kept: asking it costs a quarter of what a peek at the socket does.
            self._readable = select.poll()
            self._readable.register(self._sock, select.POLLIN)
        return bool(self._readable.poll(0))

    def abort(self) -> None:
        """End the connection now, sent or not: this is how an engine learns that nobody waits. By
        a reset where part of a request is missing, or was not taken yet by the engine's kernel."""
        if not self._lost and (self._uploading or not taken_whole(self._sock)):
            reset_on_close(self._sock)
        self._lost = True
        head = self._head
        if head is not None and not head.done():
            head.cancel()
        elif head is not None and not head.cancelled():
            head.exception()  # looked at: whoever waited for it may have been cancelled
        self._transport.abort()

    # What the event loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._plain = transport.get_extra_info("ssl_object") is None
        if self._plain:
            # With a mark of zero `_writable` says whether the kernel has yet to take some of what
            # was written. Of TLS it would not: what is encrypted waits elsewhere.
            self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        if self._head is None or self._ended:
            # Nobody asked: what it says belongs to no request.
            self.abort()
            self._rested()
            return
        self._progress += 1
        if self._head_done:
            self._silent += len(data)
        else:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if self._ended:
                self._unusable = True
            else:
                self._fail(f"it spoke no HTTP: {error}")
        except httptools.HttpParserUpgrade:
            self._fail("it changed the protocol unasked")
        else:
            if not self._head_done and self._head_bytes > HEAD_LIMIT:
                self._fail("its response head is too large")
            elif self._silent > HEAD_LIMIT and not self._ended:
                self._fail("its trailers are too large")

    def eof_received(self) -> None:
        # Here, and not when the connection is lost: that waits until all that we still send is
        # taken, by an engine that may have stopped reading.
        self._over(None)
        self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and self._head is not None and not self._lost:
            self._salvage()
        self._lost = True
        self._over(error)
        self.resume_writing()

    def _salvage(self) -> None:
        """Read what a failed write overtook: an engine that answers before the end of a body, and
        closes, resets the connection; its answer is then in the kernel and nowhere else."""
        if not self._plain:
            return
        try:
            # After a reset nothing more reads like a FIN; it is no end that a body may have.
            while data := self._sock.recv(EARLY_LIMIT):
                self.data_received(data)
        except OSError:
            return

    def _over(self, error: Exception | None) -> None:
        """The connection has ended; `error` if not by a FIN."""
        if self._head is None or self._ended:
            self._rested()
        elif not self._head_done:
            what = f"the connection ended before a response{_because(error)}"
            self._fail(what, orderly=error is None)
        elif error is None and not self._framed and self._is_final():
            self._end()
        else:
            self._fail(f"the connection ended before the response's end{_because(error)}")

    def _is_final(self) -> bool:
        """Whether a FIN is the end of a body that only it ends. Within TLS only TLS's own word is:
        any host on the way can send a FIN, and a process that was killed sends nothing else."""
        if self._plain:
            return True
        tls: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        if tls is None:
            return False
        try:
            # Nothing more to read: it says so where the peer did, and asks for more where not.
            said = tls.read(1)
        except ssl.SSLZeroReturnError:
            return True
        except (ssl.SSLError, ValueError):
            return False
        return said == b""

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    # How it goes on

    def _fail(self, what: str, *, orderly: bool = False) -> None:
        """The exchange ends here: with the head's future, or with the body's. orderly: the engine
        sent a FIN."""
        unheard = self._progress == 0
        self._unusable = True
        if self._head is not None and not self._head.done():
            message = f"the {self.lane} lane gave no answer: {what}"
            fault: Exception = NoAnswer(message, lane=self.lane)
            if unheard:
                fault = DiedUnused(message, unsent=self._is_unsent(orderly=orderly))
            self._head.set_exception(fault)
        elif self._error is None and not self._ended:
            self._error = StreamBroken(f"the {self.lane} lane broke off: {what}", lane=self.lane)
            self._wake_up()
        if not self._lost:
            self.abort()

    def _is_unsent(self, *, orderly: bool) -> bool:
        """Whether it is certain that the engine's host had not all of the request when it ended the
        connection. What the kernel took may lie there unread, and nobody says so; what it has yet
        to take, or what a FIN leaves unacknowledged, does not."""
        if not self._plain:
            return False
        if self._refused or self._writable is not None:
            return True
        return orderly and not taken_whole(self._sock)

    def _pause(self) -> None:
        if self._reading and not self.closed:
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        if not self._reading:
            self._reading = True
            if not self.closed:
                self._transport.resume_reading()

    def _rested(self) -> None:
        if self.idle_since is not None:
            self._on_idle_end(self)


def _because(error: Exception | None) -> str:
    return f" ({error})" if error is not None and str(error) else ""
