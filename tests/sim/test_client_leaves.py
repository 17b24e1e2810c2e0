"""A client that goes away stops its generation at once, streamed or not."""

import asyncio
import time

import pytest

from specgate.sim.faults import Faults
from specgate.sim.server import RunningLane
from tests.sim.serving import CHAT, chat, client_of, until


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_is_aborted_within_a_second(
    plain: RunningLane, stream: bool
) -> None:
    engine = plain.engine
    body = chat(max_tokens=50_000, ignore_eos=True, stream=stream, n=2)
    async with client_of(plain) as client:
        task = asyncio.get_running_loop().create_task(client.post(CHAT, json=body))
        await until(lambda: engine.state()["running"] == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        left_at = time.monotonic()
        await until(lambda: engine.state()["in_flight"] == 0)
        assert time.monotonic() - left_at < 1.0
        state = engine.state()
        assert (state["running"], state["aborted"], state["served"]) == (0, 2, 0)
        page = (await client.get("/metrics")).text
    (line,) = (x for x in page.splitlines() if x.startswith("sglang:num_aborted_requests_total{"))
    assert line.endswith(" 2.0")


@pytest.mark.parametrize(
    "faults", [Faults(first_byte_delay_s=60), Faults(stall_after_chunks=1)], ids=["delay", "stall"]
)
async def test_a_client_that_gives_up_on_a_stuck_reply_is_let_go(
    plain: RunningLane, faults: Faults
) -> None:
    engine = plain.engine
    engine.set_faults(faults)
    async with client_of(plain) as client:
        body = chat(max_tokens=5_000, ignore_eos=True, stream=True)
        task = asyncio.get_running_loop().create_task(client.post(CHAT, json=body))
        await until(lambda: engine.state()["in_flight"] == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: engine.state()["in_flight"] == 0, within_s=1)


async def test_a_client_that_leaves_the_queue_is_aborted_too(plain: RunningLane) -> None:
    engine = plain.engine
    body = chat(max_tokens=2_000, ignore_eos=True, n=40)
    async with client_of(plain) as client:
        task = asyncio.get_running_loop().create_task(client.post(CHAT, json=body))
        await until(lambda: engine.state()["queued"] == 4)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: engine.state()["in_flight"] == 0, within_s=1)
    state = engine.state()
    assert (state["queued"], state["running"], state["kv_reserved"]) == (0, 0, 0)
