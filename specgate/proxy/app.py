"""Step 1: whose path is it? And the data path as a plain ASGI app.

No middleware, no Request or Response objects: what ASGI gives goes to `proxy.forward` as it is.
What ASGI loses on the way is listed in docs/reference/portable-form.md.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from specgate.core.errors import ClientGone, Fault, RequestRefused
from specgate.core.headers import Pairs, body_length, first_values
from specgate.proxy.downstream import Downstream
from specgate.proxy.head import refusal
from specgate.proxy.keys import Keyring
from specgate.proxy.replies import error_body

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

OWN_PATHS = frozenset({"/livez", "/readyz", "/health", "/ready", "/metrics"})
OWN_ROOT = "/_specgate"


def is_own(path: str) -> bool:
    """Whether a decoded path is the gate's. All else is the engines'."""
    return path in OWN_PATHS or path == OWN_ROOT or path.startswith(OWN_ROOT + "/")


class Carrier(Protocol):
    """Who answers what is not the gate's own: `proxy.forward.Forwarder`."""

    async def carry(self, down: Downstream) -> None: ...

    async def refuse(self, down: Downstream, fault: Fault) -> None: ...


class ProxyApp:
    """Everything that is not the gate's own goes to a lane."""

    def __init__(self, forwarder: Carrier, keyring: Keyring) -> None:
        self._forwarder = forwarder
        self._keyring = keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        down = AsgiDownstream(scope, receive, send)
        if is_own(down.path):
            # Behind the gate's routes, this is one that they do not know.
            await _not_found(down)
            return
        fault = refusal(down)
        if fault is None:
            await down.learn_length()
            fault = self._keyring.refusal(down)
        if fault is not None:
            down.closing = True
            await self._forwarder.refuse(down, fault)
        else:
            await self._forwarder.carry(down)


class AsgiDownstream:
    """`proxy.downstream.Downstream` over ASGI. The one owner of `receive`.

    ASGI can only send by waiting, so that every write makes this sink full, and `drain` sends.
    `closing`: the server is asked to end the connection with this response.
    """

    __slots__ = (
        "_ahead",
        "_at_end",
        "_body_ended",
        "_finished",
        "_framed_in_head",
        "_pending",
        "_receive",
        "_received",
        "_send",
        "_watcher",
        "closing",
        "headers",
        "http10",
        "length",
        "method",
        "path",
        "target",
        "values",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.closing = False
        version: str = scope.get("http_version", "1.1")
        self.http10 = version == "1.0"
        self._at_end = False
        self._received = 0
        self._body_ended = asyncio.Event()
        self._finished = False
        self._pending: list[bytes] = []
        self._watcher: asyncio.Task[None] | None = None
        self.method: bytes = scope["method"].encode("ascii")
        self.path: str = scope["path"]
        query: bytes = scope["query_string"]
        raw_path: bytes = scope["raw_path"]
        self.target = raw_path + b"?" + query if query else raw_path
        # A copy: uvicorn appends a chunked request's trailers to the list in the scope.
        self.headers: Pairs = list(scope["headers"])
        self.values: Mapping[bytes, bytes] = first_values(self.headers)
        self.length = body_length(self.values)
        # Whether the head says how long the body is.
        self._framed_in_head = version.startswith("1") or b"content-length" in self.values
        self._ahead: Message | None = None

    async def learn_length(self) -> None:
        """HTTP/2 and 3 send a body whose head says nothing of it: only what comes first tells
        whether there is one."""
        if self._framed_in_head:
            return
        self._ahead = first = await self._receive()
        if first["type"] != "http.request" or first.get("body") or first.get("more_body"):
            self.length = None

    def whole(self) -> bytes | None:
        return None

    async def read(self) -> bytes | None:
        while not self._at_end:
            message, self._ahead = self._ahead or await self._receive(), None
            if message["type"] == "http.disconnect":
                raise ClientGone("the client left while it sent its request")
            self._at_end = not message.get("more_body", False)
            if body := message.get("body", b""):
                self._received += len(body)
                return bytes(body)
        self._body_ended.set()
        if self.length is not None and self._received < self.length:
            # uvicorn drops the body of a request that offers an upgrade, and keeps its length: the
            # engine would wait for the rest, and take the next request for it.
            self.closing = True
            raise RequestRefused(400, "a body shorter than its length", code="bad_http")
        return None

    def on_gone(self, tell: Callable[[Fault], None] | None) -> None:
        if self._watcher is not None:
            # Not awaited: it ends in the loop's next turn.
            self._watcher.cancel()
            self._watcher = None
        if tell is not None:
            watching = self._watch(tell)
            self._watcher = asyncio.get_running_loop().create_task(watching, name="watch")

    async def _watch(self, tell: Callable[[Fault], None]) -> None:
        """One reader of `receive` at a time: while the body comes, its reader sees the leaving."""
        if self.length != 0:
            await self._body_ended.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        # The server says so too when a response is complete; that is not leaving.
        if not self._finished:
            tell(ClientGone("the client left"))

    def last(self) -> None:
        self.closing = True

    async def start(self, status: int, reason: bytes, headers: Pairs) -> None:
        if status in (204, 304):
            # The length of what is not sent; uvicorn would miss that many bytes.
            headers = [pair for pair in headers if pair[0].lower() != b"content-length"]
        if self.closing:
            headers = [*headers, (b"connection", b"close")]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, piece: bytes) -> bool:
        self._pending.append(piece)
        return True

    async def drain(self) -> None:
        pending, self._pending = self._pending, []
        for piece in pending:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self, trailers: Pairs) -> None:
        await self.drain()
        self._finished = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _not_found(down: AsgiDownstream) -> None:
    body = error_body(
        f"the gate has no such route; see {OWN_ROOT}/docs", kind="not_found_error", code="no_route"
    )
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await down.start(404, b"", headers)
    down.write(body)
    await down.finish([])
