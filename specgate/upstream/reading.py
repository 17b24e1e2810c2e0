"""One response as it is read: the parser's callbacks, and what they make of it.

The parser is llhttp (httptools), strict as it comes: two lengths, a length beside chunks, a bare
line feed and an odd chunk size are errors. What it leaves open is closed here:

- a body without a length ends with the connection, and only then;
- a HEAD response has no body whatever its head says (the parser cannot be told, so it is replaced);
- interim responses (1xx) are skipped: they mean this connection only; a 101 nobody asked for;
- a transfer coding other than chunked is refused: its bytes would reach the client undecoded;
- bytes beyond a response's end are nobody's: the connection is not used again;
- trailers, and what stands between two pieces of a body, are bounded as the head is.
"""

import asyncio
from collections.abc import Callable

import httptools

from specgate.core.headers import Pairs
from specgate.upstream.base import PEEK_LIMIT, Peeked

HEAD_LIMIT = 256 * 1024
"""Bytes of a response head, or of its trailers; an engine's is below one kilobyte."""

EARLY_LIMIT = PEEK_LIMIT
"""Bytes of a body that may come before anyone asked for them; then the socket is left unread."""


class Reading:
    """The state of one exchange, begun anew by `_reset`. Its connection says how it fails and how
    the socket is left unread."""

    _loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
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
        self._silent = 0  # bytes since the last ones of the body
        self._framed = False
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._reading = True
        self._write: Callable[[bytes], bool] | None = None
        self._full = False
        self._wake: asyncio.Future[None] | None = None
        self._progress = 0
        self._ended = False
        self._refused = False
        self._error: Exception | None = None

    async def peek(self, undecided: Callable[[bytes], bool], within_s: float) -> Peeked:
        """See `upstream.base.Response`. What comes meanwhile is kept as what comes too early is."""
        deadline = self._loop.time() + within_s
        while True:
            body = b"".join(self._early)
            if self._error is not None and not body:
                raise self._error
            enough = len(body) >= PEEK_LIMIT or not undecided(body)
            if self._ended or self._error is not None or enough:
                return Peeked(body, self._ended)
            self._wake = self._loop.create_future()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._wake
            except TimeoutError:
                return Peeked(body, complete=False)

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
        if status < 200:
            if status < 100 or status == 101:
                self._fail(f"it answered with a status of {status}")
            return
        if self._head_bytes > HEAD_LIMIT and self._head_size() > HEAD_LIMIT:
            self._fail("its response head is too large")
            return
        self.status = status
        self._framed = self._head_only or status in (204, 304)
        coded = False
        for name, value in self.headers:
            lower = name.lower()
            if lower == b"content-length":
                self._framed = True
            elif lower == b"transfer-encoding":
                # A tab behind it and the parser does not know it, nor where the body ends.
                if coded or value.rstrip(b" ").lower() != b"chunked":
                    self._fail("it used a transfer coding other than chunked, once")
                    return
                self._framed = coded = True
        self._head_done = True
        assert self._head is not None
        if not self._head.done():
            self._head.set_result(None)
        if self._head_only:
            # The parser waits for the body that the head speaks of; there is none.
            self._end()
            self._parser = httptools.HttpResponseParser(self)

    def on_body(self, piece: bytes) -> None:
        self._silent = 0
        if self._ended:
            self._unusable = True
            return
        write = self._write
        if write is None:
            self._early.append(piece)
            self._early_bytes += len(piece)
            if self._early_bytes > EARLY_LIMIT:
                self._pause()
            if self._wake is not None:
                self._wake_up()
            return
        if write(piece):
            # Here and not in the task that this wakes: uvloop may read megabytes until it runs.
            self._full = True
            self._pause()
            self._wake_up()

    def on_message_complete(self) -> None:
        # An interim response completes too; the real one follows it.
        if self._head_done and not self._ended:
            self._end()

    def _head_size(self) -> int:
        """Of the head alone: more may have come in the same read."""
        return sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _end(self) -> None:
        self._ended = True
        # Now, not at the head's end: to the parser a trailer named Connection is a header too.
        if not self._parser.should_keep_alive():
            self._unusable = True
        if self._wake is not None:
            self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # What the connection does

    def _fail(self, what: str) -> None:
        raise NotImplementedError

    def _pause(self) -> None:
        raise NotImplementedError
