"""Faults switched on at run time."""

import asyncio
import time

import httpx2
import pytest

from specgate.sim.faults import Faults, FaultsError, read_faults
from specgate.sim.server import RunningLane
from tests.sim.serving import CHAT, chat, client_of, events, raw_stream, until

FAULTS = "/_sim/faults"
STREAM = chat(max_tokens=30, ignore_eos=True, stream=True)


async def test_faults_are_shown_set_and_cleared(spec: RunningLane) -> None:
    async with client_of(spec) as client:
        healthy = (await client.get(FAULTS)).json()
        shown = (await client.post(FAULTS, json={"slow_factor": 2, "not_ready": True})).json()
        assert (shown["slow_factor"], shown["not_ready"]) == (2, True)
        assert (await client.post(FAULTS, json={"slow_factor": 3})).json()["not_ready"] is False
        assert (await client.delete(FAULTS)).json() == healthy == (await client.get(FAULTS)).json()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "truncated"),
        (b"[]", "object"),
        (b'{"sluw_factor": 2}', "sluw_factor"),
        (b'{"slow_factor": 0}', "slow_factor"),
        (b'{"slow_factor": "fast"}', "slow_factor"),
        (b'{"status": 200}', "status"),
        (b'{"cut_after_chunks": -1}', "cut_after_chunks"),
        (b'{"first_byte_delay_s": -1}', "first_byte_delay_s"),
        (b'{"retry_after_s": 1}', "need a status"),
    ],
)
async def test_bad_faults_name_their_field(spec: RunningLane, body: bytes, named: str) -> None:
    with pytest.raises(FaultsError, match=named.replace(".", r"\.")):
        read_faults(body)
    async with client_of(spec) as client:
        response = await client.post(FAULTS, content=body)
    assert response.status_code == 400
    assert named in response.json()["message"]
    assert spec.engine.faults == Faults()


async def test_a_status_with_its_body(spec: RunningLane) -> None:
    body = {"error": {"message": "later"}}
    async with client_of(spec) as client:
        await client.post(FAULTS, json={"status": 429, "retry_after_s": 7, "body": body})
        response = await client.post(CHAT, json=STREAM)
        assert (response.status_code, response.json()) == (429, body)
        assert response.headers["retry-after"] == "7"
        await client.post(FAULTS, json={"status": 503})
        response = await client.post(CHAT, json=STREAM)
        assert (response.status_code, response.json()["object"]) == (503, "error")
        assert (await client.get("/ready")).status_code == 200
    assert spec.engine.state()["max_in_flight_seen"] == 0


async def test_a_full_queue_says_so_in_the_first_event(spec: RunningLane) -> None:
    async with client_of(spec) as client:
        await client.post(FAULTS, json={"error_event_first": True})
        first, done = await events(client, CHAT, STREAM)
        assert first["error"]["code"] == 503
        assert done == "[DONE]"
        whole = await client.post(CHAT, json=chat())
        assert whole.status_code == 503


@pytest.mark.parametrize("chunks", [0, 1, 3])
async def test_a_cut_stream_has_no_end(spec: RunningLane, chunks: int) -> None:
    spec.engine.set_faults(Faults(cut_after_chunks=chunks))
    pieces: list[bytes] = []
    async with client_of(spec) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await raw_stream(client, STREAM, pieces)
        raw = b"".join(pieces)
        assert b"[DONE]" not in raw
        assert raw.count(b'"role":null') == chunks
        await until(lambda: spec.engine.state()["in_flight"] == 0)
        assert (await client.get("/ready")).status_code == 200


async def test_a_whole_reply_can_be_cut_too(spec: RunningLane) -> None:
    spec.engine.set_faults(Faults(cut_after_chunks=1))
    async with client_of(spec) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post(CHAT, json=chat(max_tokens=5))


async def test_a_stalled_stream_stays_open_and_in_flight(spec: RunningLane) -> None:
    # After the first: on a slow machine a whole stream may come in two.
    spec.engine.set_faults(Faults(stall_after_chunks=1))
    pieces: list[bytes] = []
    async with client_of(spec) as client:
        task = asyncio.get_running_loop().create_task(raw_stream(client, STREAM, pieces))
        done, _ = await asyncio.wait({task}, timeout=0.5)
        assert not done
        assert spec.engine.state()["in_flight"] == 1
        assert spec.engine.state()["running"] == 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    raw = b"".join(pieces)
    assert raw.count(b'"role":null') == 1
    assert b"[DONE]" not in raw


async def test_the_first_byte_can_be_late(spec: RunningLane) -> None:
    spec.engine.set_faults(Faults(first_byte_delay_s=0.4))
    async with client_of(spec) as client:
        began = time.monotonic()
        async with client.stream("POST", CHAT, json=STREAM) as response:
            assert time.monotonic() - began >= 0.4
            assert (await response.aread()).endswith(b"[DONE]\n\n")


async def test_garbled_bytes_are_no_http(spec: RunningLane) -> None:
    spec.engine.set_faults(Faults(garble=True))
    async with client_of(spec) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post(CHAT, json=STREAM)
        assert (await client.get("/ready")).status_code == 200


async def test_probes_can_fail(spec: RunningLane) -> None:
    async with client_of(spec) as client:
        await client.post(FAULTS, json={"not_ready": True, "health_hang_s": 0.2})
        assert (await client.get("/ready")).status_code == 503
        began = time.monotonic()
        assert (await client.get("/health")).status_code == 503
        assert 0.2 <= time.monotonic() - began < 1.0
        assert (await client.get("/ping")).status_code == 200


async def test_a_fault_can_be_for_some_requests_only(spec: RunningLane) -> None:
    async with client_of(spec) as client:
        await client.post(FAULTS, json={"status": 503, "times": 2})
        got = [(await client.post(CHAT, json=STREAM)).status_code for _ in range(4)]
    assert got == [503, 503, 200, 200]


async def test_a_slow_engine_and_a_worse_draft(spec: RunningLane) -> None:
    async def took_s() -> float:
        began = time.monotonic()
        async with client_of(spec) as client:
            await client.post(CHAT, json=chat(max_tokens=600, ignore_eos=True))
        return time.monotonic() - began

    # 600 tokens are 200 steps at least, which the simulation never makes shorter than they are.
    fastest_s = 200 * spec.engine.shape.step_s(1) / 30
    spec.engine.set_faults(Faults(slow_factor=4))
    assert await took_s() > 4 * fastest_s
    spec.engine.set_faults(Faults(accept_length_factor=0.1))
    accepted = spec.engine.model.accepted
    await took_s()
    assert spec.engine.model.accepted == accepted


async def test_faults_of_one_lane_leave_the_other_alone(
    spec: RunningLane, plain: RunningLane
) -> None:
    spec.engine.set_faults(Faults(status=500))
    async with client_of(plain) as client:
        assert (await client.post(CHAT, json=chat(max_tokens=2))).status_code == 200
