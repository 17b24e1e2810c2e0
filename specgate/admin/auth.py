"""Who may change things, and with how much: whoever sends the admin token, and a small body.
And who may read: everyone, or the same."""

import hmac
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specgate.admin.models import ErrorBody

BODY_LIMIT = 64 * 1024
"""Bytes of a changing call's body; the largest sensible one has less than a hundred."""

BEARER = HTTPBearer(auto_error=False, description="SPECGATE_ADMIN_TOKEN")
"""As a dependency it puts the token into the OpenAPI page; `guarded` is what checks it."""


class Refused(HTTPException):
    """401 for a wrong or missing token, 403 where there is none to be right, 413 for a body that is
    too large, 422 for settings that do not do, 503 where too many listen. An HTTPException: of all
    that reading a body may raise, FastAPI lets only these through."""

    def __str__(self) -> str:
        return str(self.detail)


def guarded(token: str | None) -> type[APIRoute]:
    """A class of routes that look at the token first. FastAPI reads a body, of any size, and
    decodes it before the first dependency runs; a stranger is told nothing of what is wrong with
    one, and given no memory for it."""

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def checked(request: Request) -> Response:
                _check(await BEARER(request), token)
                return await handle(Request(request.scope, _bounded(request)))

            return checked

    return Guarded


def reading_router(token: str | None) -> APIRouter:
    """For calls that read. token: what they ask for; None: they are open."""
    told = "Reading asks for the token too, and it is missing or wrong."
    return APIRouter(
        tags=["reading"],
        route_class=APIRoute if token is None else guarded(token),
        dependencies=[] if token is None else [Depends(BEARER)],
        responses={401: {"model": ErrorBody, "description": told}},
    )


class Asked:
    """An ASGI application that asks for the token first: for what is no APIRoute."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _check(await BEARER(Request(scope)), self._token)
        await self._app(scope, receive, send)


def _check(credentials: HTTPAuthorizationCredentials | None, token: str | None) -> None:
    """In constant time."""
    if token is None:
        raise Refused(
            403,
            "changes are off: start the gate with SPECGATE_ADMIN_TOKEN set, and send it as "
            "'Authorization: Bearer ...'",
        )
    given = "" if credentials is None else credentials.credentials
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise Refused(401, "send the gate's SPECGATE_ADMIN_TOKEN as 'Authorization: Bearer ...'")


def _bounded(request: Request) -> Receive:
    """The request's `receive`, up to BODY_LIMIT."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > BODY_LIMIT:
        raise _too_large()
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > BODY_LIMIT:
            raise _too_large()
        return message

    return receive


def _too_large() -> Refused:
    return Refused(413, f"the body of a control call is at most {BODY_LIMIT} bytes")
