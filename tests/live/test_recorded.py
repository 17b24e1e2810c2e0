"""Switches, the history and what the status says of the time behind it: over a real socket."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from specgate.admin.models import Status
from specgate.admin.recorded import History, SwitchLog
from specgate.core.lanes import Lane
from specgate.core.policy import MEANINGS
from specgate.telemetry.history import EVERY_S
from tests.support.client import chat, chat_request, connect, get
from tests.support.control import TOKEN, change, message, said
from tests.support.lanes import DONE, ScriptedLane, delta, sse_response, usage
from tests.support.live import environment
from tests.support.process import serve_process
from tests.support.stage import Stage, stage
from tests.support.streams import held


async def read(on: Stage, path: str) -> Any:
    reply = await get(f"{on.url}/_specgate/{path}")
    assert reply.status == 200, reply
    assert reply.values(b"content-type") == [b"application/json"]
    return said(reply)


async def test_a_gate_that_never_switched_says_so():
    async with stage(threshold=8) as on:
        assert await read(on, "switches") == {"kept": 256, "since_start": 0, "switches": []}
        assert (await on.gate.status())["last_switches"] == []


async def test_a_switch_is_kept_with_load_band_and_reason():
    end = asyncio.Event()
    async with stage(threshold=4, band=0.25) as on:
        on.spec.answer_next(held(end))
        async with connect(on.url) as busy:
            await busy.send(chat_request(n=3))
            await busy.read_head()
            async with asyncio.timeout(5):
                # The second request is the fourth sequence: it is at the threshold.
                await on.ask(body=chat(n=1))
            [switch] = (await read(on, "switches"))["switches"]
            end.set()
            await busy.read_body()
        log = SwitchLog.model_validate({"kept": 256, "since_start": 1, "switches": [switch]})
        [kept] = log.switches
        assert (kept.number, kept.was, kept.side) == (1, "spec", "plain")
        assert (kept.reason, kept.why) == ("above_threshold", MEANINGS[kept.reason])
        # Without smoothing the load is the count, and both have the request that moved the side.
        assert (kept.count, kept.load, kept.threshold) == (4, 4.0, 4.0)
        assert (kept.low, kept.high) == (3.0, 4.0)
        assert (kept.accept_length, kept.break_even, kept.offered_tok_s) == (None, None, None)
        assert timedelta(0) <= datetime.now(UTC) - kept.at < timedelta(seconds=10)


async def test_a_burst_is_told_with_the_count_that_was_one():
    """It said a count below burst times the threshold, as the request that arrived was left out."""
    end = asyncio.Event()
    async with (
        ScriptedLane("spec") as spec,
        ScriptedLane("plain") as plain,
        serve_process(
            environment(spec_url=spec.url, plain_url=plain.url, threshold=2.93, burst=2)
        ) as gate,
    ):
        spec.answer_next(held(end))
        async with connect(gate.url) as busy:
            await busy.send(chat_request(n=5))
            await busy.read_head()
            async with connect(gate.url) as client:
                await client.send(chat_request())
                await client.read_head()
                await client.read_body()
            line = await gate.logged("switched")
            [kept] = said(await get(f"{gate.url}/_specgate/switches"))["switches"]
            [shown] = said(await get(f"{gate.url}/_specgate/status"))["last_switches"]
            end.set()
            await busy.read_body()
    assert (line["reason"], line["count"], line["threshold"]) == ("burst", 6, 2.93)
    assert line["load"] < 2.93
    assert (kept["reason"], kept["count"], shown) == ("burst", 6, kept)


async def test_the_status_has_the_last_few_the_newest_first():
    async with stage(threshold=8, admin_token=TOKEN) as on:
        for mode in ("plain", "spec", "plain", "spec", "plain", "spec", "plain"):
            assert (await change(on, b"PUT", "mode", {"mode": mode})).status == 200
        log = await read(on, "switches")
        assert [each["number"] for each in log["switches"]] == [7, 6, 5, 4, 3, 2, 1]
        status = await on.gate.status()
        assert status["last_switches"] == log["switches"][:5]
        assert (status["why"], status["switches"]) == (MEANINGS[status["reason"]], 7)
        assert "operator" in status["ahead"]["words"]


async def test_the_status_says_how_far_it_is_from_switching():
    end = asyncio.Event()
    async with stage(threshold=8, band=0.25) as on:
        on.spec.answer_next(held(end))
        async with connect(on.url) as busy:
            await busy.send(chat_request(n=5))
            await busy.read_head()
            ahead = (await on.gate.status())["ahead"]
            assert (ahead["low"], ahead["high"], ahead["away"]) == (6, 8, 3)
            assert ahead["words"] == "leaves spec at a load of 8: 3.00 more"
            end.set()
            await busy.read_body()


@pytest.mark.timeout(60)
async def test_the_history_fills_as_requests_end():
    began = time.time()
    async with stage(threshold=8) as on:
        on.spec.answer_next(sse_response([delta("a"), delta("b"), usage(3, 40), DONE], 0.01))
        await on.ask()
        status = Status.model_validate(await on.gate.status())
        assert status.recent[Lane.SPEC].ended == 1, "before there is a point of it"
        assert 0.01 <= (status.recent[Lane.SPEC].ttft_s or 0) < 2
        assert status.recent[Lane.PLAIN].ttft_s is None
        async with asyncio.timeout(2 * EVERY_S):
            while len((found := await read(on, "history"))["at"]) < 2:
                await asyncio.sleep(0.1)
        history = History.model_validate(found)
        columns = [*found.values(), *found["lanes"]["spec"].values()]
        lengths = {len(each) for each in columns if isinstance(each, list)}
        assert lengths == {2}
        assert began <= history.at[0] <= history.at[1] <= history.now <= time.time() + 1
        assert (history.side, history.load, history.count) == (["spec"] * 2, [0, 0], [0, 0])
        assert (history.low, history.high) == ([8, 8], [8, 8])
        spec = history.lanes[Lane.SPEC]
        assert sum(spec.ended) == 1
        assert spec.health[-1] == "healthy"
        assert [each for each in spec.ttft_s if each is not None] == [
            status.recent[Lane.SPEC].ttft_s
        ]
        assert spec.tok_s[-1] == pytest.approx(40 / EVERY_S, rel=0.2)
        assert history.lanes[Lane.PLAIN].tok_s[-1] == 0
        assert history.break_even == [None, None]
        later = await read(on, f"history?since={history.at[0]}")
        assert later["at"] == history.at[1:]
        assert later["lanes"]["spec"]["ended"] == spec.ended[1:]
        assert (await read(on, f"history?since={history.at[1]}"))["at"] == []


@pytest.mark.parametrize("since", ["yesterday", "nan", "inf", ""])
async def test_a_wrong_time_is_named(since: str):
    async with stage() as on:
        reply = await get(f"{on.url}/_specgate/history?since={since}")
        assert reply.status == 422
        assert message(reply).startswith("since: ")


async def test_what_is_read_holds_no_secret():
    async with stage(admin_token="the-token-1", threshold=8) as on:
        async with connect(on.url) as client:
            key = (b"Authorization", b"Bearer sk-secret")
            asked = chat_request(headers=[key], user="a-name", messages_more="a prompt")
            await client.send(asked)
            await client.read_head()
            await client.read_body()
        for path in ("status", "switches", "history", "openapi.json"):
            text = (await get(f"{on.url}/_specgate/{path}")).body.data
            for secret in (b"the-token-1", b"sk-secret", b"a-name", b"a prompt"):
                assert secret not in text, path
