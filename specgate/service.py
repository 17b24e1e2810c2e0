"""A gate that is ready to be served, and how uvicorn serves it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI

from specgate.admin.metrics_port import MetricsPort, listening, log_where
from specgate.admin.reload import Reloader
from specgate.admin.stream import Feed
from specgate.control.gate import Gate
from specgate.proxy.forward import Forwarder
from specgate.proxy.keys import Keyring
from specgate.proxy.limits import Limits
from specgate.proxy.protocol import GateProtocol, ServerState
from specgate.settings import Settings
from specgate.settings.certificates import ClientsTls
from specgate.upstream.tcp import keep_alive

KEEP_ALIVE_S = 75
"""An idle client connection's life: longer than the balancers' in front (nginx 75, ALB 60)."""

GRACE_S = 5
"""How long calls of the gate's own may take to end when all else has (`proxy.drain`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A gate, ready to be served."""

    app: FastAPI
    gate: Gate
    forwarder: Forwarder
    reloader: Reloader
    feed: Feed
    keyring: Keyring
    tls: ClientsTls | None
    metrics_port: MetricsPort | None
    settings: Settings


def uvicorn_config(service: Service, *, portable: bool = False) -> uvicorn.Config:
    """How uvicorn serves it: no header, log line, limit or time-out of its own on the data path.

    portable: on uvicorn's own connections, through ASGI alone, as any other server would.
    """
    settings, tls = service.settings, service.tls
    return uvicorn.Config(
        service.app,
        host=settings.host,
        port=settings.port,
        # A class to uvicorn; we bind more to it.
        http="httptools" if portable else _protocol(service),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ssl_context_factory=None if tls is None else lambda config, default: tls.context,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        backlog=4096,
    )


def limits_of(settings: Settings) -> Limits:
    """What a client may ask of a connection, by the settings."""
    return Limits(
        body_bytes=settings.body_limit,
        head_s=settings.head_timeout_s,
        body_s=settings.body_timeout_s,
        idle_s=KEEP_ALIVE_S,
        flush_s=settings.send_timeout_s,
    )


def _protocol(service: Service) -> Callable[..., GateProtocol]:
    """What uvicorn makes for each connection."""
    limits = limits_of(service.settings)

    def make(
        *,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: object = None,
    ) -> GateProtocol:
        return GateProtocol(
            app=config.loaded_app,
            forwarder=service.forwarder,
            keyring=service.keyring,
            limits=limits,
            server_state=server_state,
            state=app_state,
        )

    return make


class EmbeddedServer(uvicorn.Server):
    """uvicorn's server inside a program that has signals of its own; says when it accepts."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.accepting.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(
    service: Service, listener: socket.socket, *, portable: bool = False
) -> AsyncIterator[None]:
    """Serve a gate on a bound socket, in this event loop, while the block runs."""
    # Connections inherit it. asyncio sets it only on sockets that were made with proto=TCP, and
    # without it a head and the body after it are 40 ms apart: the client's delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(listener)
    config = uvicorn_config(service, portable=portable)
    # Whoever leaves the block is done with the gate: what is still open then is cut.
    config.timeout_graceful_shutdown = 1
    server = EmbeddedServer(config)
    # A task of this scope and no group's, which would wrap what the block raises.
    served = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]), name="server")
    try:
        await server.accepting.wait()
        async with listening(service.metrics_port, log_where):
            yield
    finally:
        service.feed.close()
        server.should_exit = True
        await served
