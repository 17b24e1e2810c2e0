"""A gate that is told to stop while its lanes change places: it leaves one of them awake."""

import asyncio
import json
import signal

import pytest

from specgate.core.lanes import Lane
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import SimLane, running
from tests.support.client import CHAT, JSON, chat, connect, get, request_bytes
from tests.support.control import TOKEN, change
from tests.support.live import environment
from tests.support.process import GateProcess, serve_process


async def turns(gate: GateProcess) -> dict[str, object]:
    status = json.loads((await get(gate.url + "/_specgate/status")).body.data)
    found: dict[str, object] = status["turns"]
    return found


async def until(gate: GateProcess, **wanted: object) -> None:
    async with asyncio.timeout(15):
        while not wanted.items() <= (await turns(gate)).items():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("faults", "left"),
    [(Faults(resume_s=1.0), Lane.SPEC), (Faults(resume_s=0.5, resume_fails=True), Lane.PLAIN)],
    ids=["it ends well", "it goes back"],
)
async def test_a_change_that_is_under_way_ends_within_the_drain(faults: Faults, left: Lane):
    lanes = [SimLane(lane=Lane.SPEC, asleep=True, faults=faults), SimLane(lane=Lane.PLAIN)]
    profile = load_profile("reference")
    async with running(lanes, profile=profile, time_scale=20, holds=1) as sims:
        environ = environment(
            spec_url=sims[Lane.SPEC].url,
            plain_url=sims[Lane.PLAIN].url,
            pool="alternate",
            queue_size=10,
            drain_settle_s=0,
            admin_token=TOKEN,
        )
        async with serve_process(environ) as gate:
            await until(gate, awake="plain")
            await change(gate, b"PUT", "mode", {"mode": "spec"})
            await until(gate, step="wake")
            async with connect(gate.url) as waits:
                await waits.send(request_bytes(b"POST", CHAT, [JSON], chat()))
                await asyncio.sleep(0.1)
                gate.process.send_signal(signal.SIGTERM)
                # Who waited is refused, as ever.
                await waits.read_head()
                assert waits.status == 503
            assert await gate.stopped() == 0
            assert (await gate.logged("stopped"))["refused"] == 1
            line = await gate.logged("alternated", count=1)
            assert line["lane"] == left
        assert [lane for lane, sim in sims.items() if not sim.engine.memory.released] == [left]
        assert not sims[left].engine.memory.paused
