"""The generation routes over real sockets: frames, bodies, options, errors."""

from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest

from specgate.sim.server import RunningLane
from tests.sim.serving import CHAT, chat, client_of, events

USAGE = {"prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details"}


async def test_a_chat_stream_is_framed_as_the_engine_frames_it(spec: RunningLane) -> None:
    body = chat(max_tokens=40, ignore_eos=True, stream=True, stream_options={"include_usage": True})
    async with client_of(spec) as client:
        first, *content, finish, usage, done = await events(client, CHAT, body)
    assert done == "[DONE]"
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert first["choices"][0]["delta"]["content"] == ""
    assert "reasoning_content" in first["choices"][0]["delta"]
    assert all(c["choices"][0]["delta"]["content"] for c in content)
    assert all(c["choices"][0]["finish_reason"] is None for c in (first, *content))
    assert finish["choices"][0]["delta"]["content"] is None
    assert finish["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"].keys() >= USAGE
    assert usage["usage"]["completion_tokens"] == 40
    said = "".join(c["choices"][0]["delta"]["content"] for c in content)
    assert len(said.split()) == 40
    assert len(content) < 40  # several tokens in a chunk: speculation
    assert {c["id"] for c in (first, *content, finish, usage)} == {first["id"]}
    assert len(bytes.fromhex(first["id"])) == 16


async def test_without_include_usage_there_is_no_usage_chunk(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        found = await events(client, CHAT, chat(max_tokens=3, stream=True))
    assert all(event["choices"] for event in found[:-1])
    assert all(event["usage"] is None for event in found[:-1])


async def test_continuous_usage_counts_up(plain: RunningLane) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = chat(max_tokens=6, ignore_eos=True, stream=True, stream_options=options)
    async with client_of(plain) as client:
        _, *content, _, _, _ = await events(client, CHAT, body)
    counts = [event["usage"]["completion_tokens"] for event in content]
    assert counts == sorted(counts)
    assert counts[-1] == 6


async def test_both_lanes_say_the_same_streamed_or_not(
    spec: RunningLane, plain: RunningLane
) -> None:
    answers = []
    for lane in (spec, plain):
        async with client_of(lane) as client:
            whole = (await client.post(CHAT, json=chat(max_tokens=60))).json()
            answers.append(whole["choices"][0]["message"]["content"])
            stream = await events(client, CHAT, chat(max_tokens=60, stream=True))
            deltas = (event["choices"][0]["delta"]["content"] or "" for event in stream[:-1])
            answers.append("".join(deltas))
            other = (await client.post(CHAT, json=chat("Something else."))).json()
            assert other["choices"][0]["message"]["content"] not in answers
    assert len(set(answers)) == 1


async def test_a_whole_chat_reply(spec: RunningLane) -> None:
    body = chat(max_completion_tokens=12, max_tokens=99, ignore_eos=True, rid="abc")
    async with client_of(spec) as client:
        response = await client.post(CHAT, json=body)
    reply = response.json()
    assert response.headers["content-type"] == "application/json"
    assert reply["object"] == "chat.completion"
    assert (reply["id"], reply["model"]) == ("abc", "sim")
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 12
    assert reply["usage"]["total_tokens"] == 12 + reply["usage"]["prompt_tokens"]


async def test_an_answer_ends_by_itself_where_it_may(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        reply = (await client.post(CHAT, json=chat(**{"x-sim-class": "extraction"}))).json()
        longer = (await client.post(CHAT, json=chat(max_tokens=500, ignore_eos=True))).json()
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert 8 <= reply["usage"]["completion_tokens"] < 500
    assert longer["usage"]["completion_tokens"] == 500


async def test_choices_and_prompts_are_sequences(plain: RunningLane) -> None:
    body = {"prompt": ["One.", "Two."], "n": 3, "max_tokens": 4, "ignore_eos": True}
    async with client_of(plain) as client:
        reply = (await client.post("/v1/completions", json=body)).json()
    assert [choice["index"] for choice in reply["choices"]] == list(range(6))
    assert len({choice["text"] for choice in reply["choices"]}) == 6
    assert reply["usage"]["completion_tokens"] == 24
    assert plain.engine.state()["served"] == 6


async def test_a_completion_stream_ends_with_its_reason(spec: RunningLane) -> None:
    body = {"prompt": [1, 2, 3], "n": 2, "max_tokens": 8, "ignore_eos": True, "stream": True}
    async with client_of(spec) as client:
        *chunks, done = await events(client, "/v1/completions", body)
    assert done == "[DONE]"
    texts: dict[int, str] = {0: "", 1: ""}
    reasons: dict[int, Any] = {}
    for chunk in chunks:
        assert chunk["object"] == "text_completion"
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
        reasons[choice["index"]] = choice["finish_reason"]
    assert [len(text.split()) for text in texts.values()] == [8, 8]
    assert reasons == {0: "length", 1: "length"}


async def test_completions_default_to_sixteen_tokens(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        reply = (await client.post("/v1/completions", json={"prompt": "x"})).json()
    assert reply["usage"]["completion_tokens"] <= 16


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_native_replies_carry_what_speculation_did(spec: RunningLane, method: str) -> None:
    body = {"text": "x", "sampling_params": {"max_new_tokens": 30, "ignore_eos": True}}
    async with client_of(spec) as client:
        reply = (await client.request(method, "/generate", json=body)).json()
    meta = reply["meta_info"]
    assert len(reply["text"].split()) == len(reply["output_ids"]) == 30
    assert meta["finish_reason"] == {"type": "length", "length": 30}
    assert meta["completion_tokens"] == 30
    assert meta["spec_accept_length"] == pytest.approx(30 / meta["spec_verify_ct"])
    assert meta["spec_num_proposed_drafts"] == 2 * meta["spec_verify_ct"]
    assert sum(meta["spec_correct_drafts_histogram"]) == meta["spec_verify_ct"]


async def test_a_native_stream_is_cumulative(plain: RunningLane) -> None:
    params = {"max_new_tokens": 5, "ignore_eos": True}
    body = {"text": "x", "stream": True, "rid": "r", "sampling_params": params}
    async with client_of(plain) as client:
        *found, done = await events(client, "/generate", body)
    assert done == "[DONE]"
    for earlier, later in pairwise(found):
        assert later["text"].startswith(earlier["text"])
    assert found[-1]["meta_info"]["finish_reason"]["type"] == "length"
    assert "spec_verify_ct" not in found[-1]["meta_info"]
    assert {event["meta_info"]["id"] for event in found} == {"r"}


async def test_native_batches_come_back_as_lists(plain: RunningLane) -> None:
    params = {"max_new_tokens": 3, "n": 2}
    async with client_of(plain) as client:
        one = await client.post("/generate", json={"text": ["a"]})
        many = await client.post("/generate", json={"text": ["a", "b"], "sampling_params": params})
        ids = await client.post("/generate", json={"input_ids": [[1, 2], [3]]})
    assert [len(reply.json()) for reply in (one, many, ids)] == [1, 4, 2]


BAD: list[tuple[str, bytes, str]] = [
    (CHAT, b"{", "truncated"),
    (CHAT, b"[]", "object"),
    (CHAT, b"{}", "messages"),
    (CHAT, b'{"messages": []}', "messages"),
    (CHAT, b'{"messages": [{"role": "user"}], "max_tokens": 0}', "max_tokens"),
    (CHAT, b'{"messages": [{"role": "user"}], "n": 0}', "$.n"),
    (CHAT, b'{"messages": [{"role": "user"}], "max_tokens": 200000}', "context"),
    (CHAT, b'{"messages": [{"role": "user"}], "x-sim-class": "poem"}', "poem"),
    (CHAT, b'{"messages": [{"role": "user", "content": "\xff"}]}', ""),
    ("/v1/completions", b"{}", "prompt"),
    ("/v1/completions", b'{"prompt": []}', "prompt"),
    ("/v1/completions", b'{"prompt": ["a", 1]}', "prompt"),
]


@pytest.mark.parametrize(("path", "body", "named"), BAD)
async def test_bad_bodies_get_a_flat_400(
    plain: RunningLane, path: str, body: bytes, named: str
) -> None:
    headers = {"content-type": "application/json"}
    async with client_of(plain) as client:
        response = await client.post(path, content=body, headers=headers)
    error = response.json()
    assert response.status_code == 400
    assert error["object"] == "error"
    assert error["code"] == 400
    assert named in error["message"]
    assert plain.engine.state()["max_in_flight_seen"] == 0


async def test_a_native_error_is_nested(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        response = await client.post("/generate", json={"sampling_params": {}})
    assert response.status_code == 400
    assert "text" in response.json()["error"]["message"]


async def test_the_content_type_must_be_json(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        response = await client.post(CHAT, content=b"{}", headers={"content-type": "text/plain"})
    assert response.status_code == 400
    assert "application/json" in response.json()["message"]


async def test_unknown_fields_are_tolerated(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        body = chat(max_tokens=2, temperature=0.3, tools=[], nonsense={"a": 1})
        assert (await client.post(CHAT, json=body)).status_code == 200


async def test_the_class_of_a_prompt_sets_its_acceptance(spec: RunningLane) -> None:
    async def accept_length(name: str) -> float:
        body = {
            "text": "x",
            "sampling_params": {"max_new_tokens": 300, "ignore_eos": True, "n": 8},
        }
        async with client_of(spec) as client:
            reply = await client.post("/generate", json=body, headers={"x-sim-class": name})
        lengths = [item["meta_info"]["spec_accept_length"] for item in reply.json()]
        return fmean(lengths)

    assert await accept_length("extraction") > await accept_length("translation") + 0.4
