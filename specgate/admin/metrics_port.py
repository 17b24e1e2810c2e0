"""`/metrics` and the probes on a port of their own: whoever reaches clients' port sees no metrics.

Plain HTTP on our own connections, with their limits. Nothing on it reaches an engine, and nothing
changes the gate.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
from fastapi import FastAPI

from specgate.admin.api import Scrape, metrics_route, probe_routes
from specgate.admin.warming import warm_own_paths
from specgate.control.gate import Gate
from specgate.core.errors import Fault, RequestRefused
from specgate.proxy.app import ProxyApp
from specgate.proxy.downstream import Downstream
from specgate.proxy.forward import Forwarder
from specgate.proxy.keys import Keyring
from specgate.proxy.limits import Limits
from specgate.proxy.protocol import GateProtocol
from specgate.settings import SettingsError, env_name
from specgate.settings.addresses import cannot_listen

LAST_WORDS_S = 1.0
"""How long an answer may take to end when the gate stops."""


@dataclass(frozen=True, slots=True)
class MetricsPort:
    """Where it listens, and what is served there. host_setting: the setting that names the host."""

    host: str
    port: int
    host_setting: str
    app: FastAPI
    carrier: "NoEngines"
    limits: Limits


@dataclass(frozen=True, slots=True)
class NoEngines:
    """A forwarder that carries nothing."""

    forwarder: Forwarder

    async def carry(self, down: Downstream) -> None:
        told = "this port has /metrics and the probes alone"
        await self.refuse(down, RequestRefused(404, told, code="no_route"))

    async def refuse(self, down: Downstream, fault: Fault) -> None:
        await self.forwarder.refuse(down, fault)


@dataclass(slots=True)
class _Open:
    """The account of what is open that a connection keeps (`proxy.protocol.ServerState`)."""

    total_requests: int = 0
    connections: set[Any] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


def metrics_port(
    host: str,
    port: int,
    host_setting: str,
    *,
    gate: Gate,
    scrape: Scrape,
    forwarder: Forwarder,
    limits: Limits,
) -> MetricsPort:
    """`port` 0: any free one."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.include_router(probe_routes(gate))
    app.include_router(metrics_route(scrape))
    carrier = NoEngines(forwarder)
    app.mount("/", ProxyApp(carrier, Keyring()))
    return MetricsPort(host, port, host_setting, app, carrier, limits)


@asynccontextmanager
async def listening(served: MetricsPort | None, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Serve it while the block runs; None: there is none. `tell`: its URL. Raises SettingsError if
    the port cannot be had."""
    if served is None:
        yield
        return
    open_ = _Open()
    loop = asyncio.get_running_loop()
    await warm_own_paths(served.app)

    def make() -> GateProtocol:
        return GateProtocol(
            app=served.app,
            forwarder=served.carrier,
            keyring=Keyring(),
            limits=served.limits,
            server_state=open_,
            state={},
        )

    try:
        server = await loop.create_server(make, served.host, served.port)
    except OSError as error:
        what = cannot_listen(
            error,
            host=served.host,
            port=served.port,
            host_setting=env_name(served.host_setting),
            port_setting=env_name("metrics_port"),
        )
        raise SettingsError([what]) from error
    host, port = server.sockets[0].getsockname()[:2]
    tell(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    try:
        yield
    finally:
        server.close()
        for connection in list(open_.connections):
            connection.shutdown()
        if open_.tasks:
            await asyncio.wait(open_.tasks, timeout=LAST_WORDS_S)


def log_where(url: str) -> None:
    structlog.stdlib.get_logger("specgate").info("listening_metrics", url=url)
