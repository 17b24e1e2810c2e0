"""What SGLang 0.5.23 itself answered, on a processor: `spec` and `plain` are a pair, `unset` is one
with --speculative-adaptive and --mem-fraction-static 0.95 and without a running cap.
"""

import json
from pathlib import Path
from typing import Any

from specgate.core.lanes import Lane
from specgate.doctor.facts import Facts, Severity
from tests.doctor.test_checks import checks, facts, of_one, of_two, unknown

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "sglang-0.5.23-cpu.json").read_text()
)
COUNTERS = "sglang:generation_tokens_total 900\n"


def engine(name: str) -> dict[str, Any]:
    return {**RECORDED[name], "/metrics": COUNTERS}


def test_the_facts_are_those_of_its_command_line():
    spec: Facts = facts(engine("spec"))
    assert (spec.version, spec.device, spec.model) == ("0.5.23", "cpu", "tiny")
    assert str(spec.speculation.on) == "/server_info speculative_algorithm: NGRAM"
    assert spec.speculation.steps is not None
    assert spec.speculation.steps.value == 15
    assert spec.cap is not None
    assert spec.cap.value == 8
    assert str(spec.settings["context_length"]) == "/v1/models max_model_len: 2048"
    assert spec.graphs_off is not None
    assert spec.memory.weight_gb == 0.06
    assert spec.process is not None
    assert spec.launch is not None
    assert "--max-running-requests" in spec.launch


def test_the_pair_has_nothing_wrong_with_it():
    report = of_two(engine("spec"), engine("plain"))
    assert checks(report) == {"running-cap": Severity.NOTE}
    assert [each.what for each in report.not_known] == ["its break-even accept length"]


def test_what_was_left_out_and_what_was_asked_for_in_vain():
    report = of_one(engine("unset"))
    assert checks(report) == {
        "running-cap-default": Severity.WARNING,
        "adaptive-static": Severity.WARNING,
    }
    assert "secret-key" not in repr(report)
    assert "16 tokens" in unknown(report, "break-even")
    both = of_two(engine("unset"), engine("plain"))
    (memory,) = [each for each in both.findings if each.check == "memory"]
    assert "1.05 together of this machine's memory" in memory.what
    assert "same-engine" in checks(of_two(engine("spec"), engine("spec")))
    assert "plain-lane-speculates" in checks(of_one(engine("unset"), Lane.PLAIN))
