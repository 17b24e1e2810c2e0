"""Three times as much as the engines can carry: with a limit the latency of who is let in is
bounded, the rest are told at once, and nothing is left behind. Without one everybody waits."""

import asyncio
import json
import os
import signal
import statistics
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from specgate.core.lanes import Lane
from specgate.sim.profiles import load_profile
from specgate.sim.server import SimLane, running
from tests.support.client import CHAT, JSON, connect
from tests.support.invariants import assert_at_rest
from tests.support.process import GateProcess, serve_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OVERLOAD_S = float(os.environ.get("SPECGATE_TEST_OVERLOAD_S", "15"))
"""How long the overload lasts; a minute says the same, in more words."""

UNLIMITED_S = 8.0
"""Of the same without a limit: what it leaves behind takes twice as long to be served."""

IN_FLIGHT, QUEUE, QUEUE_TIMEOUT_S = 16, 8, 2.0
BODY = json.dumps(
    {
        "model": "sim",
        "messages": [{"role": "user", "content": "Say something."}],
        "max_tokens": 64,
        "ignore_eos": True,
        "x-sim-class": "mix",
    }
).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """took_s: from the first byte sent to the last one read."""

    status: int
    took_s: float
    retry_after: list[bytes]
    code: str


async def asked(url: str) -> Answer:
    began = time.monotonic()
    async with connect(url) as client:
        reply = await client.request(b"POST", CHAT, [JSON], BODY)
    said = json.loads(reply.body.data)
    assert reply.body.clean
    code = said["error"]["code"] if reply.status != 200 else ""
    return Answer(reply.status, time.monotonic() - began, reply.values(b"retry-after"), str(code))


async def capacity(url: str, seconds: float = 3.0) -> float:
    """Requests a second that as many clients as may be in flight get, one after the other."""
    began = time.monotonic()
    served = 0

    async def client() -> None:
        nonlocal served
        while time.monotonic() - began < seconds:
            assert (await asked(url)).status == 200
            served += 1

    async with asyncio.TaskGroup() as clients:
        for _ in range(IN_FLIGHT):
            clients.create_task(client())
    return served / (time.monotonic() - began)


async def offered(url: str, a_second: float, seconds: float) -> list[Answer]:
    """So many requests a second, whatever becomes of those before; all answers to them."""
    began = time.monotonic()
    tasks: list[asyncio.Task[Answer]] = []
    async with asyncio.TaskGroup() as group:
        for number in range(round(a_second * seconds)):
            await asyncio.sleep(max(0.0, began + number / a_second - time.monotonic()))
            tasks.append(group.create_task(asked(url)))
    return [task.result() for task in tasks]


def slowest_of(answers: list[Answer]) -> float:
    """The 95th percentile, in seconds, of those that were served."""
    served = [answer.took_s for answer in answers if answer.status == 200]
    return statistics.quantiles(served, n=20)[-1]


async def stopped(gate: GateProcess) -> None:
    await assert_at_rest(gate.url, within_s=5)
    gate.process.send_signal(signal.SIGTERM)
    assert await gate.stopped() == 0
    assert [entry for entry in gate.log if entry.get("level") == "error"] == []


async def test_three_times_the_capacity():
    lanes = [SimLane(lane=lane) for lane in Lane]
    async with running(lanes, profile=load_profile("reference"), time_scale=4) as sims:
        environ = {
            "SPECGATE_SPEC_URL": sims[Lane.SPEC].url,
            "SPECGATE_PLAIN_URL": sims[Lane.PLAIN].url,
            "SPECGATE_THRESHOLD": "8",
            "SPECGATE_SMOOTHING_S": "0.5",
            "SPECGATE_DRAIN_SETTLE_S": "0",
        }
        limits = {
            "SPECGATE_MAX_IN_FLIGHT": str(IN_FLIGHT),
            "SPECGATE_QUEUE_SIZE": str(QUEUE),
            "SPECGATE_QUEUE_TIMEOUT_S": str(QUEUE_TIMEOUT_S),
        }
        async with serve_process({**environ, **limits}) as gate:
            await gate.logged("lane_health", count=2)
            await capacity(gate.url, seconds=1.5)  # until the gate is on the side for this load
            carried = await capacity(gate.url)
            limited = await offered(gate.url, 3 * carried, OVERLOAD_S)
            await stopped(gate)
        most = [sims[lane].engine.meters.max_in_flight for lane in Lane]
        async with serve_process(environ) as gate:
            await gate.logged("lane_health", count=2)
            unlimited = await offered(gate.url, 3 * carried, UNLIMITED_S)
            await stopped(gate)

    statuses = Counter(answer.status for answer in limited)
    served_s, waited_s = slowest_of(limited), slowest_of(unlimited)
    print(
        f"{carried:.1f} a second carried; at three times that {dict(statuses)}, "
        f"p95 {served_s:.2f} s; without a limit {waited_s:.2f} s"
    )
    # Who was turned away knows why, and when to come again.
    assert statuses.keys() <= {200, 429, 503}
    assert statuses[429] > statuses[200] / 2
    for answer in limited:
        if answer.status != 200:
            assert answer.code == {429: "queue_full", 503: "queue_timeout"}[answer.status]
            assert answer.retry_after == [b"1"]
    # The engines were kept busy, and never had more than they were meant to.
    assert statuses[200] > carried * OVERLOAD_S / 2
    assert max(most) <= IN_FLIGHT
    # A full house ahead, a queue ahead: no more than that, with room for a busy machine.
    assert served_s < 2 * (IN_FLIGHT + QUEUE) / carried + QUEUE_TIMEOUT_S / 2
    assert {answer.status for answer in unlimited} == {200}
    assert waited_s > 2 * served_s
