"""A chaos lane, in a process of its own: `python -m tests.chaos.lane NAME PORT JOURNAL SEED`.

It answers each order with the bytes that follow from it, or spoils that as the weather has it, and
keeps its own account of what it has in progress. It is told what to do by JSON lines on stdin and
answers each with one on stdout.
"""

import asyncio
import json
import random
import select
import socket
import struct
import sys
import time
import zlib
from pathlib import Path
from typing import Any, cast

import httptools
import uvloop

from tests.chaos.fates import (
    CLEAR,
    CLOSES_QUIETLY,
    RESETS_AT_ONCE,
    Fate,
    Weather,
    fate_of,
    is_ready,
    refusal,
)
from tests.chaos.journal import Event, Writer
from tests.chaos.orders import ORDER_HEADER, Form, Order, read_order

UNREAD_S = 2.0
GARBAGE = b"\x16\x03\x01 this is no HTTP\r\n\r\n"
MODELS = b'{"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "sglang"}]}'


class Lane:
    """`in_progress`: the requests whose head has come and whose answer is not out yet."""

    def __init__(self, name: str, port: int, journal: Path, seed: str) -> None:
        self.name = name
        self.journal = Writer(journal)
        self.rng = random.Random(f"{seed} {name} {time.monotonic_ns()}")
        self.weather: Weather = dict(CLEAR)
        self.ready = True
        self.in_progress: dict[Link, Order] = {}
        self.thawed = asyncio.Event()
        self.thawed.set()
        self._port = port
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                lambda: Link(self), "127.0.0.1", self._port, backlog=4096
            )

    def close(self) -> None:
        """Take no connection any more; those that are there go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "weather":
                self.weather = command["weather"]
                self.ready = is_ready(self.weather)
            case "open":
                await self.open()
            case "close":
                self.close()
            case "freeze":
                self.thawed.clear()
            case "thaw":
                self.thawed.set()
            case "count":
                orders = list(self.in_progress.values())
                weights = {order.marker: order.weight for order in orders}
                return {"sequences": sum(weights.values()), "requests": len(orders)}
            case other:
                raise ValueError(other)
        return {}


class Link(asyncio.Protocol):
    """One connection from the gate."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._number = 0
        self._order: Order | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._sent = self._sent_crc = 0
        self._lost = False

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        if self._lane.rng.random() < self._lane.weather.get(RESETS_AT_ONCE, 0.0):
            self._lane.journal.write(Event.RESET)
            self._reset()

    def data_received(self, data: bytes) -> None:
        if not self._transport.is_closing():
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserError as error:
                # Nobody but the gate speaks to this lane: what it cannot read is a finding.
                self._lane.journal.write(Event.SPOILT, text=type(error).__name__)
                self._reset()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._writable.set()
        if self._order is not None:
            self._ended(Event.GONE)
        if self._task is not None:
            self._task.cancel()

    def _reset(self) -> None:
        sock: socket.socket = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    # What the parser says

    def on_url(self, url: bytes) -> None:
        self._path, self._header, self._came, self._came_crc = url, b"", 0, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == ORDER_HEADER:
            self._header = value

    def on_headers_complete(self) -> None:
        self._number += 1
        if not self._header:
            return
        self._order, self._length, self._crc = read_order(self._header)
        self._sent = self._sent_crc = 0
        lane = self._lane
        lane.in_progress[self] = self._order
        lane.journal.write(Event.HEAD, self._order.marker, number=self._number)
        fate = fate_of(lane.weather, lane.rng)
        if fate is Fate.FULL_EVENT and self._order.form is not Form.STREAM:
            fate = Fate.QUEUE_FULL
        self._fate = fate
        lane.journal.write(Event.FATE, self._order.marker, text=fate)
        if fate is Fate.RST_HEAD:
            self._break(Event.CUT)
        elif fate is Fate.HANGS_UNREAD:
            self._transport.pause_reading()
            self._task = self._loop.create_task(self._hang_unread())

    def on_body(self, piece: bytes) -> None:
        self._came += len(piece)
        self._came_crc = zlib.crc32(piece, self._came_crc)

    def on_message_complete(self) -> None:
        if self._order is None:
            if not self._header:
                self._answer_probe()
            return
        whole = (self._came, self._came_crc) == (self._length, self._crc)
        event = Event.READ if whole else Event.SPOILT
        self._lane.journal.write(event, self._order.marker, number=self._number)
        if self._fate is not Fate.HANGS_UNREAD:
            self._task = self._loop.create_task(self._meet(self._order, self._fate))

    def _answer_probe(self) -> None:
        ready = self._lane.ready
        body = MODELS if self._path.startswith(b"/v1/models") else b"{}"
        known = self._path.startswith((b"/v1/models", b"/ready"))
        status = (200 if ready else 503) if known else 404
        self._write(_head(status, b"application/json", len(body)) + body)
        if status == 200 and self._path.startswith(b"/ready"):
            self._lane.journal.write(Event.READY)

    # An answer

    async def _meet(self, order: Order, fate: Fate) -> None:
        rng, lane = self._lane.rng, self._lane
        if fate is Fate.LATE:
            await asyncio.sleep(rng.uniform(0.1, 1.0))
        await lane.thawed.wait()
        match fate:
            case Fate.SERVED | Fate.LATE | Fate.SLOW:
                await self._serve(order, pause_s=0.1 if fate is Fate.SLOW else 0.004)
            case Fate.ERROR | Fate.NOT_READY | Fate.QUEUE_FULL | Fate.FULL_EVENT:
                await self._refuse(*refusal(fate, order.marker))
            case Fate.RST_READ:
                self._break(Event.CUT)
            case Fate.FIN_READ:
                self._ended(Event.CUT)
                self._transport.close()
            case Fate.GARBLED:
                self._ended(Event.CUT)
                self._write(GARBAGE)
                self._transport.close()
            case Fate.HANGS:
                await self._until_left()
            case _:
                await self._serve(order, pause_s=0.01, broken=fate)

    async def _refuse(self, status: int, kind: bytes, body: bytes) -> None:
        # A full queue's event is one of a stream, framed as such.
        chunked = kind == b"text/event-stream"
        self._write(_head(status, kind, None if chunked else len(body)))
        self._put(body, chunked=chunked)
        await self._finish(chunked=chunked)

    async def _serve(self, order: Order, *, pause_s: float, broken: Fate | None = None) -> None:
        rng = self._lane.rng
        answer = order.answer()
        chunked = order.form is Form.STREAM or rng.random() < 0.3
        pieces = _pieces(answer, rng)
        # A break leaves at least one byte out.
        until = rng.randrange(len(pieces)) if broken else len(pieces)
        kind = b"text/event-stream" if order.form is Form.STREAM else b"application/json"
        self._write(_head(200, kind, None if chunked else len(answer)))
        for piece in pieces[:until]:
            # Not after it: the last one ends the answer.
            await asyncio.sleep(rng.uniform(0, 2 * pause_s))
            await self._lane.thawed.wait()
            self._put(piece, chunked=chunked)
            await self._writable.wait()
        match broken:
            case None:
                await self._finish(chunked=chunked)
            case Fate.CUT_RST:
                self._break(Event.CUT)
            case Fate.STALLS:
                await self._until_left()
            case _:
                if broken is Fate.GARBLED_BODY and chunked:
                    self._write(b"no size\r\n")
                self._ended(Event.CUT)
                self._transport.close()

    def _write(self, data: bytes) -> None:
        # uvloop's transport takes it ill to be written to between its end and our being told.
        if not self._transport.is_closing():
            self._transport.write(data)

    def _put(self, piece: bytes, *, chunked: bool) -> None:
        """A piece of an answer's body. One that is not chunked may be all of it."""
        self._sent += len(piece)
        self._sent_crc = zlib.crc32(piece, self._sent_crc)
        self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)

    async def _finish(self, *, chunked: bool) -> None:
        """The answer is whole, and out once the kernel has taken everything."""
        if chunked:
            self._write(b"0\r\n\r\n")
        await self._writable.wait()
        lane = self._lane
        self._ended(Event.SENT)
        if lane.rng.random() < lane.weather.get(CLOSES_QUIETLY, 0.0):
            lane.journal.write(Event.QUIET)
            self._transport.close()

    async def _hang_unread(self) -> None:
        """For a while, and then read on: with more of a body unread than the sockets hold, a FIN
        waits behind it, and nobody here could know that the gate has left."""
        await asyncio.sleep(UNREAD_S)
        if not self._transport.is_closing():
            self._transport.resume_reading()
        await self._until_left()

    async def _until_left(self) -> None:
        """Until the gate closes its side."""
        if self._transport.is_closing():
            return
        looks = select.poll()
        looks.register(self._transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
        while not self._lost and not looks.poll(0):
            await asyncio.sleep(0.02)
        self._transport.abort()

    def _break(self, event: Event) -> None:
        self._ended(event)
        self._reset()

    def _ended(self, event: Event) -> None:
        order, self._order = self._order, None
        if order is None:
            return
        self._lane.in_progress.pop(self, None)
        number, crc = self._sent, self._sent_crc
        self._lane.journal.write(event, order.marker, number=number, crc=crc)


_PHRASES = {200: b"OK", 404: b"Not Found", 500: b"Internal Server Error"}


def _head(status: int, kind: bytes, length: int | None) -> bytes:
    phrase = _PHRASES.get(status, b"Service Unavailable")
    framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    return b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\n%b\r\n\r\n" % (status, phrase, kind, framing)


def _pieces(data: bytes, rng: random.Random) -> list[bytes]:
    """Cut anywhere, frames or not, into some two dozen pieces at most."""
    size = max(1, len(data) // 12)
    pieces, at = [], 0
    while at < len(data):
        end = at + rng.randint(1, 2 * size)
        pieces.append(data[at:end])
        at = end
    return pieces


async def _main(name: str, port: int, journal: Path, seed: str) -> None:
    loop = asyncio.get_running_loop()
    lane = Lane(name, port, journal, seed)
    await lane.open()
    print(json.dumps({"listening": port}), flush=True)
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async for line in commands:
        print(json.dumps(await lane.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
