"""Lanes that take no connection: the other one, or an answer that says so."""

import asyncio
from typing import Any

import pytest

from specgate.core.events import LaneFailed
from tests.support.client import RawClient, chat, chat_request, connect
from tests.support.control import message, said
from tests.support.figures import total
from tests.support.invariants import assert_at_rest
from tests.support.lanes import (
    ScriptedLane,
    never_ending_stream,
    refuses,
)
from tests.support.live import BARE, running_gate
from tests.support.streams import held


@pytest.mark.parametrize("probed", [True, False])
async def test_both_lanes_down_is_503_with_when_to_come_again(probed: bool):
    interval = 0.1 if probed else 60
    with refuses() as spec, refuses() as plain:
        async with running_gate(spec, plain, threshold=8, probe_interval_s=interval) as gate:
            async with connect(gate.url) as client:
                reply = await client.request(b"POST", b"/v1/chat/completions", body=chat())
            assert reply.status == 503
            (retry_after,) = reply.values(b"retry-after")
            assert int(retry_after) == max(1, round(interval))
            assert reply.values(b"content-type") == [b"application/json"]
            assert "neither lane" in message(reply)
            assert said(reply)["error"]["type"] == "server_error"
            assert said(reply)["error"]["code"] == "no_lane_reachable"
            assert len(gate.facts.of(LaneFailed)) == 2
            await assert_at_rest(gate.url)


@pytest.mark.parametrize(
    ("threshold", "down", "up"), [("always", "spec", b"plain"), ("never", "plain", b"spec")]
)
async def test_one_lane_down_is_the_other_with_the_reason(threshold, down, up):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        await (spec if down == "spec" else plain).stop()
        lane = plain if down == "spec" else spec
        async with running_gate(spec.url, plain.url, threshold=threshold) as gate:
            for call, reason in (("chat/completions", b"lane_down"), ("embeddings", None)):
                async with connect(gate.url) as client:
                    lane.answer_next(never_ending_stream())
                    await client.send(chat_request().replace(b"chat/completions", call.encode(), 1))
                    await client.read_head()
                    assert (b"x-specgate-lane", up) in client.headers
                    assert (b"x-specgate-reason", reason or b"not_generation") in client.headers
            assert gate.facts.of(LaneFailed) == []
            assert (await gate.status())["side"] == down
            await assert_at_rest(gate.url, [lane])


async def test_a_connect_failure_is_rerouted_once():
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        settings: dict[str, Any] = {**BARE, "probe_interval_s": 60}
        async with running_gate(spec.url, plain.url, threshold=8, **settings) as gate:
            await spec.stop()
            end = asyncio.Event()
            plain.answer_next(held(end))
            client = await RawClient.open(gate.host, gate.port)
            await client.send(chat_request(n=2))
            await client.read_head()
            assert client.status == 200
            assert (b"x-specgate-lane", b"plain") in client.headers
            assert (b"x-specgate-reason", b"rerouted") in client.headers
            assert plain.requests[0].body == chat(n=2)
            counts = (await gate.status())["in_flight"]
            assert (counts["spec"], counts["plain"]) == (0, 2)
            end.set()
            await client.read_body()
            await client.close()
            metrics = await gate.metrics()
            assert total(metrics, "specgate_reroutes_total", lane="plain") == 1
            assert (
                total(metrics, "specgate_upstream_errors_total", lane="spec", kind="connect") == 1
            )
            assert total(metrics, "specgate_upstream_errors_total") == 1

            await plain.stop()
            async with connect(gate.url) as client:
                reply = await client.request(b"POST", b"/v1/chat/completions", body=chat())
            assert reply.status == 503
            assert len(gate.facts.of(LaneFailed)) == 3
            await assert_at_rest(gate.url)
