"""From cells to a profile."""

from dataclasses import replace

import pytest

from specgate.bench.analyse import NoCellsError, analyse
from specgate.bench.judging import Rules
from specgate.core.cells import Spread
from specgate.core.profile import Engine, Fingerprint, Objective, dumps, loads
from specgate.core.shape import Shape, Standing
from specgate.sim.profiles import load_profile
from tests.bench.synthetic import cell, cells

RULES = Rules(draws=300)
CROSSING = {
    "spec": {1: 100.0, 4: 250.0, 16: 500.0, 64: 700.0},
    "plain": {1: 70.0, 4: 240.0, 16: 600.0, 64: 1000.0},
}


def measured(name):
    profile = load_profile(name)
    return {
        lane.value: dict(zip(profile.concurrency, values, strict=True))
        for lane, values in profile.measured.items()
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("reference", "never"),
        ("k25-mxfp4-mi355x-eagle3-bf16", "always"),
        ("k26-int4-8xrtxpro6000-vllm-ctx10k", "crosses"),
        ("qwen35-397b-awq-4xrtxpro6000-vllm-64k", "inverted"),
    ],
)
def test_reference_profiles_have_their_shape(name, shape, seed):
    profile = analyse(cells(measured(name), repeats=5, seed=seed), rules=RULES)
    assert profile.verdict.shape is Shape(shape)
    assert profile.verdict.paired
    assert profile.verdict.confidence == 0.9
    assert profile.alarms == ()
    assert loads(dumps(profile)) == profile


def test_measured_one_after_the_other_the_verdict_is_the_same_and_the_interval_wider():
    together = analyse(cells(CROSSING), rules=RULES).verdict
    apart = analyse([replace(c, paired=False) for c in cells(CROSSING)], rules=RULES).verdict
    assert together.shape is apart.shape is Shape.CROSSES
    assert not apart.paired
    assert together.interval is not None
    assert apart.interval is not None
    (low, high), (lower, higher) = together.interval, apart.interval
    assert None not in (low, high, lower, higher)
    assert higher / lower > high / low  # type: ignore[operator]


def test_a_level_says_what_each_arm_did():
    found = cells(CROSSING, repeats=2, accept_length=2.5, by_class={"code": 3.0})
    profile = analyse(found, rules=RULES)
    level = profile.levels[2]
    spec, plain = level.arms["spec"], level.arms["plain"]
    own = [c for c in found if c.arm == "spec" and c.concurrency == 16]
    assert level.concurrency == 16
    assert spec.tok_s == pytest.approx(sum(c.tok_s for c in own) / 2)
    assert spec.requests == 80
    assert [run.value for run in spec.runs] == [c.tok_s for c in own]
    assert spec.tok_s_spread is not None
    assert spec.tok_s_interval is not None
    assert spec.tok_s_interval[0] < spec.tok_s < spec.tok_s_interval[1]
    assert spec.e2e_s is not None
    assert spec.e2e_s.p90 == pytest.approx(spec.e2e_s.p50 * 1.1)  # type: ignore[operator]
    assert spec.accept_length_by_class == {"code": 3.0}
    assert spec.break_even_accept_length == pytest.approx(2.5 * plain.tok_s / spec.tok_s)
    assert plain.break_even_accept_length is None
    assert level.ratio == spec.ratio
    assert level.ratio_interval == spec.ratio_interval
    assert level.standing is Standing.LOSE
    assert level.best == "plain"
    assert profile.levels[0].best == "spec"


def test_of_several_speculative_arms_each_has_its_verdict_and_each_level_its_best():
    curves = {
        "plain": {1: 100.0, 8: 400.0, 64: 1000.0},
        "k3": {1: 200.0, 8: 420.0, 64: 600.0},
        "k1": {1: 150.0, 8: 520.0, 64: 900.0},
        "gate": {1: 199.0, 8: 519.0, 64: 1000.0},
    }
    profile = analyse(cells(curves, sd=0.005), rules=RULES)
    assert profile.verdict.arm == "k1", "the one that pays up to the highest load"
    assert set(profile.by_arm) == {"k1", "k3", "gate"}
    assert profile.by_arm["k3"].shape is Shape.CROSSES
    assert [level.best for level in profile.levels] == ["k3", "k1", "plain"]
    assert profile.levels[0].ratio == pytest.approx(1.5, rel=0.05)


def test_void_cells_are_left_out_and_told():
    found = cells(CROSSING)
    broken = [
        replace(c, tok_s=1.0, void="3 requests failed")
        if (c.arm, c.concurrency, c.repeat) == ("spec", 16, 1)
        else c
        for c in found
    ]
    profile = analyse(broken, rules=RULES)
    assert profile.alarms == ("void: spec at 16, repeat 1: 3 requests failed",)
    assert len(profile.levels[2].arms["spec"].runs) == 2
    assert profile.levels[2].ratio == pytest.approx(0.83, rel=0.06)


def test_a_cell_that_was_measured_again_replaces_the_first():
    found = cells(CROSSING)
    again = replace(found[0], void="cut")
    assert analyse([again, *found], rules=RULES).alarms == ()


def test_nothing_that_counts_is_refused_with_what_was_void():
    with pytest.raises(NoCellsError, match="no cells"):
        analyse([])
    with pytest.raises(NoCellsError, match="void: spec at 1, repeat 0: cut"):
        analyse([cell("spec", 1, 10.0, void="cut")])


def test_one_repeat_is_a_single_run():
    profile = analyse(cells(CROSSING, repeats=1, sd=0.0), rules=RULES)
    assert profile.verdict.confidence == "single run"
    assert profile.verdict.interval is None
    assert profile.levels[0].arms["spec"].tok_s_interval is None
    assert "single run" in profile.alarms[0]


@pytest.mark.parametrize(
    ("curves", "alarm"),
    [
        ({"spec": CROSSING["spec"]}, "no plain arm"),
        ({"plain": CROSSING["plain"]}, "no speculative arm"),
    ],
)
def test_one_arm_alone_decides_nothing(curves, alarm):
    profile = analyse(cells(curves), rules=RULES)
    assert profile.verdict.shape is Shape.INCONCLUSIVE
    assert alarm in profile.alarms[0]
    assert loads(dumps(profile)) == profile


@pytest.mark.parametrize(("factor", "word"), [(0.9, "below"), (1.1, "above")])
def test_littles_law_is_an_alarm(factor, word):
    found = cells(CROSSING)
    spread = found[0].e2e_s
    off = Spread(mean=spread.mean * factor, p50=spread.p50, p90=spread.p90, p99=spread.p99)
    shown = replace(found[0], e2e_s=off, tok_s_per_request=512 / off.mean)
    (alarm,) = analyse([shown, *found[1:]], rules=RULES).alarms
    assert alarm.startswith("Little's law: spec at 1, repeat 0: mean E2E")
    assert f"10% {word}" in alarm


def test_an_accept_length_that_moves_over_load_is_an_alarm():
    lengths = {1: 2.6, 4: 2.6, 16: 2.5, 64: 2.1}
    found = [replace(c, accept_length=lengths[c.concurrency]) for c in cells(CROSSING)]
    spec = [c for c in found if c.arm == "spec"]
    plain = [replace(c, accept_length=None) for c in found if c.arm == "plain"]
    (alarm,) = analyse([*spec, *plain], rules=RULES).alarms
    assert alarm.startswith("accept length of spec moves over load, from 2.10 at 64 to 2.60 at 1")


def test_a_break_even_that_no_prompt_can_reach_is_an_alarm():
    fingerprint = Fingerprint(engines={"spec": Engine(steps=2)})
    profile = analyse(
        cells(measured("reference"), accept_length=2.2), fingerprint=fingerprint, rules=RULES
    )
    (alarm,) = profile.alarms
    assert alarm.startswith("spec from 5 on: break-even accept length 3.")
    assert profile.fingerprint == fingerprint


def test_lengths_stand_side_by_side_and_the_most_cautious_first():
    short = cells(CROSSING, context=1000)
    long = cells({"spec": CROSSING["plain"], "plain": CROSSING["spec"]}, context=40_000)
    never = cells(measured("reference"), context=9000)
    profile = analyse([*short, *long, *never], rules=RULES)
    assert (profile.context, profile.verdict.shape) == (9000, Shape.NEVER)
    shapes = {curve.context: curve.verdict.shape for curve in profile.also}
    assert shapes == {1000: Shape.CROSSES, 40_000: Shape.INVERTED}
    assert loads(dumps(profile)) == profile


@pytest.mark.parametrize("objective", [Objective.TPOT, Objective.E2E])
def test_by_times_the_ratio_is_turned_over(objective):
    """With equal outputs and full concurrency, one over E2E goes as throughput does."""
    by_time = analyse(cells(CROSSING, sd=0.0, drift=0.0), rules=replace(RULES, objective=objective))
    plainly = analyse(cells(CROSSING, sd=0.0, drift=0.0), rules=RULES)
    assert by_time.verdict.objective is objective
    assert by_time.verdict.crossover == pytest.approx(plainly.verdict.crossover)


def test_by_goodput_a_cell_that_met_no_slo_still_has_a_ratio():
    found = [
        replace(c, slo_goodput=0.0 if c.arm == "spec" and c.concurrency == 64 else 1.0)
        for c in cells(CROSSING)
    ]
    profile = analyse(found, rules=replace(RULES, objective=Objective.GOODPUT))
    assert profile.levels[-1].ratio == pytest.approx(0.5 / 60.0)
    assert profile.verdict.shape is Shape.NEVER


@pytest.mark.parametrize(
    ("objective", "missing", "why"),
    [(Objective.TPOT, "tpot_s", "has no TPOT"), (Objective.GOODPUT, "slo_goodput", "no SLO")],
)
def test_an_objective_that_was_not_measured_is_refused(objective, missing, why):
    found = [_without(c, missing) for c in cells(CROSSING)]
    with pytest.raises(ValueError, match=why):
        analyse(found, rules=replace(RULES, objective=objective))


def _without(cell, missing):
    return replace(cell, **{missing: None})


def test_the_same_cells_give_the_same_profile():
    found = cells(CROSSING)
    assert dumps(analyse(found, rules=RULES)) == dumps(analyse(reversed(found), rules=RULES))
