"""Cases M02, M04 and M06: what there is, what one engine holds, and those who want no plain
exchange."""

import json

import pytest

from specgate.core.policy import Mode
from tests.support.client import JSON, connect, request_bytes
from tests.support.lanes import error_response, json_response
from tests.support.refusals import read_refusal
from tests.support.stage import stage


@pytest.mark.usefixtures("form")
async def test_m02_models_listing():
    """The list was made anew, without what the engine says of its models, or had each twice."""
    listed = {
        "object": "list",
        "data": [{"id": "m", "object": "model", "root": "/models/m", "max_model_len": 4096}],
    }
    async with stage(threshold="always") as on:
        for lane in (on.spec, on.plain):
            lane.answer("/v1/models", json_response(200, listed))
            lane.answer("/v1/models/m", json_response(200, listed["data"][0]))
        for mode in (Mode.SPEC, Mode.PLAIN):
            on.gate.service.gate.set_mode(mode)
            for target, meant in ((b"/v1/models", listed), (b"/v1/models/m", listed["data"][0])):
                reply = await on.ask(b"GET", target, [])
                assert json.loads(reply.body.data) == meant
                assert reply.values(b"x-specgate-lane") == [b"plain"], "whatever the side is"


@pytest.mark.usefixtures("form")
async def test_m04_multi_turn_ids_and_state():
    """A response was stored on one lane, and the next turn went to the other: a silent 404."""
    turn = json.dumps({"input": "And then?", "previous_response_id": "resp_1"}).encode()
    target = b"/v1/responses"
    async with stage(threshold="always") as on:
        on.spec.answer("*", json_response(200, {"id": "resp_1", "object": "response"}))
        on.plain.answer("*", error_response(404, "no such response"))
        assert (await on.ask(target=target, headers=[JSON], body=b'{"input": "Hi"}')).status == 200
        on.gate.service.gate.set_mode(Mode.PLAIN)
        reply = await on.ask(target=target, headers=[JSON], body=turn)
        assert (reply.status, reply.values(b"x-specgate-reason")) == (200, [b"held"])
        assert (await on.ask(b"GET", target + b"/resp_1", [])).status == 200
        assert on.plain.requests == []
        # Of one that the gate was not told of, no 404 is believed that one lane says alone.
        assert (await on.ask(b"GET", target + b"/resp_0", [])).status == 200


async def test_m06_websocket_upgrade():
    """An upgrade for /v1/realtime was a 403, or hung."""
    offer = [
        (b"Connection", b"keep-alive, Upgrade"),
        (b"Upgrade", b"WebSocket"),
        (b"Sec-WebSocket-Version", b"13"),
        (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    async with stage() as on, connect(on.url) as client:
        await client.send(request_bytes(b"GET", b"/v1/realtime", offer))
        reply = await read_refusal(client, 501, "no_websocket")
        assert b"WebSocket" in reply.body.data
        assert on.spec.requests == on.plain.requests == []
