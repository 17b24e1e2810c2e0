"""Scripts do what they say, and end when their peer leaves."""

import asyncio

import pytest

from tests.support.client import (
    CHAT,
    chat,
    chat_request,
    connect,
    get,
    request_bytes,
)
from tests.support.lanes import (
    DontReadBody,
    Fin,
    Pause,
    ReadBody,
    Rst,
    ScriptedLane,
    Send,
    Signal,
    WaitFor,
    accepts_and_hangs,
    closes_mid_stream,
    delta,
    error_response,
    frame,
    giant_event,
    head,
    headers_then_nothing,
    json_response,
    never_ending_stream,
    one_byte_at_a_time,
    response,
    sse_response,
    status_500,
    wrong_content_type,
)


async def test_scripts_are_chosen_by_queue_then_path_then_star():
    def says(number: int):
        return json_response(200, number)

    async with ScriptedLane() as lane:
        lane.answer("*", says(1))
        lane.answer("/v1/models", says(2))
        lane.answer_next(says(3), says(4))
        lane.answer_next(says(5), path="/b")
        paths = ["/a", "/v1/models", "/b", "/b", "/a"]
        said = [(await get(lane.url + path)).body.data for path in paths]
        assert said == [b"3", b"2", b"5", b"4", b"1"]
        assert len(lane.requests) == 5


async def test_script_waits_for_the_test_and_signals_it():
    go, came = asyncio.Event(), asyncio.Event()
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next([Signal(came), WaitFor(go), json_response(200, {})])
        await client.send(chat_request())
        await came.wait()
        assert lane.in_progress == lane.most_in_progress == 1
        assert lane.idle_connections == 0
        go.set()
        await client.read_head()
        await client.read_body()
        assert lane.in_progress == 0


async def test_script_may_be_a_function():
    async def answer(request, connection):
        await connection.perform(json_response(200, request.json["n"]))

    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer("*", answer)
        assert (await client.request(b"POST", CHAT, body=chat(n=7))).body.data == b"7"


async def test_error_in_a_script_fails_the_test():
    async def broken(_request, _connection):
        raise ValueError("broken script")

    async def case():
        async with ScriptedLane() as lane, connect(lane.url) as client:
            lane.answer("*", broken)
            await client.send(chat_request())
            assert await client.ended() == "fin"

    with pytest.raises(ValueError, match="broken script"):
        await case()


async def test_pieces_arrive_one_by_one_with_their_pauses():
    event = frame({"x": 1})
    pieces = [event[:3], event[3:9], event[9:-1], event[-1:]]
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next(sse_response(pieces, pause_s=0.02))
        answer = await client.request(b"POST", CHAT, body=chat())
        assert [data for _, data in answer.body.pieces] == pieces
        sent_at = lane.requests[0].sent_at[1:-1]  # without the head and the last chunk
        assert sent_at[-1] - sent_at[0] >= 0.05
        arrived_at = [at for at, _ in answer.body.pieces]
        assert all(sent <= at for sent, at in zip(sent_at, arrived_at, strict=True))


@pytest.mark.parametrize(("how", "ending"), [(Fin(), "cut"), (Rst(), "reset")])
async def test_stream_broken_off_is_seen_as_it_was(how, ending):
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next(closes_mid_stream(3, how=how))
        body = (await client.request(b"POST", CHAT, body=chat())).body
        assert body.data == delta("t0") + delta("t1") + delta("t2")
        assert (body.clean, body.ending) == (False, ending)


async def test_after_a_fin_the_lane_waits_for_the_peer_to_close():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next([head_only := Send(head(204)), Fin()])
        await client.send(chat_request())
        assert await client.read_exact(len(head_only.data)) == head_only.data
        assert await client.ended() == "fin"
        assert (lane.in_progress, lane.open_connections, lane.idle_connections) == (0, 1, 0)
        with pytest.raises(AssertionError, match="is still open"):
            await lane.saw_close(within_s=0.01)
        await client.close()
        await lane.saw_close()
        assert lane.open_connections == 0 or lane.idle_connections == 0


@pytest.mark.parametrize("leave", ["close", "rst", "fin"])
@pytest.mark.parametrize(
    "script", [never_ending_stream(0.001), headers_then_nothing(), accepts_and_hangs(), Pause(9)]
)
async def test_peer_that_leaves_ends_the_script_and_its_moment_is_kept(script, leave):
    loop = asyncio.get_running_loop()
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer("*", script)
        await client.send(chat_request())
        await lane.saw_requests(1)
        before = loop.time()
        if leave == "close":
            await client.close()
        elif leave == "rst":
            client.rst()
        else:
            client.fin()
        assert before <= await lane.saw_close() <= loop.time()
        await lane.requests[0].connection.lost.wait()
        assert (lane.in_progress, lane.open_connections) == (0, 0)


async def test_unread_body_holds_its_sender_back_until_it_is_read():
    go, body = asyncio.Event(), b"x" * 30_000_000
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next([DontReadBody(), WaitFor(go), ReadBody(), json_response(200, {})])
        sending = asyncio.ensure_future(client.send(request_bytes(b"POST", CHAT, body=body)))
        await lane.saw_requests(1)
        done, _ = await asyncio.wait([sending], timeout=0.1)
        assert not done
        assert lane.requests[0].raw_body == b""
        go.set()
        await sending
        await client.read_head()
        assert lane.requests[0].body == body


async def test_answer_before_the_body_ends_the_connection():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next([DontReadBody(), error_response(413, "too large")])
        await client.send(request_bytes(b"POST", CHAT, [(b"Content-Length", b"1000")]))
        await client.read_head()
        assert (client.status, (await client.read_body()).clean) == (413, True)
        assert await client.ended() == "fin"


async def test_ready_made_answers_are_what_they_say():
    async with ScriptedLane() as lane, connect(lane.url) as client:
        lane.answer_next(
            status_500(),
            one_byte_at_a_time(response(200, b"slow").data),
            giant_event(300_000),
            wrong_content_type(),
        )
        answers = [await client.request(b"POST", CHAT, body=chat()) for _ in range(4)]
        assert [answer.status for answer in answers] == [500, 200, 200, 200]
        assert answers[1].body.data == b"slow"
        assert len(answers[2].body.data) > 300_000
        assert answers[3].values(b"Content-Type") == [b"text/html"]
        assert all(answer.body.clean for answer in answers)


async def test_reset_with_an_unread_body_is_no_error_of_the_lane():
    """What lies unread behind a reset was taken for the next request, one without an end."""
    length = (b"Content-Length", b"500000")
    for step in (Rst(), [Pause(0.02), Rst()]):
        async with ScriptedLane() as lane, connect(lane.url) as client:
            lane.answer_next([DontReadBody(), *(step if isinstance(step, list) else [step])])
            await client.send(request_bytes(b"POST", CHAT, [length]) + b"x" * 300_000)
            assert await client.ended() == "reset"
