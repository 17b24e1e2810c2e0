"""Which way to serve."""

import pytest

from specgate.bench.analyse import analyse
from specgate.bench.judging import Rules
from specgate.bench.shipped import shipped
from specgate.bench.verdict import Way, advise
from specgate.core.profile import Engine, Fingerprint
from tests.bench.synthetic import cells

RULES = Rules(draws=200)
SPEC = {1: 140.0, 8: 420.0, 32: 800.0, 128: 1000.0}
PLAIN = {1: 100.0, 8: 400.0, 32: 1000.0, 128: 1800.0}


def advice(curves, engine=None, **settings):
    engines = {} if engine is None else {"spec": Engine(name=engine, steps=3, settings=settings)}
    found = cells(curves, sd=0.004, drift=0.01)
    return advise(analyse(found, fingerprint=Fingerprint(engines=engines), rules=RULES))


def gains(found):
    return {option.way: option.gain for option in found.options}


def test_never_takes_plain_and_says_that_specgate_is_not_needed():
    found = advise(shipped("reference"))
    assert found.take is Way.PLAIN
    assert not found.needed
    assert "specgate is not needed" in found.why


def test_always_takes_static_speculation_and_says_how_far():
    found = advise(shipped("k25-mxfp4-mi355x-eagle3-bf16"))
    assert found.take is Way.STATIC
    assert "more than 64 at once" in found.why
    assert found.caveat is not None


def test_inconclusive_takes_nothing_and_says_where_to_repeat():
    curves = {"spec": {1: 100.0, 8: 101.0}, "plain": {1: 100.0, 8: 100.0}}
    profile = analyse(cells(curves, sd=0.2), rules=RULES)
    found = advise(profile)
    assert found.take is None
    assert "repeat the measurement at 1, 8" in found.why


def test_a_crossing_on_an_engine_without_a_table_takes_the_gate():
    found = advice({"spec": SPEC, "plain": PLAIN}, engine="llamacpp")
    assert found.take is Way.GATE
    assert found.needed
    assert gains(found)[Way.TABLE] is None
    assert found.threshold == pytest.approx(10.5, rel=0.2)
    gate = gains(found)[Way.GATE]
    assert gate is not None
    assert gate.worst == 1.0
    assert gate.best == pytest.approx(1.4, rel=0.03)
    assert gate.low is not None
    assert gate.low < gate.mean < gate.high


@pytest.mark.parametrize(
    ("engine", "settings", "why"),
    [
        ("sglang", {"speculative_eagle_topk": 4}, "topk 4"),
        ("sglang", {"enable_dp_attention": True}, "DP attention"),
        ("vllm", {"data_parallel_size": 2}, "data parallelism"),
        ("llama.cpp", {}, "no table"),
    ],
)
def test_what_rules_a_table_out_is_told(engine, settings, why):
    found = advice({"spec": SPEC, "plain": PLAIN}, engine=engine, **settings)
    (table,) = [option for option in found.options if option.way is Way.TABLE]
    assert table.gain is None
    assert why in (table.note or "")


def test_where_a_table_might_do_as_well_it_comes_first():
    """A gain that drafting at zero steps does not eat up."""
    spec = {**PLAIN, 1: 200.0, 8: 800.0, 32: 1800.0, 128: 1500.0}
    found = advice({"spec": spec, "plain": PLAIN}, engine="vllm")
    assert found.take is Way.TABLE
    assert "specgate export --to vllm" in found.why


def test_a_measured_table_is_told_as_measured_and_decides():
    curves = {"spec": SPEC, "plain": PLAIN, "native": {**SPEC, 32: 990.0, 128: 1790.0}}
    found = advice(curves, engine="sglang")
    (table,) = [option for option in found.options if option.way is Way.TABLE]
    assert table.measured
    assert found.take is Way.TABLE
    poor = {**curves, "native": {**SPEC, 1: 120.0, 32: 850.0, 128: 1500.0}}
    assert advice(poor, engine="sglang").take is Way.GATE


def test_a_measured_gate_that_does_no_good_is_not_taken():
    curves = {"spec": SPEC, "plain": PLAIN, "gate": {c: x * 0.95 for c, x in PLAIN.items()}}
    found = advice(curves, engine="llamacpp")
    (gate,) = [option for option in found.options if option.way is Way.GATE]
    assert gate.measured
    assert found.take is Way.PLAIN


def test_a_crossing_that_gains_less_than_the_margin_takes_the_simplest():
    spec = {1: 105.0, 8: 404.0, 32: 900.0, 128: 1500.0}
    found = advice({"spec": spec, "plain": PLAIN}, engine="llamacpp")
    assert found.take is Way.PLAIN
    assert "specgate is not needed" in found.why


def test_inverted_is_not_for_the_gate():
    found = advise(shipped("qwen35-397b-awq-4xrtxpro6000-vllm-64k"))
    assert found.take in (Way.PLAIN, Way.TABLE)
    assert not found.needed
    assert found.caveat is not None
