"""The one FastAPI application: the gate's own routes, and behind them the proxy."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, Route

from specgate.admin.auth import BEARER, Asked, Refused, guarded, reading_router
from specgate.admin.changes import of_mode, of_threshold
from specgate.admin.curves import curves_route
from specgate.admin.lanes import lane_routes
from specgate.admin.models import (
    Alive,
    ErrorBody,
    ModeChange,
    Ready,
    Reloaded,
    Status,
    ThresholdChange,
)
from specgate.admin.pages import ui_routes
from specgate.admin.recorded import History, SwitchLog
from specgate.admin.reload import Reloader
from specgate.admin.seen import Seen
from specgate.admin.stream import LISTENERS_MAX, EventStream, Feed
from specgate.control.gate import Gate
from specgate.core.events import Observer, SettingsChanged
from specgate.proxy.app import OWN_ROOT, ProxyApp
from specgate.settings import SettingsError

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]
Scrape = Callable[[str], Awaitable[tuple[str, bytes]]]
"""An Accept header to the content type and text of `/metrics`."""


def build_app(
    *,
    gate: Gate,
    seen: Seen,
    feed: Feed,
    proxy: ProxyApp,
    scrape: Scrape,
    reloader: Reloader,
    observe: Observer,
    admin_token: str | None,
    read_token: str | None,
    lifespan: Lifespan,
    with_metrics: bool = True,
) -> FastAPI:
    """Routes first; what none of them takes goes to the proxy. admin_token: what changes ask for;
    read_token: what reading asks for, but for the dashboard's page and files. with_metrics:
    `/metrics` is one of them, and not on a port of its own."""
    app = FastAPI(
        title="specgate",
        version=seen.version,
        description="The control surface of a gate between a speculative and a plain engine.",
        openapi_url=f"{OWN_ROOT}/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        # A redirect of ours would lose a body or a key: paths go to the engine as they are.
        redirect_slashes=False,
        lifespan=lifespan,
        responses={422: {"model": ErrorBody, "description": "A field is wrong."}},
    )
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unread)
    app.include_router(probe_routes(gate))
    if with_metrics:
        app.include_router(metrics_route(scrape))
    app.include_router(_reading(seen, feed, read_token))
    app.include_router(curves_route(seen, read_token))
    app.include_router(lane_routes(gate, admin_token))
    app.include_router(_changing(gate, seen, reloader, observe, admin_token))
    _add_docs(app)
    if read_token is not None:
        _ask_before(app.router.routes, read_token)
    app.router.routes += ui_routes(changeable=admin_token is not None, readable=read_token is None)
    app.mount("/", proxy)
    # What the mount's pattern does not match, such as a line break in a path, is the engines' too.
    app.router.default = proxy
    return app


def probe_routes(gate: Gate) -> APIRouter:
    """`/livez`, `/readyz` and its other names."""
    router = APIRouter(tags=["probes"])

    # HEAD too, which simple checkers send.
    @router.get("/livez", summary="Does the process answer?")
    @router.head("/livez", include_in_schema=False)
    async def livez() -> Alive:
        return Alive()

    @router.get(
        "/readyz",
        summary="Does a lane serve?",
        responses={503: {"model": Ready, "description": "No lane is known to serve."}},
    )
    @router.head("/readyz", include_in_schema=False)
    @router.api_route("/ready", methods=["GET", "HEAD"], include_in_schema=False)
    @router.api_route("/health", methods=["GET", "HEAD"], include_in_schema=False)
    async def readyz(response: Response) -> Ready:
        if not gate.ready:
            response.status_code = 503
        lanes = {lane: seen.health for lane, seen in gate.view().lanes.items()}
        return Ready(ready=gate.ready, stopping=gate.stopping, lanes=lanes)

    return router


def metrics_route(scrape: Scrape) -> APIRouter:
    """`/metrics`."""
    router = APIRouter(tags=["reading"])

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        content_type, text = await scrape(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    return router


def _reading(seen: Seen, feed: Feed, read_token: str | None) -> APIRouter:
    router = reading_router(read_token)

    @router.get(f"{OWN_ROOT}/status", summary="The gate now, and why")
    async def status() -> Status:
        return seen.status()

    @router.get(f"{OWN_ROOT}/switches", summary="The last switches, and why")
    async def switches() -> SwitchLog:
        return seen.switch_log()

    @router.get(
        f"{OWN_ROOT}/history",
        summary="The last hour, a point every five seconds",
        response_model=None,
        responses={200: {"model": History, "description": "done"}},
    )
    async def history(
        since: Annotated[
            float | None,
            Query(
                allow_inf_nan=False,
                description="Seconds since the epoch: only points after it.",
                examples=[1764450000],
            ),
        ] = None,
    ) -> Response:
        return Response(seen.history_json(since), media_type="application/json")

    @router.get(
        f"{OWN_ROOT}/events",
        summary="State and switches as they happen, as server-sent events",
        response_class=Response,
        responses={
            200: {
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
                "description": "Without an end: `event: state` with a Status as its data, "
                "at once and then every second; `event: switch` with a Switch, as it "
                "happens. A listener that does not read is cut off.",
            },
            503: {"model": ErrorBody, "description": f"{LISTENERS_MAX} listen already."},
        },
    )
    async def events() -> EventStream:
        # The stream joins in this turn of the loop: no other can come between.
        if feed.full:
            raise Refused(503, f"{LISTENERS_MAX} clients listen to the events already")
        return EventStream(feed)

    return router


def _changing(
    gate: Gate, seen: Seen, reloader: Reloader, observe: Observer, admin_token: str | None
) -> APIRouter:
    router = APIRouter(
        prefix=OWN_ROOT,
        tags=["changing"],
        route_class=guarded(admin_token),
        dependencies=[Depends(BEARER)],
        responses={
            401: {"model": ErrorBody, "description": "The token is missing or wrong."},
            403: {"model": ErrorBody, "description": "The gate was started without a token."},
            413: {"model": ErrorBody, "description": "The body is larger than 64 KiB."},
        },
    )

    @router.put("/threshold", summary="Set the threshold until the next reload or restart")
    async def set_threshold(change: ThresholdChange) -> Status:
        # A threshold that is set by hand wins over what a profile says of the lanes.
        before = gate.view().policy
        policy = replace(before, threshold=change.threshold, curves=None, contexts=None)
        gate.set_policy(policy)
        told = of_threshold(before, policy)
        observe(SettingsChanged(names=("threshold",), source="control", changes=told))
        return seen.status()

    @router.put("/mode", summary="Force a side, or give the decision back to the policy")
    async def set_mode(change: ModeChange) -> Status:
        before = gate.view().mode
        gate.set_mode(change.mode)
        told = of_mode(before, change.mode)
        observe(SettingsChanged(names=("mode",), source="control", changes=told))
        return seen.status()

    @router.post("/reload", summary="Read file and environment again")
    async def reload() -> Reloaded:
        try:
            outcome = await reloader.reload("control")
        except SettingsError as error:
            raise Refused(422, f"nothing changed: {error}") from None
        return Reloaded(
            changed=list(outcome.changed),
            needs_restart=list(outcome.needs_restart),
            warnings=list(outcome.warnings),
        )

    return router


def _add_docs(app: FastAPI) -> None:
    """Swagger UI from files of a package: a gate in a closed network has its page too."""
    files = f"{OWN_ROOT}/docs/files"
    app.mount(files, StaticFiles(packages=[("fastapi_swagger", "resources")]))

    async def docs(request: Request) -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url=f"{OWN_ROOT}/openapi.json",
            title="specgate",
            swagger_js_url=f"{files}/swagger-ui-bundle.js",
            swagger_css_url=f"{files}/swagger-ui.css",
            swagger_favicon_url=f"{files}/favicon-32x32.png",
        )

    app.add_route(f"{OWN_ROOT}/docs", docs, include_in_schema=False)


def _ask_before(routes: list[BaseRoute], token: str) -> None:
    """The document of the surface and its page, which are no APIRoutes."""
    for route in routes:
        if isinstance(route, Route | Mount) and not isinstance(route, APIRoute):
            route.app = Asked(route.app, token)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {"www-authenticate": "Bearer"} if error.status_code == 401 else None
    return _error(error.status_code, str(error), headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """Names the field and what is allowed; repeats nothing that was sent."""
    assert isinstance(error, RequestValidationError)
    return _error(422, "; ".join(_line(problem) for problem in error.errors()))


async def _unread(request: Request, error: Exception) -> Response:
    """FastAPI's own, for a body that is no text; one that is no JSON is told of in `_invalid`."""
    assert isinstance(error, HTTPException)
    if error.status_code == 400:
        return _error(422, _NO_OBJECT)
    return await http_exception_handler(request, error)


_NO_OBJECT = "the body must be a JSON object, sent with 'Content-Type: application/json'"


def _line(problem: dict[str, Any]) -> str:
    # A number in the place says where in the text; without any name the body as a whole is wrong.
    field = ".".join(part for part in problem["loc"][1:] if isinstance(part, str))
    if not field:
        return _NO_OBJECT
    return f"{field}: {problem.get('ctx', {}).get('error', problem['msg'])}"


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    kinds = {401: "authentication_error", 403: "permission_error", 503: "overloaded_error"}
    body: dict[str, Any] = {
        "message": message,
        "type": kinds.get(status, "invalid_request_error"),
        "param": None,
        "code": None,
    }
    return JSONResponse({"error": body}, status_code=status, headers=headers)
