"""The crowd: so many clients at once, each with one request after the other; what came of each."""

import asyncio
import itertools
import random
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.chaos.manners import Leaves, Manner, drawn
from tests.chaos.orders import ORDER_HEADER, Form, Order
from tests.chaos.reading import Reading, Seen
from tests.support.client import CHAT, JSON, RawClient, request_bytes
from tests.support.steps import chunk

STUCK_S = 60.0
"""A request that took longer than this never ends: every time-out of the gate is far below."""

PIECES = 6
"""In which a body is sent that is sent with pauses."""


@dataclass(slots=True)
class Outcome:
    """began, ended: monotonic seconds. lane, code: what the gate said, empty for nothing. told: an
    error event stood where the lane had broken off."""

    order: Order
    manner: Manner
    began: float
    ended: float = 0.0
    seen: Seen = Seen.NOTHING
    status: int | None = None
    lane: str = ""
    code: str = ""
    retry_after: str = ""
    left: bool = False
    stuck: bool = False
    told: bool = False
    length: int = 0
    detail: str = ""


class Crowd:
    """`may_move`: cleared, nobody begins or leaves, and nobody reads slowly. `limit`: so many
    requests, and it stops of itself."""

    def __init__(self, url: str, seed: int, *, brief: bool = False) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self.outcomes: list[Outcome] = []
        self.may_move = asyncio.Event()
        self.may_move.set()
        self.stopping = False
        self.limit: int | None = None
        self._host, self._port = parts.hostname, parts.port
        self._seed = seed
        self._brief = brief
        self._numbers = itertools.count(1)

    async def client(self, number: int) -> None:
        """One client, until the crowd stops."""
        rng = random.Random(f"{self._seed} client {number}")
        link: RawClient | None = None
        while not self.stopping:
            await self.may_move.wait()
            request = next(self._numbers)
            if self.limit is not None and request > self.limit:
                break
            marker = f"r{request}-{rng.getrandbits(32):08x}"
            order, manner = drawn(rng, marker, brief=self._brief)
            if link is None:
                link = await RawClient.open(
                    self._host, self._port, receive_buffer=4096 if manner.slow else None
                )
            outcome, again = await self._asked(link, order, manner, rng)
            self.outcomes.append(outcome)
            if outcome.retry_after:
                # Sooner than told, but not at once: nothing else would be seen of the rest.
                await asyncio.sleep(rng.uniform(0.1, 0.5))
            if not (again and manner.reuse):
                await _closed(link)
                link = None
        if link is not None:
            await _closed(link)

    async def _asked(
        self, link: RawClient, order: Order, manner: Manner, rng: random.Random
    ) -> tuple[Outcome, bool]:
        """What came of one request, and whether its connection may have another."""
        outcome, reading = Outcome(order, manner, time.monotonic()), Reading()
        sending = asyncio.ensure_future(self._send(link, order, manner, rng))
        try:
            async with asyncio.timeout(STUCK_S):
                outcome.left = await self._carry_out(link, sending, reading, manner, rng)
        except TimeoutError:
            outcome.stuck = True
        sent = sending.done()
        sending.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await sending
        outcome.ended = time.monotonic()
        outcome.seen = reading.amounts_to(order, left=outcome.left)
        outcome.told = reading.told
        outcome.status = reading.status
        outcome.lane = reading.headers.get(b"x-specgate-lane", b"").decode()
        outcome.code = reading.code if outcome.seen is Seen.GATES_ERROR else ""
        outcome.retry_after = reading.headers.get(b"retry-after", b"").decode()
        outcome.length = len(reading.body)
        if outcome.seen in (Seen.STRANGE, Seen.SILENT_CUT):
            outcome.detail = f"{reading.spoilt} {bytes(reading.body[-300:])!r}"
        again = reading.complete and reading.keep_alive and sent and not outcome.left
        return outcome, again

    async def _carry_out(
        self,
        link: RawClient,
        sending: "asyncio.Future[None]",
        reading: Reading,
        manner: Manner,
        rng: random.Random,
    ) -> bool:
        """Read to the end, or leave: whether it left."""
        match manner.leaves:
            case Leaves.IN_UPLOAD | Leaves.AT_ONCE:
                await asyncio.wait([sending])
            case Leaves.WAITING:
                await asyncio.wait([sending])
                await asyncio.sleep(rng.uniform(0, 0.1))
            case Leaves.HALF:
                await asyncio.wait([sending])
                await self.may_move.wait()
                with suppress(OSError):
                    link.fin()
                await self._read(link, reading, manner, rng, up_to=None)
                return True
            case Leaves.READING:
                whole = await self._read(link, reading, manner, rng, up_to=rng.randint(1, 3000))
                if whole:
                    return False
            case Leaves.NEVER:
                await self._read(link, reading, manner, rng, up_to=None)
                return False
        await self.may_move.wait()
        if manner.by_reset:
            link.rst()
        else:
            await link.close()
        return True

    async def _send(
        self, link: RawClient, order: Order, manner: Manner, rng: random.Random
    ) -> None:
        body = order.body()
        headers = [(ORDER_HEADER, order.header(body))]
        if order.form is Form.MODELS:
            await link.send(request_bytes(b"GET", b"/v1/models", headers))
            return
        framing = (b"Content-Length", b"%d" % len(body))
        if manner.chunked:
            framing = (b"Transfer-Encoding", b"chunked")
        head = request_bytes(b"POST", CHAT, [JSON, *headers, framing])
        size = len(body) // PIECES + 1 if manner.paced or manner.chunked else len(body)
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        if manner.leaves is Leaves.IN_UPLOAD:
            pieces[-1] = pieces[-1][: len(pieces[-1]) // 2]
        framed = [chunk(piece) if manner.chunked else piece for piece in pieces]
        if manner.chunked and manner.leaves is not Leaves.IN_UPLOAD:
            framed.append(b"0\r\n\r\n")
        with suppress(ConnectionError):
            await link.send(head + framed[0])
            for piece in framed[1:]:
                if manner.paced and self.may_move.is_set():
                    await asyncio.sleep(rng.uniform(0, 0.05))
                await link.send(piece)

    async def _read(
        self,
        link: RawClient,
        reading: Reading,
        manner: Manner,
        rng: random.Random,
        *,
        up_to: int | None,
    ) -> bool:
        """To the end, or until so many bytes of the body have come: whether to the end."""
        while not (reading.complete or reading.spoilt):
            if manner.slow and not self.may_move.is_set():
                _open_up(link)
            elif manner.slow and reading.body:
                await _pause(link, rng.uniform(0, 0.04))
            data = await link.reader.read(65536)
            if not data:
                return True
            reading.feed(data)
            if up_to is not None and len(reading.body) >= up_to:
                return reading.complete
        return True


async def _closed(link: RawClient) -> None:
    with suppress(ConnectionError):
        await link.close()


async def _pause(link: RawClient, seconds: float) -> None:
    """Take nothing from the socket for a while. Only reading less would not do: a stream reader
    reads ahead."""
    transport = link.writer.transport
    if not transport.is_closing():
        transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(seconds)
    if not transport.is_closing():
        transport.resume_reading()  # type: ignore[attr-defined]


def _open_up(link: RawClient) -> None:
    """Have what is under way come at once: through a window of 4 KiB it would take seconds."""
    if not link.writer.transport.is_closing():
        link.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20
        )
