"""Results of other tools, and merged profiles."""

import json

import pytest

from specgate.bench.analyse import analyse
from specgate.bench.importing import (
    ImportRefusedError,
    guessed,
    profile_from,
    rows_of_results,
    rows_of_table,
)
from specgate.bench.judging import Rules
from specgate.bench.merging import MergeRefusedError, merged
from specgate.bench.shipped import shipped
from specgate.core.profile import Engine, Fingerprint, Objective
from specgate.core.shape import Shape
from tests.bench.synthetic import cells

RULES = Rules(draws=100)
CSV = "concurrency,spec,plain\n1,90,70\n8,100,150\n"
MARKDOWN = """
| C | spec tok/s | plain tok/s | spec/plain | spec tok/s per request | spec mean latency s |
|---|---:|---|---|---|---|
| 1 | 77.5 | 92.6 | 0.84 | 77.7 | 6.6 |
| 250 | **340.9** | 772.1 | 0.44 | 2.9 | 243.6 |
"""


def test_a_csv_table_is_a_single_run():
    profile = profile_from(rows_of_table(CSV), rules=RULES)
    assert profile.verdict.shape is Shape.CROSSES
    assert profile.verdict.confidence == "single run"
    assert [level.concurrency for level in profile.levels] == [1, 8]


def test_the_reference_table_as_it_was_published():
    profile = profile_from(rows_of_table(MARKDOWN), rules=RULES)
    assert profile.verdict.shape is Shape.NEVER
    assert set(profile.levels[1].arms) == {"spec", "plain"}
    assert profile.levels[1].arms["spec"].tok_s == 340.9


def test_rows_of_one_level_are_repeats_and_unpaired():
    text = "concurrency,spec,plain\n1,90,70\n1,91,71\n8,100,150\n8,101,152\n"
    verdict = profile_from(rows_of_table(text), rules=RULES).verdict
    assert verdict.confidence == 0.9
    assert verdict.interval is not None
    assert not verdict.paired


def test_further_columns_are_further_arms_and_cells_may_be_empty():
    text = "C,plain,k1,k3\n1,100,120,150\n8,400,420,-\n"
    profile = profile_from(rows_of_table(text), rules=RULES)
    assert set(profile.by_arm) == {"k1", "k3"}
    assert set(profile.levels[1].arms) == {"plain", "k1"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no table"),
        ("concurrency,spec,plain\n", "no table"),
        ("a,b\n1,2\n", "columns concurrency, spec and plain"),
        ("concurrency,spec\n1,2\n", "columns concurrency, spec and plain"),
        ("concurrency,spec,plain\nx,2,3\n", "row 2: concurrency must be a whole number, not 'x'"),
        ("concurrency,spec,plain\n1,2,0\n", "row 2, plain: must be a number above 0"),
        ("concurrency,spec,plain\n1,2,3\n0,2,3\n", "row 3: concurrency"),
    ],
)
def test_a_table_that_is_none_is_refused_by_the_row(text, why):
    with pytest.raises(ImportRefusedError) as caught:
        rows_of_table(text)
    assert why in str(caught.value)


def sglang(level, tok_s, **changes):
    """A line as `sglang.bench_serving` writes it, cut to what is read."""
    return json.dumps(
        {
            "backend": "sglang",
            "max_concurrency": level,
            "completed": 40,
            "output_throughput": tok_s,
            "mean_e2e_latency_ms": 900.0,
            "median_e2e_latency_ms": 880.0,
            "p99_e2e_latency_ms": 1200.0,
            "mean_ttft_ms": 100.0,
            "mean_tpot_ms": 0.0,
            "accept_length": 2.4,
            **changes,
        }
    )


def test_lines_of_sglangs_tool():
    spec = rows_of_results("spec", f"{sglang(1, 90.0)}\n\n{sglang(8, 100.0)}\n", "sglang")
    plain = rows_of_results(
        "plain", f"{sglang(1, 70.0, accept_length=None)}\n{sglang(8, 150.0)}", "sglang"
    )
    profile = profile_from([*spec, *plain], rules=RULES)
    arm = profile.levels[0].arms["spec"]
    assert arm.accept_length == 2.4
    assert arm.e2e_s is not None
    assert (arm.e2e_s.mean, arm.e2e_s.p50, arm.e2e_s.p90) == (0.9, 0.88, None)
    assert arm.tpot_s is None, "zero: nothing was streamed"
    assert arm.break_even_accept_length == pytest.approx(2.4 * 70 / 90)
    assert arm.requests == 40


def test_files_of_vllms_tool():
    result = {
        "max_concurrency": 4,
        "completed": 16,
        "failed": 0,
        "output_throughput": 300.5,
        "mean_e2el_ms": 500.0,
        "p99_e2el_ms": 700.0,
        "spec_decode_acceptance_length": 2.1,
    }
    (row,) = rows_of_results("spec", json.dumps(result, indent=2), "vllm")
    assert row.tok_s == 300.5
    assert row.accept_length == 2.1
    assert row.e2e_s is not None
    assert row.e2e_s.p99 == 0.7


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_concurrency": None}, "max_concurrency is None"),
        ({"failed": 2}, "2 requests failed"),
        ({"output_throughput": 0}, "output_throughput: must be a number above 0"),
        ({"output_throughput": "fast"}, "output_throughput"),
    ],
)
def test_a_result_that_measured_something_else_is_refused(changes, why):
    with pytest.raises(ImportRefusedError) as caught:
        rows_of_results("spec", sglang(1, 90.0, **changes), "sglang")
    assert "spec, result 1" in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_what_is_no_result_is_refused(text):
    with pytest.raises(ImportRefusedError):
        rows_of_results("spec", text, "vllm")


def test_one_arm_alone_is_refused():
    with pytest.raises(ImportRefusedError, match="an arm named plain"):
        profile_from(rows_of_results("spec", sglang(1, 90.0), "sglang"))


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (CSV, "t.csv", "csv"),
        (MARKDOWN, "t.md", "markdown"),
        (sglang(1, 2.0), "r.json", "sglang"),
        ('{"mean_e2el_ms": 1}', "r.json", "vllm"),
        ('{\n "mean_e2el_ms": 1}', "r.json", "vllm"),
        ('{"x": 1}', "r.jsonl", "sglang"),
    ],
)
def test_the_format_is_guessed(text, name, kind):
    assert guessed(text, name) == kind


CURVES = {"spec": {1: 100.0, 8: 300.0, 32: 500.0}, "plain": {1: 70.0, 8: 290.0, 32: 800.0}}


def test_merging_puts_repeats_together_and_judges_again():
    first = analyse(cells(CURVES, seed=1, repeats=2, accept_length=2.0), rules=RULES)
    second = analyse(cells(CURVES, seed=2, repeats=3, accept_length=3.0), rules=RULES)
    profile = merged([first, second], rules=RULES)
    arm = profile.levels[0].arms["spec"]
    assert [run.repeat for run in arm.runs] == [0, 1, 2, 3, 4]
    assert arm.requests == 200
    assert arm.accept_length == pytest.approx(2.6)
    assert profile.verdict.paired
    assert profile.verdict.shape is Shape.CROSSES
    assert first.verdict.interval is not None
    assert profile.verdict.interval is not None


def test_merging_arms_that_were_measured_apart_is_unpaired():
    spec = analyse(cells({"spec": CURVES["spec"]}, seed=1, paired=False), rules=RULES)
    plain = analyse(cells({"plain": CURVES["plain"]}, seed=2, paired=False), rules=RULES)
    profile = merged([spec, plain], rules=RULES)
    assert profile.verdict.shape is Shape.CROSSES
    assert not profile.verdict.paired
    assert profile.alarms == ()


def test_merging_other_lengths_keeps_them_side_by_side():
    one = analyse(cells(CURVES, context=100), rules=RULES)
    other = analyse(cells(CURVES, context=9000, seed=4), rules=RULES)
    profile = merged([one, other], rules=RULES)
    assert {profile.context, profile.also[0].context} == {100, 9000}


def test_merging_keeps_what_the_files_agree_on():
    def made(model, hardware, name):
        fingerprint = Fingerprint(model=model, hardware=hardware, engines={name: Engine(steps=1)})
        return analyse(cells(CURVES), fingerprint=fingerprint, rules=RULES)

    found = merged([made("m", "h", "spec"), made(None, "other", "plain")], rules=RULES).fingerprint
    assert (found.model, found.hardware) == ("m", None)
    assert set(found.engines) == {"spec", "plain"}
    with pytest.raises(MergeRefusedError, match="different models: m, n"):
        merged([made("m", None, "spec"), made("n", None, "spec")], rules=RULES)


def test_merging_different_objectives_is_refused():
    by_time = analyse(cells(CURVES), rules=Rules(draws=50, objective=Objective.E2E))
    with pytest.raises(MergeRefusedError, match="different objectives"):
        merged([by_time, shipped("reference")])
