"""The gate's own routes on a connection of our own: one exchange, told to an ASGI application.

The other way round from `proxy.app`: there ASGI becomes a downstream, here a downstream's exchange
becomes ASGI, so that FastAPI serves the control surface on the connections that we carry.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from specgate.core.errors import ClientGone
from specgate.proxy.exchange import Exchange

Message = MutableMapping[str, Any]
App = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[Message]],
        Callable[[Message], Awaitable[None]],
    ],
    Awaitable[None],
]


async def serve_asgi(
    app: App,
    exchange: Exchange,
    *,
    client: tuple[str, int] | None,
    server: tuple[str, int] | None,
    scheme: str,
    state: dict[str, Any],
) -> None:
    """Run the application over the exchange. Raises what the application raises."""
    raw_path, _, query = exchange.target.partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.0" if exchange.http10 else "1.1",
        "server": server,
        "client": client,
        "scheme": scheme,
        "method": exchange.method.decode("ascii"),
        "root_path": "",
        "path": exchange.path,
        "raw_path": raw_path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in exchange.headers],
        "state": state.copy(),
    }
    gone = asyncio.get_running_loop().create_future()
    exchange.on_gone(lambda: gone.set_result(None))
    ended = False

    async def receive() -> Message:
        nonlocal ended
        if ended:
            await gone
            return {"type": "http.disconnect"}
        try:
            piece = await exchange.read()
        except ClientGone:
            return {"type": "http.disconnect"}
        ended = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            await exchange.start(message["status"], b"", list(message.get("headers", [])))
            return
        full = exchange.write(body) if (body := message.get("body", b"")) else False
        if not message.get("more_body", False):
            await exchange.finish([])
        elif full:
            await exchange.drain()

    await app(scope, receive, send)
