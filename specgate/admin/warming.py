"""The first call of each route, made before anyone else can.

FastAPI builds a route's dependants and serializers, and its OpenAPI page, when they are first
asked for: some twenty milliseconds each in which every stream stands still. A gate that is about
to listen asks for all of them itself.
"""

from collections.abc import MutableMapping
from typing import Any

from fastapi import FastAPI

from specgate.proxy.app import OWN_PATHS, OWN_ROOT

Message = MutableMapping[str, Any]

_READ = (
    *sorted(OWN_PATHS),
    f"{OWN_ROOT}/status",
    f"{OWN_ROOT}/openapi.json",
    f"{OWN_ROOT}/docs",
    f"{OWN_ROOT}/docs/files/favicon-32x32.png",
)
_CHANGED = (
    ("PUT", f"{OWN_ROOT}/threshold"),
    ("PUT", f"{OWN_ROOT}/mode"),
    ("POST", f"{OWN_ROOT}/reload"),
)


async def warm(app: FastAPI) -> None:
    """Call every route once, in this process. Nothing changes: what could is asked without a
    token, and refused."""
    for path in _READ:
        await _call(app, "GET", path)
    for method, path in _CHANGED:
        await _call(app, method, path)


async def _call(app: FastAPI, method: str, path: str) -> None:
    scope: Message = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": None,
        "client": None,
        "scheme": "http",
        "method": method,
        "root_path": "",
        "path": path,
        "raw_path": path.encode("ascii"),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "state": {},
    }
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    await app(scope, receive, _send)


async def _send(message: Message) -> None:
    """To nobody."""
