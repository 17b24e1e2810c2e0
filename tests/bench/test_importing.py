"""Results of other tools, and merged profiles."""

import pytest

from specgate.bench.analyse import analyse
from specgate.bench.importing import (
    ImportRefusedError,
    guessed,
    profile_from,
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
    "text",
    [
        "concurrency;spec;plain\r\n1;90;70\r\n8;1,100.5;150\r\n",
        "concurrency\tspec\tplain\n1\t90\t70\n8\t1100.5\t150\n",
        'concurrency,spec,plain\n1,90,70\n8,"1,100.5",150\n',
        "| concurrency | spec | plain |\n|--|--:|:-:|\n| 1 | 90 | 70 |\n| 8 | 1,100.5 | 150 |\n",
    ],
)
def test_tables_as_spreadsheets_and_pages_write_them(text):
    rows = rows_of_table(text)
    assert [(r.arm, r.concurrency, r.tok_s) for r in rows] == [
        *(("spec", 1, 90.0), ("plain", 1, 70.0)),
        *(("spec", 8, 1100.5), ("plain", 8, 150.0)),
    ]


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
        (
            "concurrency;spec;plain\n1;77,5;92,6\n",
            "not '77,5'",
        ),
    ],
)
def test_a_table_that_is_none_is_refused_by_the_row(text, why):
    with pytest.raises(ImportRefusedError) as caught:
        rows_of_table(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (CSV, "t.csv", "csv"),
        (MARKDOWN, "t.md", "markdown"),
        ('{"mean_e2e_latency_ms": 1}', "r.json", "sglang"),
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
