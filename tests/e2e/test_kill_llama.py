"""kill -9 of a real engine under load: what it had is told so, and nothing else notices."""

import json
import time

import pytest

from tests.support.chatters import chatting
from tests.support.invariants import assert_at_rest
from tests.support.llama import llama_lanes
from tests.support.process import serve_process

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.xdist_group("llama")]

CLIENTS = 4
BODY = json.dumps(
    {
        "model": "gemma",
        "messages": [{"role": "user", "content": "Tell a story of a lock and its keeper."}],
        "stream": True,
        "max_tokens": 32,
        "ignore_eos": True,
    }
).encode()


async def test_a_lane_is_killed_under_load_and_comes_back():
    async with llama_lanes(slots=CLIENTS) as (spec, plain):
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_THRESHOLD": "always",
            "SPECGATE_PROBE_INTERVAL_S": "0.2",
        }
        async with serve_process(environ) as gate:
            await gate.logged("lane_health", count=2)
            async with chatting(gate.url, CLIENTS, BODY) as load:
                await load.served_by("spec", CLIENTS)
                killed_at = time.monotonic()
                await spec.kill()
                dead_at = time.monotonic()
                await load.served_by("plain", 2 * CLIENTS)
                await spec.begin()
                await spec.ready()
                await load.served_by("spec", CLIENTS)
            await assert_at_rest(gate.url)

    # What the lane had at that moment, or got while it was dying, and nothing that came later.
    assert 0 < sum(got.began < killed_at for got in load.failed) <= CLIENTS
    for got in load.failed:
        assert (got.lane, got.began < dead_at) == ("spec", True), got
        assert b"[DONE]" not in got.body
        # Either its client had a part of the answer, or none of it.
        assert got.told if got.status == 200 else got.status == 502, got
    assert any(got.told for got in load.failed)
    meanwhile = [got for got in load.got if got.began > killed_at and got.lane == "plain"]
    assert {got.reason for got in meanwhile} <= {"rerouted", "lane_down"}
    assert [entry for entry in gate.log if entry.get("level") == "error"] == []
