"""The contract of an upstream: one request to a lane, and its response as it comes.

Errors are `core.errors` only:
  ConnectFailed     nothing was sent; the rest of a body was not touched
    Unsent          not all was handed to the kernel, and all of it can be sent again
  NoAnswer          sent, wholly or in part, and the connection ended before a head
  StreamBroken      raised by `Response.deliver`: the body ended before its end, or paused too long

Cancellation: `send` and `deliver` may be cancelled at any await; what they hold is then closed.
Whoever gets a Response closes it, on every path; closing one that was not read to its end closes
its connection, which is how an engine learns that nobody is waiting any more.
Time-outs other than connecting and idling are the caller's.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

from specgate.core.headers import Pairs
from specgate.core.lanes import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a lane is. `base`: path prefix of its URL, without a trailing slash, maybe empty.
    `authority`: the Host header's value: IPv6 in brackets, a default port left out.
    `authorization`: what its engine is sent as such; None: what the client sent, empty: nothing. It
    is no part of where the lane is, and in no text of it."""

    lane: Lane
    scheme: str
    host: str
    port: int
    base: bytes
    url: str
    authority: bytes
    authorization: bytes | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, lane: Lane, url: str, authorization: bytes | None = None) -> "Origin":
        """From a validated http(s) URL."""
        parts: SplitResult = urlsplit(url)
        default = 443 if parts.scheme == "https" else 80
        port = parts.port or default
        host = parts.hostname or ""
        name = f"[{host}]" if ":" in host else host
        return cls(
            lane=lane,
            scheme=parts.scheme,
            host=host,
            port=port,
            base=parts.path.rstrip("/").encode("ascii"),
            url=url.rstrip("/"),
            authority=(name if port == default else f"{name}:{port}").encode("ascii"),
            authorization=authorization,
        )

    @property
    def credentials(self) -> Pairs:
        """The headers with which the gate's own questions go to the engine."""
        return [(b"authorization", self.authorization)] if self.authorization else []

    def target(self, target: bytes) -> bytes:
        """A client's request target as this lane is to see it: behind the base, if there is one.
        `*` (of OPTIONS) has no path to be put behind anything."""
        return self.base + target if target.startswith(b"/") else target


class Request(NamedTuple):
    """What to send. `target`: the request target's exact bytes, the lane's base included.

    The body: `pieces` are in memory, `rest` is still arriving, None if there is nothing more; only
    a request without a rest can be sent twice. `chunked`: framed so, as its headers say too.
    """

    method: bytes
    target: bytes
    headers: Pairs
    chunked: bool = False
    pieces: tuple[bytes, ...] = ()
    rest: AsyncIterator[bytes] | None = None

    def opening(self) -> bytes:
        """The head, and what of the body is in memory, as bytes on the wire."""
        # Joined without a step of ours a field: half the cost of formatting each.
        lines = [b"%b %b HTTP/1.1" % (self.method, self.target), *map(b": ".join, self.headers)]
        if not self.chunked:
            return b"\r\n".join([*lines, b"", b"".join(self.pieces)])
        body = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in self.pieces if piece]
        if self.rest is None:
            body.append(b"0\r\n\r\n")
        return b"\r\n".join([*lines, b"", b"".join(body)])


class Sink(Protocol):
    """Where a response's body goes. `write` never waits; it returns whether the sink is full, and
    from then on no more is read from the lane until `drain` returns."""

    def write(self, piece: bytes) -> bool: ...

    async def drain(self) -> None: ...


PEEK_LIMIT = 64 * 1024
"""Bytes of a body that may be looked at before it is delivered."""


class Peeked(NamedTuple):
    """The body so far, and whether that is all of it."""

    body: bytes
    complete: bool


class Response(Protocol):
    """A response whose head has come. `headers` and `trailers`: pairs in order, as received;
    trailers are complete once the body is. `reason`: the status line's phrase, maybe empty."""

    lane: Lane
    status: int
    reason: bytes
    headers: Pairs
    trailers: Pairs

    async def peek(self, undecided: Callable[[bytes], bool], within_s: float) -> Peeked:
        """Look at the body before it is delivered: until `undecided` is false of what has come, or
        the body is complete, or PEEK_LIMIT bytes have come, or the time is over.

        Once, and before `deliver`, which gives all of it all the same. Raises StreamBroken if it
        breaks off before anything of it has come; later than that `deliver` does.
        """
        ...

    async def deliver(self, sink: Sink, idle_s: float | None) -> None:
        """Push the body into the sink as it comes, in no encoding but the engine's own. Once.

        idle_s: the longest pause between two pieces, None for any. Raises StreamBroken, what
        `drain` raises, and what reading the request's rest raises, as `send` does.
        """
        ...

    async def aclose(self) -> None:
        """Idempotent; never raises."""
        ...


class Upstream(Protocol):
    """See the module. One for the whole gate; it may keep connections for reuse."""

    async def send(self, origin: Origin, request: Request) -> Response: ...

    async def aclose(self) -> None: ...
