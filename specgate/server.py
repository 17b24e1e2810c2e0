"""Serving a gate: uvicorn, the signals, and the lines that say what runs where."""

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType

import structlog
import uvicorn

from specgate.admin.warming import warm
from specgate.settings import SettingsError, kind_of
from specgate.upstream.tcp import keep_alive
from specgate.wiring import Service, uvicorn_config


class GateServer(uvicorn.Server):
    """uvicorn's server. SIGHUP reloads. At SIGTERM or SIGINT the listener closes,
    streams go on for a grace, and a second signal ends them."""

    def __init__(self, service: Service) -> None:
        super().__init__(uvicorn_config(service))
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await warm(self._service.app)
        await super().startup(sockets=sockets)
        for bound in (bound for server in self.servers for bound in server.sockets):
            # Connections inherit it; the few that came before it go without.
            keep_alive(bound)
            structlog.stdlib.get_logger("specgate").info("listening", url=_url(bound))

        _settle_memory()

    async def run_gate(self) -> bool:
        """Serve until told to stop; False if it could not start (the port is taken, say)."""
        async with _reload_on_hangup(self._service):
            await self.serve()
        return self.started

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        structlog.stdlib.get_logger("specgate").info("stopping", signal=signal.Signals(sig).name)
        # Not uvicorn's own: it raises the signal again at the end, and a gate that was told to
        # stop and has stopped ends with status 0.
        if self.should_exit:
            self.force_exit = True
        else:
            self.should_exit = True


def _settle_memory() -> None:
    """What was made by starting up lives as long as the process: the cyclic collector need not look
    through its hundred thousands of objects again and again, nor as often as after 700 new ones.
    Not seldomer either: a request leaves no cycles behind, but a connection does, some forty
    objects that stay in memory until then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _url(bound: socket.socket) -> str:
    """Where a socket really listens: with port 0 only the kernel knows."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def _reload_on_hangup(service: Service) -> AsyncIterator[None]:
    """SIGHUP asks for a reload; asked twice while one runs, it reloads once more after it."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    async def reloads() -> None:
        while True:
            await asked.wait()
            asked.clear()
            try:
                await service.reloader.reload("SIGHUP")
            except SettingsError:
                # Reported as a fact; the last good settings stay.
                continue

    loop.add_signal_handler(signal.SIGHUP, asked.set)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reloads(), name="reload")
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            task.cancel()


def serve(service: Service) -> bool:
    """Run a gate in this process, on uvloop. False if it could not start."""
    settings = service.settings
    structlog.stdlib.get_logger("specgate").info(
        "starting",
        spec=settings.spec_url,
        plain=settings.plain_url,
        threshold=kind_of("threshold").write(settings.threshold),
    )
    server = GateServer(service)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        try:
            return runner.run(server.run_gate())
        except SystemExit:
            # uvicorn could not bind, and has said so.
            return False
