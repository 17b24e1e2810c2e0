"""A client's connection in memory: the gate's protocol between a fake transport and a forwarder
that carries nothing and records what it was given."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from specgate.core.errors import Fault
from specgate.proxy.downstream import Downstream
from specgate.proxy.forward import Forwarder
from specgate.proxy.keys import Keyring
from specgate.proxy.limits import Limits
from specgate.proxy.protocol import GateProtocol
from tests.support.requests_oracle import Asked


class Pipe(asyncio.Transport):
    """What the client would see: `written`, and whether it `ended`."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.ended = False
        self.reading = True

    def write(self, data: Any) -> None:
        assert not self.ended
        self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self.ended = True

    abort = close

    def is_closing(self) -> bool:
        return self.ended

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class Recording:
    """A forwarder that reads each request to its end, and answers with its number."""

    def __init__(self) -> None:
        self.carried: list[Asked] = []
        self.refused: list[Fault] = []

    async def carry(self, down: Downstream) -> None:
        headers = list(down.headers)
        body = b""
        try:
            while (piece := await down.read()) is not None:
                body += piece
        except Fault as fault:
            await self.refuse(down, fault)
            return
        headers = [(name, value.rstrip(b" \t")) for name, value in headers]
        self.carried.append(Asked(down.method, down.target, headers, body))
        await self._answer(down, 200, b"%d" % len(self.carried))

    async def refuse(self, down: Downstream, fault: Fault) -> None:
        self.refused.append(fault)
        if fault.status != 499:
            await self._answer(down, fault.status, b"no")

    async def _answer(self, down: Downstream, status: int, body: bytes) -> None:
        await down.start(status, b"", [(b"content-length", b"%d" % len(body))])
        down.write(body)
        await down.finish([])


@dataclass
class ServerState:
    total_requests: int = 0
    connections: set[Any] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


@contextmanager
def errors_logged() -> Iterator[list[str]]:
    kept: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: kept.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        yield kept
    finally:
        logging.getLogger().removeHandler(handler)


async def converse(pieces: Iterable[bytes], limits: Limits | None = None) -> tuple[Recording, Pipe]:
    """Send the pieces, as far as the gate reads them, then leave. Whatever happens within, nothing
    is raised, logged, or left undone."""

    async def own(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("no own path is asked for")

    loop = asyncio.get_running_loop()
    unheard: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unheard.append(context))
    forwarder, pipe, state = Recording(), Pipe(), ServerState()
    with errors_logged() as errors:
        protocol = GateProtocol(
            app=own,
            forwarder=cast("Forwarder", forwarder),
            keyring=Keyring(),
            limits=limits or Limits(),
            server_state=state,
            state={},
        )
        protocol.connection_made(pipe)
        for piece in pieces:
            turns = 0
            while not pipe.reading and not pipe.ended and turns < 200:
                await asyncio.sleep(0)
                turns += 1
            if pipe.ended:
                break
            assert pipe.reading, "it reads no more, and nothing moves"
            protocol.data_received(piece)
            await asyncio.sleep(0)
        for _ in range(10_000):
            if pipe.ended or not state.tasks:
                break
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not state.tasks, "a request goes on without its client"
        assert not state.connections
    assert (errors, unheard) == ([], [])
    return forwarder, pipe
