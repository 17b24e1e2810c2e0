"""A conversation stays on its lane, where its prefix is cached, if so set."""

import asyncio
import json
from typing import Any

import pytest

from specgate.control.admission import Admission
from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from specgate.core.routes import RouteClass
from specgate.engines.base import Engine
from tests.live.test_rules_features import decision, runs
from tests.support.client import JSON
from tests.support.stage import Stage, stage

ON_SPEC, STUCK = (b"spec", b"below_threshold"), (b"spec", b"sticky")


def turns(count: int, opening: str = "Hi", **fields: Any) -> bytes:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": opening}]
    for turn in range(1, count):
        messages += [
            {"role": "assistant", "content": f"answer {turn}"},
            {"role": "user", "content": f"question {turn}"},
        ]
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


def crowd(on: Stage) -> Admission:
    """Load that moves the side to plain while it is there."""
    return on.gate.service.gate.admit(RouteClass.CHAT, 8)


async def say(on: Stage, body: bytes, *headers: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    reply = await on.ask(headers=[JSON, *headers], body=body)
    assert reply.status == 200
    return decision(reply)


@pytest.mark.usefixtures("form")
async def test_a_conversation_stays_on_its_lane_while_the_side_moves():
    async with stage(threshold=4, sticky_s=60) as on:
        assert await say(on, turns(1)) == ON_SPEC
        with crowd(on):
            assert await say(on, turns(2)) == STUCK
            assert on.spec.requests[-1].body == turns(2)
            assert await say(on, turns(1, "Hello")) == (b"plain", b"above_threshold")
        assert await say(on, turns(2, "Hello")) == (b"plain", b"sticky")


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({"prompt_cache_key": "k"}, None),
        ({"session_id": "k"}, None),
        ({}, (b"X-Session-Id", b"k")),
    ],
)
async def test_its_name_is_its_name(fields: dict[str, Any], header: tuple[bytes, bytes] | None):
    headers = [] if header is None else [header]
    async with stage(threshold=4, sticky_s=60) as on:
        assert await say(on, turns(1, **fields), *headers) == ON_SPEC
        with crowd(on):
            assert await say(on, turns(1, "Another", **fields), *headers) == STUCK
            assert (await say(on, turns(1)))[0] == b"plain"


async def test_it_is_off_unless_set():
    async with stage(threshold=4) as on:
        assert await say(on, turns(1)) == ON_SPEC
        with crowd(on):
            assert (await say(on, turns(2)))[0] == b"plain"


async def test_it_ends_after_its_time():
    async with stage(threshold=4, sticky_s=0.2) as on:
        assert await say(on, turns(1)) == ON_SPEC
        with crowd(on):
            await asyncio.sleep(0.4)
            assert (await say(on, turns(2)))[0] == b"plain"


async def test_rules_an_operator_and_a_lost_lane_are_above_it():
    async with stage(threshold=4, sticky_s=60) as on:
        runs(on, Engine.SGLANG)
        gate = on.gate.service.gate
        assert await say(on, turns(1)) == ON_SPEC
        assert await say(on, turns(2, min_p=0.5)) == (b"plain", b"spec_changes")
        assert await say(on, turns(3)) == (b"plain", b"sticky")
        gate.set_mode(Mode.SPEC)
        assert await say(on, turns(4)) == (b"spec", b"forced")
        gate.set_mode(Mode.AUTO)
        await on.spec.stop()
        lane, reason = await say(on, turns(5))
        assert (lane, reason in (b"rerouted", b"lane_down")) == (b"plain", True)
        await on.spec.start()
        assert gate.origin(Lane.SPEC).port == on.spec.port


async def test_the_map_holds_hashes_and_is_bounded():
    async with stage(threshold="always", sticky_s=60) as on:
        await say(on, turns(1, "a secret", user="someone"))
        kept = on.gate.service.gate._rules._conversations
        assert kept is not None
        ((key, value),) = kept._held.items()
        assert isinstance(key, bytes)
        assert len(key) == 16
        assert value[0] is Lane.SPEC
        assert kept._most == 65_536
