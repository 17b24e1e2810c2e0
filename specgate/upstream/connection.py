"""One HTTP/1.1 connection to a lane: parser, flow control, one exchange at a time.

The parser is llhttp (httptools), strict as it comes: two lengths, a length beside chunks, a bare
line feed and an odd chunk size are errors. What it leaves open is closed here:

- a body without a length ends with the connection, and only then;
- a HEAD response has no body whatever its head says (the parser cannot be told, so it is replaced);
- interim responses (1xx) are skipped: they mean this connection only;
- a transfer coding other than chunked is refused: its bytes would reach the client undecoded;
- bytes beyond a response's end are nobody's: the connection is not used again.

The body is *pushed*: the parser's callback hands each piece to a sink in the same turn of the
event loop in which it came. A task wakes only when the sink is full, at the end, or on an error,
so a steady stream costs no task switch a chunk.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from specgate.core.errors import FailureKind, NoAnswer, StreamBroken
from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.upstream.base import Request, Sink

HEAD_LIMIT = 256 * 1024
"""Bytes of a response head; an engine's is below one kilobyte."""

EARLY_LIMIT = 64 * 1024
"""Bytes of a body that may come before anyone asked for them; then the socket is left unread."""


class DiedUnused(Exception):
    """A connection ended before a byte of the response; the request may never have been read."""


class Connection(asyncio.Protocol):
    """`lane` names it in errors; `on_idle_end` is told when it ends while it rests in a pool."""

    def __init__(self, lane: Lane, on_idle_end: Callable[["Connection"], None]) -> None:
        self.lane = lane
        self.idle_since: float | None = None
        self._on_idle_end = on_idle_end
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._writable: asyncio.Future[None] | None = None
        self._lost = False
        self._unusable = False
        self._reset(head_only=False)

    def _reset(self, *, head_only: bool) -> None:
        """Ready for one exchange."""
        self.status = 0
        self.reason = b""
        self.headers: Pairs = []
        self.trailers: Pairs = []
        self._head_only = head_only
        self._head: asyncio.Future[None] | None = None
        self._head_done = False
        self._head_bytes = 0
        self._framed = False
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._reading = True
        self._write: Callable[[bytes], bool] | None = None
        self._full = False
        self._wake: asyncio.Future[None] | None = None
        self._progress = 0
        self._ended = False
        self._error: StreamBroken | None = None

    # The exchange, as its task sees it

    def ask(self, request: Request) -> asyncio.Future[None]:
        """Send a request's head and what of its body is in memory; `upload` sends the rest.

        The future is done when the response's head has come. It raises DiedUnused, NoAnswer.
        """
        self.idle_since = None
        self._reset(head_only=request.method == b"HEAD")
        self._head = head = self._loop.create_future()
        if self._lost:
            head.set_exception(DiedUnused("the connection had ended"))
        else:
            self._transport.write(request.opening())
        return head

    async def upload(self, request: Request) -> None:
        """Send the rest of a body as it arrives, at the pace at which the lane takes it."""
        assert request.rest is not None
        chunked = request.chunked
        async for piece in request.rest:
            if self._lost or self._ended:
                return
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            if self._writable is not None:
                await self._writable
        if chunked and not self._lost:
            self._transport.write(b"0\r\n\r\n")

    async def deliver(self, sink: Sink, idle_s: float | None) -> None:
        """Push the body into `sink` until its end. Raises StreamBroken, and what the sink's
        `drain` raises."""
        for piece in self._early:
            self._full = sink.write(piece)
        self._early.clear()
        self._write = sink.write
        if not self._full:
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
        """Whether another request may follow, once this exchange is over."""
        return self._ended and not (self._unusable or self._lost or self._error is not None)

    @property
    def closed(self) -> bool:
        return self._lost or self._transport.is_closing()

    def abort(self) -> None:
        """End the connection now, sent or not: this is how an engine learns that nobody waits."""
        self._lost = True
        if self._head is not None and not self._head.done():
            self._head.cancel()
        self._transport.abort()

    # What the event loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._head_done:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self._fail("its response head is too large")
                return
        if self._head is None or self._ended:
            # Nobody asked: what it says belongs to no request.
            self.abort()
            self._rested()
            return
        self._progress += 1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if self._ended:
                self._unusable = True
            else:
                self._fail(f"it spoke no HTTP: {error}")
        except httptools.HttpParserUpgrade:
            self._fail("it changed the protocol unasked")

    def eof_received(self) -> None:
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self.resume_writing()
        if self._head is None or self._ended:
            self._rested()
        elif not self._head_done:
            self._fail(f"the connection ended before a response{_because(error)}")
        elif error is None and not self._framed:
            self._end()
        else:
            self._fail(f"the connection ended before the response's end{_because(error)}")

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    # What the parser says

    def on_message_begin(self) -> None:
        if self._ended:
            self._unusable = True
            return
        self.headers = []
        self.reason = b""

    def on_status(self, reason: bytes) -> None:
        if not self._head_done:
            self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._ended:
            return
        if self._head_done:
            self.trailers.append((name, value))
            return
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._ended:
            return
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            return
        self.status = status
        self._framed = self._head_only or status in (204, 304)
        for name, value in self.headers:
            lower = name.lower()
            if lower == b"content-length":
                self._framed = True
            elif lower == b"transfer-encoding":
                if value.strip().lower() != b"chunked":
                    self._fail("it used a transfer coding other than chunked")
                    return
                self._framed = True
        self._head_done = True
        if not self._parser.should_keep_alive():
            self._unusable = True
        assert self._head is not None
        if not self._head.done():
            self._head.set_result(None)
        if self._head_only:
            # The parser waits for the body that the head speaks of; there is none.
            self._parser = httptools.HttpResponseParser(self)
            self._end()

    def on_body(self, piece: bytes) -> None:
        if self._ended:
            self._unusable = True
            return
        write = self._write
        if write is None:
            self._early.append(piece)
            self._early_bytes += len(piece)
            if self._early_bytes > EARLY_LIMIT:
                self._pause()
            return
        if write(piece):
            self._full = True
            self._wake_up()

    def on_message_complete(self) -> None:
        # An interim response completes too; the real one follows it.
        if self._head_done and not self._ended:
            self._end()

    # How it goes on

    def _end(self) -> None:
        self._ended = True
        self._wake_up()

    def _fail(self, what: str) -> None:
        """The exchange ends here: with the head's future, or with the body's."""
        unheard = self._head_bytes == 0
        self._unusable = True
        if self._head is not None and not self._head.done():
            message = f"the {self.lane} lane gave no answer: {what}"
            fault: Exception = NoAnswer(message, lane=self.lane)
            self._head.set_exception(DiedUnused(message) if unheard else fault)
        elif self._error is None and not self._ended:
            self._error = StreamBroken(f"the {self.lane} lane broke off: {what}", lane=self.lane)
            self._wake_up()
        if not self._lost:
            self.abort()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

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
