"""The one FastAPI application: the gate's own routes, and behind them the proxy."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from specgate import __version__
from specgate.admin.auth import BEARER, Refused, guarded
from specgate.admin.models import (
    Alive,
    ErrorBody,
    ModeChange,
    Ready,
    Reloaded,
    Status,
    ThresholdChange,
)
from specgate.admin.reload import Reloader
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
    proxy: ProxyApp,
    scrape: Scrape,
    reloader: Reloader,
    observe: Observer,
    admin_token: str | None,
    lifespan: Lifespan,
) -> FastAPI:
    """Routes first; what none of them takes goes to the proxy."""
    app = FastAPI(
        title="specgate",
        version=__version__,
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
    app.include_router(_probes(gate))
    app.include_router(_reading(gate, scrape))
    app.include_router(_changing(gate, reloader, observe, admin_token))
    _add_docs(app)
    app.mount("/", proxy)
    # What the mount's pattern does not match, such as a line break in a path, is the engines' too.
    app.router.default = proxy
    return app


def _probes(gate: Gate) -> APIRouter:
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
        return Ready(ready=gate.ready, lanes=lanes)

    return router


def _reading(gate: Gate, scrape: Scrape) -> APIRouter:
    router = APIRouter(tags=["reading"])

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        content_type, text = await scrape(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    @router.get(f"{OWN_ROOT}/status", summary="The gate now, and why")
    async def status() -> Status:
        return Status.of(gate.view(), __version__)

    return router


def _changing(
    gate: Gate, reloader: Reloader, observe: Observer, admin_token: str | None
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
        policy = replace(gate.view().policy, threshold=change.threshold, curves=None)
        gate.set_policy(policy)
        observe(SettingsChanged(names=("threshold",), source="control"))
        return Status.of(gate.view(), __version__)

    @router.put("/mode", summary="Force a side, or give the decision back to the policy")
    async def set_mode(change: ModeChange) -> Status:
        gate.set_mode(change.mode)
        observe(SettingsChanged(names=("mode",), source="control"))
        return Status.of(gate.view(), __version__)

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

    @app.get(f"{OWN_ROOT}/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url=f"{OWN_ROOT}/openapi.json",
            title="specgate",
            swagger_js_url=f"{files}/swagger-ui-bundle.js",
            swagger_css_url=f"{files}/swagger-ui.css",
            swagger_favicon_url=f"{files}/favicon-32x32.png",
        )


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {"www-authenticate": "Bearer"} if error.status_code == 401 else None
    return _error(error.status_code, str(error), headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """Names the field and what is allowed; repeats nothing that was sent."""
    assert isinstance(error, RequestValidationError)
    return _error(422, "; ".join(_line(problem) for problem in error.errors()))


def _line(problem: dict[str, Any]) -> str:
    # A number in the place says where in the text; without any name the body as a whole is wrong.
    field = ".".join(part for part in problem["loc"][1:] if isinstance(part, str))
    if not field:
        return "the body must be a JSON object, sent with 'Content-Type: application/json'"
    return f"{field}: {problem.get('ctx', {}).get('error', problem['msg'])}"


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    kinds = {401: "authentication_error", 403: "permission_error"}
    body: dict[str, Any] = {
        "message": message,
        "type": kinds.get(status, "invalid_request_error"),
        "param": None,
        "code": None,
    }
    return JSONResponse({"error": body}, status_code=status, headers=headers)
