"""What a bench leaves behind, and that nothing of it is lost or secret."""

import json
import os

import pytest

from specgate.bench.asking import Manner
from specgate.bench.environment import capped, differences, hidden, redacted, without_secrets
from specgate.bench.faults import Misused
from specgate.bench.plan import Block, Group
from specgate.bench.record import (
    CELLS,
    REQUESTS,
    Record,
    lines_of,
    read_cells,
    settle,
    write_environment,
)
from specgate.bench.samples import Sample
from specgate.engines.accepting import accept_length
from tests.bench.test_plan import cell

BLOCK = Block(group=Group(context=None, max_tokens=64), concurrency=2, repeat=0)


def settled(folder, **fields) -> str:
    given = {"prompts": "builtin", "digest": "d", "seed": 0, "manner": Manner(), **fields}
    return settle(folder, **given)


def test_cells_come_back_as_they_were(tmp_path):
    record = Record(tmp_path, 0)
    cells = [cell(arm, BLOCK, 100.0) for arm in ("spec", "plain")]
    for each in cells:
        record.cell(each, client_busy=0.1)
    record.close()
    assert read_cells(tmp_path) == cells
    assert all(line["seen"] == {"client_busy": 0.1} for line in lines_of(tmp_path / CELLS))


def test_a_cell_that_was_measured_again_counts_by_its_last_line(tmp_path):
    for run, tok_s in enumerate((100.0, 120.0)):
        record = Record(tmp_path, run)
        record.cell(cell("spec", BLOCK, tok_s))
        record.close()
    assert [each.tok_s for each in read_cells(tmp_path)] == [120.0]
    assert [line["run"] for line in lines_of(tmp_path / CELLS)] == [0, 1]


def test_a_line_that_was_cut_off_harms_no_other(tmp_path):
    record = Record(tmp_path, 0)
    record.cell(cell("spec", BLOCK, 100.0))
    record.close()
    with (tmp_path / CELLS).open("a") as file:
        file.write('{"run": 0, "arm": "pl')
    assert len(read_cells(tmp_path)) == 1
    record = Record(tmp_path, 1)
    record.cell(cell("plain", BLOCK, 90.0))
    record.close()
    assert [each.arm for each in read_cells(tmp_path)] == ["spec", "plain"]


def test_a_request_is_on_disk_at_once(tmp_path):
    record = Record(tmp_path, 3)
    sample = Sample(
        index=5,
        prompt_class="code",
        sent_at=101.0,
        first_output_at=101.25,
        ended_at=102.25,
        tokens=11,
        error=None,
    )
    record.request("spec", BLOCK, 1, sample, began=100.0)
    (line,) = lines_of(tmp_path / REQUESTS)
    record.close()
    assert line["run"] == 3
    assert line["arm"] == "spec"
    assert line["class"] == "code"
    assert line["sent_s"] == 1.0
    assert line["ttft_s"] == 0.25
    assert line["tpot_s"] == 0.1
    assert line["e2e_s"] == 1.25
    assert line["order"] == 1


def test_a_folder_keeps_its_salt_and_takes_nothing_that_cannot_be_compared(tmp_path):
    folder = tmp_path / "new" / "bench"
    salt = settled(folder)
    assert settled(folder) == salt
    assert settled(tmp_path / "other") != salt
    for fields in ({"seed": 1}, {"digest": "e"}, {"manner": Manner(temperature=1.0)}):
        with pytest.raises(Misused, match="another --out"):
            settled(folder, **fields)
    (folder / "plan.json").write_text("[]")
    with pytest.raises(Misused, match="not what a bench wrote"):
        settled(folder)


def test_each_run_adds_its_environment(tmp_path):
    assert [write_environment(tmp_path, {"arms": {}}) for _ in range(3)] == [0, 1, 2]
    runs = json.loads((tmp_path / "environment.json").read_text())["runs"]
    assert [run["run"] for run in runs] == [0, 1, 2]
    assert os.listdir(tmp_path) == ["environment.json"]


def test_no_key_is_kept():
    argv = ["bench", "--api-key", "sk-1", "--api-key=sk-2", "--arm", "a=http://u:pw@h:1/v?k=sk-3"]
    words = [without_secrets(word) for word in hidden(argv)]
    assert words == ["bench", "--api-key", "***", "--api-key=***", "--arm", "a=http://h:1/v"]
    info = {
        "api_key": "sk-4",
        "nested": [{"ssl_keyfile_password": "pw", "hf_token": "t"}],
        "max_total_num_tokens": 5,
        "tokenizer_path": "m",
    }
    kept = redacted(info)
    assert kept["api_key"] == "***"
    assert kept["nested"] == [{"ssl_keyfile_password": "***", "hf_token": "***"}]
    assert kept["max_total_num_tokens"] == 5
    assert kept["tokenizer_path"] == "m"
    line = "serve --api-key sk-5 --admin-api-key=sk-6 --max-tokens 5 --hf-token 't 7' --model m"
    kept = redacted({"launch_command": line, "argv": ["--api-key", "sk-8", "--keys", "5"]})
    masked = "serve --api-key *** --admin-api-key=*** --max-tokens 5 --hf-token *** --model m"
    assert kept["launch_command"] == masked
    assert kept["argv"] == ["--api-key", "***", "--keys", "***"]


def test_accept_length_is_tokens_a_step_between_two_readings():
    sglang = "sglang:generation_tokens_total {}\nsglang:num_requests_total {}\n"
    sglang += "sglang:spec_verify_calls_total {}\n"
    assert accept_length(sglang.format(0, 0, 0), sglang.format(2210, 10, 1000)) == 2.2
    assert accept_length(sglang.format(0, 0, 0), sglang.format(2210, 10, 0)) is None
    llama = "llamacpp:tokens_predicted_total {}\n"
    llama += "llamacpp:spec_decode_num_draft_tokens_total {}\n"
    llama += "llamacpp:spec_decode_num_accepted_tokens_total {}\n"
    assert accept_length(llama.format(100, 90, 40), llama.format(300, 290, 140)) == 2.0
    assert accept_length(llama.format(100, 90, 40), llama.format(300, 290, 40)) == 1.0
    assert accept_length(llama.format(100, 0, 0), llama.format(300, 0, 0)) is None
    assert accept_length("llamacpp:tokens_predicted_total 1\n", llama.format(3, 1, 1)) is None
    assert accept_length("", "") is None


def test_what_makes_a_comparison_doubtful_is_told():
    def arm(**flags):
        return {"models": [flags.pop("model", "m")], "flags": flags}

    assert differences({"spec": arm(context_length=8), "plain": arm(context_length=8)}) == []
    found = differences({"spec": arm(context_length=8), "plain": arm(context_length=9, model="n")})
    assert found == [
        "the arms name different models: spec m, plain n",
        "the arms differ in context_length: spec 8, plain 9",
    ]
    assert capped({"spec": arm(max_running_requests=48)}, 48) == []
    (text,) = capped({"spec": arm(max_running_requests=48)}, 70)
    assert "arm spec runs at most 48 requests at once" in text
    (text,) = capped({"plain": arm(cuda_graph_max_bs=32)}, 70)
    assert "graphs for batches up to 32" in text
