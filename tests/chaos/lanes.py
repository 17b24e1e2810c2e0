"""A lane's process from outside: started, told what to do, killed and started again, with the times
at which it could not be reached."""

import asyncio
import json
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from specgate.core.lanes import Lane
from tests.chaos.fates import Weather, is_ready
from tests.chaos.journal import Entry, read_journal
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]


class Period(NamedTuple):
    """When a lane took no connection, or broke what it had; monotonic seconds."""

    began: float
    ended: float
    killed: bool


class LaneProcess:
    """`periods`: those that are over; `unready`: when its probes said so. `lock`: whoever changes
    what it is, holds it."""

    def __init__(self, name: Lane, folder: Path, seed: int) -> None:
        self.name = name
        self.port = free_port()
        self.periods: list[Period] = []
        self.unready: list[Period] = []
        self.lock = asyncio.Lock()
        self._seed = seed
        self._journal = folder / f"{name}.journal"
        self._errors = folder / f"{name}.stderr"
        self._process: asyncio.subprocess.Process | None = None
        self._talking = asyncio.Lock()
        self._unready_since: float | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.chaos.lane"),
                *(self.name, str(self.port), str(self._journal), str(self._seed)),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        assert "listening" in await self._heard()

    async def tell(self, do: str, **more: Any) -> dict[str, Any]:
        """Have it do something; its answer, once it is done."""
        assert self._process is not None
        assert self._process.stdin is not None
        async with self._talking:
            self._process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
            return await self._heard()

    async def _heard(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            line = await self._process.stdout.readline()
        assert line, f"the {self.name} lane's process ended: {self._errors.read_text()[-2000:]}"
        heard: dict[str, Any] = json.loads(line)
        return heard

    async def be(self, weather: Weather) -> None:
        """What becomes of requests from now on."""
        if not is_ready(weather):
            self._unready_since = self._unready_since or time.monotonic()
        await self.tell("weather", weather=weather)
        if is_ready(weather):
            self._is_ready()

    def _is_ready(self) -> None:
        if self._unready_since is not None:
            self.unready.append(Period(self._unready_since, time.monotonic(), killed=False))
            self._unready_since = None

    async def refuse_for(self, seconds: float) -> None:
        """Take no connection for a while; those that it has go on."""
        began = time.monotonic()
        await self.tell("close")
        await asyncio.sleep(seconds)
        await self.tell("open")
        self.periods.append(Period(began, time.monotonic(), killed=False))

    async def be_killed_for(self, seconds: float) -> None:
        """kill -9, and the same again after a while."""
        began = time.monotonic()
        await self.stop()
        await asyncio.sleep(seconds)
        await self.start()
        self._is_ready()
        self.periods.append(Period(began, time.monotonic(), killed=True))

    async def be_stopped_for(self, seconds: float) -> None:
        """The process stands still, as one that waits for its GPU: its kernel takes connections."""
        assert self._process is not None
        async with self._talking:
            self._process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def journal(self) -> list[Entry]:
        with self._journal.open() as lines:
            return read_journal(lines)

    def errors(self) -> str:
        """What its process wrote to stderr: nothing, if all is well."""
        return self._errors.read_text()
