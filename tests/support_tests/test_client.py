"""The raw client sends exact bytes and tells how an answer and its connection ended."""

import asyncio
import json

import pytest

from tests.support.client import (
    CHAT,
    RawClient,
    chat,
    chat_request,
    connect,
    get,
    request_bytes,
)
from tests.support.lanes import (
    DONE,
    DontReadBody,
    Fin,
    Pause,
    Rst,
    Script,
    ScriptedLane,
    Send,
    Silent,
    chunk,
    delta,
    head,
    never_ending_stream,
    sse_head,
    sse_response,
)


def test_request_bytes_adds_host_and_length_alone():
    assert request_bytes(b"GET", b"/a?") == b"GET /a? HTTP/1.1\r\nHost: gate\r\n\r\n"
    assert request_bytes(b"POST", b"/", [(b"host", b"h"), (b"X", b"\xff")], b"ab") == (
        b"POST / HTTP/1.1\r\nhost: h\r\nX: \xff\r\nContent-Length: 2\r\n\r\nab"
    )
    pairs = [(b"Host", b"h"), (b"transfer-encoding", b"chunked")]
    assert request_bytes(b"POST", b"/", pairs, b"0\r\n\r\n").endswith(b"chunked\r\n\r\n0\r\n\r\n")


def test_chat_is_a_chat_completion_body():
    body = json.loads(chat(stream=False, n=2, seed=1))
    assert (body["stream"], body["n"], body["seed"]) == (False, 2, 1)
    assert chat_request(n=3, headers=[(b"X", b"1")]).endswith(chat(n=3))


async def test_head_is_given_as_it_came():
    raw = b"HTTP/1.1 200 Fine by me\r\nx-Odd:  \xe4 \r\nX-odd: 2\r\ncontent-length: 3\r\n\r\nabc"
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next(Send(raw))
        await client.send(chat_request())
        line, headers = await client.read_head()
        assert line == b"HTTP/1.1 200 Fine by me"
        assert headers == [(b"x-Odd", b"\xe4"), (b"X-odd", b"2"), (b"content-length", b"3")]
        assert (await client.read_body()).data == b"abc"


ENDINGS: dict[str, tuple[Script, bytes]] = {
    "length": ([Send(head(200, [(b"content-length", b"2")]) + b"ab")], b"ab"),
    "chunked": (sse_response([b"a", b"b"]), b"ab"),
    "close": ([Send(head(200) + b"a"), Pause(0.01), Send(b"b"), Fin()], b"ab"),
    "none": ([Send(head(204))], b""),
    "cut": ([Send(head(200, [(b"content-length", b"3")]) + b"ab"), Fin()], b"ab"),
    "cut in a chunk": ([Send(sse_head() + chunk(b"a") + b"5\r\nb"), Fin()], b"ab"),
    "cut between chunks": ([Send(sse_head() + chunk(b"ab")), Fin()], b"ab"),
    "reset": ([Send(head(200, [(b"content-length", b"3")]) + b"ab"), Rst()], b"ab"),
    "reset in a chunk": ([Send(sse_head() + chunk(b"a") + b"5\r\nb"), Rst()], b"ab"),
    "reset, no framing": ([Send(head(200) + b"ab"), Rst()], b"ab"),
}


@pytest.mark.parametrize("kind", ENDINGS)
async def test_every_byte_is_read_and_the_ending_told(kind):
    script, data = ENDINGS[kind]
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next(script)
        await client.send(chat_request())
        await client.read_head()
        body = await client.read_body()
        assert body.data == data
        assert body.ending == kind.split()[0].strip(",")
        assert body.clean == (kind in ("length", "chunked", "close", "none"))


async def test_bytes_before_a_reset_stay_readable():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next([Send(sse_head() + chunk(delta("a"))), Rst()])
        await client.send(chat_request())
        await lane.saw_requests(1)
        await lane.requests[0].connection.lost.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        await client.read_head()
        assert (await client.read_body()).data == delta("a")
        assert await client.ended() == "reset"


async def test_raw_reads_count_frames():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next(sse_response([delta("a"), delta("b"), delta("c"), DONE]))
        await client.send(chat_request())
        await client.read_head()
        assert await client.read_exact(2) == b"%x" % len(delta("a"))
        assert (await client.read_until(b"\n\n", times=3)).endswith(delta("c"))


async def test_open_connection_fails_the_wait_for_its_end():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next(Silent())
        await client.send(chat_request())
        with pytest.raises(AssertionError, match="still open after"):
            await client.ended(within_s=0.01)


async def test_client_that_stops_reading_holds_its_sender_back():
    async with ScriptedLane() as lane:
        client = await RawClient.open("127.0.0.1", lane.port, receive_buffer=4096)
        lane.answer("*", never_ending_stream(0))
        await client.send(chat_request())
        client.stop_reading()
        await lane.saw_requests(1)
        sent = lane.requests[0].sent_at
        while not sent or asyncio.get_running_loop().time() - sent[-1] < 0.1:
            await asyncio.sleep(0.02)
        stopped_at = len(sent)
        await asyncio.sleep(0.1)
        assert len(sent) == stopped_at
        await client.close()
        await lane.saw_close()


async def test_closing_with_unsent_bytes_does_not_hang():
    async with ScriptedLane() as lane:
        lane.answer("*", [DontReadBody(), Silent()])
        client = await RawClient.open("127.0.0.1", lane.port)
        client.writer.write(request_bytes(b"POST", CHAT, body=b"x" * 30_000_000))
        await client.close()


async def test_get_uses_a_connection_of_its_own():
    async with ScriptedLane() as lane:
        assert (await get(lane.url + "/v1/models?x=1")).status == 200
        assert lane.probes[0].target == b"/v1/models?x=1"
