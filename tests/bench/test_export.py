"""The engines' own tables."""

import json
from itertools import pairwise

import pytest
import yaml
from click.testing import CliRunner

from specgate.bench.analyse import analyse
from specgate.bench.export import TARGETS, ExportError, InconclusiveError, exported, ranges
from specgate.bench.judging import Rules
from specgate.bench.shipped import shipped
from specgate.cli.main import main
from specgate.core.profile import Engine, Fingerprint, Scalar
from tests.bench.synthetic import cells

CROSSES = "k26-int4-8xrtxpro6000-vllm-ctx10k"
INVERTED = "qwen35-397b-awq-4xrtxpro6000-vllm-64k"


def several():
    curves = {
        "plain": {2: 100.0, 8: 400.0, 64: 1000.0},
        "k3": {2: 200.0, 8: 420.0, 64: 600.0},
        "k1": {2: 150.0, 8: 520.0, 64: 900.0},
    }
    engines = {"k3": Engine(steps=3), "k1": Engine(steps=1)}
    found = cells(curves, sd=0.003)
    return analyse(found, fingerprint=Fingerprint(engines=engines), rules=Rules(draws=100))


def test_it_speculates_strictly_below_the_crossover():
    assert ranges(shipped(CROSSES), {}) == [(1, 38, 3), (39, 128, 0)]


def test_each_range_has_the_arm_that_wins_by_most():
    parts = ranges(several(), {})
    assert [part.steps for part in parts] == [3, 1, 0]
    assert parts[0].first == 1
    assert parts[0].last == 3, "between two arms, the middle in log2"
    assert parts[1].last in range(33, 38)
    assert parts[2].last == 64


def test_ranges_join_and_end_at_the_highest_level():
    for profile in (several(), shipped(INVERTED), shipped("reference"), shipped(CROSSES)):
        parts = ranges(profile, {})
        assert parts[0].first == 1
        assert parts[-1].last == profile.levels[-1].concurrency
        for before, after in pairwise(parts):
            assert after.first == before.last + 1
            assert after.steps != before.steps


def test_vllm_takes_ranges_and_the_notes_stand_beside():
    table = exported(shipped(CROSSES), "vllm")
    assert json.loads(table.text) == {
        "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": [[1, 38, 3], [39, 128, 0]],
    }
    assert any("above 128" in note for note in table.notes)
    assert any("intervals" in note for note in table.notes)


def test_sglang_takes_first_batch_sizes_and_passes_over_a_comment():
    table = json.loads(exported(shipped(CROSSES), "sglang").text)
    comment = table.pop("_comment")
    assert table == {"1": {"candidate_steps": [3]}, "39": {"candidate_steps": [0]}}
    assert any("--speculative-num-steps 3" in line for line in comment)


def test_tensorrt_takes_last_batch_sizes_and_comments():
    text = exported(shipped(CROSSES), "trtllm").text
    assert text.startswith("# ")
    config = yaml.safe_load(text)["speculative_config"]
    assert config == {"max_draft_len": 3, "draft_len_schedule": {38: 3}}


def test_never_is_a_table_that_never_drafts():
    profile = shipped("reference")
    assert json.loads(exported(profile, "vllm").text) == {
        "num_speculative_tokens": 2,
        "num_speculative_tokens_per_batch_size": [[1, 250, 0]],
    }
    assert json.loads(exported(profile, "sglang").text)["1"] == {"candidate_steps": [0]}
    table = exported(profile, "trtllm")
    assert yaml.safe_load(table.text) == {"speculative_config": None}
    assert any("serving without it" in note for note in table.notes)


def test_always_drafts_at_levels_that_only_tie_too():
    profile = shipped("k26-int4-8xrtxpro6000-vllm-ctx0-v4")
    assert ranges(profile, {}) == [(1, 128, 3)]


def test_inverted_is_for_engines_whose_tables_can_say_it():
    profile = shipped(INVERTED)
    table = json.loads(exported(profile, "vllm").text)["num_speculative_tokens_per_batch_size"]
    assert [part[2] for part in table] == [0, 2]
    with pytest.raises(ExportError, match="grow"):
        exported(profile, "trtllm")


def test_steps_that_the_profile_does_not_say_must_be_given():
    curves = {"spec": {1: 200.0, 8: 300.0}, "plain": {1: 100.0, 8: 600.0}}
    profile = analyse(cells(curves), rules=Rules(draws=50))
    with pytest.raises(ExportError, match="--steps spec=N"):
        exported(profile, "vllm")
    assert ranges(profile, {"spec": 5})[0].steps == 5


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ({"foo": 3}, "no arm foo; it has: spec"),
        ({"spec": 0}, "--steps spec=0: it was measured while it drafted: give 1 or more"),
        ({"spec": -1}, "--steps spec=-1: it was measured while it drafted: give 1 or more"),
        ({"plain": 3}, "--steps plain=3: the plain arm drafts nothing"),
    ],
)
def test_steps_of_what_the_profile_has_not_or_of_none_are_refused(steps, why):
    """The one was left out without a word; the other made a table that speculates nowhere."""
    with pytest.raises(ExportError, match=f"^{why}$"):
        exported(shipped(CROSSES), "vllm", steps)
    written = ",".join(f"{arm}={many}" for arm, many in steps.items())
    done = CliRunner().invoke(main, ["export", CROSSES, "--to", "vllm", "--steps", written])
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == f"Error: {why}"
    assert done.stdout == ""


def test_inconclusive_gives_no_table():
    curves = {"spec": {1: 100.0}, "plain": {1: 100.0}}
    profile = analyse(cells(curves, sd=0.2), rules=Rules(draws=50))
    with pytest.raises(InconclusiveError):
        exported(profile, "vllm")


def of_two_lengths():
    short = {"spec": {1: 150.0, 64: 600.0}, "plain": {1: 100.0, 64: 900.0}}
    long = {"spec": {1: 190.0, 64: 880.0}, "plain": {1: 100.0, 64: 900.0}}
    found = [*cells(short, sd=0.003, context=100), *cells(long, sd=0.003, context=8000, seed=2)]
    fingerprint = Fingerprint(engines={"spec": Engine(steps=3)})
    return analyse(found, fingerprint=fingerprint, rules=Rules(draws=100))


def last_of(table):
    return json.loads(table.text)["num_speculative_tokens_per_batch_size"][0][1]


def test_of_several_lengths_one_is_chosen_and_the_comment_says_which():
    profile = of_two_lengths()
    cautious, long, short = (exported(profile, "vllm", context=c) for c in (None, 8000, 100))
    assert last_of(cautious) == last_of(short) < 15 < last_of(long)
    assert cautious.notes[1] == (
        "taken at 100 prompt tokens and 512 output tokens, the most cautious of 2 curves; "
        "--context takes another: 8000"
    )
    assert long.notes[1].startswith("taken at 8000 prompt tokens and 512 output tokens; --context")
    comment = json.loads(exported(profile, "sglang", context=8000).text)["_comment"]
    assert long.notes[1] in comment
    assert f"# {short.notes[1]}" in exported(profile, "trtllm", context=100).text
    with pytest.raises(ExportError, match=r"no context 5; it has 100 prompt tokens, 8000 prompt"):
        exported(profile, "vllm", context=5)
    assert cautious.notes[1] in cautious.lost
    alone = exported(several(), "vllm")
    assert alone.notes[1] == "taken at prompts as they are and 512 output tokens"
    assert alone.lost == ()


def test_what_was_not_measured_is_told():
    notes = exported(several(), "vllm").notes
    assert any("nothing was measured below 2" in note for note in notes)


TREE: dict[str, Scalar] = {"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 16}


def of_one(engine=None, *, sd=0.003, at_64=600.0):
    curves = {"spec": {1: 150.0, 64: at_64}, "plain": {1: 100.0, 64: 900.0}}
    engine = Engine(steps=3) if engine is None else engine
    fingerprint = Fingerprint(engines={"spec": engine})
    return analyse(cells(curves, sd=sd), fingerprint=fingerprint, rules=Rules(draws=100))


def lost(settings, to="sglang", **engine):
    return exported(of_one(Engine(**{"steps": 3, "settings": settings, **engine})), to).lost


@pytest.mark.parametrize("to", TARGETS)
def test_a_tree_is_no_chain_and_every_table_says_so(to):
    (line,) = lost(TREE, to)
    assert (
        "topk 4 and 16 draft tokens verified a step; all that this can say is a chain of 3" in line
    )
    assert ("ignores the table" in line) == (to == "sglang")
    table = exported(of_one(Engine(steps=3, settings=TREE)), to)
    assert line in table.notes
    if to == "sglang":
        assert line in json.loads(table.text)["_comment"]
    if to == "trtllm":
        assert f"# {line}\n" in table.text
    short = {"topk": 4, "draft_tokens": 16}
    assert lost(short, to) == (line,), "as the profiles that come with specgate call them"


@pytest.mark.parametrize("to", TARGETS)
def test_a_chain_as_measured_loses_nothing(to):
    chain = {"speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
    assert lost({**chain, "speculative_algorithm": "EAGLE3"}, to) == ()
    assert exported(of_one(), to).lost == ()


def test_more_draft_tokens_than_a_chain_has_are_told():
    (line,) = lost({"speculative_eagle_topk": 1, "speculative_num_draft_tokens": 8}, "vllm")
    assert "measured with 8 draft tokens verified a step" in line


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"speculative_algorithm": "NGRAM"}, "not with NGRAM"),
        ({"enable_dp_attention": True}, "under DP attention"),
        ({"enable_lora": True}, "with LoRA"),
        ({"speculative_adaptive": True}, "chose the steps itself"),
        ({"max_running_requests": 48}, "ran at most 48 at once"),
    ],
)
def test_what_the_engine_would_do_otherwise_is_told(settings, said):
    (line,) = lost(settings)
    assert said in line
    assert lost(dict.fromkeys(settings)) == ()


def test_another_engine_and_other_steps_than_recorded_are_told():
    assert "measured on SGLang: with vLLM" in lost({}, "vllm", name="sglang")[0]
    assert "measured on llama.cpp" in lost({}, "trtllm", name="llamacpp")[0]
    assert lost({}, "sglang", name="sglang") == lost({}, "vllm", name="unknown") == ()
    given = exported(of_one(), "vllm", {"spec": 5}).lost
    assert given == ("arm spec was measured with 3 steps, and --steps says 5",)


def test_levels_that_are_not_decided_are_told():
    curves = {"spec": {1: 180.0, 8: 403.0, 64: 600.0}, "plain": {1: 100.0, 8: 400.0, 64: 900.0}}
    fingerprint = Fingerprint(engines={"spec": Engine(steps=3)})
    found = cells(curves, sd=0.02)
    profile = analyse(found, fingerprint=fingerprint, rules=Rules(draws=100, margin=0.005))
    assert [level.standing for level in profile.levels][1] == "open"
    (line,) = exported(profile, "vllm").lost
    assert line == "not decided at 8: this drafts nothing there"


def test_ranges_that_come_and_go_are_exact_or_refused():
    curves = {
        "spec": {1: 150.0, 4: 300.0, 16: 1500.0, 64: 1000.0},
        "plain": {1: 100.0, 4: 390.0, 16: 1200.0, 64: 2000.0},
    }
    fingerprint = Fingerprint(engines={"spec": Engine(steps=3)})
    found = cells(curves, sd=0.003)
    profile = analyse(found, fingerprint=fingerprint, rules=Rules(draws=100))
    assert profile.verdict.shape == "multi"
    parts = ranges(profile, {})
    assert [part.steps for part in parts] == [3, 0, 3, 0]
    vllm = json.loads(exported(profile, "vllm").text)["num_speculative_tokens_per_batch_size"]
    assert vllm == [list(part) for part in parts]
    sglang = json.loads(exported(profile, "sglang").text)
    del sglang["_comment"]
    assert sglang == {str(part.first): {"candidate_steps": [part.steps]} for part in parts}
    assert exported(profile, "sglang").lost == ()
    with pytest.raises(ExportError, match="grow"):
        exported(profile, "trtllm")


def test_what_pays_too_little_to_draft_is_told():
    lost = exported(shipped("dsr1-gb300-mtp-isl2k-osl64"), "vllm").lost
    assert lost == ("pays by no more than the margin at 192, 256: this drafts nothing",)
