"""Serves simulated engines over real sockets, several lanes in one process and one pool.

async with running(
    [SimLane(lane=Lane.SPEC), SimLane(lane=Lane.PLAIN)],
    profile=load_profile("reference"),
    time_scale=10,
) as sims:
    sims[Lane.SPEC].url            "http://127.0.0.1:41234"
    sims[Lane.SPEC].engine         the Engine: state(), set_faults(), meters, model
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from dataclasses import dataclass, field

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from specgate.core.lanes import Lane
from specgate.sim.app import build_app
from specgate.sim.driver import PoolDriver
from specgate.sim.engine import Engine
from specgate.sim.faults import Faults
from specgate.sim.generation import EXTENSION
from specgate.sim.memory import Holder
from specgate.sim.profiles import Profile

KEEP_ALIVE_S = 5
BACKLOG = 2_048
# After the calls were aborted, replies get this long to say so before their sockets are closed.
GRACE_S = 1.0
DATE_REFRESH_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimLane:
    """One lane to serve. Port 0 is any free port. `api_key` None asks for none. `asleep`: it starts
    with its memory released."""

    lane: Lane
    host: str = "127.0.0.1"
    port: int = 0
    model_name: str = "sim"
    api_key: str | None = field(default=None, repr=False)
    asleep: bool = False
    faults: Faults = field(default_factory=Faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningLane:
    """A lane that accepts connections: its base URL without a trailing slash, and its engine."""

    url: str
    engine: Engine


class CannotListenError(OSError):
    """The address could not be bound; the message names it and says why."""


@contextlib.asynccontextmanager
async def running(
    lanes: Sequence[SimLane],
    *,
    profile: Profile,
    time_scale: float = 1.0,
    seed: int = 0,
    kappa: float = 0.0,
    holds: int = len(Lane),
) -> AsyncIterator[Mapping[Lane, RunningLane]]:
    """Serve the lanes until the block is left; they accept connections when it is entered.

    All lanes contend for one pool (`kappa` 0: time slicing, 1: no interference). `time_scale` 2
    runs simulated time twice as fast as real time; probes, faults and keep-alive stay real.
    The pool holds so many engines awake (`holds`); one more runs out of memory, and ends.
    Leaving aborts what is in flight: streams get a last chunk with finish_reason "abort".
    Takes no signals. Raises CannotListenError before anything is served, ValueError for a lane
    given twice, a kappa outside 0..1 or a time_scale that is not above 0.
    """
    loop = asyncio.get_running_loop()
    holder = Holder(holds)
    driver = PoolDriver(clock=loop, kappa=kappa, time_scale=time_scale)
    async with contextlib.AsyncExitStack() as stack:
        found: dict[Lane, RunningLane] = {}
        servers: list[tuple[_Server, socket.socket]] = []
        for lane in lanes:
            engine = Engine(
                lane.lane,
                profile,
                driver,
                model_name=lane.model_name,
                seed=seed,
                holder=holder,
                asleep=lane.asleep,
            )
            engine.set_faults(lane.faults)
            listener = stack.enter_context(_listen(lane.host, lane.port))
            port = int(listener.getsockname()[1])
            host = f"[{lane.host}]" if ":" in lane.host else lane.host
            found[lane.lane] = RunningLane(url=f"http://{host}:{port}", engine=engine)
            app = build_app(engine, api_key=lane.api_key, port=port)
            config = uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                backlog=BACKLOG,
            )
            server = _Server(config)
            engine.on_crash = server.crash
            servers.append((server, listener))
        tasks = [loop.create_task(server.serve(sockets=[listener])) for server, listener in servers]
        try:
            for (server, _), task in zip(servers, tasks, strict=True):
                await server.accepting.wait()
                if not server.started:
                    await task  # raises what stopped it
            yield found
        finally:
            for running_lane in found.values():
                running_lane.engine.close()
            driver.close()
            for server, _ in servers:
                server.stop()
            await asyncio.gather(*tasks)


class _Server(uvicorn.Server):
    """Leaves signals alone, says when it accepts, and stops when told rather than at a tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    def crash(self) -> None:
        """As when the process is gone: nothing listens, no connection is left."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets=sockets)
        finally:
            self.accepting.set()

    async def main_loop(self) -> None:
        # Tick 0 refreshes the date header each time.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_REFRESH_S):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's own waits in steps of 100 ms, and for clients that never take their bytes."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=GRACE_S)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()
        # A turn of the loop in which the closed transports let go of their sockets.
        await asyncio.sleep(0)


class _Protocol(HttpToolsProtocol):
    """Hands the connection to the app, so that a fault can cut or spoil it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: {"transport": self.transport}}


@contextlib.contextmanager
def _listen(host: str, port: int) -> Generator[socket.socket, None, None]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it; asyncio sets it only on sockets made with proto=TCP, and without
        # it a head and the body after it are a delayed ACK, 40 ms, apart.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listener.bind((host, port))
            listener.listen(BACKLOG)
        except (OSError, OverflowError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
            raise CannotListenError(f"cannot listen on {host}:{port}: {reason}") from exc
        listener.setblocking(False)  # noqa: FBT003 - the standard library's own
        yield listener
