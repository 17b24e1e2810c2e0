"""The simulated engine as the real OpenAI client sees it."""

from collections.abc import AsyncIterator

import openai
import pytest

from specgate.core.lanes import Lane
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running


@pytest.fixture
async def client(spec: RunningLane) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{spec.url}/v1", api_key="none", max_retries=0, timeout=20
    ) as client:
        yield client


async def test_a_whole_completion(client: openai.AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "Hello"}], max_tokens=20
    )
    assert reply.choices[0].message.content
    assert reply.usage is not None
    assert reply.usage.completion_tokens <= 20


async def test_a_stream_with_usage(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="sim",
        messages=[{"role": "user", "content": "Hello"}],
        max_tokens=20,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    said, usage, finish = "", None, None
    async for chunk in stream:
        for choice in chunk.choices:
            said += choice.delta.content or ""
            finish = choice.finish_reason or finish
        usage = chunk.usage or usage
    assert len(said.split()) == 20
    assert finish == "length"
    assert usage is not None
    assert usage.completion_tokens == 20


async def test_the_list_of_models(client: openai.AsyncOpenAI) -> None:
    models = await client.models.list()
    assert [(model.id, model.owned_by) for model in models.data] == [("sim", "sglang")]
    assert (await client.models.retrieve("sim")).id == "sim"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("other")


async def test_errors_are_typed(client: openai.AsyncOpenAI, spec: RunningLane) -> None:
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model="sim", messages=[])
    spec.engine.set_faults(Faults(status=429, retry_after_s=3))
    with pytest.raises(openai.RateLimitError) as raised:
        await client.completions.create(model="sim", prompt="x")
    assert raised.value.response.headers["retry-after"] == "3"
    spec.engine.set_faults(Faults(error_event_first=True))
    stream = await client.completions.create(model="sim", prompt="x", stream=True)
    with pytest.raises(openai.APIError, match="queue is full"):
        async for _ in stream:
            pass


async def test_a_key_is_asked_for() -> None:
    lane = SimLane(lane=Lane.PLAIN, api_key="right", model_name="m")
    async with running([lane], profile=load_profile("reference"), time_scale=30) as sims:
        url = f"{sims[Lane.PLAIN].url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="wrong", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()
        async with openai.AsyncOpenAI(base_url=url, api_key="right", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["m"]
