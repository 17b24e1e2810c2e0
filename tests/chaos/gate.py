"""The gate's process: `specgate serve`, its log in a file, its memory."""

import asyncio
import json
import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from specgate.core.health import Health
from specgate.core.lanes import Lane
from tests.chaos.records import Ejection
from tests.support.invariants import rss_mb

READY_WITHIN_S = 30.0
ENDS_WITHIN_S = 30.0
ERRORS = ("error", "critical")
_ALARMING = re.compile(r"Traceback|never retrieved|was destroyed but|Unhandled|Exception")


class GateUnderTest:
    """`url`: where it listens; `log`: the file that it writes to."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log
        self.url = ""

    def lines(self) -> list[dict[str, Any]]:
        """Its log; what is no JSON as the event of a line without a level."""
        entries = []
        with self.log.open(errors="replace") as lines:
            for line in lines:
                try:
                    entries.append(json.loads(line))
                except ValueError:
                    entries.append({"event": line.rstrip(), "level": "none"})
        return entries

    async def listening(self) -> None:
        async with asyncio.timeout(READY_WITHIN_S):
            while True:
                assert self.process.returncode is None, self.log.read_text()
                found = [line for line in self.lines() if line["event"] == "listening"]
                if found:
                    self.url = found[0]["url"]
                    return
                await asyncio.sleep(0.05)

    def rss_mb(self) -> float:
        return rss_mb(self.process.pid)

    async def stop(self) -> int:
        """SIGTERM, and its exit status."""
        self.process.terminate()
        async with asyncio.timeout(ENDS_WITHIN_S):
            return await self.process.wait()


class Log(NamedTuple):
    """alarming: lines that a gate that is well does not write. events: how many of each. ejected:
    when each lane was, and why."""

    alarming: list[str]
    events: Counter[str]
    ejected: dict[Lane, list[Ejection]]


def read_log(lines: list[dict[str, Any]]) -> Log:
    alarming = []
    for line in lines:
        told = json.dumps(line)
        if line.get("level") in (*ERRORS, "none") or _ALARMING.search(told):
            alarming.append(told[:2000])
    ejected = {lane: _ejected(lines, lane) for lane in Lane}
    return Log(alarming, Counter(line["event"] for line in lines), ejected)


def _ejected(lines: list[dict[str, Any]], lane: Lane) -> list[Ejection]:
    """In monotonic seconds, to which the log's time of day is brought."""
    offset = time.time() - time.monotonic()
    ejections = []
    since: tuple[float, str] | None = None
    for line in lines:
        if line["event"] != "lane_health" or line["lane"] != lane:
            continue
        at = datetime.fromisoformat(line["timestamp"]).timestamp() - offset
        if line["now"] == Health.EJECTED:
            since = at, line["why"]
        elif since is not None:
            ejections.append(Ejection(since[0], at, since[1]))
            since = None
    return ejections if since is None else [*ejections, Ejection(since[0], math.inf, since[1])]


@asynccontextmanager
async def serving(environ: Mapping[str, str], log: Path) -> AsyncIterator[GateUnderTest]:
    """A gate with these settings; killed at the end if it was not stopped."""
    inherited = {name: v for name, v in os.environ.items() if not name.startswith("SPECGATE_")}
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "specgate", "serve"),
            env={**inherited, "SPECGATE_PORT": "0", "SPECGATE_LOG_FORMAT": "json", **environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=file,
        )
    gate = GateUnderTest(process, log)
    try:
        await gate.listening()
        yield gate
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
