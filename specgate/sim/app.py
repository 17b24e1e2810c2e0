"""The simulated engine as an ASGI app: one engine, SGLang's routes, and `/_sim/` for tests.

/_sim/state     GET: exact counts
/_sim/faults    GET shows, POST sets (all of them, from one JSON object), DELETE clears
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from specgate.sim.engine import Engine
from specgate.sim.faults import Faults, FaultsError, read_faults
from specgate.sim.generation import Kind, generation
from specgate.sim.replies import error_reply, json_reply
from specgate.sim.surface import Surface

OPEN_PATHS = ("/health", "/ready", "/metrics", "/_sim/")


def build_app(engine: Engine, *, api_key: str | None = None, port: int = 0) -> Starlette:
    """`api_key`: asked for as a bearer token on every path but probes, metrics and `/_sim/`.
    `port` is only reported by `/server_info`.
    """
    surface = Surface(engine, port=port)
    middleware = [
        Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    ]
    if api_key:
        middleware.append(Middleware(_KeyGuard, api_key=api_key))
    return Starlette(
        routes=[
            Route("/v1/chat/completions", _generates(engine, "chat"), methods=["POST"]),
            Route("/v1/completions", _generates(engine, "completion"), methods=["POST"]),
            Route("/generate", _generates(engine, "generate"), methods=["POST", "PUT"]),
            Route("/health", surface.health),
            Route("/health_generate", surface.health),
            Route("/ready", surface.ready),
            Route("/ping", surface.ping),
            Route("/v1/models", surface.models),
            Route("/v1/models/{model:path}", surface.model),
            Route("/model_info", surface.model_info),
            Route("/get_model_info", surface.model_info),
            Route("/server_info", surface.server_info),
            Route("/get_server_info", surface.server_info),
            Route("/v1/loads", surface.loads),
            Route("/metrics", surface.metrics),
            Route("/abort_request", surface.abort_request, methods=["POST"]),
            Route("/flush_cache", surface.flush_cache, methods=["GET", "POST"]),
            Route("/pause_generation", surface.pause_generation, methods=["POST"]),
            Route("/continue_generation", surface.continue_generation, methods=["POST"]),
            *(
                Route(f"/{verb}_memory_occupation", handler, methods=["GET", "POST"])
                for verb, handler in (
                    ("release", surface.release_memory),
                    ("resume", surface.resume_memory),
                )
            ),
            Route("/_sim/state", _state(engine)),
            Route("/_sim/faults", _faults(engine), methods=["GET", "POST", "DELETE"]),
        ],
        middleware=middleware,
        exception_handlers={HTTPException: _http_error},
    )


def _generates(engine: Engine, kind: Kind) -> Callable[[Request], Awaitable[Response]]:
    async def generates(request: Request) -> Response:
        return await generation(request, engine, kind)

    return generates


def _state(engine: Engine) -> Callable[[Request], Awaitable[Response]]:
    async def state(request: Request) -> Response:
        return json_reply(engine.state())

    return state


def _faults(engine: Engine) -> Callable[[Request], Awaitable[Response]]:
    async def faults(request: Request) -> Response:
        if request.method == "POST":
            try:
                engine.set_faults(read_faults(await request.body()))
            except FaultsError as exc:
                return error_reply(f"bad faults: {exc}", 400)
        elif request.method == "DELETE":
            engine.set_faults(Faults())
        return json_reply(msgspec.to_builtins(engine.faults))

    return faults


async def _http_error(request: Request, exc: Exception) -> Response:
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    detail = exc.detail if isinstance(exc, HTTPException) else str(exc)
    return error_reply(detail, status)


class _KeyGuard:
    """401 with a small flat body unless the bearer token is the key. OPTIONS is always open."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._wanted = f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._passes(scope):
            await json_reply({"error": "Unauthorized"}, 401)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _passes(self, scope: dict[str, Any] | Scope) -> bool:
        if scope["method"] == "OPTIONS" or scope["path"].startswith(OPEN_PATHS):
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return hmac.compare_digest(given, self._wanted)
