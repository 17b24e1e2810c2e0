"""The contract of an upstream: one request to a lane, and its response as it comes.

Errors are `core.errors` only:
  ConnectFailed     nothing was sent; the rest of a body was not touched
  NoAnswer          sent, wholly or in part, and the connection ended before a head
  StreamBroken      raised by `Response.deliver`: the body ended before its end, or paused too long

Cancellation: `send` and `deliver` may be cancelled at any await; what they hold is then closed.
Whoever gets a Response closes it, on every path; closing one that was not read to its end closes
its connection, which is how an engine learns that nobody is waiting any more.
Time-outs other than connecting and idling are the caller's.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

from specgate.core.headers import Pairs
from specgate.core.lanes import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a lane is. `base`: path prefix of its URL, without a trailing slash, maybe empty."""

    lane: Lane
    scheme: str
    host: str
    port: int
    base: bytes
    url: str

    @classmethod
    def of(cls, lane: Lane, url: str) -> "Origin":
        """From a validated http(s) URL."""
        parts: SplitResult = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(
            lane=lane,
            scheme=parts.scheme,
            host=parts.hostname or "",
            port=port,
            base=parts.path.rstrip("/").encode("ascii"),
            url=url.rstrip("/"),
        )

    def target(self, target: bytes) -> bytes:
        """A client's request target as this lane is to see it: behind the base, if there is one.
        `*` (of OPTIONS) has no path to be put behind anything."""
        return self.base + target if target.startswith(b"/") else target

    @property
    def authority(self) -> bytes:
        """The Host header's value: IPv6 in brackets, a default port left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = {"http": 80, "https": 443}[self.scheme]
        return (host if self.port == default else f"{host}:{self.port}").encode("ascii")


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
        lines = [b"%b %b HTTP/1.1\r\n" % (self.method, self.target)]
        lines += [b"%b: %b\r\n" % pair for pair in self.headers]
        lines.append(b"\r\n")
        if not self.chunked:
            lines += self.pieces
        else:
            lines += [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in self.pieces if piece]
            if self.rest is None:
                lines.append(b"0\r\n\r\n")
        return b"".join(lines)


class Sink(Protocol):
    """Where a response's body goes. `write` never waits; it returns whether the sink is full, and
    from then on no more is read from the lane until `drain` returns."""

    def write(self, piece: bytes) -> bool: ...

    async def drain(self) -> None: ...


class Response(Protocol):
    """A response whose head has come. `headers` and `trailers`: pairs in order, as received;
    trailers are complete once the body is. `reason`: the status line's phrase, maybe empty."""

    lane: Lane
    status: int
    reason: bytes
    headers: Pairs
    trailers: Pairs

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
