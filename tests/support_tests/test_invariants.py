"""The check for rest passes at rest and names what is not; a scripted lane plays the gate."""

import asyncio

import pytest

from tests.support.client import CHAT, chat, chat_request, connect
from tests.support.invariants import assert_at_rest, pending_tasks, rss_mb
from tests.support.lanes import Fin, ScriptedLane, Send, Silent, head, json_response, response

ZERO = {"total": 0, "spec": 0, "plain": 0}
METRICS = b'specgate_in_flight{lane="spec"} 0\nspecgate_in_flight{lane="plain"} %s\n'


@pytest.fixture
async def gate():
    async with ScriptedLane("gate") as gate:
        gate.answer("/_specgate/status", json_response(200, {"in_flight": ZERO}))
        gate.answer("/metrics", response(200, METRICS % b"0.0"))
        yield gate


async def test_rest_is_rest(gate):
    async with ScriptedLane() as lane, connect(lane.url) as client:
        before = pending_tasks()
        await client.request(b"POST", CHAT, body=chat())
        assert lane.idle_connections == 1
        await assert_at_rest(gate.url, [lane], tasks=before)


async def test_rest_may_come_within_the_time(gate):
    busy = json_response(200, {"in_flight": {**ZERO, "total": 1}})
    gate.answer_next(busy, busy, path="/_specgate/status")
    await assert_at_rest(gate.url)
    assert gate.requests_total == 6


async def test_in_flight_that_stays_fails_with_the_status(gate):
    busy = {"in_flight": {**ZERO, "total": 1, "plain": 1}, "side": "plain"}
    gate.answer("/_specgate/status", json_response(200, busy))
    with pytest.raises(AssertionError, match=r"'plain': 1.*'side': 'plain'"):
        await assert_at_rest(gate.url, within_s=0.05)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (METRICS % b"-1", "negative"),
        (METRICS % b"1", r"specgate_in_flight\{lane=\"plain\"\} is 1"),
        (b"up 1\n", "tells no specgate_in_flight"),
    ],
)
async def test_gauges_must_be_there_and_zero(gate, metrics, message):
    gate.answer("/metrics", response(200, metrics))
    with pytest.raises(AssertionError, match=message):
        await assert_at_rest(gate.url, within_s=0.05)


@pytest.mark.parametrize("script", [Silent(), [Send(head(204)), Fin()]])
async def test_busy_and_half_closed_lane_connections_fail(gate, script):
    async with ScriptedLane("spec") as lane, connect(lane.url) as client:
        lane.answer_next(script)
        await client.send(chat_request())
        await lane.saw_requests(1)
        with pytest.raises(AssertionError, match="1 connections to lane spec"):
            await assert_at_rest(gate.url, [lane], within_s=0.05)


async def test_task_left_behind_fails(gate):
    before = pending_tasks()
    left = asyncio.ensure_future(asyncio.sleep(9))
    with pytest.raises(AssertionError, match="tasks left"):
        await assert_at_rest(gate.url, within_s=0.05, tasks=before)
    left.cancel()
    await assert_at_rest(gate.url, tasks=before)


async def test_resident_memory_is_a_sane_number():
    assert 5 < rss_mb() < 5000
