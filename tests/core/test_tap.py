"""What the tap reads off responses as real engines frame them."""

import json

import pytest

from specgate.core.tap import BodyTap, LinesTap, StreamTap, carries_output, last_count, tap_for


def event(obj) -> bytes:
    return b"data: " + json.dumps(obj).encode() + b"\n\n"


def delta(**fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


@pytest.mark.parametrize(
    ("data", "carries"),
    [
        (delta(role="assistant", content=""), False),
        (delta(role="assistant", content=None), False),
        (delta(content="Hi"), True),
        (delta(content="", reasoning_content="hm"), True),
        (delta(tool_calls=[{"index": 0}]), True),
        ({"choices": [{"index": 0, "text": "x"}]}, True),
        ({"choices": [{"index": 0, "text": ""}]}, False),
        ({"choices": [], "usage": {"completion_tokens": 3}}, False),
        ({"error": {"message": "queue full"}}, False),
        ({"text": "", "meta_info": {}}, False),
        ({"text": "a", "meta_info": {}}, True),
        ({"type": "message_start", "message": {}}, False),
        ({"type": "content_block_delta", "delta": {"text": "x"}}, True),
        ({"type": "message_delta", "usage": {"output_tokens": 3}}, False),
        ({"type": "response.output_text.delta", "delta": "x"}, True),
        ({"type": "response.created"}, False),
    ],
)
def test_which_events_carry_output(data, carries):
    assert carries_output(json.dumps(data).encode()) is carries


def test_the_end_mark_carries_nothing_and_the_unknown_counts_as_output():
    assert not carries_output(b"[DONE]")
    assert carries_output(b"not json")


def test_a_stream_s_first_output_and_its_usage():
    tap = StreamTap()
    tap.feed(event(delta(role="assistant", content="")), 1.0)
    tap.feed(b": ping\n\n", 2.0)
    tap.feed(event(delta(content="four tokens in one"))[:20], 3.0)
    assert tap.first_output_at is None
    tap.feed(event(delta(content="four tokens in one"))[20:], 4.0)
    tap.feed(event({"choices": [], "usage": {"completion_tokens": 4}}) + b"data: [DONE]\n\n", 5.0)
    assert tap.first_output_at == 4.0
    assert tap.output_tokens() == 4


def test_a_stream_without_usage_has_no_count():
    tap = StreamTap()
    for _ in range(5):
        tap.feed(event(delta(content="x")), 0.0)
    assert tap.output_tokens() is None


def test_text_that_talks_of_usage_is_not_usage():
    tap = StreamTap()
    tap.feed(event(delta(content='"usage": {"completion_tokens": 99}')), 0.0)
    assert tap.output_tokens() is None
    body = BodyTap()
    body.feed(
        json.dumps(
            {"choices": [{"message": {"content": '"usage": {"completion_tokens": 9}'}}]}
        ).encode(),
        0.0,
    )
    assert body.output_tokens() is None


def body_count(reply) -> int | None:
    tap = BodyTap()
    tap.feed(json.dumps(reply).encode(), 0.0)
    return tap.output_tokens()


def test_generate_counts_in_meta_info_and_batches_add_up():
    assert body_count({"text": "x", "meta_info": {"completion_tokens": 7}}) == 7
    assert body_count([{"meta_info": {"completion_tokens": 7}}] * 3) == 21


def test_details_of_the_count_are_not_the_count():
    details = {"completion_tokens_details": {"reasoning_tokens": 3}}
    assert body_count({"usage": {"completion_tokens": 9, **details}}) == 9


@pytest.mark.parametrize("odd", [True, -1, "7", None, 1.5])
def test_a_count_that_is_none_is_not_taken(odd):
    assert body_count({"usage": {"completion_tokens": odd}}) is None


def test_a_count_cut_off_by_the_end_is_not_taken():
    assert last_count(b'"usage":{"completion_tokens":12') is None


def test_a_body_larger_than_what_is_kept_is_read_from_its_tail():
    tap = BodyTap()
    reply = {
        "choices": [{"message": {"content": "x" * 300_000}}],
        "usage": {"completion_tokens": 5},
    }
    for start in range(0, len(raw := json.dumps(reply).encode()), 1000):
        tap.feed(raw[start : start + 1000], 0.0)
    assert tap.output_tokens() == 5
    assert tap.first_output_at is None


def test_ollama_s_lines():
    tap = LinesTap()
    tap.feed(b'{"response":"a","done":false}\n', 2.0)
    tap.feed(b'{"done":true,"eval_count":12}\n', 3.0)
    assert (tap.first_output_at, tap.output_tokens()) == (2.0, 12)


def test_the_content_type_chooses():
    assert isinstance(tap_for(b"Text/Event-Stream; charset=utf-8"), StreamTap)
    assert isinstance(tap_for(b"application/x-ndjson"), LinesTap)
    assert isinstance(tap_for(None), BodyTap)
