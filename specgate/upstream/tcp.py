"""What TCP is asked and told, beyond reading and writing.

Peers may vanish without a word: a host that lost its power or its route sends neither FIN nor RST.
On a silent connection, as in the longest prefill, nothing would ever tell, so TCP asks after them,
towards clients and lanes alike. And a peer may have stopped reading when we end a connection.
"""

import contextlib
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


def reset_on_close(sock: socket.socket) -> None:
    """Have this socket's close be a reset, which overtakes what the peer has yet to take, in its
    kernel or in ours. A FIN waits behind that, and a peer that does not read never sees it."""
    with contextlib.suppress(OSError, ValueError):  # it is closed already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def taken_whole(sock: socket.socket) -> bool:
    """Whether the peer's kernel has acknowledged every byte that was written to a TCP socket; True
    where ours does not say.

    Certain once the peer's FIN has come, which carries its last acknowledgement: a peer that ends
    both directions takes nothing from then on. Before that an acknowledgement may be on its way.
    """
    if fcntl is None:
        return True
    try:
        waiting = fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0" * 4)
    except (OSError, ValueError):
        return True  # it is no TCP socket, or closed
    return bool(struct.unpack("i", waiting)[0] == 0)
