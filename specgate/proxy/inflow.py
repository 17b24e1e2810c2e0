"""Whether a client is read: while it is not, only the kernel says whether it is still there."""

import asyncio
import socket

from specgate.proxy.ending import Ending

PAUSED_LOOK_S = 0.5
"""How often a connection that is not being read is asked whether its client is still there."""


class Inflow:
    """One connection's. `reading`: whether what its client sends is taken."""

    __slots__ = ("_ending", "_looking", "_loop", "_transport", "reading")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, ending: Ending
    ) -> None:
        self.reading = True
        self._looking = False
        self._loop = loop
        self._transport = transport
        self._ending = ending

    def pause(self) -> None:
        """Read no more; a client that leaves meanwhile ends the connection."""
        self.reading = False
        self._transport.pause_reading()
        if not self._looking:
            self._looking = True
            self._loop.call_later(PAUSED_LOOK_S, self._look)

    def resume(self) -> None:
        self.reading = True
        self._transport.resume_reading()

    def _look(self) -> None:
        self._looking = not self.reading and not self._ending.begun
        if not self._looking:
            return
        if peer_has_left(self._transport.get_extra_info("socket")):
            self._ending.reset()
        else:
            self._loop.call_later(PAUSED_LOOK_S, self._look)


_LEFT = frozenset({7, 8, 9, 11})  # Linux: CLOSE, CLOSE_WAIT, LAST_ACK, CLOSING


def peer_has_left(sock: socket.socket | None) -> bool:
    """Whether the peer of a connected TCP socket has closed or reset it.

    Asks the kernel for the connection's state: a socket that is not being read reports neither.
    False where the kernel does not say (not Linux, not TCP), and where a FIN has not come yet,
    since it waits behind bytes for which there is no room.
    """
    if sock is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _LEFT
    except OSError:
        return True
