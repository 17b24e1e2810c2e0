import math
from itertools import pairwise

import pytest

from specgate.core.lanes import Lane
from specgate.sim.profiles import UnknownProfileError, load_profile, profile_names

CROSSINGS = {
    "reference": 0.0,
    "k26-int4-8xrtxpro6000-vllm-ctx0-v1": 104.3,
    "k26-int4-8xrtxpro6000-vllm-ctx0-v4": math.inf,
    "k26-int4-8xrtxpro6000-vllm-ctx10k": 38.6,
    "k26-int4-8xrtxpro6000-vllm-ctx41k": 2.93,
    "k25-mxfp4-mi355x-eagle3-bf16": math.inf,
    "minimax-m25-mi355x-eagle3": math.inf,
    "dsv4-pro-b300-dspark-k3": math.inf,
    "dsv4-pro-b300-dspark-k7": math.inf,
    "qwen35-397b-nvfp4-4xrtxpro6000-sglang": math.inf,
    "qwen35-397b-awq-4xrtxpro6000-vllm-64k": 0.0,
    "qwen3-30b-a3b-4xh100-eagle3-k4tree16": 0.0,
    "dsr1-gb300-mtp-isl2k-osl64": 0.0,
}


def test_every_profile_has_an_expected_crossing() -> None:
    assert set(profile_names()) == set(CROSSINGS)


@pytest.mark.parametrize(("name", "crossing"), CROSSINGS.items())
def test_crossing_is_where_the_measured_curves_meet(name: str, crossing: float) -> None:
    assert load_profile(name).crossing() == pytest.approx(crossing, rel=0.01)


@pytest.mark.parametrize("name", profile_names())
def test_the_published_shape_agrees_with_the_curves(name: str) -> None:
    profile = load_profile(name)
    wins = [
        spec > plain
        for spec, plain in zip(
            profile.measured[Lane.SPEC], profile.measured[Lane.PLAIN], strict=True
        )
    ]
    changes = sum(a != b for a, b in pairwise(wins))
    expected = {
        "never": not any(wins),
        "always": all(wins),
        "crosses": wins[0] and changes == 1,
        "inverted": not wins[0] and changes == 1,
        "multi": changes > 1,
    }
    assert expected[profile.shape]


@pytest.mark.parametrize("name", profile_names())
def test_shapes_are_usable(name: str) -> None:
    profile = load_profile(name)
    for lane, shape in profile.lanes.items():
        assert shape.lane is lane
        assert all(step_s > 0 for step_s in shape.steps_s)
        assert shape.cap == len(shape.steps_s)
        assert 0 < shape.prefill_s <= 0.05
        assert shape.kv_tokens >= shape.cap * 640
    plain, spec = profile.lanes[Lane.PLAIN], profile.lanes[Lane.SPEC]
    assert (plain.accept_length, plain.draft, plain.draft_steps) == (1.0, None, 0)
    assert spec.draft is not None
    assert 1 < spec.accept_length <= spec.draft.steps + 1


def test_the_reference_lanes_are_the_fitted_ones() -> None:
    spec = load_profile("reference").lanes[Lane.SPEC]
    assert (spec.cap, spec.draft_steps, spec.accept_length) == (64, 2, 2.2)
    assert spec.draft is not None
    assert (spec.draft.topk, spec.draft.tokens) == (4, 16)
    assert load_profile("reference").lanes[Lane.PLAIN].cap == 36


@pytest.mark.parametrize("name", profile_names())
def test_the_formula_of_a_table_gives_back_its_points(name: str) -> None:
    profile = load_profile(name)
    tolerance = 0.05 if name == "reference" else 0.001
    for lane, shape in profile.lanes.items():
        for concurrency, tok_s in zip(profile.concurrency, profile.measured[lane], strict=True):
            assert shape.tok_s(concurrency) == pytest.approx(tok_s, rel=tolerance)


def test_beyond_the_last_point_throughput_is_flat() -> None:
    profile = load_profile("k26-int4-8xrtxpro6000-vllm-ctx10k")
    shape = profile.lanes[Lane.PLAIN]
    assert shape.tok_s(1_000) == shape.tok_s(profile.concurrency[-1])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nothing", "no such profile"),
        ("", "no such profile"),
        ("kimi-k3-mi355x-tokenspeed-dspark", "no tok/s over concurrency"),
        ("gemma4-31b-h100nvl-c256-by-context", "no tok/s over concurrency"),
        ("llama3-70b-4xh100-draft-vllm2024", "no tok/s over concurrency"),
    ],
)
def test_a_name_that_will_not_do_lists_those_that_will(name: str, why: str) -> None:
    with pytest.raises(UnknownProfileError) as raised:
        load_profile(name)
    assert why in str(raised.value)
    for allowed in profile_names():
        assert allowed in str(raised.value)
