"""INV: what must hold after every test, whatever it did to the gate.

before = pending_tasks()        # once the gate runs, before the test's traffic
...
await assert_at_rest(gate_url, lanes=[spec, plain], tasks=before)
"""

import asyncio
import inspect
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.client import get
from tests.support.lanes import ScriptedLane
from tests.support.steps import HeaderPairs

_SAMPLE = re.compile(r"^(specgate_in_flight\w*(?:\{.*\})?) (\S+)", re.MULTILINE)


def pending_tasks() -> set["asyncio.Task[Any]"]:
    """The baseline for `assert_at_rest`: every task that is not done."""
    return asyncio.all_tasks()


async def assert_at_rest(
    gate_base_url: str,
    lanes: Iterable[ScriptedLane] = (),
    within_s: float = 2,
    *,
    tasks: set["asyncio.Task[Any]"] | None = None,
    headers: HeaderPairs = (),
) -> None:
    """Nothing in flight, no lane's connection busy, no task left beyond the baseline."""
    lanes = list(lanes)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while unrest := await _unrest(gate_base_url, lanes, tasks, headers):
        assert loop.time() < deadline, f"not at rest after {within_s} s: " + "; ".join(unrest)
        await asyncio.sleep(0.02)


async def _unrest(
    gate_base_url: str,
    lanes: list[ScriptedLane],
    tasks: set["asyncio.Task[Any]"] | None,
    headers: HeaderPairs,
) -> list[str]:
    unrest = []
    for lane in lanes:
        if busy := lane.busy_connections:
            unrest.append(f"{busy} connections to lane {lane.name} are busy or half-closed")
    if tasks is not None:
        own = {task for lane in lanes for task in lane.tasks} | {asyncio.current_task()}
        left = {task for task in asyncio.all_tasks() - tasks - own if not _rests(task)}
        if left:
            unrest.append(f"tasks left: {left}")
    status = await get(gate_base_url + "/_specgate/status", headers)
    assert status.status == 200, status
    told = json.loads(status.body.data)
    counts = told["in_flight"]
    assert {"total", "spec", "plain"} <= counts.keys(), counts
    if any(counts.values()):
        unrest.append(f"in flight {counts} in {told}")
    unrest += await _gauges_not_at_zero(gate_base_url, headers)
    return unrest


def _rests(task: "asyncio.Task[Any]") -> bool:
    """Whether it is a client connection's own, waiting for the next request."""
    awaited = getattr(task.get_coro(), "cr_await", None)
    return task.get_name() == "connection" and not inspect.iscoroutine(awaited)


async def _gauges_not_at_zero(gate_base_url: str, headers: HeaderPairs) -> list[str]:
    metrics = await get(gate_base_url + "/metrics", headers)
    assert metrics.status == 200, metrics
    samples = _SAMPLE.findall(metrics.body.data.decode())
    assert samples, "the gate's /metrics tells no specgate_in_flight"
    negative = [sample for sample in samples if float(sample[1]) < 0]
    assert not negative, f"negative: {negative}"
    return [
        f"{name} is {value}"
        for name, value in samples
        if float(value) and name.partition("{")[0] == "specgate_in_flight"
    ]


def rss_mb(pid: int | None = None) -> float:
    """The resident memory of a process (this one, if none is given), in MiB."""
    with Path(f"/proc/{pid or os.getpid()}/statm").open("rb", buffering=0) as statm:
        pages = int(statm.read(200).split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
