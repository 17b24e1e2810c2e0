"""Both lanes at once: how long, and when so much is forced to plain that everything goes there."""

import asyncio
from typing import Any

import pytest

from specgate.core.policy import Mode
from specgate.engines.base import Engine
from tests.live.test_rules_features import decision, runs
from tests.support.client import RawClient, chat, chat_request
from tests.support.stage import Stage, stage
from tests.support.streams import begin, finish, held


async def ask(on: Stage, count: int, **fields: Any) -> bytes:
    """So many requests; the last one's reason."""
    reason = b""
    for _ in range(count):
        reason = decision(await on.ask(body=chat(**fields)))[1]
    return reason


async def test_above_the_share_the_whole_side_is_plain_and_comes_back():
    async with stage(forced_share=0.1) as on:
        runs(on, Engine.SGLANG)
        assert await ask(on, 20, min_p=0.5) == b"spec_changes"
        assert await ask(on, 1) == b"always"
        assert await ask(on, 5, min_p=0.5) == b"spec_changes"
        assert 0.1 < await on.sample("specgate_forced_share") < 0.2
        assert await ask(on, 1) == b"forced_share"
        status = await on.gate.status()
        assert (status["side"], status["reason"]) == ("plain", "forced_share")
        await ask(on, 150)
        async with asyncio.timeout(5):  # the next tick sees it
            while await ask(on, 1) != b"always":
                await asyncio.sleep(0.05)
        assert await on.sample("specgate_switches_total") == 2


@pytest.mark.parametrize("settings", [{"forced_share": "off"}, {"rules": "off"}, {"pool": "split"}])
async def test_it_moves_nothing_where_it_is_off_or_the_lanes_have_their_own_gpus(settings):
    async with stage(**{"forced_share": 0.1, **settings}) as on:
        runs(on, Engine.SGLANG)
        await ask(on, 40, min_p=0.5)
        assert await ask(on, 1) == b"always"


async def test_a_forced_mode_holds_its_side():
    async with stage(forced_share=0.1) as on:
        runs(on, Engine.SGLANG)
        await ask(on, 40, min_p=0.5)
        on.gate.service.gate.set_mode(Mode.SPEC)
        assert await ask(on, 1) == b"forced"


async def test_a_large_request_counts_with_its_sequences():
    async with stage(forced_share=0.1) as on:
        runs(on, Engine.SGLANG)
        assert await ask(on, 1, min_p=0.5, n=40) == b"spec_changes"
        assert await ask(on, 1) == b"forced_share"


async def test_time_in_which_both_lanes_run_is_counted():
    end, clients = asyncio.Event(), list[RawClient]()
    async with stage(forced_share="off") as on:
        runs(on, Engine.SGLANG)
        on.spec.answer("*", held(end))
        on.plain.answer("*", held(end))
        await begin(on, clients)
        await asyncio.sleep(0.6)
        assert await on.sample("specgate_mixed_seconds_total") == 0
        client = await RawClient.open(on.gate.host, on.gate.port)
        clients.append(client)
        await client.send(chat_request(min_p=0.5))
        await client.read_head()
        async with asyncio.timeout(10):
            while await on.sample("specgate_mixed_seconds_total") < 0.5:
                await asyncio.sleep(0.05)
        end.set()
        await finish(clients)
        await on.ended(2)
        await asyncio.sleep(0.3)
        seconds = await on.sample("specgate_mixed_seconds_total")
        await asyncio.sleep(0.6)
        assert await on.sample("specgate_mixed_seconds_total") == seconds
