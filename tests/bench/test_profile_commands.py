"""`specgate profile`, `verdict` and `export`, as a user meets them."""

import json
from dataclasses import asdict

import jsonschema
import pytest
from click.testing import CliRunner

from specgate.bench.analyse import analyse
from specgate.bench.judging import Rules
from specgate.bench.record import CELLS
from specgate.bench.shipped import names
from specgate.cli.main import main
from specgate.core.profile import Engine, Fingerprint, dumps, loads, schema
from tests.bench.synthetic import cells

CROSSES = "k26-int4-8xrtxpro6000-vllm-ctx10k"


def specgate(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def unsure(tmp_path):
    curves = {"spec": {1: 100.0, 8: 101.0}, "plain": {1: 100.0, 8: 100.0}}
    file = tmp_path / "unsure.json"
    file.write_text(dumps(analyse(cells(curves, sd=0.2), rules=Rules(draws=50))))
    return file


@pytest.mark.parametrize("name", names())
def test_every_profile_that_is_shipped_can_be_shown_weighed_and_is_in_the_schema(name):
    shown = specgate("profile", "show", name)
    assert shown.exit_code == 0
    assert "Speculation" in shown.stdout
    assert specgate("verdict", name).exit_code == 0
    value = json.loads(specgate("profile", "show", name, "--json").stdout)
    jsonschema.Draft202012Validator(schema()).validate(value)


def test_show_prints_the_reference_table_and_what_it_says():
    result = specgate("profile", "show", "reference")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["1", "77.50", "92.60", "0.837", "lose"] in rows
    assert ["250", "340.9", "772.1", "0.442", "lose"] in rows
    assert "Speculation never pays: at no level from 1 to 250." in result.stdout
    assert "alarm: single run" in result.stdout


def test_show_has_intervals_accept_lengths_and_several_arms(tmp_path):
    curves = {
        "plain": {1: 100.0, 64: 1000.0},
        "k3": {1: 200.0, 64: 600.0},
        "k1": {1: 150.0, 64: 900.0},
    }
    found = [*cells(curves, accept_length=2.0), *cells(curves, context=900, accept_length=2.0)]
    file = tmp_path / "profile.json"
    file.write_text(dumps(analyse(found, rules=Rules(draws=50))))
    result = specgate("profile", "show", file)
    assert result.exit_code == 0
    assert " to " in result.stdout
    assert "win, best: k3" in result.stdout
    assert "break-even" in result.stdout
    assert "900 prompt tokens, 512 output tokens" in result.stdout
    assert "Speculation as k1 pays below a load of" in result.stdout


@pytest.mark.parametrize(
    "command", [["profile", "show"], ["verdict"], ["export", "--to", "vllm"], ["profile", "merge"]]
)
def test_a_profile_that_is_none_is_refused_with_the_field(command, tmp_path):
    file = tmp_path / "bad.json"
    file.write_text('{"schema": "specgate-profile/1", "verdict": {"shape": "x"}}')
    result = specgate(*command, file)
    assert result.exit_code == 2
    assert 'bad.json: verdict.shape: must be "never"' in result.stderr
    file.write_bytes(b"\xff")
    assert "not UTF-8" in specgate(*command, file).stderr
    assert "reference" in specgate(*command, "nowhere").stderr
    assert specgate(*command, tmp_path).exit_code == 2


def test_import_of_a_table_writes_a_profile(tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "p.json"
    table.write_text("concurrency,spec,plain\n1,90,70\n1,91,71\n8,100,150\n8,101,152\n")
    result = specgate("profile", "import", table, "--out", out, "--model", "m")
    assert result.exit_code == 0
    assert "Speculation pays below a load of" in result.stdout
    profile = loads(out.read_text())
    assert profile.fingerprint.model == "m"
    piped = specgate("profile", "import", table, "--format", "csv")
    assert loads(piped.stdout).verdict == profile.verdict
    assert "Speculation pays" in piped.stderr


def test_import_of_two_arms_results(tmp_path):
    def lines(name, *rates):
        file = tmp_path / name
        levels = zip((1, 8), rates, strict=True)
        results = [{"max_concurrency": c, "output_throughput": x} for c, x in levels]
        file.write_text("\n".join(map(json.dumps, results)))
        return file

    spec, plain = lines("s.jsonl", 90, 100), lines("p.jsonl", 70, 150)
    result = specgate("profile", "import", f"spec={spec}", f"plain={plain}")
    assert result.exit_code == 0
    assert loads(result.stdout).verdict.shape == "crosses"
    unnamed = specgate("profile", "import", spec, plain)
    assert unnamed.exit_code == 2
    assert "spec=FILE plain=FILE" in unnamed.stderr
    assert specgate("profile", "import", "spec=nowhere").exit_code == 2


def test_import_says_what_is_wrong_with_a_table(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("concurrency,spec,plain\n1,x,3\n")
    result = specgate("profile", "import", table)
    assert result.exit_code == 2
    assert "t.csv: row 2, spec: must be a number above 0, not 'x'" in result.stderr
    table.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in specgate("profile", "import", table).stderr


def test_merge_of_files(tmp_path, unsure):
    result = specgate("profile", "merge", unsure, unsure)
    assert result.exit_code == 3
    assert len(loads(result.stdout).levels[0].arms["spec"].runs) == 6
    made = tmp_path / "other.json"
    made.write_text(dumps(analyse(cells({"spec": {1: 1.0}}), fingerprint=Fingerprint(model="n"))))
    named = tmp_path / "named.json"
    named.write_text(dumps(analyse(cells({"plain": {1: 1.0}}), fingerprint=Fingerprint(model="m"))))
    refused = specgate("profile", "merge", made, named)
    assert refused.exit_code == 2
    assert "different models: m, n" in refused.stderr


def test_verdict_is_one_page_that_says_which_to_take():
    result = specgate("verdict", "reference")
    assert result.exit_code == 0
    assert "Take plain: specgate is not needed" in result.stdout
    for way in ("plain", "static speculation", "the engine's own table", "the gate"):
        assert way in result.stdout
    assert "two copies of the weights" in " ".join(result.stdout.split())
    assert len(result.stdout.splitlines()) < 40


def test_verdict_for_the_gate_gives_its_settings(tmp_path):
    curves = {"spec": {1: 140.0, 32: 800.0}, "plain": {1: 100.0, 32: 1000.0}}
    engines = {"spec": Engine(name="llamacpp")}
    profile = analyse(cells(curves, sd=0.01), fingerprint=Fingerprint(engines=engines))
    file = tmp_path / "profile.json"
    file.write_text(dumps(profile))
    result = specgate("verdict", file)
    assert "Take the gate" in result.stdout
    assert "SPECGATE_THRESHOLD=" in result.stdout
    assert "not possible" in result.stdout


def test_verdict_as_json():
    found = json.loads(specgate("verdict", "k25-mxfp4-mi355x-eagle3-bf16", "--json").stdout)
    assert found["take"] == "static speculation"
    assert found["threshold"] == "always"
    assert found["needed"] is False
    assert json.loads(specgate("verdict", "reference", "--json").stdout)["threshold"] == "never"
    crossing = json.loads(specgate("verdict", CROSSES, "--json").stdout)
    assert crossing["threshold"] == pytest.approx(38.587, abs=0.001)


def test_what_does_not_decide_exits_with_3(unsure):
    page = specgate("verdict", unsure)
    assert page.exit_code == 3
    assert "Undecided: repeat the measurement" in page.stdout
    assert specgate("verdict", unsure, "--json").exit_code == 3
    table = specgate("export", unsure, "--to", "vllm", "--steps", "spec=3")
    assert table.exit_code == 3
    assert table.stdout == ""
    assert "inconclusive" in table.stderr


def broke_off(folder):
    """A bench's folder in which the higher level has one arm alone."""
    curves = {"spec": {1: 100.0, 8: 500.0}, "plain": {1: 150.0}}
    lines = [json.dumps(asdict(cell)) for cell in cells(curves, sd=0.003)]
    (folder / CELLS).write_text("\n".join(lines) + "\n")
    return folder


def test_a_bench_that_broke_off_is_judged_as_far_as_it_got(tmp_path):
    folder = broke_off(tmp_path)
    file = folder / "profile.json"
    made = specgate("profile", "import", folder, "--out", file)
    assert made.exit_code == 0, made.output
    assert "Speculation never pays: at 1, the one level." in made.stdout
    told = loads(file.read_text())
    assert [level.concurrency for level in told.levels] == [1, 8]
    assert [level.concurrency for level in told.compared] == [1]
    for command in (["verdict"], ["profile", "show"]):
        assert "at 1, the one level" in specgate(*command, file).stdout
    by_e2e = specgate("profile", "import", folder, "--objective", "e2e", "--json")
    assert loads(by_e2e.stdout).verdict.objective == "e2e"
    alone = specgate("profile", "import", folder, "--model", "a name", "--json")
    assert loads(alone.stdout).fingerprint.model == "a name"


def test_a_folder_that_no_bench_filled_is_refused_in_a_line(tmp_path):
    def refused(*words):
        found = specgate("profile", "import", *words)
        assert found.exit_code == 2
        assert found.stdout == ""
        return found.stderr

    assert "no bench has measured anything there" in refused(tmp_path)
    broke_off(tmp_path)
    assert "a bench's folder goes alone" in refused(tmp_path, "x.csv")
    assert "--objective goodput" in refused(tmp_path, "--objective", "goodput")
    (tmp_path / "plan.json").write_text("[")
    assert "not what a bench writes" in refused(tmp_path)
    (tmp_path / "plan.json").unlink()
    (tmp_path / CELLS).write_text('{"arm": "spec"}\n')
    assert "not what a bench writes" in refused(tmp_path)
    table = tmp_path / "table.csv"
    table.write_text("concurrency,spec,plain\n1,2,3\n")
    assert "--objective is for a bench's folder" in refused(table, "--objective", "e2e")
    empty = tmp_path / "empty"
    empty.mkdir()
    report = specgate("report", empty)
    assert report.exit_code == 2
    assert f"`specgate profile import {empty}` makes one" in report.stderr


def test_export_keeps_its_notes_out_of_the_table():
    result = specgate("export", CROSSES, "--to", "vllm")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["num_speculative_tokens"] == 3
    assert result.stderr.startswith("note: ")
    assert specgate("export", CROSSES, "--to", "sglang").stderr == ""
    both = json.loads(specgate("export", CROSSES, "--to", "vllm", "--json").stdout)
    assert both["text"] == result.stdout
    assert both["notes"]


def test_export_tells_on_stderr_what_is_lost_of_a_measurement_with_a_tree():
    told = json.loads(specgate("export", "reference", "--to", "trtllm", "--json").stdout)
    (lost,) = told["lost"]
    assert "measured with topk 4 and 16 draft tokens" in lost
    for to in ("sglang", "vllm", "trtllm"):
        result = specgate("export", "reference", "--to", to)
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("lost: ")]
        assert line.removeprefix("lost: ").startswith(lost)
        assert "lost: " not in result.stdout


@pytest.mark.parametrize("steps", ["3", "spec", "spec=x", "=3"])
def test_export_refuses_steps_that_are_none(steps):
    result = specgate("export", CROSSES, "--to", "vllm", "--steps", steps)
    assert result.exit_code == 2
    assert "as in spec=3" in result.stderr


def test_export_that_a_format_cannot_hold_is_wrong_usage():
    name = "qwen35-397b-awq-4xrtxpro6000-vllm-64k"
    result = specgate("export", name, "--to", "trtllm")
    assert result.exit_code == 2
    assert "they grow" in result.stderr
