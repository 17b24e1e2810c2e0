"""Cases A: streams, events and characters, however the network cuts them.

Not here: A06's `proxy_buffering off` is a line of the deploy files.
"""

import asyncio
import logging
from itertools import pairwise
from statistics import median

import pytest
import structlog.testing

from specgate.core.events import Outcome
from specgate.core.lanes import Lane
from specgate.engines.base import Engine
from tests.support.client import chat_request, connect
from tests.support.lanes import (
    DONE,
    LAST_CHUNK,
    Fin,
    Pause,
    Send,
    chunk,
    chunked,
    delta,
    error_response,
    frame,
    head,
    json_response,
    one_byte_at_a_time,
    sse_head,
    sse_response,
    usage,
)
from tests.support.stage import stage

ROLE = frame({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
TOKENS = 'specgate_output_tokens_total{lane="spec"}'
TTFTS = 'specgate_ttft_seconds_count{lane="spec"}'


async def test_a01_frame_cut_by_tcp(caplog):
    """A piece of a frame was taken for a whole one: text lost, or the client's usage uncounted."""
    first, last = delta("Hello"), usage(3, 2)
    pieces = [ROLE, first[:3], first[3:40], first[40:-1], first[-1:]]
    pieces += [last[:20], last[20:-1], last[-1:] + DONE]
    with caplog.at_level(logging.WARNING), structlog.testing.capture_logs() as lines:
        async with stage() as on:
            on.spec.answer_next(sse_response(pieces, pause_s=0.03))
            reply = await on.ask()
            assert [piece for _, piece in reply.body.pieces] == pieces
            assert reply.body.clean
            ended = await on.ended()
            sent_at = on.spec.requests[0].sent_at
    assert ended.ttft_s is not None
    assert ended.ttft_s >= sent_at[5] - sent_at[0], "before the first frame was whole"
    assert ended.output_tokens == 2
    assert [line for line in lines if line["event"] == "request"]
    loud = [line for line in lines if line["log_level"] in ("warning", "error")]
    assert not loud + caplog.records


@pytest.mark.parametrize("chunks", [1, 7])
async def test_a02_several_frames_in_one_write(chunks):
    """Of frames that were read together only the first was seen."""
    frames = [ROLE, *(delta(f"t{number}") for number in range(4)), usage(3, 9), DONE]
    body = chunked(*frames) if chunks == 7 else chunked(b"".join(frames))
    async with stage() as on:
        on.spec.answer_next([Send(sse_head()), Pause(0.05), Send(body)])
        reply = await on.ask()
        assert reply.body.data == b"".join(frames)
        assert reply.body.clean
        assert (await on.ended()).output_tokens == 9
        assert await on.sample(TOKENS) == 9
        assert await on.sample(TTFTS) == 1


async def test_a03_character_cut_in_two():
    """Each piece was decoded alone, and characters of several bytes became U+FFFD."""
    text = "🙂 推測 ü"
    raw = f'data: {{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}\n\n'.encode()
    body = raw + usage(1, 5) + DONE
    bytes_as_chunks = chunked(*(bytes([byte]) for byte in body))
    async with stage() as on:
        on.spec.answer_next(
            sse_response([bytes([byte]) for byte in body]),
            one_byte_at_a_time(sse_head() + bytes_as_chunks),
        )
        for count in (1, 2):
            reply = await on.ask()
            assert reply.body.data == body
            assert reply.body.clean
            ended = await on.ended(count)
            assert ended.output_tokens == 5
            assert ended.ttft_s is not None


async def test_a04_comment_and_ping_lines():
    """Comment lines were dropped or parsed, or passed for the first token."""
    ping = b": keep-alive\n\n"
    async with stage(idle_timeout_s=0.3) as on:
        script = sse_response([ping] * 5, pause_s=0.1)[:-1]
        script += [Pause(0.1), Send(chunk(delta("a"))), Send(chunk(usage(1, 1) + DONE))]
        on.spec.answer_next([*script, Send(LAST_CHUNK)])
        reply = await on.ask()
        ended = await on.ended()
        (request,) = on.spec.requests
        assert reply.body.data == ping * 5 + delta("a") + usage(1, 1) + DONE
        late = [
            came_at - sent_at
            for (came_at, _), sent_at in zip(
                reply.body.pieces[:5], request.sent_at[1:], strict=False
            )
        ]
        assert max(late) < 0.08, "a ping was held back"
        assert ended.outcome is Outcome.COMPLETED, "pings keep an idle stream alive"
        assert ended.ttft_s is not None
        assert ended.ttft_s >= 0.6, "a ping is no token"


async def test_a05_batching_delays_first_token():
    """The proxy collected tokens for some time and sent them together."""
    frames = [delta(f"t{number} ") for number in range(40)]
    async with stage() as on:
        on.spec.answer_next(sse_response(frames, pause_s=0.02))
        reply = await on.ask()
        sent_at = on.spec.requests[0].sent_at[1:]
        assert [piece for _, piece in reply.body.pieces] == frames
        came_at = [at for at, _ in reply.body.pieces]
        added = [came - sent for came, sent in zip(came_at, sent_at, strict=False)]
        # Generous, for a busy machine; the real figure is in the benchmarks.
        assert median(added) < 0.01
        assert median(later - earlier for earlier, later in pairwise(came_at)) > 0.01


async def test_a06_buffering_by_the_outer_proxy():
    """nginx held a stream back because nothing told it not to."""
    name, cache = b"x-accel-buffering", (b"cache-control", b"private, no-transform")
    async with stage() as on:
        on.spec.answer_next(
            sse_response([DONE], headers=[cache]),
            sse_response([DONE], content_type=b"Text/Event-Stream; charset=utf-8"),
            sse_response([DONE], headers=[(b"X-Accel-Buffering", b"yes")]),
            json_response(200, {}),
        )
        added = await on.ask()
        assert added.values(name) == [b"no"]
        assert added.values(b"cache-control") == [cache[1]]
        assert (await on.ask()).values(name) == [b"no"]
        assert (await on.ask()).values(name) == [b"yes"]
        assert (await on.ask()).values(name) == []
    async with stage(accel_buffering="false") as on:
        on.spec.answer_next(sse_response([DONE]))
        assert (await on.ask()).values(name) == []


async def test_a07_stream_consumed_after_client_context_closed():
    """The lane's connection was closed with the handler, before the body had come."""
    frames = [delta("a"), usage(1, 1), DONE]
    async with stage() as on:
        # Of an engine that may decline in a stream, the head would wait for the first event.
        gate = on.gate.service.gate
        gate.name_engine(gate.origin(Lane.SPEC), Engine.LLAMACPP)
        on.spec.answer_next([*sse_response(frames)[:1], Pause(0.5), *sse_response(frames)[1:]])
        async with connect(on.url) as client:
            await client.send(chat_request())
            async with asyncio.timeout(0.4):
                await client.read_head()
            assert (await on.gate.status())["in_flight"]["spec"] == 1
            body = await client.read_body()
        assert body.data == b"".join(frames)
        assert body.clean


async def test_a08_stream_flag_and_real_content_type():
    """A JSON answer to a streaming request was labelled as an event stream."""
    answers = [
        error_response(400, "max_tokens is too large"),
        error_response(429, "slow down", [(b"retry-after", b"7")]),
        json_response(200, {"choices": []}),
    ]
    async with stage() as on:
        on.spec.answer_next(*answers)
        for answer, status in zip(answers, (400, 429, 200), strict=True):
            reply = await on.ask()
            assert reply.status == status
            assert reply.values(b"content-type") == [b"application/json"]
            assert reply.values(b"x-accel-buffering") == []
            assert reply.values(b"retry-after") == ([b"7"] if status == 429 else [])
            assert reply.body.data == answer.data.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_a09_tail_lost_at_close(framing):
    """The last bytes were lost when the engine closed right after writing them."""
    body = bytes(range(256)) * 4096
    plain_text = (b"content-type", b"text/plain")
    whole = {
        "length": head(200, [plain_text, (b"content-length", b"%d" % len(body))]) + body,
        "chunked": head(200, [plain_text, (b"transfer-encoding", b"chunked")]) + chunked(body),
        "close": head(200, [plain_text]) + body,
    }[framing]
    async with stage() as on:
        on.spec.answer_next([Send(whole), Fin()])
        async with connect(on.url, receive_buffer=16384) as client:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(chat_request())
            await asyncio.sleep(0.3)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await client.read_head()
            reply = await client.read_body()
        assert reply.data == body
        assert reply.ending == ("length" if framing == "length" else "chunked")


async def test_a10_several_tokens_in_a_chunk():
    """Frames were counted as tokens, and a speculating lane looked slower than it was."""
    frames = [delta("four tokens at once") for _ in range(3)]
    async with stage() as on:
        on.spec.answer_next(
            sse_response([*frames, usage(3, 12), DONE]), sse_response([*frames, DONE])
        )
        await on.ask()
        assert (await on.ended()).output_tokens == 12
        await on.ask()
        assert (await on.ended(2)).output_tokens is None, "the engine gave no count"
        assert await on.sample(TOKENS) == 12
        assert await on.sample('specgate_responses_without_usage_total{lane="spec"}') == 1
