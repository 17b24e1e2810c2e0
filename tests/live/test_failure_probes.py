"""What a lane may do to a probe: nothing of it is an error of the gate's."""

import asyncio
import contextlib
import socket
import struct
import threading

import httpx2
import uvloop

from specgate.control.prober import Prober, probe_client
from specgate.core.config import PolicyConfig
from specgate.core.events import Probed
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin
from tests.support.scripted import manual_gate

RESET = struct.pack("ii", 1, 0)
TRIES = 300


def reset_all(listener: socket.socket) -> None:
    """Take every connection and reset it at once, until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            link, _ = listener.accept()
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            link.close()


def test_a_connection_that_is_reset_as_it_is_made():
    """On uvloop, where the gate runs, one in some dozens was an AttributeError."""

    async def probes(url: str) -> None:
        async with probe_client() as client:
            for _ in range(TRIES):
                with contextlib.suppress(httpx2.TransportError):
                    async with asyncio.timeout(5):
                        await client.get(url)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        resetting = threading.Thread(target=reset_all, args=(listener,))
        resetting.start()
        try:
            uvloop.run(probes(f"http://127.0.0.1:{listener.getsockname()[1]}/ready"))
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            resetting.join()


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """404 at /ready; a list of models that never ends, for as long as somebody reads it."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /ready "):
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            while True:
                writer.write(b"[" * 65536)
                await writer.drain()
    writer.close()


async def test_an_answer_without_an_end_is_left_after_its_first_part():
    """Its status says enough. Read for as long as a probe may take, it was a gigabyte."""
    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    async with server, probe_client() as client:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        gate, clock, facts = manual_gate(PolicyConfig())
        gate.set_origin(Origin.of(Lane.SPEC, url))
        prober = Prober(gate=gate, client=client, observe=facts, clock=clock)
        await prober.probe(Lane.SPEC)
    assert [fact.sign for fact in facts.of(Probed)] == [Sign.READY]
