"""The lanes in turn with real engines, by commands: llama.cpp's servers are stopped and started
under load, and no request fails."""

import asyncio
import json
import os
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.client import CHAT, JSON, chat, connect, get, request_bytes
from tests.support.control import TOKEN, change
from tests.support.invariants import assert_at_rest
from tests.support.llama import DRAFTS, EngineMissingError, engine_dir, install, server_command
from tests.support.ports import free_port
from tests.support.process import GateProcess, serve_process

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240), pytest.mark.xdist_group("llama")]

WAKE = """\
set -e
[ -e "$0.pid" ] && [ -e "/proc/$(cat "$0.pid")/exe" ] && exit 0
{env} setsid {command} > "$0.log" 2>&1 < /dev/null &
echo $! > "$0.pid"
"""
PARK = """\
pid=$(cat {wake}.pid) || exit 0
kill "$pid" 2> /dev/null || true
while [ -e "/proc/$pid/exe" ]; do sleep 0.05; done
"""


@dataclass
class Server:
    """A lane's server, as scripts start and stop it."""

    url: str
    wake: Path
    park: Path

    @property
    def pid(self) -> int:
        return int(Path(f"{self.wake}.pid").read_text())

    @property
    def runs(self) -> bool:
        return Path(f"{self.wake}.pid").exists() and Path(f"/proc/{self.pid}/exe").exists()

    def environment(self, lane: str) -> dict[str, str]:
        return {
            f"SPECGATE_{lane}_URL": self.url,
            f"SPECGATE_{lane}_WAKE": f"sh {shlex.quote(str(self.wake))}",
            f"SPECGATE_{lane}_PARK": f"sh {shlex.quote(str(self.park))}",
        }


def scripted(folder: Path, lane: str, extra: tuple[str, ...]) -> Server:
    port = free_port()
    command, environ = server_command(engine_dir(), 8, extra, port)
    wake, park = folder / f"wake-{lane}.sh", folder / f"park-{lane}.sh"
    env = f"LD_LIBRARY_PATH={shlex.quote(environ['LD_LIBRARY_PATH'])}"
    wake.write_text(WAKE.format(env=env, command=shlex.join(command)))
    park.write_text(PARK.format(wake=shlex.quote(str(wake))))
    return Server(f"http://127.0.0.1:{port}", wake, park)


@dataclass
class Load:
    statuses: list[int] = field(default_factory=list)
    cut: int = 0


@asynccontextmanager
async def loaded(gate: GateProcess, clients: int = 4) -> AsyncIterator[Load]:
    over, load = asyncio.Event(), Load()

    async def client() -> None:
        async with connect(gate.url) as wire:
            while not over.is_set():
                body = chat(max_tokens=16, ignore_eos=True)
                await wire.send(request_bytes(b"POST", CHAT, [JSON], body))
                await wire.read_head()
                read = await wire.read_body()
                load.statuses.append(wire.status)
                if not read.clean:
                    load.cut += 1
                    return

    async with asyncio.TaskGroup() as tasks:
        for _ in range(clients):
            tasks.create_task(client())
        try:
            yield load
        finally:
            over.set()


async def until_awake(gate: GateProcess, lane: str, within_s: float = 60) -> None:
    async with asyncio.timeout(within_s):
        while (
            json.loads((await get(gate.url + "/_specgate/status")).body.data)["turns"]["awake"]
            != lane
        ):
            await asyncio.sleep(0.1)


async def refuses(server: Server) -> None:
    """Wait until nothing is left of a killed process that takes a connection and breaks it."""
    async with asyncio.timeout(10):
        with suppress(ConnectionRefusedError):
            while True:
                with suppress(asyncio.IncompleteReadError, ConnectionResetError):
                    await get(server.url + "/health")


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[dict[str, Server]]:
    try:
        await asyncio.to_thread(install, engine_dir())
        found = {
            "spec": scripted(tmp_path, "spec", DRAFTS),
            "plain": scripted(tmp_path, "plain", ()),
        }
    except EngineMissingError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    yield found
    for server in found.values():
        if server.runs:
            os.kill(server.pid, signal.SIGKILL)


async def test_servers_are_stopped_and_started_in_turn_under_load(servers: dict[str, Server]):
    spec, plain = servers["spec"], servers["plain"]
    environ = {
        **spec.environment("SPEC"),
        **plain.environment("PLAIN"),
        "SPECGATE_POOL": "alternate",
        "SPECGATE_QUEUE_SIZE": "100",
        "SPECGATE_QUEUE_TIMEOUT_S": "60",
        "SPECGATE_PROBE_INTERVAL_S": "0.5",
        "SPECGATE_ADMIN_TOKEN": TOKEN,
    }
    async with serve_process(environ) as gate:
        # None runs: the one that the policy wants is started, without a threshold the plain one.
        await until_awake(gate, "plain")
        assert (plain.runs, spec.runs) == (True, False)
        async with loaded(gate) as load:
            for lane, other in ((spec, plain), (plain, spec)):
                name = "spec" if lane is spec else "plain"
                await change(gate, b"PUT", "mode", {"mode": name})
                await until_awake(gate, name)
                assert (lane.runs, other.runs) == (True, False)
                await asyncio.sleep(0.5)
        assert len(load.statuses) > 8
        assert set(load.statuses) == {200}
        assert load.cut == 0
        await assert_at_rest(gate.url)

        # The engine that serves is killed: what comes waits until the other one is up. Nobody
        # forces the plain side then, which would be gone back to without a dwell.
        await change(gate, b"PUT", "mode", {"mode": "auto"})
        os.kill(plain.pid, signal.SIGKILL)
        await refuses(plain)
        async with loaded(gate) as load:
            await until_awake(gate, "spec")
            await asyncio.sleep(1)
        assert load.statuses
        assert set(load.statuses) == {200}
        await assert_at_rest(gate.url)
        alternated = [line for line in gate.log if line["event"] == "alternated"]
        assert [line["lane"] for line in alternated] == ["plain", "spec", "plain", "spec"]
    assert [server.runs for server in (spec, plain)] == [True, False]
