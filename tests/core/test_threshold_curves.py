"""The curves that a gate weighs by, from a profile of one or several prompt lengths."""

from dataclasses import replace

import pytest

from specgate.bench.judging import profile_of
from specgate.bench.shipped import shipped
from specgate.core.profile import Fingerprint
from specgate.core.shape import Shape
from specgate.core.threshold import contexts_of, curves_of, measured_curves
from tests.replay.lanes import K26, LENGTHS, several_lengths

ALWAYS = "k26-int4-8xrtxpro6000-vllm-ctx0-v4"


def test_one_length_is_no_choice():
    assert contexts_of(shipped(K26 + "10k")) is None
    assert contexts_of(several_lengths(LENGTHS[0])) is None


def test_several_lengths_ascend_and_the_main_curves_are_the_most_cautious():
    profile = several_lengths(*LENGTHS)
    found = contexts_of(profile)
    assert found is not None
    assert [tokens for tokens, _ in found.measured] == [128, 10_240, 41_000]
    assert [round(curves.first_edge) for _, curves in found.measured] == [104, 39, 3]
    assert found.main == curves_of(profile) == found.measured[-1][1]


@pytest.mark.parametrize("never", [("reference", 128), ("reference", 41_000)])
def test_where_it_never_pays_nothing_speaks_for_the_spec_lane(never):
    profile = several_lengths((K26 + "10k", 10_240), never)
    assert profile.verdict.shape is Shape.NEVER
    found = contexts_of(profile)
    assert found is not None
    assert found.main.paying == ()
    assert dict(found.measured)[never[1]].paying == ()
    assert dict(found.measured)[10_240].paying != ()


def test_undecided_is_as_never():
    levels = [
        replace(
            level,
            arms={
                name: replace(arm, tok_s=arm.tok_s * (1.01 if name == "spec" else 1.0))
                for name, arm in (("spec", level.arms["plain"]), ("plain", level.arms["plain"]))
            },
        )
        for level in shipped(K26 + "10k").levels
    ]
    base = several_lengths(LENGTHS[1])
    verdict = replace(base.verdict, shape=Shape.INCONCLUSIVE, crossover=None)
    undecided = replace(base, verdict=verdict, levels=tuple(levels), context=500)
    profile = profile_of([base, undecided], Fingerprint())
    found = contexts_of(profile)
    assert found is not None
    assert found.main.paying == ()
    measured = measured_curves(undecided)
    assert measured is not None
    assert measured.paying != ()


def test_lengths_that_are_all_alike_leave_nothing_to_weigh():
    assert contexts_of(several_lengths(("reference", 128), ("reference", 9000))) is None
    always = several_lengths((ALWAYS, 128), (ALWAYS, 9000))
    assert contexts_of(always) is None
    assert contexts_of(always, adaptive=True) is not None


def test_of_one_length_twice_the_more_cautious_counts():
    found = contexts_of(several_lengths((K26 + "10k", 128), (K26 + "0-v1", 128), LENGTHS[2]))
    assert found is not None
    assert round(dict(found.measured)[128].first_edge) == 39


def test_curves_without_a_length_or_of_another_arm_are_left_out():
    profile = several_lengths(*LENGTHS)
    unnamed = replace(profile, also=(replace(profile.also[0], context=None), profile.also[1]))
    found = contexts_of(unnamed)
    assert found is not None
    assert len(found.measured) == 2
    strange = replace(profile.also[0].verdict, arm="other")
    other = replace(profile.also[0], verdict=strange, by_arm={})
    found = contexts_of(replace(profile, also=(other, profile.also[1])))
    assert found is not None
    assert len(found.measured) == 2
    assert contexts_of(replace(profile, also=(other,))) is None
