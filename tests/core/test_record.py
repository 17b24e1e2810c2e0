"""Records as JSON: every kind of field, and every refusal by its place."""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

import jsonschema
import pytest

from specgate.core.record import RecordError, Says, hints_of, in_words, json_schema, read, written


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    size: Annotated[float, Says("how large", above=0)]
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """All of it."""

    count: Annotated[int, Says("how many")]
    parts: tuple[Part, ...] = ()
    named: dict[str, Part] = field(default_factory=dict)
    ends: tuple[float | None, float | None] | None = None
    colour: Colour = Colour.RED
    sure: float | Literal["no"] = "no"
    scalar: str | int | float | bool | None = None
    flag: bool = False


FULL = Whole(
    count=2,
    parts=(Part(size=1.5), Part(size=2.0, note="x")),
    named={"a": Part(size=0.1)},
    ends=(0.0, None),
    colour=Colour.BLUE,
    sure=0.9,
    scalar=True,
    flag=True,
)


@pytest.mark.parametrize("record", [FULL, Whole(count=0), Whole(count=1, scalar=3, sure=1.0)])
def test_what_was_written_reads_as_it_was(record):
    value = json.loads(json.dumps(written(record)))
    assert read(Whole, value) == record
    jsonschema.Draft202012Validator.check_schema(json_schema(Whole))
    jsonschema.validate(value, json_schema(Whole))


def test_kinds_of_scalars_are_kept():
    for scalar in ("1", 1, 1.5, True, None):
        found = read(Whole, {"count": 1, "scalar": scalar}).scalar
        assert found == scalar
        assert type(found) is type(scalar)
    assert isinstance(read(Part, {"size": 3}).size, float)


def test_unknown_keys_are_passed_over_and_missing_ones_have_their_default():
    assert read(Whole, {"count": 1, "later": 2}) == Whole(count=1)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "the file: must be an object (Whole), not []"),
        ({}, "count: is missing"),
        ({"count": True}, "count: must be a whole number, not True"),
        ({"count": 1.5}, "count: must be a whole number, not 1.5"),
        ({"count": 1, "parts": {}}, "parts: must be a list, each an object (Part), not {}"),
        ({"count": 1, "parts": [{}]}, "parts[0].size: is missing"),
        ({"count": 1, "parts": [{"size": 0}]}, "parts[0].size: must be above 0, not 0"),
        ({"count": 1, "named": {"a": {"size": "1"}}}, "named.a.size: must be a number, not '1'"),
        ({"count": 1, "named": [1]}, "named: must be an object, each an object (Part), not [1]"),
        ({"count": 1, "named": {"a": 3}}, "named.a: must be an object (Part), not 3"),
        ({"count": 1, "ends": [1]}, "ends: must be a list of 2, each a number or null, not [1]"),
        ({"count": 1, "ends": [1, "x"]}, "ends[1]: must be a number, not 'x'"),
        ({"count": 1, "colour": "green"}, 'colour: must be "red" or "blue", not \'green\''),
        ({"count": 1, "sure": "yes"}, "sure: must be a number or \"no\", not 'yes'"),
        ({"count": 1, "flag": 1}, "flag: must be true or false, not 1"),
        ({"count": 1, "scalar": []}, "scalar: must be text or a whole number or a number or "),
        ({"count": 1, "parts": [{"size": float("nan")}]}, "parts[0].size: must be a number"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(value, problem):
    with pytest.raises(RecordError) as caught:
        read(Whole, value)
    assert str(caught.value).startswith(problem)


def test_what_is_shown_is_cut():
    with pytest.raises(RecordError) as caught:
        read(Whole, {"count": "x" * 500})
    assert len(str(caught.value)) < 120


def test_fields_say_what_they_mean():
    hints = hints_of(Part)
    assert hints["size"] == (float, Says("how large", above=0))
    assert hints["note"][1].meaning == ""
    assert in_words(hints["note"][0]) == "text or null"
    described = json_schema(Whole)["$defs"]["Part"]["properties"]["size"]
    assert described == {"type": "number", "exclusiveMinimum": 0, "description": "how large"}
