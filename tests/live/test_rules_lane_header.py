"""`x-specgate-lane`: a client names its lane, where that is allowed."""

import pytest

from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from specgate.engines.base import Engine
from tests.live.test_rules_features import decision, runs
from tests.support.client import JSON, chat
from tests.support.control import message
from tests.support.lanes import response
from tests.support.stage import stage


def named(lane: bytes) -> list[tuple[bytes, bytes]]:
    return [JSON, (b"X-Specgate-Lane", lane)]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("upstream", ["pooled", "httpx"])
async def test_the_named_lane_serves_and_never_sees_the_header(upstream: str):
    async with stage(force_lane="allow", upstream=upstream) as on:
        reply = await on.ask(headers=named(b"plain"), body=chat())
        assert (reply.status, *decision(reply)) == (200, b"plain", b"requested")
        (request,) = on.plain.requests
        assert request.body == chat()
        assert not [name for name, _ in request.headers if name.lower().startswith(b"x-specgate")]
        reply = await on.ask(headers=named(b" Spec "), body=chat())
        assert decision(reply) == (b"spec", b"requested")
        # Calls that decode nothing too: else nobody could ask the spec lane through the gate.
        on.spec.answer_next(response(200, b"ok"))
        reply = await on.ask(b"GET", b"/v1/thing", named(b"spec"))
        assert decision(reply) == (b"spec", b"requested")


@pytest.mark.usefixtures("form")
async def test_denied_it_changes_nothing_and_reaches_nobody():
    async with stage() as on:
        for lane in (b"plain", b"nonsense"):
            reply = await on.ask(headers=named(lane), body=chat())
            assert (reply.status, *decision(reply)) == (200, b"spec", b"always")
        for request in on.spec.requests:
            assert request.values(b"x-specgate-lane") == []


async def test_a_name_that_is_no_lane_s_is_a_clear_400():
    async with stage(force_lane="allow") as on:
        reply = await on.ask(headers=named(b"fast"), body=chat())
        assert reply.status == 400
        assert message(reply) == "x-specgate-lane must be spec or plain, not 'fast'"
        assert on.spec.requests == on.plain.requests == []


async def test_it_is_above_the_features_and_below_a_forced_mode():
    async with stage(force_lane="allow") as on:
        runs(on, Engine.SGLANG)
        reply = await on.ask(headers=named(b"spec"), body=chat(min_p=0.5))
        assert decision(reply) == (b"spec", b"requested")
        on.gate.service.gate.set_mode(Mode.PLAIN)
        reply = await on.ask(headers=named(b"spec"), body=chat())
        assert decision(reply) == (b"plain", b"forced")


async def test_a_body_beyond_the_peek_limit_can_name_its_lane():
    async with stage(force_lane="allow", peek_limit=10) as on:
        assert decision(await on.ask(headers=named(b"plain"), body=chat()))[0] == b"plain"


async def test_a_named_lane_that_is_down_is_the_other_with_the_reason():
    async with stage(force_lane="allow") as on:
        gate = on.gate.service.gate
        await on.plain.stop()
        reply = await on.ask(headers=named(b"plain"), body=chat())
        assert (reply.status, reply.values(b"x-specgate-lane")) == (200, [b"spec"])
        assert decision(reply)[1] in (b"rerouted", b"lane_down")
        await on.plain.start()
        assert gate.origin(Lane.PLAIN).port == on.plain.port
