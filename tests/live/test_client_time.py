"""How long a client may take: for a head, for a body, for reading its response, between two."""

import asyncio
import json

import pytest

from specgate.core.events import LaneFailed, Outcome, Phase
from tests.support.client import CHAT, JSON, chat, chat_request, chunked, connect, request_bytes
from tests.support.lanes import (
    DONE,
    DontReadBody,
    Pause,
    ReadBody,
    Send,
    Silent,
    Step,
    chunk,
    delta,
    response,
    sse_head,
)
from tests.support.refusals import read_refusal
from tests.support.stage import stage

CHUNKED = (b"Transfer-Encoding", b"chunked")
FLOOD: list[Step] = [Send(sse_head()), *[Send(chunk(delta("x" * 100_000)))] * 200, Silent()]


async def test_slow_head():
    async with stage(head_timeout_s=0.3) as on, connect(on.url) as client:
        started = asyncio.get_running_loop().time()
        for byte in request_bytes(b"GET", b"/v1/thing")[:-1]:
            client.writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
            if client.reader._buffer:  # type: ignore[attr-defined]
                break
        await read_refusal(client, 408, "slow_head")
        assert 0.3 <= asyncio.get_running_loop().time() - started < 1
        assert (await on.ended()).outcome is Outcome.REFUSED


async def test_slow_head_behind_a_request_that_is_answered():
    async with stage(head_timeout_s=0.3) as on, connect(on.url) as client:
        on.plain.answer_next([Pause(0.6), response(200, b"first")])
        await client.send(request_bytes(b"GET", b"/v1/thing") + b"GET /v1/oth")
        await client.read_head()
        assert (await client.read_body()).data == b"first"
        await read_refusal(client, 408, "slow_head")
        assert len(on.plain.requests) == 1


@pytest.mark.parametrize("target", [CHAT, b"/v1/files", b"/_specgate/mode"])
async def test_slow_body(target: bytes):
    """Whoever it is for: a lane, a lane that has its beginning already, or the gate itself."""
    async with stage(body_timeout_s=0.3, admin_token="t") as on, connect(on.url) as client:
        method = b"PUT" if b"specgate" in target else b"POST"
        headers = [JSON, (b"Authorization", b"Bearer t"), CHUNKED]
        await client.send(request_bytes(method, target, headers) + b"5\r\nhello\r\n")
        started = asyncio.get_running_loop().time()
        await read_refusal(client, 408, "slow_body")
        assert 0.3 <= asyncio.get_running_loop().time() - started < 1
        ended = await on.ended()
        assert (ended.outcome, ended.status) == (Outcome.REFUSED, 408)
        assert on.gate.facts.of(LaneFailed) == []
        for request in on.plain.requests:
            assert not request.complete
            await on.plain.saw_close()


async def test_body_that_pauses_for_less_is_not_slow():
    async with stage(body_timeout_s=0.4) as on, connect(on.url) as client:
        await client.send(request_bytes(b"POST", CHAT, [JSON, CHUNKED]))
        for byte in chat():
            await client.send(chunk(bytes([byte])))
            await asyncio.sleep(0.01)
        await client.send(b"0\r\n\r\n")
        await client.read_head()
        assert client.status == 200
        await client.read_body()


async def test_lane_that_does_not_read_is_not_the_clients_fault():
    size = 30_000_000
    async with stage(body_timeout_s=0.3) as on, connect(on.url) as client:
        on.spec.answer_next([DontReadBody(), Pause(1.2), ReadBody(), response(200, b"ok")])
        await client.send(request_bytes(b"POST", CHAT, [(b"Content-Length", b"%d" % size)]))
        await client.send(b"x" * size)
        await client.read_head()
        assert (client.status, (await client.read_body()).data) == (200, b"ok")
        assert len(on.spec.requests[0].body) == size


async def test_full_pipeline_is_not_the_clients_fault():
    """While it waits behind others, a body is not read, and its client does not pause."""
    body = b"x" * 3_000_000
    async with stage(body_timeout_s=0.2, head_timeout_s=0.2) as on, connect(on.url) as client:
        on.plain.answer_next([Pause(0.8), response(200, b"0")])
        on.plain.answer_next(*[response(200, b"%d" % number) for number in range(1, 12)])
        upload = request_bytes(b"POST", b"/v1/files", (), body)
        sending = asyncio.ensure_future(
            client.send(request_bytes(b"GET", b"/v1/thing") * 10 + upload * 2)
        )
        for number in range(12):
            await client.read_head()
            assert (client.status, (await client.read_body()).data) == (200, b"%d" % number)
        await sending
        assert [request.body for request in on.plain.requests[10:]] == [body, body]


async def test_idle_connections_stay_and_end_quietly(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("specgate.service.KEEP_ALIVE_S", 0.4)
    async with stage() as on, connect(on.url) as unused, connect(on.url) as used:
        assert (await used.request(b"POST", CHAT, [JSON], chat())).status == 200
        started = asyncio.get_running_loop().time()
        assert await used.ended() == "fin"
        assert asyncio.get_running_loop().time() - started > 0.3
        assert await unused.ended() == "fin"
        assert used.reader.at_eof()


async def test_client_that_stops_reading():
    """Ended after SEND_TIMEOUT_S, as a kind of its own; and its socket really is closed."""
    async with stage(send_timeout_s=0.4) as on, connect(on.url, receive_buffer=4096) as client:
        on.spec.answer_next(FLOOD)
        await client.send(chat_request())
        await client.read_head()
        client.stop_reading()
        await on.spec.saw_close(within_s=3)
        ended = await on.ended()
        assert (ended.outcome, ended.phase) == (Outcome.CLIENT_STALLED, Phase.STREAM)
        assert (await on.gate.status())["in_flight"]["total"] == 0
        assert await on.sample("specgate_client_stalls_total") == 1
        await assert_reset(client)


async def assert_reset(client) -> None:
    """The kernel knows no connection any more: a write is answered by a reset."""
    client.writer.transport.resume_reading()
    assert await client.ended() == "reset"


async def test_client_that_stops_reading_what_is_whole():
    """A last response that is not read, on a connection that ends with it."""
    close = (b"Connection", b"close")
    async with stage(send_timeout_s=0.4) as on, connect(on.url, receive_buffer=4096) as client:
        client.stop_reading()
        on.spec.answer_next(response(200, b"x" * 10_000_000))
        await client.send(request_bytes(b"POST", CHAT, [JSON, close], chat()))
        assert (await on.ended()).outcome is Outcome.CLIENT_STALLED
        await assert_reset(client)


async def test_client_that_stops_reading_an_own_route():
    """Nothing ended it: its connection, and the server's stop, waited for ever."""
    pages = request_bytes(b"GET", b"/_specgate/openapi.json")
    async with stage(send_timeout_s=0.4) as on, connect(on.url, receive_buffer=4096) as client:
        client.stop_reading()
        for _ in range(600):
            client.writer.write(pages)
        await asyncio.sleep(2)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await client.ended(within_s=5) == "reset"


async def test_slow_reader_of_an_early_answer_gets_it_whole():
    """The gate waited for the client's silence, and cut off what was not flushed by then."""
    body = b"y" * 8_000_000
    async with stage() as on, connect(on.url, receive_buffer=4096) as client:
        on.plain.answer_next([DontReadBody(), response(200, body)])
        await client.send(request_bytes(b"POST", b"/v1/files", [(b"Content-Length", b"900000")]))
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(b"x" * 100_000)
        await asyncio.sleep(3)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await client.read_head()
        read = await client.read_body()
        assert (read.clean, read.data == body) == (True, True)
        assert await client.ended(within_s=4) == "fin"


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_early_answer_is_not_masked_by_a_reset(framing: str):
    """The client sends on for seconds after the lane has answered, and closed."""
    piece = b"x" * 50_000
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next([DontReadBody(), response(401, b'{"error": "no key"}')])
        header = CHUNKED if framing == "chunked" else (b"Content-Length", b"500000")
        await client.send(request_bytes(b"POST", b"/v1/files", [header]))
        for _ in range(10):
            await client.send(chunk(piece) if framing == "chunked" else piece)
            await asyncio.sleep(0.3)
        if framing == "chunked":
            await client.send(b"0\r\n\r\n")
        await client.read_head()
        assert (client.status, (await client.read_body()).data) == (401, b'{"error": "no key"}')
        assert await client.ended() == "fin"
        assert (await on.ended()).outcome is Outcome.COMPLETED


async def test_stream_that_begins_before_the_body_has_ended():
    """Unusual, and whole all the same; the connection ends with it."""
    frames: list[Step] = [Send(chunk(delta("a"))), Send(chunk(DONE)), Send(b"0\r\n\r\n")]
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next([DontReadBody(), Send(sse_head()), Pause(0.2), *frames])
        await client.send(request_bytes(b"POST", b"/v1/files", [(b"Content-Length", b"500000")]))
        _, headers = await client.read_head()
        assert (b"connection", b"close") in headers
        await client.send(b"x" * 400_000)
        body = await client.read_body()
        assert (body.data, body.ending) == (delta("a") + DONE, "chunked")
        assert await client.ended(within_s=4) == "fin"


async def test_bad_chunk_after_the_answer_began_cuts_it():
    """The lane will never have the whole request, so that its answer has no whole either."""
    frames: list[Step] = [Pause(0.3), Send(chunk(delta("a"))), Send(b"0\r\n\r\n")]
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next([DontReadBody(), Send(sse_head()), *frames])
        await client.send(request_bytes(b"POST", b"/v1/files", [CHUNKED]) + b"3\r\nabc\r\n")
        await client.read_head()
        await client.send(b"zz\r\n")
        assert not (await client.read_body()).clean
        assert (await on.ended()).outcome is Outcome.REFUSED
        await on.plain.saw_close()


async def test_gate_says_of_its_own_routes_what_it_says_of_all():
    """A body that breaks off was an error of the gate's, or FastAPI's 400."""
    headers = [JSON, (b"Authorization", b"Bearer t"), CHUNKED]
    async with stage(admin_token="t", body_limit=100) as on:
        async with connect(on.url) as client:
            await client.send(request_bytes(b"PUT", b"/_specgate/mode", headers) + b"zz\r\n")
            await read_refusal(client, 400, "bad_http")
        async with connect(on.url) as client:
            await client.send(request_bytes(b"PUT", b"/_specgate/mode", headers))
            await asyncio.sleep(0.05)
            await client.send(chunk(b"x" * 101))
            await read_refusal(client, 413, "body_too_large")
        async with connect(on.url) as client:
            mode = json.dumps({"mode": "auto"}).encode()
            raw = request_bytes(b"PUT", b"/_specgate/mode", headers)
            await client.send(raw + chunked(mode[:3], mode[3:]))
            await client.read_head()
            assert client.status == 200
            await client.read_body()
