"""The id in an engine's answer, however the network cuts it."""

import json

import pytest

from specgate.core.ids import LOOKED_AT, IdTap
from specgate.core.tap import BodyTap, StreamTap

RESPONSE = {"id": "resp_1", "object": "response", "output": [{"id": "msg_2"}]}
CREATED = {"response": RESPONSE, "sequence_number": 0, "type": "response.created"}
STREAM = b"event: response.created\ndata: " + json.dumps(CREATED).encode() + b"\n\n"


def learnt(pieces, inner=BodyTap) -> list[str]:
    found: list[str] = []
    tap = IdTap(inner(), found.append)
    for number, piece in enumerate(pieces):
        tap.feed(piece, float(number))
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (json.dumps(RESPONSE).encode(), "resp_1"),
        (json.dumps(RESPONSE, indent=1).encode(), "resp_1"),
        (STREAM, "resp_1"),
        (b'"a1b2"', "a1b2"),
    ],
)
def test_the_first_id_is_found_once(answer, state, size):
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    assert learnt(pieces) == [state]
    assert learnt([*pieces, answer]) == [state]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"null",
        b'{"error": {"message": "no"}}',
        b'{"text": "\\"id\\": \\"x\\""}',
        b'{"id": 5}',
        b'{"id": "' + b"x" * 300 + b'"}',
        b" " * LOOKED_AT + b'{"id": "late"}',
    ],
)
def test_no_id_is_no_id(answer):
    assert learnt([answer]) == []


def test_it_is_told_as_soon_as_it_has_passed():
    found: list[str] = []
    tap = IdTap(StreamTap(), found.append)
    cut = STREAM.index(b"resp_1") + 6
    tap.feed(STREAM[:cut], 0.0)
    assert found == []
    tap.feed(STREAM[cut : cut + 1], 0.0)
    assert found == ["resp_1"]


def test_the_tap_below_sees_all():
    tap = IdTap(StreamTap(), lambda _: None)
    tap.feed(STREAM, 1.0)
    tap.feed(b'data: {"type": "response.output_text.delta", "delta": "a"}\n\n', 2.0)
    tap.feed(b'data: {"response": {"usage": {"output_tokens": 7}}}\n\n', 3.0)
    assert (tap.first_output_at, tap.last_at, tap.output_tokens()) == (2.0, 3.0, 7)
