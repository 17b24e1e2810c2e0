"""What ends a stream that is not whole: an event of its own, whatever was sent before it."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specgate.core.errors import StreamBroken
from specgate.core.lanes import Lane
from specgate.core.routes import RouteClass
from specgate.core.sse import EventDecoder, ends_event
from specgate.proxy.last_words import last_words

FAULT = StreamBroken("the spec lane broke off", lane=Lane.SPEC)

cut_anywhere = st.lists(
    st.sampled_from([b"data: 1", b"data:", b": ping", b"event: x", b"\r", b"\n", b"\r\n", b"\xe6"])
).map(b"".join)


@given(sent=cut_anywhere, route=st.sampled_from(RouteClass))
@example(sent=b"", route=RouteClass.CHAT)
@example(sent=b"data: 1\r", route=RouteClass.CHAT)
@example(sent=b"data: 1\r\n\r", route=RouteClass.RESPONSES)
def test_it_is_the_last_event_and_whole(sent: bytes, route: RouteClass):
    decoder = EventDecoder()
    before = decoder.feed(sent)
    *ended, last = decoder.feed(last_words(route, sent, FAULT))
    assert len(ended) <= 1, "what was sent in part, and nothing else"
    said = json.loads(last)
    message = said.get("message") or said["error"]["message"]
    assert message == "the spec lane broke off"
    assert b"[DONE]" not in b"".join([*before, *ended, last])


@given(sent=cut_anywhere)
def test_a_stream_s_last_four_bytes_are_enough(sent: bytes):
    assert ends_event(sent) == ends_event(sent[-4:])


@pytest.mark.parametrize(
    ("sent", "number"),
    [(b"", 0), (b'data: {"sequence_number": 7}\n\ndata: {"sequence_number":8}\n\n', 9)],
)
def test_events_of_the_responses_api_are_numbered(sent: bytes, number: int):
    data = last_words(RouteClass.RESPONSES, sent, FAULT).partition(b"data: ")[2]
    assert json.loads(data)["sequence_number"] == number
