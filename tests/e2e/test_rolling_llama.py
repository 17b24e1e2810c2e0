"""Both real engines restarted under load, one after the other, by the drain API: nobody notices."""

import asyncio
import json

import pytest

from tests.support.chatters import chatting
from tests.support.client import get
from tests.support.control import TOKEN, change, said
from tests.support.invariants import assert_at_rest
from tests.support.llama import llama_lanes
from tests.support.process import GateProcess, serve_process

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.xdist_group("llama")]

CLIENTS = 4
BODY = json.dumps(
    {
        "model": "gemma",
        "messages": [{"role": "user", "content": "Tell a story of a lock and its keeper."}],
        "stream": True,
        "max_tokens": 24,
        "ignore_eos": True,
    }
).encode()


async def until_healthy(gate: GateProcess, lane: str, within_s: float = 10) -> None:
    """Until the gate itself has found out that the lane is back."""
    async with asyncio.timeout(within_s):
        while True:
            status = json.loads((await get(gate.url + "/_specgate/status")).body.data)
            if status["lanes"][lane]["health"] == "healthy":
                return
            await asyncio.sleep(0.05)


async def test_both_lanes_are_restarted_and_no_request_fails():
    async with llama_lanes(slots=CLIENTS) as (spec, plain):
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_THRESHOLD": str(CLIENTS),
            "SPECGATE_SMOOTHING_S": "0.5",
            "SPECGATE_DWELL_S": "0.5",
            "SPECGATE_PROBE_INTERVAL_S": "0.2",
            "SPECGATE_ADMIN_TOKEN": TOKEN,
        }
        async with serve_process(environ) as gate:
            await gate.logged("lane_health", count=2)
            async with chatting(gate.url, CLIENTS, BODY) as load:
                for name, lane, other in (("spec", spec, "plain"), ("plain", plain, "spec")):
                    told = said(await change(gate, b"POST", f"lanes/{name}/drain?wait_s=20"))
                    assert told["drained"] is True
                    await lane.kill()
                    await load.served_by(other, CLIENTS)
                    await lane.begin()
                    await lane.ready()
                    await until_healthy(gate, name)
                    told = said(await change(gate, b"POST", f"lanes/{name}/undrain"))
                    assert told["draining"] is False
                    await asyncio.sleep(0.5)
            await assert_at_rest(gate.url)

    assert load.failed == []
    assert len(load.got) > 4 * CLIENTS
    assert "draining" in {got.reason for got in load.got}
