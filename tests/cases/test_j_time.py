"""Cases J: an engine may take its time, and a client too. The times are those at which libraries'
defaults of 5 s strike, not the minutes of the reports."""

import asyncio

import pytest

from specgate.core.config import TimeoutConfig
from specgate.core.events import Outcome
from specgate.proxy.limits import Limits
from tests.support.client import CHAT, JSON, chat, connect
from tests.support.lanes import (
    DONE,
    LAST_CHUNK,
    Pause,
    Send,
    chunk,
    delta,
    response,
    sse_head,
    sse_response,
)
from tests.support.stage import stage

BEYOND_DEFAULTS_S = 5.5

pytestmark = pytest.mark.slow
UPSTREAMS = pytest.mark.parametrize("upstream", ["pooled", "httpx"])


@UPSTREAMS
async def test_j01_long_prefill(upstream: str):
    """A time-out for reading cut off prompts whose prefill took longer."""
    assert TimeoutConfig().first_byte_s is None
    async with stage(upstream=upstream) as on:
        on.spec.answer_next([Pause(BEYOND_DEFAULTS_S), response(200, b"at last")])
        reply = await on.ask()
        assert (reply.status, reply.body.data) == (200, b"at last")


@UPSTREAMS
async def test_j02_idle_gap_between_tokens(upstream: str):
    """A pause in mid-stream, as in a long thought, ended the stream."""
    assert TimeoutConfig().idle_s is None
    frames = [delta("a"), delta("b"), DONE]
    async with stage(upstream=upstream) as on:
        late = Send(chunk(frames[1] + frames[2]) + LAST_CHUNK)
        head = Send(sse_head() + chunk(frames[0]))
        on.spec.answer_next([head, Pause(BEYOND_DEFAULTS_S), late])
        reply = await on.ask()
        assert (reply.body.data, reply.body.clean) == (b"".join(frames), True)


async def test_j02_with_a_limit_it_is_an_error_event():
    async with stage(idle_timeout_s=0.2) as on:
        on.spec.answer_next([Send(sse_head()), Send(chunk(delta("a"))), Pause(5)])
        reply = await on.ask()
        assert b'{"error": ' in reply.body.data.removeprefix(delta("a"))
        assert reply.body.ending == "cut"
        assert (await on.ended()).outcome is Outcome.LANE_FAILED


async def test_j03_total_timeout_cuts_long_streams():
    """A limit on the whole exchange ended streams that were well and long."""
    frames = [delta(f"{number} ") for number in range(30)]
    async with stage(first_byte_timeout_s=1, idle_timeout_s=1, send_timeout_s=1) as on:
        on.spec.answer_next(sse_response(frames, pause_s=BEYOND_DEFAULTS_S / len(frames)))
        reply = await on.ask()
        assert (reply.body.data, reply.body.clean) == (b"".join(frames), True)


@pytest.mark.usefixtures("form")
async def test_j04_outer_idle_timeouts():
    """uvicorn closes after 5 s what a load balancer keeps for a minute, and the two met."""
    assert Limits().idle_s >= 75
    async with stage() as on, connect(on.url) as client:
        for _ in range(2):
            assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200
            await asyncio.sleep(BEYOND_DEFAULTS_S)
