"""An engine that breaks off in mid-stream: its client is told so in the stream's own shape, and the
stream is cut all the same."""

import asyncio
import json
from typing import Any

import openai
import pytest

from specgate.core.errors import FailureKind
from specgate.core.events import LaneFailed, Outcome, RequestEnded
from tests.support.client import CHAT, JSON, Body, chat, chat_request, connect, request_bytes
from tests.support.lanes import (
    DONE,
    Fin,
    Pause,
    Rst,
    Send,
    Silent,
    chunk,
    delta,
    head,
    sse_head,
    usage,
)
from tests.support.stage import Stage, stage

FORMS = pytest.mark.usefixtures("form")
"""On connections of our own, and through ASGI."""

SENT = delta("a") + delta("b")
RESPONSES_EVENT = (
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
    b'"sequence_number":41,"delta":"a"}\n\n'
)


def breaks_off(sent: bytes, how: Any = None, headers: Any = ()) -> list[Any]:
    return [Send(sse_head(headers)), Send(chunk(sent)), how or Fin()]


async def told(on: Stage, target: bytes, sent: bytes) -> bytes:
    """What the client has beyond what the engine sent, on a stream that was cut."""
    reply = await on.ask(target=target, body=chat())
    assert reply.status == 200
    assert reply.body.ending == "cut"
    assert reply.body.data.startswith(sent)
    return reply.body.data.removeprefix(sent)


@FORMS
@pytest.mark.parametrize("how", [Fin(), Rst()], ids=["fin", "rst"])
async def test_a_chat_gets_an_error_event_and_no_end(how: Any):
    async with stage() as on:
        on.spec.answer_next(breaks_off(SENT, how))
        event = await told(on, CHAT, SENT)
        assert event.startswith(b"data: ")
        assert event.endswith(b"\n\n")
        error = json.loads(event.removeprefix(b"data: "))["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert (error["type"], error["code"]) == ("server_error", "lane_stream_broken")
        assert "spec lane" in error["message"]
        ended = await on.ended()
        assert (ended.outcome, ended.status) == (Outcome.LANE_FAILED, 200)
        assert [fact.kind for fact in on.gate.facts.of(LaneFailed)] == [FailureKind.BROKEN]
        assert [on.spec.requests_total, on.plain.requests_total] == [1, 0], "never a second send"


@pytest.mark.parametrize("target", [b"/v1/completions", b"/generate", b"/v1/chat/completions"])
async def test_other_routes_of_that_shape(target: bytes):
    async with stage() as on:
        on.spec.answer_next(breaks_off(SENT))
        event = await told(on, target, SENT)
        assert json.loads(event.removeprefix(b"data: ")).keys() == {"error"}


async def test_the_responses_api_has_an_event_of_its_own():
    async with stage() as on:
        on.spec.answer_next(breaks_off(RESPONSES_EVENT))
        event = await told(on, b"/v1/responses", RESPONSES_EVENT)
        assert event.startswith(b"event: error\ndata: ")
        said = json.loads(event.partition(b"data: ")[2])
        assert (said["type"], said["sequence_number"]) == ("error", 42)
        assert said.keys() == {"type", "code", "message", "param", "sequence_number"}


STORE = json.dumps({"model": "m", "input": "Hi", "stream": True, "store": True}).encode()
CREATED = (
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0,'
    b'"response":{"id":"resp_held"}}\n\n'
)


@FORMS
async def test_so_has_a_response_that_is_stored_and_one_that_is_read_again():
    """Its id passes by on the way, and leads to the lane that has it when it is asked for later;
    what is read then is a stream too, and may break off like the first."""
    again = b"/v1/responses/resp_held?stream=true"
    async with stage() as on:
        for method, target, body in ((b"POST", b"/v1/responses", STORE), (b"GET", again, None)):
            sent = CREATED + RESPONSES_EVENT
            on.spec.answer_next(breaks_off(sent))
            reply = await on.ask(method, target, body=body)
            assert (reply.status, reply.body.ending) == (200, "cut")
            assert reply.body.data.startswith(sent)
            name, _, data = reply.body.data.removeprefix(sent).partition(b"\ndata: ")
            assert name == b"event: error"
            said = json.loads(data)
            assert (said["code"], said["sequence_number"]) == ("lane_stream_broken", 42)
        assert [on.spec.requests_total, on.plain.requests_total] == [2, 0]
        assert on.gate.facts.of(RequestEnded)[-1].output_tokens is None, "read, and not generated"


@FORMS
@pytest.mark.parametrize("half", [b"", b'{"message": {"con'])
async def test_lines_of_json_end_with_a_line(half: bytes):
    """Ollama's shape, on a line of its own."""
    sent = b'{"message": {"content": "a"}}\n' + half
    pairs = [(b"content-type", b"application/x-ndjson"), (b"transfer-encoding", b"chunked")]
    async with stage() as on:
        on.spec.answer_next([Send(head(200, pairs)), Send(chunk(sent)), Rst()])
        rest = await told(on, b"/api/chat", sent)
        assert rest.startswith(b"\n" if half else b"{")
        assert rest.endswith(b"\n")
        assert "spec lane broke off" in json.loads(rest)["error"]


async def test_the_messages_api_has_one_too():
    sent = b'event: message_start\ndata: {"type":"message_start"}\n\n'
    async with stage() as on:
        on.spec.answer_next(breaks_off(sent))
        event = await told(on, b"/v1/messages", sent)
        assert event.startswith(b"event: error\ndata: ")
        said = json.loads(event.partition(b"data: ")[2])
        assert said["type"] == "error"
        assert said["error"].keys() == {"type", "message"}


@pytest.mark.parametrize(
    "half",
    [b'data: {"choices": [{"del', b'data: {"a":1}\n', b'data: {"a":1}\r\n', b"data: 1\r", b": pi"],
    ids=["line", "event", "event, crlf", "event, cr", "comment"],
)
async def test_an_event_that_was_sent_in_part_is_ended_first(half: bytes):
    """The error begins a line and an event of its own, whatever lies before it."""
    async with stage() as on:
        on.spec.answer_next(breaks_off(SENT + half))
        rest = await told(on, CHAT, SENT + half)
        assert rest.startswith(b"\n\ndata: ")
        assert json.loads(rest[2:].removeprefix(b"data: ")).keys() == {"error"}


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
async def test_nothing_is_put_between_whole_events(end: bytes):
    async with stage() as on:
        sent = b"data: 1" + end
        on.spec.answer_next(breaks_off(sent))
        assert (await told(on, CHAT, sent)).startswith(b"data: ")


async def test_an_engine_that_says_no_more():
    async with stage(idle_timeout_s=0.3) as on:
        on.spec.answer_next(breaks_off(SENT, Silent()))
        event = await told(on, CHAT, SENT)
        assert b"sent nothing for 0.3 s" in event


async def test_an_engine_that_breaks_its_framing():
    async with stage() as on:
        on.spec.answer_next([Send(sse_head()), Send(chunk(SENT) + b"zz\r\n"), Silent()])
        assert (await told(on, CHAT, SENT)).startswith(b"data: ")


async def test_with_the_usage_event_taken_out():
    """What the gate held back of an event is not sent after all."""
    async with stage(request_usage="true") as on:
        on.spec.answer_next(breaks_off(SENT + b'data: {"choices":[],"usa'))
        rest = await told(on, CHAT, SENT)
        assert json.loads(rest.strip().removeprefix(b"data: "))["error"]
        on.spec.answer_next([*breaks_off(SENT)[:-1], Send(chunk(usage(1, 2))), Fin()])
        rest = await told(on, CHAT, SENT)
        assert b'"usage"' not in rest


NOT_TOLD = {
    "no stream": (CHAT, [(b"content-type", b"application/json")], b'{"choices": ['),
    "compressed": (
        CHAT,
        [(b"content-type", b"text/event-stream"), (b"content-encoding", b"gzip")],
        b"\x1f\x8b\x08",
    ),
    "not a generation": (b"/v1/things", [(b"content-type", b"text/event-stream")], b"data: 1\n\n"),
}


@FORMS
@pytest.mark.parametrize("name", NOT_TOLD)
async def test_nothing_is_added_to_any_other_body(name: str):
    target, headers, sent = NOT_TOLD[name]
    framing = [(b"transfer-encoding", b"chunked")]
    async with stage() as on:
        for lane in (on.spec, on.plain):
            lane.answer_next([Send(head(200, [*headers, *framing])), Send(chunk(sent)), Rst()])
        reply = await on.ask(target=target, body=chat())
        assert (reply.body.data, reply.body.ending) == (sent, "cut")


async def test_nothing_is_added_to_a_stream_with_a_length():
    """It would be more than was promised, or look like the rest of it."""
    pairs = [(b"content-type", b"text/event-stream"), (b"content-length", b"1000")]
    async with stage() as on:
        on.spec.answer_next([Send(head(200, pairs) + SENT), Rst()])
        reply = await on.ask()
        assert (reply.body.data, reply.body.clean) == (SENT, False)


async def test_a_client_of_http_1_0_is_reset():
    """A FIN would look like the end; what it has read by then it keeps."""
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next([Send(sse_head()), Send(chunk(SENT)), Pause(0.1), Rst()])
        await client.send(chat_request().replace(b"HTTP/1.1", b"HTTP/1.0"))
        await client.read_head()
        body: Body = await client.read_body()
        assert body.ending == "reset"
        assert body.data.startswith(SENT)


async def test_a_client_that_is_slow_to_read_gets_all_of_it():
    """What its engine sent was held up by the client, and is not thrown away with the rest."""
    piece, times = delta("x" * 100_000), 100
    many = [Send(chunk(piece))] * times
    async with stage() as on, connect(on.url, receive_buffer=4096) as client:
        on.spec.answer_next([Send(sse_head()), *many, Fin()])
        await client.send(request_bytes(b"POST", CHAT, [JSON], chat()))
        await client.read_head()
        reader = client.writer.transport
        reader.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.3)
        assert on.gate.facts.of(LaneFailed) == []
        reader.resume_reading()  # type: ignore[attr-defined]
        body = await client.read_body()
        assert body.ending == "cut"
        assert body.data.startswith(piece * times)
        assert b"lane_stream_broken" in body.data[times * len(piece) :]


async def test_openais_client_raises_the_error():
    async with stage() as on:
        on.spec.answer_next(breaks_off(SENT))
        async with openai.AsyncOpenAI(
            base_url=on.url + "/v1", api_key="k", max_retries=0
        ) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
            )
            events = aiter(stream)
            for text in ("a", "b"):
                assert (await anext(events)).choices[0].delta.content == text
            with pytest.raises(openai.APIError, match="spec lane broke off"):
                await anext(events)
            await stream.close()


async def test_vllms_own_error_and_end_pass_as_they_are():
    """It tells of its own death in the stream, and then sends the end mark: its word, not ours."""
    said = b'data: {"error": {"message": "EngineCore encountered an issue"}}\n\n' + DONE
    async with stage() as on:
        on.spec.answer_next([Send(sse_head()), Send(chunk(SENT + said)), Send(b"0\r\n\r\n")])
        reply = await on.ask()
        assert (reply.body.data, reply.body.clean) == (SENT + said, True)
