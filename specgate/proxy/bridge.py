"""The gate's own routes on a connection of our own: one exchange, told to an ASGI application.

The other way round from `proxy.app`: there ASGI becomes a downstream, here a downstream's exchange
becomes ASGI, so that FastAPI serves the control surface on the connections that we carry.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from specgate.core.errors import ClientGone, ClientStalled, RequestRefused
from specgate.proxy.exchange import Exchange
from specgate.proxy.watch import within

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
    send_s: float | None,
) -> None:
    """Run the application over the exchange. `send_s`: for a client that does not read.

    Raises what the application raises; RequestRefused where the client's request broke off,
    whatever the application made of that; ClientStalled.
    """
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
    exchange.on_gone(lambda _: None if gone.done() else gone.set_result(None))
    ended = False
    fault: RequestRefused | None = None

    def stalled() -> ClientStalled:
        return ClientStalled(f"the client read nothing for {send_s:g} s")

    async def receive() -> Message:
        nonlocal ended, fault
        if ended and fault is None:
            await gone
        if ended or fault is not None:
            return {"type": "http.disconnect"}
        try:
            piece = await exchange.read()
        except ClientGone:
            return {"type": "http.disconnect"}
        except RequestRefused as refused:
            fault = refused
            return {"type": "http.disconnect"}
        ended = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: Message) -> None:
        if fault is not None and not exchange.started:
            return
        if message["type"] == "http.response.start":
            await exchange.start(message["status"], b"", list(message.get("headers", [])))
            return
        full = exchange.write(message.get("body", b""))
        if not message.get("more_body", False):
            await exchange.finish([])
            if not gone.done():
                gone.set_result(None)  # ASGI's word for the end of a whole response, too
        elif full:
            await within(send_s, exchange.drain(), stalled)

    try:
        await app(scope, receive, send)
    except Exception:
        if fault is None or exchange.started:
            raise
    if fault is not None and not exchange.started:
        raise fault
