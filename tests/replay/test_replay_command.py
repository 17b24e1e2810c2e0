"""`specgate replay` as its users start it."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from specgate.bench.shipped import shipped
from specgate.cli.main import main
from specgate.core.profile import dumps, loads
from specgate.settings.extras import how_to_install
from tests.replay.lanes import LENGTHS, several_lengths

CTX10K = "k26-int4-8xrtxpro6000-vllm-ctx10k"
SHORT = ("--profile", CTX10K, "--requests", "400")
WAYS = ("policy", "all_plain", "all_spec", "instant", "clairvoyant")
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:{i // 60:02}:{i % 60:02}.5,100,{50 + 7 * (i % 9)}\n" for i in range(300)
)


def started(*words, env=None):
    return subprocess.run(
        [sys.executable, "-m", "specgate", "replay", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, **(env or {})},
    )


def invoked(*words):
    return CliRunner().invoke(main, ["replay", *map(str, words)])


def test_it_prints_a_table_and_a_sentence_and_writes_figures_and_a_picture(tmp_path):
    trace = tmp_path / "mine.csv"
    trace.write_text(TRACE)
    figures, folder = tmp_path / "figures.json", tmp_path / "new" / "folder"
    ended = started(*SHORT, "--trace", trace, "--load", "0.9", "--json", figures, "--out", folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[0].startswith(f"mine.csv on {CTX10K}: 300 requests in ")
    assert [line.removeprefix("->").split()[0] for line in lines[3:8]] == [
        "gate",
        "all-plain",
        "all-spec",
        "instant",
        "clairvoyant",
    ]
    assert any(line.startswith("->") for line in lines[3:7])
    assert not lines[7].startswith("->")
    assert f"Picture: {folder / 'replay.svg'}" in lines
    assert (folder / "replay.svg").read_text().startswith("<svg")
    found = json.loads(figures.read_text())
    assert found["said"] in lines
    assert found["replayed"]["requests"] == 300
    assert found["replayed"]["offered_tok_s"] == pytest.approx(0.9 * 1397.9, rel=1e-3)
    for way in WAYS:
        of = found[way]
        for what in ("e2e_s", "ttft_s"):
            ranks = [of[f"{rank}_{what}"] for rank in ("p50", "p95", "p99")]
            assert ranks == sorted(ranks)
            assert 0 < of[f"mean_{what}"] <= ranks[-1] * 3
        assert of["tok_s"] > 0
        assert 0 <= of["wrong_side_share"] <= 1
        assert 0 <= of["mixed_share"] <= 1
    assert found["clairvoyant"]["wrong_side_share"] == 0
    assert found["all_plain"]["switches"] == found["all_spec"]["switches"] == 0
    assert len(found["switched"]) == found["policy"]["switches"]


def test_the_same_seed_gives_the_same_bytes():
    words = (*SHORT, "--trace", "diurnal", "--cached", "0.5", "--contention", "0.2", "--json", "-")
    one, again = started(*words, "--seed", "5"), started(*words, "--seed", "5")
    assert one.returncode == 0
    assert one.stdout == again.stdout
    json.loads(one.stdout)
    assert started(*words, "--seed", "6").stdout != one.stdout


def test_without_the_extra_a_line_says_so(tmp_path):
    """As if matplotlib were not there."""
    (tmp_path / "matplotlib.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'matplotlib'\", name='matplotlib')"
    )
    ended = started(*SHORT, "--out", tmp_path / "out", env={"PYTHONPATH": str(tmp_path)})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == f"No picture: it needs {how_to_install('bench')}"
    assert not (tmp_path / "out").exists()


def test_a_sweep_is_a_row_for_each_pair():
    done = invoked(*SHORT, "--sweep")
    assert done.exit_code == 0, done.output
    rows = done.stdout.splitlines()[3:]
    assert [row.split()[:2] for row in rows] == [
        [load, contention]
        for load in ("0.3", "0.6", "0.9", "1.1")
        for contention in ("0", "0.2", "0.4")
    ]
    done = invoked(*SHORT, "--load", "0.3,0.5", "--contention", "0.1", "--json", "-")
    found = json.loads(done.stdout)
    assert [(each["load"], each["contention"]) for each in found["replays"]] == [
        (0.3, 0.1),
        (0.5, 0.1),
    ]
    assert all(way in each for each in found["replays"] for way in WAYS)


def test_the_knobs_reach_the_gate():
    found = json.loads(
        invoked(
            *(*SHORT, "--threshold", "30", "--band", "0.1", "--smoothing", "7"),
            *("--dwell", "9", "--burst", "3", "--accept", "60:0.5,10:2", "--json", "-"),
        ).stdout
    )
    assert found["replayed"]["rule"] == {
        "by": "threshold",
        "pool": "shared",
        "threshold": 30.0,
        "band": 0.1,
        "smoothing_s": 7.0,
        "burst": 3.0,
        "dwell_s": 9.0,
    }
    assert found["replayed"]["accept"] == [[10.0, 2.0], [60.0, 0.5]]
    always = invoked(*SHORT, "--threshold", "always", "--json", "-").stdout
    assert json.loads(always)["replayed"]["rule"]["threshold"] == "always"
    assert json.loads(always)["policy"] == json.loads(always)["all_spec"]


def test_what_the_meter_would_say_is_printed_and_written():
    done = invoked(*SHORT, "--trace", "constant", "--load", "0.3")
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("gained over"))
    assert lines[at].split()[-4:] == ["the", "meter", "interval", "measured"]
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == ["all-plain", "all-spec"]
    said = json.loads(invoked(*SHORT, "--trace", "constant", "--load", "0.3", "--json", "-").stdout)
    assert said["meter"]["all_plain"].keys() == {"estimated_s", "low_s", "high_s", "measured_s"}
    gained = said["all_plain"]["mean_e2e_s"] - said["policy"]["mean_e2e_s"]
    assert said["meter"]["all_plain"]["measured_s"] == pytest.approx(gained)
    by_hand = invoked(*SHORT, "--threshold", "9").stdout
    assert "gained over" not in by_hand


SWITCHING = ("--profile", CTX10K, "--trace", "square", "--requests", "3000", "--load", "0.85")

RETURNING = ("--profile", CTX10K, "--trace", "spike", "--requests", "3000", "--load", "0.8")


def test_a_limit_of_switches_reaches_the_gate():
    free, one = (
        json.loads(invoked(*RETURNING, *words, "--json", "-").stdout)
        for words in ((), ("--switches-per-h", "1"))
    )
    assert free["replayed"]["rule"]["switches_per_h"] == 12
    assert one["replayed"]["rule"]["switches_per_h"] == 1
    assert free["policy"]["switches"] > 2
    # It leaves, and does not come back within the hour.
    assert [each["side"] for each in one["switched"]] == ["spec", "plain"]


def test_a_hold_reaches_the_gate_and_is_told_of():
    done = invoked(*SWITCHING, "--hold", "3", "--json", "-")
    found = json.loads(done.stdout)
    assert found["replayed"]["rule"]["hold"] == 3
    assert found["policy"]["held"] > 0
    assert found["policy"]["mean_held_s"] > 0
    assert found["all_plain"]["held"] == found["instant"]["held"] == 0
    assert (
        f"The gate held {found['policy']['held']:,} request"
        in invoked(*SWITCHING, "--hold", "3").stdout
    )


def test_a_profile_of_several_lengths_goes_by_the_prompts(tmp_path):
    file = tmp_path / "profile.json"
    file.write_text(dumps(several_lengths(*LENGTHS)))
    done = invoked("--profile", file, "--requests", "300")
    assert done.exit_code == 0, done.output
    assert "curves for prompts of 128, 10,240 and 41,000 tokens" in done.stdout
    found = json.loads(invoked("--profile", file, "--requests", "300", "--json", "-").stdout)
    assert found["replayed"]["contexts"] == [128, 10240, 41000]
    one = json.loads(invoked(*SHORT, "--json", "-").stdout)
    assert one["replayed"]["contexts"] is None


def test_split_pools_share_nothing():
    shared, split = (
        json.loads(invoked(*SHORT, "--pool", pool, "--json", "-").stdout)
        for pool in ("shared", "split")
    )
    assert split["replayed"]["rule"]["pool"] == "split"
    assert split["all_plain"] | {"wrong_side_share": 0} == shared["all_plain"] | {
        "wrong_side_share": 0
    }
    assert 0 < split["policy"]["spec_share"] < 1
    assert split["policy"]["mean_e2e_s"] < shared["policy"]["mean_e2e_s"]


def test_a_never_profile_equals_plain_and_says_so():
    done = invoked("--profile", "reference", "--requests", "300", "--trace", "spike")
    assert "as the profile says `never`, and equals all-plain" in done.stdout
    assert done.stdout.splitlines()[3].startswith("->")


def test_a_profile_in_a_file(tmp_path):
    file = tmp_path / "profile.json"
    file.write_text(dumps(shipped(CTX10K)))
    done = invoked("--profile", file, "--requests", "300")
    assert done.exit_code == 0
    assert done.stdout.startswith("azure-conversation on profile.json: 300 requests")


def refused_line(done):
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    line = done.output.splitlines()[-1]
    assert line.startswith("Error: ")
    assert [each for each in done.output.splitlines() if each.startswith("Error")] == [line]
    return line


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--profile", "nothing"], "--profile nothing no such file reference, k26"),
        ([*SHORT, "--trace", "nothing"], "--trace nothing azure-conversation, constant, ramp"),
        ([*SHORT, "--trace", "/"], "--trace directory"),
        ([*SHORT, "--load", "0"], "--load '0' from 0.01 to 10"),
        ([*SHORT, "--load", "-1"], "--load '-1'"),
        ([*SHORT, "--load", "0.5,nan"], "--load 'nan'"),
        ([*SHORT, "--load", ""], "--load ''"),
        ([*SHORT, "--contention", "1.5"], "--contention '1.5' from 0 to 1"),
        ([*SHORT, "--contention", "x"], "--contention 'x'"),
        ([*SHORT, "--seed", "-1"], "--seed"),
        ([*SHORT, "--requests", "1"], "--requests"),
        ([*SHORT, "--cached", "2"], "--cached"),
        ([*SHORT, "--cached", "nan"], "--cached 'nan' is no number"),
        ([*SHORT, "--gap", "0"], "--gap"),
        ([*SHORT, "--prefill", "0"], "--prefill"),
        ([*SHORT, "--accept", "60"], "--accept '60' 600:0.5"),
        ([*SHORT, "--accept", "60:0"], "--accept '60:0'"),
        ([*SHORT, "--adaptive"], "--profile no accept length"),
        (["--profile", "reference", "--adaptive"], "--profile better lane changes"),
        ([*SHORT, "--threshold", "9", "--adaptive"], "--adaptive not with --threshold"),
        ([*SHORT, "--threshold", "9", "--hold", "3"], "--hold not with --threshold"),
        ([*SHORT, "--threshold", "9", "--switches-per-h", "3"], "--switches-per-h not with"),
        ([*SHORT, "--switches-per-h", "-1"], "--switches-per-h"),
        ([*SHORT, "--hold", "-1"], "--hold"),
        ([*SHORT, "--hold", "2.5"], "--hold '2.5'"),
        ([*SHORT, "--hold", "2", "--pool", "split"], "--hold not with --pool split"),
        ([*SHORT, "--pool", "own"], "--pool"),
        ([*SHORT, "--threshold", "-3"], "--threshold never or always"),
        ([*SHORT, "--threshold", "lots"], "--threshold never or always"),
        ([*SHORT, "--band", "0.1"], "--band only with --threshold"),
        ([*SHORT, "--smoothing", "5"], "--smoothing only with --threshold"),
        ([*SHORT, "--threshold", "5", "--band", "1"], "--band"),
        ([*SHORT, "--burst", "0.5"], "--burst"),
        ([*SHORT, "--sweep", "--out", "/tmp/x"], "--out one load and one contention"),
        ([*SHORT, "--json", "/no/such/folder/x.json"], "--json /no/such/folder no such folder"),
        ([], "--profile"),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(words, named):
    line = refused_line(invoked(*words))
    for part in named.split():
        assert part in line


def test_a_bad_trace_names_the_file_the_line_and_the_column(tmp_path):
    file = tmp_path / "bad.csv"
    for text, said in {
        "": "empty",
        TRACE.replace(",50\n", ",fifty\n"): "line 2: GeneratedTokens: 'fifty'",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,0\n2,3,0\n": "fewer than two requests",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,5\n1,3,5\n": "all arrivals are at one time",
    }.items():
        file.write_text(text)
        line = refused_line(invoked(*SHORT, "--trace", file))
        assert said in line
        assert "--trace" in line


def test_a_profile_that_cannot_be_replayed_says_why(tmp_path):
    file = tmp_path / "profile.json"
    table = tmp_path / "table.csv"
    table.write_text("concurrency,spec,plain\n4,100,90\n")
    CliRunner().invoke(main, ["profile", "import", str(table), "--out", str(file)])
    line = refused_line(invoked("--profile", file))
    assert f"{file}: it has fewer than two levels" in line
    assert "--profile" in line


def test_an_accept_length_that_cannot_be_is_refused(tmp_path):
    whole = json.loads(dumps(shipped(CTX10K)))
    for level in whole["levels"]:
        level["arms"]["spec"]["accept_length"] = 2.5
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(whole))
    assert loads(file.read_text()).levels[0].arms["spec"].accept_length == 2.5
    line = refused_line(invoked("--profile", file, "--accept", "60:0.3"))
    assert "accept length 0.75" in line
    done = invoked("--profile", file, "--accept", "60:0.5", "--requests", "200")
    assert done.exit_code == 0


def test_help_says_what_the_model_leaves_out():
    done = invoked("--help")
    assert done.exit_code == 0
    for part in ("What the model leaves out:", "CC BY 4.0", "slow-square", "--sweep"):
        assert part in done.output
