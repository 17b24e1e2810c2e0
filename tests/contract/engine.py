"""An engine at byte level, on any event loop: each connection plays a script of its own.

    async with Engine(answers(OK, OK), refuses_second) as engine:
        ...
        assert engine.connections[0].requests == [...]

A script is an `async def (peer)`; connection k plays the k-th, those beyond the last play the last.
Unlike `tests.support.lanes` it reads a request only when its script says so, speaks TLS and IPv6,
and runs under uvloop as well.
"""

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Self


class Peer:
    """One accepted connection, seen from the engine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._fd = writer.get_extra_info("socket").fileno()
        self.requests: list[bytes] = []
        self.bodies: list[bytes] = []
        self.gone = asyncio.Event()
        self.closed = False
        self.task = asyncio.current_task()

    async def head(self) -> bytes:
        """Read a request's head; raises IncompleteReadError when the peer is gone."""
        self.requests.append(await self.reader.readuntil(b"\r\n\r\n"))
        return self.requests[-1]

    async def request(self) -> bytes:
        """Read a whole request; returns its body as it came, chunk framing included."""
        lower = (await self.head()).lower()
        if b"\r\ntransfer-encoding:" in lower:
            body = await self.reader.readuntil(b"0\r\n\r\n")
        else:
            _, found, rest = lower.partition(b"\r\ncontent-length:")
            body = await self.reader.readexactly(int(rest.split(b"\r\n")[0])) if found else b""
        self.bodies.append(body)
        return body

    async def send(self, *pieces: bytes, pause_s: float | None = None) -> None:
        """Write each piece on its own, with a turn of the loop (or a pause) between."""
        for piece in pieces:
            if self.writer.is_closing():
                raise ConnectionResetError("the peer has left")
            self.writer.write(piece)
            await self.writer.drain()
            if pause_s is not None:
                await asyncio.sleep(pause_s)

    def fin(self) -> None:
        self.writer.write_eof()

    def close(self) -> None:
        self.closed = True
        self.writer.close()

    def rst(self) -> None:
        linger = struct.pack("ii", 1, 0)
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.closed = True
        self.writer.transport.abort()

    def now(self, act: Callable[[socket.socket], object]) -> None:
        """Do something to the socket itself: by the next line the kernel on both sides has it."""
        with socket.fromfd(self._fd, socket.AF_INET, socket.SOCK_STREAM) as sock:
            act(sock)

    async def until_gone(self) -> None:
        """Read and forget until the peer ends the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Play = Callable[[Peer], Awaitable[None]]


def answers(*responses: bytes) -> Play:
    """Answer one request with each of these bytes, then stay open until the peer leaves."""

    async def play(peer: Peer) -> None:
        for response in responses:
            await peer.request()
            await peer.send(response)

    return play


def in_turn(*responses: bytes) -> Play:
    """Answer the requests with these bytes in their order, on whichever connections they come."""
    left = iter(responses)

    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(next(left))

    return play


def answers_and_closes(*responses: bytes) -> Play:
    """The same, and end the connection in the packet of the last answer."""

    async def play(peer: Peer) -> None:
        for response in responses:
            await peer.request()
            await peer.send(response)
        peer.close()

    return play


async def silent(peer: Peer) -> None:
    """Read what comes and never answer."""
    await peer.head()


class Engine:
    """`host`, `port`: where it listens, on a free port if none is given. `tls`: its side of TLS.
    `name`: what its URL says in place of its address."""

    def __init__(
        self,
        *plays: Play,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        name: str | None = None,
    ) -> None:
        self._plays = plays
        self._host = host
        self._tls = tls
        self._name = name
        self.connections: list[Peer] = []
        self.port = port

    @property
    def url(self) -> str:
        """Of this engine, by its address or by the name that it was given."""
        host = self._name or (f"[{self._host}]" if ":" in self._host else self._host)
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    @property
    def open(self) -> int:
        """Connections that neither side has ended."""
        return sum(not (peer.gone.is_set() or peer.closed) for peer in self.connections)

    async def all_gone(self, within_s: float = 2) -> None:
        """Wait until every connection has ended, collecting what only a cycle keeps alive."""
        try:
            async with asyncio.timeout(within_s):
                while self.open:
                    gc.collect()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{self.open} connections are still open") from None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, self._host, self.port, ssl=self._tls, limit=1 << 20, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self._server.close()
        tasks = [peer.task for peer in self.connections if peer.task is not None]
        for peer in self.connections:
            peer.writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = Peer(reader, writer)
        number = len(self.connections)
        self.connections.append(peer)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._plays[min(number, len(self._plays) - 1)](peer)
            with contextlib.suppress(OSError):
                # What was written before a close is to leave first; of TLS it has not yet.
                await (writer.wait_closed() if peer.closed else peer.until_gone())
            peer.gone.set()
        except asyncio.CancelledError:
            # The test is over; streams would log it as an error of ours.
            return
        finally:
            writer.transport.abort()
