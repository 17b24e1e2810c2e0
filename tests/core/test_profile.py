"""The profile's file: written, read back, refused by the field that is wrong."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgate.core.profile import (
    SCHEMA,
    ArmLevel,
    Curve,
    Engine,
    Fingerprint,
    Level,
    Objective,
    Profile,
    ProfileError,
    Run,
    Times,
    Verdict,
    dumps,
    loads,
    schema,
)
from specgate.core.shape import Shape, Standing

POSITIVE = st.floats(1e-3, 1e6)
MAYBE = st.none() | POSITIVE
PAIR = st.none() | st.tuples(POSITIVE, POSITIVE)
TEXT = st.text(max_size=8)
SCALARS = st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | POSITIVE | TEXT)
TIMES = st.none() | st.builds(Times, mean=POSITIVE, p50=MAYBE, p90=MAYBE, p99=MAYBE)
ARMS = st.builds(
    ArmLevel,
    tok_s=POSITIVE,
    tok_s_interval=PAIR,
    tok_s_spread=MAYBE,
    ratio=MAYBE,
    ratio_interval=PAIR,
    standing=st.none() | st.sampled_from(Standing),
    runs=st.lists(
        st.builds(Run, repeat=st.integers(0, 9), tok_s=POSITIVE, value=POSITIVE), max_size=3
    ).map(tuple),
    requests=st.integers(0, 1000),
    ttft_s=TIMES,
    e2e_s=TIMES,
    accept_length=MAYBE,
    accept_length_by_class=st.dictionaries(TEXT, POSITIVE, max_size=2),
)


@st.composite
def curves(draw, kind=Curve):
    levels = sorted(draw(st.sets(st.integers(1, 300), min_size=1, max_size=3)))
    crosses = draw(st.booleans())
    shape = Shape.CROSSES if crosses else draw(st.sampled_from(list(Shape)[:2]))
    ends = sorted(draw(st.tuples(POSITIVE, POSITIVE)))
    verdict = Verdict(
        shape=shape,
        arm="spec",
        crossover=draw(st.floats(levels[0], levels[-1])) if crosses else None,
        interval=(ends[0], draw(st.sampled_from([ends[1], None]))),
        confidence=draw(st.sampled_from([0.9, "single run"])),
        pays=((levels[0], levels[-1]),),
        objective=draw(st.sampled_from(Objective)),
    )
    made = tuple(
        Level(concurrency=c, arms=draw(st.dictionaries(TEXT, ARMS, max_size=2)), ratio=draw(MAYBE))
        for c in levels
    )
    return kind(verdict=verdict, levels=made, context=draw(st.none() | st.integers(0, 9)))


@st.composite
def profiles(draw):
    curve = draw(curves(kind=Profile))
    engine = Engine(name="sglang", steps=2, settings=draw(SCALARS))
    fingerprint = Fingerprint(model=draw(st.none() | TEXT), engines={"spec": engine})
    return Profile(
        verdict=curve.verdict,
        levels=curve.levels,
        also=tuple(draw(st.lists(curves(), max_size=1))),
        alarms=(draw(TEXT),),
        fingerprint=fingerprint,
    )


VALIDATOR = jsonschema.Draft202012Validator(schema())


@settings(max_examples=50, deadline=None)
@given(profiles())
def test_what_was_saved_loads_as_it_was(profile):
    text = dumps(profile)
    assert loads(text) == profile
    assert dumps(loads(text)) == text
    VALIDATOR.validate(json.loads(text))


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema())


SMALL: dict[str, Any] = {
    "schema": SCHEMA,
    "verdict": {"shape": "crosses", "crossover": 4, "interval": [2, 8]},
    "levels": [
        {"concurrency": 1, "arms": {"spec": {"tok_s": 2}, "plain": {"tok_s": 1}}, "ratio": 2},
        {"concurrency": 8, "arms": {"spec": {"tok_s": 4}, "plain": {"tok_s": 8}}, "ratio": 0.5},
    ],
}


def test_the_few_fields_that_must_be_there_are_enough():
    profile = loads(json.dumps(SMALL))
    assert profile.verdict.shape is Shape.CROSSES
    assert profile.levels[1].arms["plain"].tok_s == 8.0
    assert profile.verdict.confidence == "single run"
    VALIDATOR.validate(SMALL)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema": "specgate-profile/2"}, 'schema: must be "specgate-profile/1"'),
        ({"verdict": {}}, "verdict.shape: is missing"),
        ({"verdict": {"shape": "x"}}, 'verdict.shape: must be "never" or '),
        ({"verdict": {"shape": "crosses"}}, "verdict.crossover: must be above 0 where"),
        (
            {"verdict": {"shape": "crosses", "crossover": 20}},
            "verdict.crossover: must lie within the levels, 1 to 8, not 20",
        ),
        (
            {"verdict": {"shape": "never", "interval": [3, 2]}},
            "verdict.interval: must ascend, not [3.0, 2.0]",
        ),
        (
            {"verdict": {"shape": "never", "interval": [None, 2]}},
            "verdict.interval: must ascend, not [None, 2.0]",
        ),
        ({"levels": 3}, "levels: must be a list, each an object (Level), not 3"),
        ({"levels": [{"concurrency": 0, "arms": {}}]}, "levels[0].concurrency: must be above 0"),
        ({"levels": SMALL["levels"][::-1]}, "levels: concurrency must ascend, not [8, 1]"),
        (
            {"levels": [{"concurrency": 10**400, "arms": {}}]},
            "levels: concurrency must be at most 1000000000",
        ),
        (
            {"levels": [{"concurrency": -(10**400), "arms": {}}]},
            "levels[0].concurrency: must be above 0",
        ),
        (
            {"levels": [{"concurrency": 1, "arms": {"plain": {"tok_s": 10**400}}}]},
            "levels[0].arms.plain.tok_s: must be a number, not 1000",
        ),
        *(
            (
                {"levels": [{"concurrency": 1, "arms": {"plain": {"tok_s": rate}}}]},
                f"levels[0].arms.plain.tok_s: must lie within 0.001 and 1e+12, not {rate:g}",
            )
            for rate in (1e-308, 1e308)
        ),
        ({"verdict": {"shape": "never", "margin": -1}}, "verdict.margin: must lie within 0 and 1"),
        ({"levels": []}, None),
        ({"also": [{"levels": []}]}, "also[0].verdict: is missing"),
    ],
)
def test_a_bad_file_is_refused_by_the_field_that_is_wrong(changes, problem):
    text = json.dumps({**SMALL, **changes})
    if problem is None:
        assert loads(text).levels == ()
        return
    with pytest.raises(ProfileError) as caught:
        loads(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\xff", b"\xff\xfe"])
def test_what_is_not_json_is_refused(text):
    with pytest.raises(ProfileError, match="not JSON"):
        loads(text)


@pytest.mark.parametrize("text", ["[]", "3", "{}", '{"levels": []}'])
def test_json_that_is_no_profile_is_refused(text):
    with pytest.raises(ProfileError, match="schema: is missing"):
        loads(text)
