"""How a connection to a lane is made: its name asked, its addresses tried, TLS within it."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType

from specgate.core.errors import ConnectFailed
from specgate.upstream.base import Origin
from specgate.upstream.connection import Connection
from specgate.upstream.stalls import RunningTimeout
from specgate.upstream.tcp import keep_alive

FALLBACK_S = 0.25
"""How long one address is tried before the next is, beside it (RFC 8305)."""


async def connect(
    origin: Origin,
    timeout_s: float,
    tls: ssl.SSLContext | None,
    on_idle_end: Callable[[Connection], None],
) -> Connection:
    """A fresh connection. `timeout_s`: for all of it, and not counted while the event loop stands
    still. `tls`: for https. `on_idle_end`: see `Connection`. Raises ConnectFailed."""
    loop = asyncio.get_running_loop()
    try:
        async with RunningTimeout(timeout_s):
            sock = await _open_socket(origin.host, origin.port)
            try:
                transport, connection = await loop.create_connection(
                    lambda: Connection(origin.lane, on_idle_end, sock), sock=sock
                )
            except BaseException:
                sock.close()
                raise
            if origin.scheme == "https":
                if tls is None:
                    # A reload made it https, and certificates are read at the start.
                    connection.abort()
                    raise OSError("https needs a restart of the gate")
                await _encrypt(transport, connection, tls, origin.host)
    except TimeoutError as error:
        message = f"the {origin.lane} lane took no connection in {timeout_s:g} s"
        raise ConnectFailed(message, lane=origin.lane) from error
    except (OSError, UnicodeError) as error:
        # UnicodeError: a name that no resolver can be asked for.
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        message = f"the {origin.lane} lane took no connection: {what}"
        raise ConnectFailed(message, lane=origin.lane) from error
    return connection


async def _open_socket(host: str, port: int) -> socket.socket:
    """A connected socket: names are asked anew each time, and families raced with a head start."""
    if (literal := _literal(host, port)) is not None:
        found: Sequence[AddrInfoType] = [literal]
    else:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    sock = await aiohappyeyeballs.start_connection(
        found, happy_eyeballs_delay=FALLBACK_S if len(found) > 1 else None, interleave=1
    )
    keep_alive(sock)
    return sock


def _literal(host: str, port: int) -> AddrInfoType | None:
    """An address as the resolver would give it; None for a name, and for a scope that it knows. It
    runs in a thread, and a busy machine may let that wait for longer than connecting takes."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)
    if address.scope_id is not None:
        return None
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0)


async def _encrypt(
    transport: asyncio.Transport, connection: Connection, tls: ssl.SSLContext, host: str
) -> None:
    """In a step of its own: made in one with the connection, a handshake that was given up just as
    it succeeded left the loop with a transport whose socket we had closed."""
    loop = asyncio.get_running_loop()
    try:
        encrypted = await loop.start_tls(transport, connection, tls, server_hostname=host)
        if encrypted is None:
            raise ConnectionResetError("the connection ended within the handshake")
    except BaseException:
        connection.abort()
        raise
    connection.connection_made(encrypted)
