"""The first call of a route of the gate's own takes no more than the next: what FastAPI builds late
was built before the gate listened, and no stream waits for it."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from fastapi import FastAPI

from specgate.admin.warming import warm
from specgate.settings import load
from specgate.wiring import build
from tests.support.live import environment

URL = "http://127.0.0.1:1"
ENVIRON = environment(spec_url=URL, plain_url=URL, admin_token="t")
SLACK = 1000
"""Calls that take less than a millisecond; what is built late takes ten and twenty thousand."""

BODIES = {"/_specgate/threshold": {"threshold": 3}, "/_specgate/mode": {"mode": "auto"}}


def app_of_a_gate(**more: str) -> FastAPI:
    loaded = load({**ENVIRON, **environment(**more)})
    return build(loaded.settings, reload=lambda: loaded).app


def calls_described() -> list[tuple[str, str]]:
    """Of every route in the OpenAPI page; and the page, and what shows it."""
    paths: dict[str, dict[str, Any]] = app_of_a_gate().openapi()["paths"]
    described = [
        (method.upper(), path.replace("{lane}", "spec"))
        for path, item in paths.items()
        for method in item
    ]
    shown = ("openapi.json", "docs", "docs/files/swagger-ui.css")
    return described + [("GET", f"/_specgate/{path}") for path in shown]


@contextmanager
def python_calls() -> Iterator[list[int]]:
    """Calls of Python functions, of whatever package."""
    made = [0]

    def saw(_: FrameType, event: str, __: Any) -> None:
        made[0] += event == "call"

    sys.setprofile(saw)
    try:
        yield made
    finally:
        sys.setprofile(None)


async def calls_of(app: FastAPI, method: str, path: str) -> int:
    body = json.dumps(BODIES[path]).encode() if path in BODIES else b""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "client": None,
        "server": None,
        "state": {},
        "headers": [(b"authorization", b"Bearer t"), (b"content-type", b"application/json")],
    }
    statuses = []

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    with python_calls() as made:
        await app(scope, receive, send)
    assert statuses[0] in (200, 503)
    return made[0]


@pytest.mark.parametrize(("method", "path"), calls_described())
async def test_first_call_costs_no_more_than_the_next(method: str, path: str):
    app = app_of_a_gate()
    await warm(app)
    first = await calls_of(app, method, path)
    later = min([await calls_of(app, method, path) for _ in range(3)])
    assert first <= later + SLACK, (first, later)


@pytest.mark.parametrize("path", ["/_specgate/history", "/_specgate/openapi.json"])
async def test_nor_where_reading_asks_for_the_token(path: str):
    app = app_of_a_gate(control_read="token")
    await warm(app, "t")
    first = await calls_of(app, "GET", path)
    later = min([await calls_of(app, "GET", path) for _ in range(3)])
    assert first <= later + SLACK, (first, later)


async def test_without_warming_it_would():
    """What the test above would miss if nothing were built late any more."""
    app = app_of_a_gate()
    first = await calls_of(app, "GET", "/livez")
    assert first > 3 * await calls_of(app, "GET", "/livez")
