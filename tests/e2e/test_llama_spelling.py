"""A real llama.cpp: what its router takes for a call that changes it, the gate refuses."""

import pytest

from tests.support.client import Response, connect
from tests.support.live import running_gate
from tests.support.llama import llama_pair

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.xdist_group("llama")]

WAYS = (
    b"/slots/0?action=erase",
    b"/sl%u006fts/0?action=erase",
    b"/%73lots/0?action=erase",
    b"/slots%2f0?action=erase",
    b"/slots%u002f0?action=erase",
    b"/slots/%30?action=erase#x",
    b"//slots/0?action=erase",
    b"/slots/0/?action=erase",
    b"/SLOTS/0?action=erase",
    b"/slots/0%0a?action=erase",
    b"/slots/0;x?action=erase",
    b"/x/../slots/0?action=erase",
    b"/lora-adapters",
    b"/lora%2dadapters",
    b"/lora%u002dadapters",
)


async def asked(url: str, target: bytes) -> Response:
    body = b"[]" if b"lora" in target else b"{}"
    async with connect(url) as client:
        headers = [(b"Content-Type", b"application/json"), (b"Connection", b"close")]
        return await client.request(b"POST", target, headers, body)


async def test_whatever_it_takes_is_refused():
    async with (
        llama_pair() as (spec_url, plain_url),
        running_gate(spec_url, plain_url, threshold="always") as gate,
    ):
        taken = [way for way in WAYS if (await asked(plain_url, way)).status != 404]
        # Else this shows nothing: the last of each kind is what made it necessary.
        assert {WAYS[0], WAYS[1], WAYS[-1]} <= set(taken)
        for way in taken:
            reply = await asked(gate.url, way)
            assert (reply.status, b"engine_admin_refused" in reply.body.data) == (403, True), way
