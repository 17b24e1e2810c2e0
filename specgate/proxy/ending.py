"""How a client's connection ends: so that what was said arrives, and what was cut looks cut."""

import asyncio
import socket
import struct
from collections.abc import Callable

LINGER_S = 2.0
"""How long a client must have been silent after an early answer before its connection is closed:
closing one that still sends would reset it, and take the answer with it."""


class Ending:
    """One connection's end. `flush_s`: the longest wait for a client that does not read what it
    was sent, or does not stop to send what nobody reads; None waits for ever."""

    __slots__ = ("_flush_s", "_heard", "_loop", "_timer", "_transport", "_until", "begun")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, flush_s: float | None
    ) -> None:
        self.begun = False
        self._loop = loop
        self._transport = transport
        self._flush_s = flush_s
        self._until: float | None = None
        self._heard = False
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Flush, and close."""
        self.begun = True
        if self._transport.is_closing():
            return  # asyncio's TLS loses hold of itself when it is closed twice
        self._transport.close()
        if self._flush_s is not None and self._transport.get_write_buffer_size():
            self._after(self._flush_s, self._transport.abort)

    def linger(self) -> None:
        """Flush and end our direction; read on until the client has ended, or says no more."""
        self.begun = True
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._flush_s is not None:
            self._until = self._loop.time() + self._flush_s
        self._after(LINGER_S, self._look)

    def heard(self) -> None:
        """The client sent something that nobody reads any more."""
        self._heard = True

    def reset(self) -> None:
        """End it at once, so that the client cannot take what it got for the whole."""
        self.begun = True
        sock: socket.socket | None = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def over(self) -> None:
        """The connection is gone."""
        self.begun = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        busy = self._heard or self._transport.get_write_buffer_size() > 0
        self._heard = False
        if busy and (self._until is None or self._loop.time() < self._until):
            self._after(LINGER_S, self._look)
        else:
            self._transport.abort()

    def _after(self, delay_s: float, what: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, what)
