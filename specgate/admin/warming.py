"""The first call of each route, made before anyone else can.

FastAPI builds a route's dependants and serializers, and its OpenAPI page, when they are first
asked for: some twenty milliseconds each in which every stream stands still. A gate that is about
to listen asks for all of them itself.
"""

from collections.abc import Iterable, MutableMapping
from typing import Any

from fastapi import FastAPI

from specgate.proxy.app import OWN_PATHS, OWN_ROOT

Message = MutableMapping[str, Any]

_READ = (
    *sorted(OWN_PATHS),
    f"{OWN_ROOT}/status",
    f"{OWN_ROOT}/switches",
    f"{OWN_ROOT}/history",
    f"{OWN_ROOT}/curves",
    f"{OWN_ROOT}/events",
    f"{OWN_ROOT}/openapi.json",
    f"{OWN_ROOT}/docs",
    f"{OWN_ROOT}/docs/files/favicon-32x32.png",
)
_CHANGED = (
    ("PUT", f"{OWN_ROOT}/threshold"),
    ("PUT", f"{OWN_ROOT}/mode"),
    ("POST", f"{OWN_ROOT}/reload"),
    ("POST", f"{OWN_ROOT}/lanes/spec/drain"),
    ("POST", f"{OWN_ROOT}/lanes/spec/undrain"),
)


async def warm(app: FastAPI, read_token: str | None = None) -> None:
    """Call every route once, in this process. Nothing changes: what could is asked without a
    token, and refused. read_token: what reading asks for, if for anything."""
    authorised = (
        [] if read_token is None else [(b"authorization", b"Bearer " + read_token.encode())]
    )
    for path in _READ:
        await _call(app, "GET", path, authorised)
    for method, path in _CHANGED:
        await _call(app, method, path)


async def warm_own_paths(app: FastAPI) -> None:
    """The same for an application that has the probes and `/metrics` alone."""
    for path in sorted(OWN_PATHS):
        await _call(app, "GET", path)


async def _call(
    app: FastAPI, method: str, path: str, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
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
        "headers": [(b"host", b"localhost"), *headers],
        "state": {},
    }
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    await app(scope, receive, _send)


async def _send(message: Message) -> None:
    """To nobody."""
