"""Results of the engines' own bench tools: recorded files, and cases of their fields."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from specgate.bench.importing import ImportRefusedError, guessed, profile_from
from specgate.bench.judging import Rules
from specgate.bench.results import rows_of_results
from specgate.cli.main import main
from specgate.core.profile import Profile, loads

RECORDED = Path(__file__).parent / "recorded"
RULES = Rules(draws=100)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def imported(*files: str) -> Profile:
    """What `specgate profile import` makes of recorded files, given as ARM=NAME."""
    words = [f"{arm}={RECORDED / name}" for arm, _, name in (f.partition("=") for f in files)]
    found = CliRunner().invoke(main, ["profile", "import", *words])
    assert found.exit_code in (0, 3), found.output
    return loads(found.stdout)


def test_recorded_lines_of_sglangs_tool():
    text = recorded("sglang-spec.jsonl")
    assert guessed(text, "sglang-spec.jsonl") == guessed(text, "renamed.json") == "sglang"
    profile = imported("spec=sglang-spec.jsonl", "plain=sglang-plain.jsonl")
    assert [level.concurrency for level in profile.levels] == [1, 8, 96]
    first, *_ = [json.loads(line) for line in text.splitlines()]
    row = rows_of_results("spec", text)[0]
    assert row.tok_s == first["output_throughput"]
    assert row.requests == first["completed"] == 16
    assert row.e2e_s is not None
    assert row.e2e_s.p99 == first["p99_e2e_latency_ms"] / 1000
    assert row.tpot_s is not None
    assert row.tpot_s.p90 == first["p90_tpot_ms"] / 1000
    assert row.slo_goodput == first["request_goodput"]
    spec, plain = (profile.levels[0].arms[name] for name in ("spec", "plain"))
    assert [len(arm.runs) for arm in (spec, plain)] == [2, 2]
    assert spec.accept_length is not None
    assert 2 < spec.accept_length < 3
    assert spec.break_even_accept_length is not None
    assert (plain.accept_length, plain.slo_goodput) == (None, None)
    engine = profile.fingerprint.engines["spec"]
    assert (engine.name, engine.version, engine.steps) == ("sglang", "0.5.23", 3)
    assert engine.settings["speculative_algorithm"] == "EAGLE3"
    assert engine.settings["max_running_requests"] == 128
    assert profile.fingerprint.engines["plain"].steps is None
    assert profile.fingerprint.model == "sim"
    # Four requests for each in flight: ramp and tail are a fifth of the time, and that is told.
    assert any("spec, result 2: 6.3 in flight on average at 8" in a for a in profile.alarms)
    assert not profile.verdict.paired


def test_recorded_files_of_vllms_tool():
    spec = [f"spec=vllm-spec-{level}-{n}.json" for level in (1, 8) for n in (1, 2)]
    profile = imported(*spec, "plain=vllm-plain.json")
    assert [level.concurrency for level in profile.levels] == [1, 8]
    result = json.loads(recorded("vllm-spec-8-1.json"))
    (row,) = rows_of_results("spec", recorded("vllm-spec-8-1.json"))
    assert row.tok_s == result["output_throughput"]
    assert row.requests == 32
    assert row.e2e_s is not None
    assert row.e2e_s.p99 == result["p99_e2el_ms"] / 1000
    assert row.ttft_s is not None
    assert row.ttft_s.p50 == result["median_ttft_ms"] / 1000
    assert row.slo_goodput == result["request_goodput"]
    assert row.doubt is not None, "vLLM does not write how many were in flight: it is worked out"
    assert "in flight on average at 8" in row.doubt
    assert [r.concurrency for r in rows_of_results("plain", recorded("vllm-plain.json"))] == [
        *(1, 1, 8, 8)
    ]
    for level in profile.levels:
        assert [len(level.arms[name].runs) for name in ("spec", "plain")] == [2, 2]
    assert profile.fingerprint.model == "sim"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("sglang-few.jsonl", "8 requests cannot hold 96 in flight"),
        ("sglang-paced.jsonl", "request_rate is 20.0: arrivals were paced"),
        ("sglang-nolevel.jsonl", "max_concurrency is None"),
        ("vllm-paced.json", "request_rate is 20.0: arrivals were paced"),
        ("vllm-nolevel.json", "max_concurrency is None"),
    ],
)
def test_recorded_results_that_measured_something_else_are_refused(name, why):
    with pytest.raises(ImportRefusedError) as caught:
        rows_of_results("plain", recorded(name))
    assert f"plain, result 1: {why}" in str(caught.value)


def test_details_tell_of_requests_that_failed():
    text = recorded("vllm-detailed.json")
    assert rows_of_results("plain", text)[0].requests == 8
    result = json.loads(text)
    result["errors"][2] = "Service Unavailable"
    with pytest.raises(ImportRefusedError, match="1 requests failed"):
        rows_of_results("plain", json.dumps(result))


def test_different_models_are_refused_unless_they_are_said_to_be_one():
    other = json.dumps({**json.loads(recorded("vllm-spec-1-1.json")), "model_id": "other"})
    rows = [
        *rows_of_results("spec", other),
        *rows_of_results("plain", recorded("vllm-plain.json")),
    ]
    with pytest.raises(ImportRefusedError, match="different models: other, sim; give --model"):
        profile_from(rows, rules=RULES)


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
    spec = rows_of_results("spec", f"{sglang(1, 90.0)}\n\n{sglang(8, 100.0)}\n")
    plain = rows_of_results("plain", f"{sglang(1, 70.0, accept_length=None)}\n{sglang(8, 150.0)}")
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
    (row,) = rows_of_results("spec", json.dumps(result, indent=2))
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
        rows_of_results("spec", sglang(1, 90.0, **changes))
    assert "spec, result 1" in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_what_is_no_result_is_refused(text):
    with pytest.raises(ImportRefusedError):
        rows_of_results("spec", text)


def test_one_arm_alone_is_refused():
    with pytest.raises(ImportRefusedError, match="an arm named plain"):
        profile_from(rows_of_results("spec", sglang(1, 90.0)))
