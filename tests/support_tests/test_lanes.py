"""The scripted lane records what reaches it and answers by its script."""

import asyncio

import pytest
import uvloop

from tests.support.client import (
    CHAT,
    chat,
    chat_request,
    chunked,
    connect,
    get,
    request_bytes,
)
from tests.support.lanes import (
    DONE,
    Rst,
    ScriptedLane,
    accepts_and_hangs,
    never_ending_stream,
    refuses,
    response,
    status_500,
)


async def test_request_is_recorded_to_the_byte():
    sent = request_bytes(
        b"POST", b"/v1/x?a=%2F", [(b"X-odd", b"\xe4\xff"), (b"x-Odd", b"2")], b"{}"
    )
    async with ScriptedLane() as lane, connect(lane.url) as client:
        await client.send(sent)
        await client.read_head()
        (request,) = lane.requests
        assert request.raw_head + request.raw_body == sent
        assert request.request_line == b"POST /v1/x?a=%2F HTTP/1.1"
        assert (request.method, request.target) == (b"POST", b"/v1/x?a=%2F")
        assert request.headers[1:3] == [(b"X-odd", b"\xe4\xff"), (b"x-Odd", b"2")]
        assert request.values(b"X-ODD") == [b"\xe4\xff", b"2"]
        assert request.value(b"absent") is None
        assert request.json == {}


async def test_chunked_body_is_recorded_raw_and_decoded():
    raw = b"3;ext=1\r\n{ }\r\n0\r\nX-Trailer: 1\r\n\r\n"
    start = request_bytes(b"POST", CHAT, [(b"Transfer-Encoding", b"chunked")])
    async with ScriptedLane() as lane, connect(lane.url) as client:
        await client.send(start + raw)
        await client.read_head()
        await client.read_body()
        assert lane.requests[0].raw_body == raw
        assert lane.requests[0].body == b"{ }"
        assert lane.requests[0].complete
        await client.send(start + chunked(b"{", b"}"))
        await client.read_head()
        assert lane.requests[1].body == b"{}"
        assert lane.requests[1].number == 2


async def test_lane_is_a_well_behaved_engine_until_told_otherwise():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        streamed = await client.request(b"POST", CHAT, body=chat(stream=True))
        assert streamed.status == 200
        assert streamed.body.data.endswith(DONE)
        whole = await client.request(b"POST", CHAT, body=chat(stream=False))
        assert b"Hello world" in whole.body.data
        assert (await client.request(b"POST", CHAT, body=b"[]")).status == 400
        assert (await client.request(b"GET", b"/nowhere")).status == 404
        assert lane.connections_total == lane.open_connections == lane.idle_connections == 1
        assert lane.requests_total == 4


async def test_probes_are_answered_and_kept_apart():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer("*", status_500())
        assert (await client.request(b"GET", b"/ready")).status == 200
        assert b'"m"' in (await client.request(b"GET", b"/v1/models")).body.data
        assert (await client.request(b"HEAD", b"/v1/models")).status == 200
        assert (await client.request(b"GET", b"/metrics")).status == 404
        assert lane.requests == []
        assert len(lane.probes) == 4


async def test_scripted_probe_is_recorded_and_is_not_in_progress():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer("/metrics", accepts_and_hangs())
        await client.send(request_bytes(b"GET", b"/metrics"))
        await lane.saw_requests(1)
        assert lane.probes == []
        assert (lane.in_progress, lane.busy_connections, lane.idle_connections) == (0, 0, 0)


async def test_missing_request_fails_with_the_lane_named():
    async with ScriptedLane("spec") as lane:
        with pytest.raises(AssertionError, match="lane spec saw 0 requests"):
            await lane.saw_requests(1, within_s=0.01)


async def test_body_cut_by_its_sender_is_no_error():
    async with ScriptedLane() as lane:
        async with connect(lane.url) as client:
            await client.send(request_bytes(b"POST", CHAT, [(b"Content-Length", b"10")]) + b"abc")
            await lane.saw_requests(1)
        await lane.saw_close()
        assert not lane.requests[0].complete


async def test_idle_connection_is_closed_after_its_time():
    async with ScriptedLane(keep_alive_s=0.02) as lane, connect(lane.url) as client:
        await client.request(b"GET", b"/ready")
        assert await client.ended() == "fin"


async def test_connection_close_and_http_1_0_end_the_connection():
    async with ScriptedLane() as lane:
        for last in (
            b"GET /ready HTTP/1.0\r\n\r\n",
            b"GET /ready HTTP/1.1\r\nConnection: close\r\n\r\n",
        ):
            async with connect(lane.url) as client:
                await client.send(last)
                assert await client.ended() == "fin"


async def test_lane_can_die_and_come_back_on_its_port():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        url = lane.url
        lane.answer("*", never_ending_stream())
        await client.send(chat_request())
        await client.read_head()
        await lane.stop()
        assert not (await client.read_body()).clean
        with pytest.raises(ConnectionRefusedError):
            await get(url + "/ready")
        await lane.start()
        assert (await get(url + "/ready")).status == 200


def test_lane_plays_under_uvloop():
    """Its scripts, its resets, its end and its return: the gate serves on that loop."""

    async def scenario() -> None:
        async with ScriptedLane() as lane:
            async with connect(lane.url) as client:
                lane.answer_next(response(200, b"ok"), Rst())
                assert (await client.request(b"GET", b"/x")).body.data == b"ok"
                await client.send(request_bytes(b"GET", b"/x"))
                assert await client.ended() == "reset"
            async with connect(lane.url) as client:
                lane.answer_next(never_ending_stream())
                await client.send(chat_request())
                await client.read_head()
                client.stop_reading()
                await lane.stop()
            await lane.start()
            assert (await get(lane.url + "/ready")).status == 200

    uvloop.run(scenario())


async def test_refusing_lane_refuses():
    with refuses() as url, pytest.raises(ConnectionRefusedError):
        await get(url)


async def test_many_connections_at_once():
    async with ScriptedLane() as lane:
        answers = await asyncio.gather(*(get(lane.url + "/x") for _ in range(200)))
        assert {answer.status for answer in answers} == {404}
        assert lane.connections_total == lane.requests_total == 200
