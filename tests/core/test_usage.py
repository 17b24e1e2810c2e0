"""Asking for a stream's usage, and hiding that it was asked for."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core import usage as core_usage
from specgate.core.usage import UsageFilter, asking
from tests.support.patterns import CountingPattern


def test_the_question_is_put_in_and_all_else_stays():
    body = b'{"model": "m",\n "n": 1e400, "x": "\\u00e9" }\n'
    asked = asking(body)
    assert asked == body[:-3] + b' ,"stream_options":{"include_usage":true}}\n'


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"a": 1', b"}", b'{"a": 1,}', b"null"])
def test_what_is_no_object_with_members_is_left_alone(body):
    assert asking(body) is None


@given(st.dictionaries(st.text(), st.integers(), min_size=1))
def test_what_was_json_stays_json(fields):
    fields.pop("stream_options", None)
    asked = asking(json.dumps(fields).encode())
    if fields:
        assert asked is not None
        assert json.loads(asked) == {**fields, "stream_options": {"include_usage": True}}


def event(obj) -> bytes:
    return b"data: " + json.dumps(obj).encode() + b"\n\n"


TEXT = event({"choices": [{"delta": {"content": "a"}}], "usage": None})
LAST = event({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"x": 1}})
COUNT = event({"choices": [], "usage": {"completion_tokens": 3}})
TALK = event({"choices": [{"delta": {"content": '"choices": [], "usage": {"a": 1}'}}]})
DONE = b"data: [DONE]\n\n"


@given(st.lists(st.integers(0, 1000), max_size=10))
def test_the_usage_event_goes_however_the_stream_is_cut(cuts):
    stream = TEXT + TALK + b": ping\n\n" + LAST + COUNT + DONE
    points = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    usage = UsageFilter()
    passed = [usage.feed(stream[a:b]) for a, b in pairwise(points)]
    assert b"".join(passed) + usage.rest() == TEXT + TALK + b": ping\n\n" + LAST + DONE


def test_whole_events_are_not_held_back():
    assert UsageFilter().feed(TEXT) == TEXT


def test_what_never_ends_passes_in_the_end():
    usage = UsageFilter()
    piece = b"data: " + b"x" * 600_000
    assert usage.feed(piece) == b""
    assert usage.feed(b"x" * 600_000) == piece + b"x" * 600_000


def test_an_error_event_with_a_usage_stays():
    error = event({"choices": [], "usage": {"a": 1}, "error": {"message": "m"}})
    assert UsageFilter().feed(error) == error


def test_what_was_looked_through_is_not_looked_through_again(monkeypatch):
    """Else an event of 300 kB that comes in small pieces holds up the loop for seconds."""
    counting = CountingPattern(core_usage._EVENT_END)
    monkeypatch.setattr(core_usage, "_EVENT_END", counting)
    hidden = UsageFilter()
    assert all(hidden.feed(b"a" * 100) == b"" for _ in range(1000))
    assert counting.looked < 110_000
    assert hidden.rest() == b"a" * 100_000
