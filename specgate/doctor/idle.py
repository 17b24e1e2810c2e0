"""How long an engine leaves an idle connection open."""

import asyncio
import ssl
import time
from urllib.parse import urlsplit

from specgate.doctor.caller import ANSWER_S, authorised
from specgate.doctor.facts import KeepAlive
from specgate.engines.base import MODELS_PATH

WATCH_S = 6.5
"""Engines close after 5 s where nothing else is set; our pool takes none that rested for 4 s."""


async def keep_alive(url: str, key: str | None, tls: ssl.SSLContext) -> KeepAlive | None:
    """One request on a connection of its own, which then rests. None if that cannot be seen."""
    parts = urlsplit(url)
    headers = "".join(f"{name}: {value}\r\n" for name, value in authorised(key).items())
    request = (
        f"GET {parts.path.rstrip('/')}{MODELS_PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Accept: */*\r\n{headers}\r\n"
    )
    host, port = address(url)
    encrypted = tls if parts.scheme == "https" else None
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=encrypted)
    except OSError:
        return None
    try:
        writer.write(request.encode("latin-1", "replace"))
        return await _until_closed(reader)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        return None
    finally:
        writer.transport.abort()


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


async def _until_closed(reader: asyncio.StreamReader) -> KeepAlive | None:
    async with asyncio.timeout(ANSWER_S):
        head = await reader.readuntil(b"\r\n\r\n")
    if not head.split(b" ", 2)[1].startswith(b"2"):
        return None
    # The rest of the answer needs no reading for its end: what counts is when bytes came last.
    last = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(max(0.0, last + WATCH_S - time.monotonic())):
                piece = await reader.read(65_536)
        except TimeoutError:
            return KeepAlive(watched_s=WATCH_S, closed_after_s=None)
        except ConnectionResetError:
            piece = b""
        now = time.monotonic()
        if not piece:
            said_so = b"connection: close" in head.lower()
            return KeepAlive(watched_s=WATCH_S, closed_after_s=0.0 if said_so else now - last)
        last = now
