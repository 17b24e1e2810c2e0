"""The event decoder: any chunking of the same bytes gives the same events."""

from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core import sse
from specgate.core.sse import EventDecoder
from tests.support.patterns import CountingPattern


def decoded(*chunks: bytes, limit: int = 1 << 20) -> list[bytes]:
    decoder = EventDecoder(limit)
    return [data for chunk in chunks for data in decoder.feed(chunk)]


def test_an_event_ends_with_a_blank_line():
    assert decoded(b"data: a\n\ndata: b\n") == [b"a"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard(end):
    stream = end.join([b"data: a", b"data: b", b"", b"event: x", b"data:c", b"", b"data: d"])
    assert decoded(stream) == [b"a\nb", b"c"]


def test_comments_and_fields_without_data_are_no_events():
    assert decoded(b": ping\n\nid: 7\n\nevent: x\n\ndata: y\n\n") == [b"y"]


def test_a_blank_line_cut_between_carriage_return_and_newline_ends_one_event_once():
    assert decoded(b"data: a\r\n\r", b"\ndata: b\r\n\r\n") == [b"a", b"b"]


def test_an_endless_event_costs_no_memory_and_the_next_one_is_read():
    chunks = [b"data: " + b"x" * 1000] + [b"x" * 1000] * 50 + [b"\n", b"\ndata: small\n\n"]
    decoder = EventDecoder(limit=4096)
    found = [data for chunk in chunks for data in decoder.feed(chunk)]
    assert found == [b"small"]
    assert len(decoder._rest) <= 4096


lines = st.sampled_from(
    [b"data: a", b"data:", b'data: {"x": 1}', b": c", b"event: e", b"", b"", "data: 語🙂".encode()]
)


@given(
    st.lists(lines, max_size=12),
    st.sampled_from([b"\n", b"\r\n"]),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_cutting_changes_nothing_and_httpx2_agrees(parts, end, cuts):
    stream = b"".join(part + end for part in parts)
    points = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    pieces = [stream[a:b] for a, b in pairwise(points)]
    assert decoded(*pieces) == decoded(stream)
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=stream,
        request=httpx2.Request("GET", "http://lane"),
    )
    theirs = [event.data.encode() for event in httpx2.EventSource(response)]
    assert [data for data in decoded(stream) if data] == [data for data in theirs if data]


def test_what_was_looked_through_is_not_looked_through_again(monkeypatch):
    """Else an event of 300 kB that comes in small pieces holds up the loop for seconds."""
    counting = CountingPattern(sse._BLANK_LINE)
    monkeypatch.setattr(sse, "_BLANK_LINE", counting)
    assert decoded(*[b"a" * 100] * 1000) == []
    assert counting.looked < 110_000
