"""Serving a gate: uvicorn, the signals, and the lines that say what runs where."""

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import cast

import structlog
import uvicorn

from specgate.admin.metrics_port import listening, log_where
from specgate.admin.warming import warm
from specgate.proxy.drain import Connection, Drain
from specgate.service import Service, uvicorn_config
from specgate.settings import SettingsError, env_name, kind_of
from specgate.settings.addresses import cannot_listen
from specgate.upstream.descriptors import raise_limit
from specgate.upstream.tcp import keep_alive


class GateServer(uvicorn.Server):
    """uvicorn's server. SIGHUP reloads. SIGTERM and SIGINT drain it (`proxy.drain`), and a second
    signal ends it at once. While it drains it listens on: what comes is answered."""

    def __init__(self, service: Service) -> None:
        super().__init__(uvicorn_config(service))
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = False
        self._stopping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await warm(self._service.app, self._service.settings.read_token)
        try:
            await super().startup(sockets=sockets)
        except SystemExit as ended:
            # uvicorn's own word on it names no setting: `telemetry.logs` leaves it out.
            if isinstance(ended.__context__, OSError):
                _log_not_listening(self._why_not(ended.__context__))
            raise
        for bound in (bound for server in self.servers for bound in server.sockets):
            # Connections inherit it; the few that came before it go without.
            keep_alive(bound)
            url = _url(bound, tls=self._service.tls is not None)
            structlog.stdlib.get_logger("specgate").info("listening", url=url)

        _settle_memory()

    async def run_gate(self) -> bool:
        """Serve until told to stop; False if it could not start (the port is taken, say)."""
        self._loop = asyncio.get_running_loop()
        try:
            async with (
                listening(self._service.metrics_port, log_where),
                reload_on_hangup(self._service),
            ):
                await self.serve()
        except SettingsError as error:
            _log_not_listening(str(error))
            return False
        return self.started

    def _why_not(self, error: OSError) -> str:
        settings = self._service.settings
        return cannot_listen(
            error,
            host=settings.host,
            port=settings.port,
            host_setting=env_name("host"),
            port_setting=env_name("port"),
        )

    async def _stop(self, settle_s: float) -> None:
        settings = self._service.settings
        drain = Drain(
            self._service.gate,
            self._service.forwarder.queue,
            lambda: cast("set[Connection]", self.server_state.connections),
        )
        drained = await drain.run(settle_s=settle_s, timeout_s=settings.drain_timeout_s)
        structlog.stdlib.get_logger("specgate").info(
            "stopped", ended=drained.ended, cut=drained.cut, refused=drained.refused
        )
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams of events have no end of their own to wait for.
        self._service.feed.close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not uvicorn's own: it raises the signal again at the end, and a gate that was told to
        # stop and has stopped ends with status 0.
        log = structlog.stdlib.get_logger("specgate")
        if self._told or self._loop is None:
            log.info("stopping at once", signal=signal.Signals(sig).name)
            self.should_exit = self.force_exit = True
            return
        # Nobody balances load over a gate that somebody stops at a terminal.
        settle_s = 0.0 if sig == signal.SIGINT else self._service.settings.drain_settle_s
        log.info("stopping", signal=signal.Signals(sig).name, settle_s=settle_s)
        self._told = True
        # A signal comes at any point of the program, and the loop may be asleep.
        self._loop.call_soon_threadsafe(self._begin_to_stop, settle_s)

    def _begin_to_stop(self, settle_s: float) -> None:
        self._stopping = asyncio.get_running_loop().create_task(self._stop(settle_s), name="stop")


def _settle_memory() -> None:
    """What was made by starting up lives as long as the process: the cyclic collector need not look
    through its hundred thousands of objects again and again, nor as often as after 700 new ones.
    Not seldomer either: a request leaves no cycles behind, but a connection does, some forty
    objects that stay in memory until then. Most connections outlive the first look or two, so that
    the full one must come often; with so much frozen it is cheap. At (10_000, 20, 50) memory grew
    by 13 MiB from the 10,000th request to the 100,000th, all of it such cycles and their holes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 4, 2)


def _log_not_listening(message: str) -> None:
    structlog.stdlib.get_logger("specgate").error("not_listening", message=message)


def _url(bound: socket.socket, *, tls: bool) -> str:
    """Where a socket really listens: with port 0 only the kernel knows."""
    host, port = bound.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@asynccontextmanager
async def reload_on_hangup(service: Service) -> AsyncIterator[None]:
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
            except Exception:  # noqa: BLE001 - a reload must not end a gate that serves
                structlog.stdlib.get_logger("specgate").exception("reload_failed")

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
    log = structlog.stdlib.get_logger("specgate")
    descriptors = raise_limit()
    log.info(
        "starting",
        spec=settings.spec_url,
        plain=settings.plain_url,
        threshold=kind_of("threshold").write(settings.threshold),
        open_files=descriptors.limit,
    )
    most = settings.max_in_flight
    wanted = None if most is None else most + settings.queue_size
    if (warning := descriptors.warning(wanted)) is not None:
        log.warning("few_open_files", message=warning)
    server = GateServer(service)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        try:
            return runner.run(server.run_gate())
        except SystemExit:
            # uvicorn could not bind, and has said so.
            return False
