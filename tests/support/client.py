"""C, the raw client: exact bytes out, exact bytes in, and how the connection ended.

async with connect(gate_url) as client:
    await client.send(chat_request(stream=True))
    status, headers = await client.read_head()
    body = await client.read_body()
    assert body.clean and body.data == sent
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import urlsplit

from tests.support.steps import HeaderPairs, reset
from tests.support.steps import chunked as chunked

CHAT = b"/v1/chat/completions"
JSON = (b"Content-Type", b"application/json")

Pairs = list[tuple[bytes, bytes]]
Ending = Literal["length", "chunked", "close", "none", "cut", "reset"]


def chat(stream: bool = True, n: int = 1, **extra: object) -> bytes:
    """The JSON body of a chat completion."""
    messages = [{"role": "user", "content": "Hi"}]
    return json.dumps(
        {"model": "m", "messages": messages, "stream": stream, "n": n, **extra}
    ).encode()


def request_bytes(
    method: bytes, target: bytes, headers: HeaderPairs = (), body: bytes | None = None
) -> bytes:
    """A request with these headers; a missing Host and a missing length of a body are added."""
    pairs = list(headers)
    names = {name.lower() for name, _ in pairs}
    if b"host" not in names:
        pairs.insert(0, (b"Host", b"gate"))
    if body is not None and not names & {b"content-length", b"transfer-encoding"}:
        pairs.append((b"Content-Length", b"%d" % len(body)))
    lines = [b"%s %s HTTP/1.1" % (method, target), *(name + b": " + value for name, value in pairs)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def chat_request(
    stream: bool = True, n: int = 1, headers: HeaderPairs = (), **extra: object
) -> bytes:
    return request_bytes(b"POST", CHAT, [JSON, *headers], chat(stream, n, **extra))


@dataclass
class Body:
    """A response's body as it came: the pieces are the chunks (or reads), each with its arrival."""

    pieces: list[tuple[float, bytes]] = field(default_factory=list)  # (loop time, bytes)
    ending: Ending = "none"

    @property
    def data(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    @property
    def clean(self) -> bool:
        """Whether it ended as its framing promised; else it was "cut" by a FIN, or "reset"."""
        return self.ending not in ("cut", "reset")


@dataclass
class Response:
    status: int
    status_line: bytes
    headers: Pairs
    body: Body

    def values(self, name: bytes) -> list[bytes]:
        """All values of this header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class _Link(asyncio.StreamReaderProtocol):  # bytes that came before a reset stay readable
    reset = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.reset = exc is not None
        super().connection_lost(None)


class RawClient:
    def __init__(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.link = link
        self.reader = reader
        self.writer = writer
        self.status = 0
        self.headers: Pairs = []

    @classmethod
    async def open(cls, host: str, port: int, *, receive_buffer: int | None = None) -> Self:
        """Connect; with a small receive buffer a client that stops reading is felt sooner."""
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        try:
            if receive_buffer:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            await loop.sock_connect(sock, (host, port))
            reader = asyncio.StreamReader(limit=1 << 18)
            link = _Link(reader)
            transport, _ = await loop.create_connection(lambda: link, sock=sock)
            return cls(link, reader, asyncio.StreamWriter(transport, link, reader, loop))
        except BaseException:
            sock.close()
            raise

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_head(self) -> tuple[bytes, Pairs]:
        """The status line and the header pairs; `status` has the number."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        line, *rest = raw[:-4].split(b"\r\n")
        parts = [header.partition(b":") for header in rest]
        self.headers = [(name, value.strip(b" \t")) for name, _, value in parts]
        self.status = int(line.split(b" ")[1])
        return line, self.headers

    async def read_exact(self, count: int) -> bytes:
        return await self.reader.readexactly(count)

    async def read_until(self, mark: bytes, times: int = 1) -> bytes:
        """Raw bytes up to and with the mark (the `times`-th of them)."""
        return b"".join([await self.reader.readuntil(mark) for _ in range(times)])

    async def read_body(self) -> Body:
        """The body of the head just read, to its end or to the connection's."""
        body = Body()
        clock = asyncio.get_running_loop().time
        try:
            async for piece in self._pieces(body):
                body.pieces.append((clock(), piece))
        except asyncio.IncompleteReadError:
            body.ending = "cut"
        if self.link.reset and body.ending in ("cut", "close"):
            body.ending = "reset"
        return body

    async def _pieces(self, body: Body) -> AsyncIterator[bytes]:
        framing = {name.lower(): value for name, value in self.headers}
        if self.status in (204, 304) or self.status < 200:
            return
        if b"transfer-encoding" in framing:
            while size := int((await self.read_until(b"\r\n")).partition(b";")[0], 16):
                try:
                    data = await self.read_exact(size)
                except asyncio.IncompleteReadError as cut:
                    yield cut.partial
                    raise
                yield data
                await self.read_exact(2)
            while await self.read_until(b"\r\n") != b"\r\n":
                pass  # trailers
            body.ending = "chunked"
        elif b"content-length" in framing:
            left = int(framing[b"content-length"])
            while left:
                piece = await self.reader.read(left)
                if not piece:
                    raise asyncio.IncompleteReadError(b"", left)
                left -= len(piece)
                yield piece
            body.ending = "length"
        else:
            while piece := await self.reader.read(65536):
                yield piece
            body.ending = "close"

    async def request(
        self, method: bytes, target: bytes, headers: HeaderPairs = (), body: bytes | None = None
    ) -> Response:
        """Send a whole request and read a whole response."""
        await self.send(request_bytes(method, target, headers, body))
        line, pairs = await self.read_head()
        read = Body() if method == b"HEAD" else await self.read_body()
        return Response(self.status, line, pairs, read)

    async def ended(self, within_s: float = 2) -> Literal["fin", "reset"]:
        """Read and forget until the peer ends the connection: how it did."""
        try:
            async with asyncio.timeout(within_s):
                while await self.reader.read(65536):
                    pass
        except TimeoutError:
            raise AssertionError(f"the connection is still open after {within_s} s") from None
        return "reset" if self.link.reset else "fin"

    def fin(self) -> None:
        """End our direction; theirs stays open."""
        self.writer.write_eof()

    def rst(self) -> None:
        """Reset the connection."""
        reset(self.writer)

    def stop_reading(self) -> None:
        """Take nothing from the socket any more: once the buffers are full, the window is zero."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Close both directions, as a client that is done or gave up."""
        if self.writer.transport.get_write_buffer_size():
            self.writer.transport.abort()
        self.writer.close()
        await self.writer.wait_closed()


@asynccontextmanager
async def connect(url: str, *, receive_buffer: int | None = None) -> AsyncIterator[RawClient]:
    """A client of the server at this base URL, closed at the end."""
    parts = urlsplit(url)
    assert parts.port, f"no port in {url}"
    client = await RawClient.open(parts.hostname or "", parts.port, receive_buffer=receive_buffer)
    try:
        yield client
    finally:
        await client.close()


async def get(url: str, headers: HeaderPairs = ()) -> Response:
    """One GET on its own connection."""
    parts = urlsplit(url)
    async with connect(url) as client:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return await client.request(b"GET", target.encode(), [(b"Connection", b"close"), *headers])
