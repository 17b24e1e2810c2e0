"""Token counts: asked for on a client's behalf, and read from the engines' own counters."""

import asyncio

import pytest

from specgate.core.events import RequestEnded
from tests.support.client import CHAT, chat, chat_request, connect
from tests.support.lanes import (
    DONE,
    ScriptedLane,
    delta,
    frame,
    json_response,
    response,
    sse_response,
    usage,
)
from tests.support.live import running_gate
from tests.support.stage import stage

STREAM = [delta("a"), delta("b"), usage(5, 7), DONE]


async def test_usage_is_asked_for_and_its_event_taken_out():
    async with stage(request_usage="true") as on:
        on.spec.answer_next(sse_response(STREAM, pause_s=0.05))
        async with connect(on.url) as client:
            body = chat(stream=True)
            reply = await client.request(b"POST", CHAT, body=body)
        seen = on.spec.requests[0]
        assert seen.body == body[:-1] + b',"stream_options":{"include_usage":true}}'
        assert seen.values(b"content-length") == [b"%d" % len(seen.body)]
        assert reply.body.data == delta("a") + delta("b") + DONE
        assert reply.body.clean
        ended = await on.ended()
        assert ended.output_tokens == 7
        assert ended.tpot_s is not None
        assert ended.ttft_s is not None
        # Six steps of it, and not the one between two chunks, lead from the first to the last.
        assert 0.05 <= 6 * ended.tpot_s <= ended.duration_s - ended.ttft_s


async def test_a_length_that_counts_the_event_is_not_passed_on():
    """The client would wait for what was taken out, and take the next answer for it."""
    whole = b"".join(STREAM)
    events = [(b"content-type", b"text/event-stream")]
    async with stage(request_usage="true") as on, connect(on.url) as client:
        for _ in range(2):
            on.spec.answer_next(response(200, whole, events))
            reply = await client.request(b"POST", CHAT, body=chat(stream=True))
            assert reply.body.data == delta("a") + delta("b") + DONE
            assert reply.body.clean


@pytest.mark.parametrize("options", [{"include_usage": False}, {"include_usage": True}, None])
async def test_a_client_s_own_word_on_usage_stands(options):
    async with stage(request_usage="true") as on:
        on.spec.answer_next(sse_response(STREAM))
        async with connect(on.url) as client:
            body = chat(stream=True, stream_options=options)
            reply = await client.request(b"POST", CHAT, body=body)
        assert on.spec.requests[0].body == body
        assert reply.body.data == b"".join(STREAM)


async def test_by_default_nothing_is_asked_for():
    async with stage() as on:
        on.spec.answer_next(sse_response(STREAM))
        async with connect(on.url) as client:
            reply = await client.request(b"POST", CHAT, body=chat(stream=True))
        assert on.spec.requests[0].body == chat(stream=True)
        assert reply.body.data == b"".join(STREAM)


async def test_an_error_to_a_stream_passes_as_it_is():
    async with stage(request_usage="true") as on:
        on.spec.answer_next(json_response(400, {"usage": {}, "choices": []}))
        async with connect(on.url) as client:
            await client.send(chat_request(stream=True))
            await client.read_head()
            assert client.status == 400
            assert (await client.read_body()).data == b'{"usage": {}, "choices": []}'


async def test_llama_s_timings_count_where_there_is_no_usage():
    last = frame({"choices": [{"delta": {}}], "timings": {"prompt_n": 3, "predicted_n": 9}})
    async with stage() as on:
        on.spec.answer_next(sse_response([delta("a"), last, DONE]))
        await on.ask()
        assert (await on.ended()).output_tokens == 9


def page(text: bytes):
    return response(200, text, [(b"content-type", b"text/plain")])


async def test_the_engines_own_counters_are_shown_and_decide_nothing():
    models = json_response(200, {"data": [{"id": "m", "owned_by": "sglang"}]})
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        for lane in (spec, plain):
            lane.answer("/v1/models", models)
        spec.answer("/metrics", page(b'sglang:generation_tokens_total{a="b"} 41.0\n'))
        plain.answer("/metrics", page(b"sglang:generation_tokens_total NaN\n"))
        async with running_gate(spec.url, plain.url, scrape_interval_s=0.05) as gate:
            async with asyncio.timeout(5):
                while 'specgate_engine_output_tokens_total{lane="spec"} 41.0' not in (
                    text := await gate.metrics()
                ):
                    await asyncio.sleep(0.02)
            assert 'specgate_engine_output_tokens_total{lane="plain"}' not in text
            assert gate.facts.of(RequestEnded) == []
