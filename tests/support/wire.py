"""A scripted lane's side of one connection: it reads requests as they came and performs steps."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from tests.support import steps
from tests.support.steps import Script, Step, reset


@dataclass(eq=False)
class Request:
    """One request as it came over the wire; `complete` once its body has been read."""

    raw_head: bytes
    request_line: bytes
    headers: list[tuple[bytes, bytes]]
    connection: "Connection" = field(repr=False)
    came_at: float
    number: int  # on its connection, from 1
    probe: bool = False  # for a path that the gate itself asks: not in progress
    complete: bool = False
    raw_body: bytearray = field(default_factory=bytearray, repr=False)
    decoded: bytearray | None = field(default=None, repr=False)
    sent_at: list[float] = field(default_factory=list, repr=False)

    @property
    def body(self) -> bytes:
        """The body without chunk framing (`raw_body` has it)."""
        return bytes(self.raw_body if self.decoded is None else self.decoded)

    @property
    def method(self) -> bytes:
        return self.request_line.split(b" ")[0]

    @property
    def target(self) -> bytes:
        return self.request_line.split(b" ")[1]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def values(self, name: bytes) -> list[bytes]:
        """All values of this header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: bytes) -> bytes | None:
        """The first value of this header, if there is one."""
        return next(iter(self.values(name)), None)


class LaneSide(Protocol):
    """What a connection asks of its lane."""

    name: str
    keep_alive_s: float | None

    def began(self, connection: "Connection") -> None: ...
    def ended(self, connection: "Connection") -> None: ...
    def script_for(self, request: Request) -> Script: ...


class Connection(asyncio.StreamReaderProtocol):
    """One accepted connection: what a script that is an `async def` writes to."""

    writer: asyncio.StreamWriter
    task: "asyncio.Task[None]"

    def __init__(self, lane: "LaneSide") -> None:
        self.loop = asyncio.get_running_loop()
        self.lane = lane
        self.reader = asyncio.StreamReader(limit=128 * 1024, loop=self.loop)
        super().__init__(self.reader, loop=self.loop)
        self.last: Request | None = None
        self.answering: Request | None = None
        self.fin_sent = self.aborted = False
        self.closed_at: float | None = (
            None  # the moment the peer closed; None if it did not, or we reset
        )
        self.peer_closed = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one by what it does, and by no class.
        link = cast("asyncio.Transport", transport)
        super().connection_made(transport)
        link.set_write_buffer_limits(high=0)
        self.writer = asyncio.StreamWriter(link, self, self.reader, self.loop)
        self.task = self.loop.create_task(self._serve(), name=f"lane {self.lane.name}")
        self.lane.began(self)

    def eof_received(self) -> bool:
        super().eof_received()
        self._peer_left()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._peer_left()
        self.lost.set()
        self.lane.ended(self)

    def _peer_left(self) -> None:
        if not (self.peer_closed.is_set() or self.aborted):
            self.closed_at = self.loop.time()
            self.peer_closed.set()
        if self.answering:
            self.task.cancel()

    @property
    def request(self) -> Request:
        """The last request that came."""
        assert self.last is not None
        return self.last

    @property
    def idle(self) -> bool:
        """Kept alive: between two requests, closed by nobody."""
        return not (self.answering or self.fin_sent or self.peer_closed.is_set())

    async def send(self, data: bytes) -> None:
        if self.answering:
            self.answering.sent_at.append(self.loop.time())
        self.writer.write(data)
        await self.writer.drain()

    def fin(self) -> None:
        self.answering, self.fin_sent = None, True
        self.writer.write_eof()

    def rst(self) -> None:
        reset(self.writer)
        self.abort()

    def abort(self) -> None:
        """Close at once; what the peer does from now on is not recorded."""
        self.answering, self.aborted = None, True
        self.writer.transport.abort()

    async def perform(self, script: Script) -> None:
        for step in script if isinstance(script, Sequence) else [script]:
            if self.aborted:
                return
            await self._step(step)

    async def _step(self, step: Step) -> None:
        match step:
            case steps.Send(data):
                await self.send(data)
            case steps.Pause(seconds):
                await asyncio.sleep(seconds)
            case steps.WaitFor(event):
                await event.wait()
            case steps.Signal(event):
                event.set()
            case steps.Fin():
                self.fin()
            case steps.Rst():
                self.rst()
            case steps.Silent():
                await self.lost.wait()
            case steps.ReadBody():
                await self.read_body()
            case steps.DontReadBody():
                pass
            case _:
                await step(self.request, self)

    async def read_body(self) -> bytes:
        """Read the last request's body to its end, as its framing says."""
        request = self.request
        if request.complete:
            return request.body
        if request.value(b"transfer-encoding"):
            request.decoded = bytearray()
            while await self._read_chunk(request, request.decoded):
                pass
        else:
            left = int(request.value(b"content-length") or 0)
            while left and (piece := await self.reader.read(min(left, 65536))):
                request.raw_body += piece
                left -= len(piece)
            if left:
                raise ConnectionError("the peer left within a request's body")
        request.complete = True
        return request.body

    async def _read_chunk(self, request: Request, decoded: bytearray) -> bool:
        line = await self.reader.readuntil(b"\r\n")
        request.raw_body += line
        if size := int(line.partition(b";")[0], 16):
            data = await self.reader.readexactly(size + 2)
            request.raw_body += data
            decoded += data[:-2]
            return True
        while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
            request.raw_body += line  # trailers
        request.raw_body += line
        return False

    async def _serve(self) -> None:
        try:
            # After a reset what lies unread is nobody's, and need be no request.
            while not (self.fin_sent or self.aborted) and await self._next_request():
                script = self.lane.script_for(self.request)
                todo = script if isinstance(script, Sequence) else [script]
                if not any(isinstance(step, steps.ReadBody | steps.DontReadBody) for step in todo):
                    await self.read_body()
                await self.perform(todo)
                self.answering = None
                if not (self.aborted or self.fin_sent or self._may_live_on()):
                    self.fin()
            while await self.reader.read(65536):
                pass  # until the peer closes
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.abort()

    async def _next_request(self) -> bool:
        try:
            async with asyncio.timeout(self.lane.keep_alive_s if self.last else None):
                raw = await self.reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            self.fin()
            return False
        except asyncio.IncompleteReadError:
            return False
        line, *rest = raw[:-4].split(b"\r\n")
        parts = [header.partition(b":") for header in rest]
        headers = [(name, value.strip(b" \t")) for name, _, value in parts]
        number = self.last.number + 1 if self.last else 1
        self.last = self.answering = Request(raw, line, headers, self, self.loop.time(), number)
        return True

    def _may_live_on(self) -> bool:
        request = self.request
        closing = (request.value(b"connection") or b"").lower() == b"close"
        return request.complete and not closing and request.request_line.endswith(b"HTTP/1.1")
