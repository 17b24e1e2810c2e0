"""What a lane may do to a probe: nothing of it is an error of the gate's."""

import asyncio
import contextlib
import socket
import struct
import threading

import httpx2
import uvloop

from specgate.control.prober import probe_client

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
