"""Peers that vanish without a word: TCP asks after them, towards clients and lanes alike.

A host that lost its power or its route sends neither FIN nor RST. On a silent connection, as in the
longest prefill, nothing else would ever tell.
"""

import socket
import struct
from typing import Protocol

try:
    import fcntl
    import termios
except ImportError:  # not a Unix
    fcntl = termios = None  # type: ignore[assignment]

PROBED_AFTER_S = 30
"""Silence before the first question."""

PROBED_EVERY_S = 10
PROBES = 3
"""Questions without an answer after which the connection is reset: about a minute in all."""

KEEP_ALIVE: tuple[tuple[int, int, int], ...] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (
            ("TCP_KEEPIDLE", PROBED_AFTER_S),
            ("TCP_KEEPINTVL", PROBED_EVERY_S),
            ("TCP_KEEPCNT", PROBES),
        )
        # Where the platform has none, its own times hold.
        if hasattr(socket, name)
    ),
)
"""(level, option, value), as `setsockopt` takes them."""


class HasOptions(Protocol):
    """A socket, or an event loop's view of one."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


def keep_alive(sock: HasOptions) -> None:
    """Have the kernel ask after this socket's peer; a listening one's connections inherit it."""
    for level, option, value in KEEP_ALIVE:
        sock.setsockopt(level, option, value)


def taken_whole(sock: socket.socket) -> bool:
    """Whether the peer's kernel has acknowledged every byte that was written to a TCP socket; True
    where ours does not say.

    To be asked once the peer's FIN has come, which carries its last acknowledgement: a peer that
    ends both directions takes nothing from then on.
    """
    if fcntl is None:
        return True
    try:
        waiting = fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0" * 4)
    except (OSError, ValueError):
        return True  # it is no TCP socket, or closed
    return bool(struct.unpack("i", waiting)[0] == 0)
