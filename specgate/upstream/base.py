"""The contract of an upstream: one request to a lane, and its response as it comes.

Errors are `core.errors` only:
  ConnectFailed     nothing was sent; the body iterator was not touched
  NoAnswer          sent, wholly or in part, and the connection ended before a head
  StreamBroken      raised by `Response.chunks()`: the body ended before its end

Cancellation: `send` and `chunks` may be cancelled at any await; what they hold is then closed.
Whoever gets a Response closes it, on every path; closing one that was not read to its end closes
its connection, which is how an engine learns that nobody is waiting any more.
Time-outs other than connecting are the caller's.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Protocol
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

    @property
    def authority(self) -> bytes:
        """The Host header's value: IPv6 in brackets, a default port left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = {"http": 80, "https": 443}[self.scheme]
        return (host if self.port == default else f"{host}:{self.port}").encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send. `target`: the request target's exact bytes, the lane's base included."""

    method: bytes
    target: bytes
    headers: Pairs
    body: AsyncIterator[bytes]


class Response(Protocol):
    """A response whose head has come. `headers`: pairs in order, as received."""

    lane: Lane
    status: int
    headers: Pairs

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body's bytes as they come, in no encoding but the engine's own. Once only."""
        ...

    async def aclose(self) -> None:
        """Idempotent; never raises."""
        ...


class Upstream(Protocol):
    """See the module. One for the whole gate; it may keep connections for reuse."""

    async def send(self, origin: Origin, request: Request) -> Response: ...

    async def aclose(self) -> None: ...
