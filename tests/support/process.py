"""`specgate` as its users start it: in a process of its own."""

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

READY_WITHIN_S = 20
ENDS_WITHIN_S = 20


class GateProcess:
    """`url`: where it listens; `log`: its lines so far, decoded."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: deque[dict[str, Any]] = deque(maxlen=10_000)
        self.url = ""
        self._heard = asyncio.Condition()

    @property
    def pid(self) -> int:
        return self.process.pid

    async def follow(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"event": line.decode(errors="replace").rstrip()}
            async with self._heard:
                self.log.append(entry)
                self._heard.notify_all()

    async def logged(
        self, event: str, within_s: float = 5, count: int = 1, **fields: str
    ) -> dict[str, Any]:
        """The `count`-th line with this event and these fields, written already or to come."""

        def found() -> list[dict[str, Any]]:
            named = [entry for entry in self.log if entry["event"] == event]
            return [entry for entry in named if fields.items() <= entry.items()]

        async with self._heard:
            try:
                async with asyncio.timeout(within_s):
                    await self._heard.wait_for(lambda: len(found()) >= count)
            except TimeoutError:
                raise AssertionError(f"no {event!r} in {list(self.log)}") from None
        return found()[count - 1]

    async def stopped(self, within_s: float = ENDS_WITHIN_S) -> int:
        """Its exit status, once it has ended."""
        async with asyncio.timeout(within_s):
            return await self.process.wait()


@asynccontextmanager
async def serve_process(
    environ: Mapping[str, str], *, listening: bool = True
) -> AsyncIterator[GateProcess]:
    """`specgate serve` with these variables besides the process's own, on a free port."""
    inherited = {name: v for name, v in os.environ.items() if not name.startswith("SPECGATE_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgate", "serve"),
        env={**inherited, "SPECGATE_PORT": "0", "SPECGATE_LOG_FORMAT": "json", **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    gate = GateProcess(process)
    following = asyncio.ensure_future(gate.follow())
    try:
        if listening:
            gate.url = (await gate.logged("listening", READY_WITHIN_S))["url"]
        yield gate
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await gate.stopped()
            except TimeoutError:
                process.kill()
                await process.wait()
        await following
