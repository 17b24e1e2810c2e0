"""A rule on a real engine: llama.cpp gives no log-probabilities for what its drafter proposed."""

import json
from typing import Any

import pytest

from tests.support.client import CHAT, JSON, Response, connect
from tests.support.llama import llama_pair
from tests.support.process import serve_process

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.xdist_group("llama")]

TEXT = "one two three four five six seven eight nine ten " * 3
BODY: dict[str, Any] = {
    "model": "gemma",
    "messages": [{"role": "user", "content": f"Repeat this text: {TEXT}"}],
    "max_tokens": 48,
    "temperature": 0,
}
WITH_LOGPROBS = {**BODY, "logprobs": True, "top_logprobs": 2}


async def ask(url: str, body: dict[str, Any]) -> Response:
    async with connect(url) as client:
        return await client.request(b"POST", CHAT, [JSON], json.dumps(body).encode())


def without_list(reply: Response) -> int:
    """Tokens that came without the list of likely ones."""
    assert reply.status == 200
    told = json.loads(reply.body.data)["choices"][0]["logprobs"]["content"]
    assert len(told) > 8
    return sum(not token["top_logprobs"] for token in told)


async def test_requests_for_log_probabilities_go_to_the_plain_lane():
    async with llama_pair(slots=2) as (spec, plain):
        # What the rule is there for: the engine itself, asked past the gate.
        assert without_list(await ask(spec, WITH_LOGPROBS)) > 8
        assert without_list(await ask(plain, WITH_LOGPROBS)) == 0
        environ = {
            "SPECGATE_SPEC_URL": spec,
            "SPECGATE_PLAIN_URL": plain,
            "SPECGATE_THRESHOLD": "always",
        }
        async with serve_process(environ) as gate:
            await gate.logged("lane_health", count=2)
            reply = await ask(gate.url, WITH_LOGPROBS)
            assert without_list(reply) == 0
            assert reply.values(b"x-specgate-lane") == [b"plain"]
            assert reply.values(b"x-specgate-reason") == [b"spec_changes"]
            assert (await ask(gate.url, BODY)).values(b"x-specgate-lane") == [b"spec"]
