"""What each engine's own pages say of its speculation and its load."""

import json
from typing import Any

import pytest

from specgate.core.accept import Counted, between
from specgate.engines.accepting import accept_length, accepted
from specgate.engines.base import Engine
from specgate.engines.counters import counted
from specgate.engines.loads import RUNNING, WAITING, InHand, in_hand, of_any, told

SGLANG = """\
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m"} 1010.0
sglang:num_requests_total{model_name="m"} 10.0
sglang:spec_verify_calls_total{model_name="m"} 400.0
sglang:spec_accept_length{model_name="m",tp_rank="0"} 2.7
sglang:num_running_reqs{model_name="m",priority=""} 4.0
sglang:num_running_reqs{model_name="m",priority="1"} 3.0
sglang:num_queue_reqs{model_name="m"} 2.0
"""
VLLM = """\
vllm:spec_decode_num_drafts_total{engine="0"} 300.0
vllm:spec_decode_num_drafts_total{engine="1"} 100.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 450.0
vllm:spec_decode_num_accepted_tokens_total{engine="1"} 150.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 250.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 1200.0
vllm:request_success_total{engine="0",finished_reason="stop"} 6.0
vllm:request_success_total{engine="0",finished_reason="length"} 3.0
vllm:generation_tokens_total{engine="0"} 1009.0
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_running{engine="1"} 2.0
vllm:num_requests_waiting{engine="0"} 1.0
"""
LLAMA = """\
llamacpp:tokens_predicted_total 600
llamacpp:spec_decode_num_draft_tokens_total 597
llamacpp:spec_decode_num_accepted_tokens_total 558
llamacpp:spec_decode_num_drafts_total 41
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
"""
PAGES = {Engine.SGLANG: SGLANG, Engine.VLLM: VLLM, Engine.LLAMACPP: LLAMA}


def without(page: str, name: str) -> str:
    return "".join(line for line in page.splitlines(keepends=True) if name not in line)


def test_sglang_counts_verifications_and_the_first_token_is_none_of_theirs():
    assert accepted(Engine.SGLANG, SGLANG) == Counted(1000, 400, 10)


def test_an_older_sglang_has_a_gauge_and_tokens_to_guard_it():
    page = without(SGLANG, "spec_verify_calls")
    assert accepted(Engine.SGLANG, page) == Counted(1010, None, 10, 2.7)
    assert accepted(Engine.SGLANG, without(page, "spec_accept_length")) is None


def test_vllm_counts_one_and_accepted_over_drafts():
    found = accepted(Engine.VLLM, VLLM)
    assert found == Counted(1000, 400, 9)
    sample = between(Counted(0, 0, 0), found)
    assert sample is not None
    assert sample.length == 1 + 600 / 400


def test_llama_counts_every_token_that_was_no_accepted_draft_as_a_step():
    assert accepted(Engine.LLAMACPP, LLAMA) == Counted(600, 42)


@pytest.mark.parametrize("engine", PAGES)
@pytest.mark.parametrize("page", ["", "\n\n", "# nothing", "<html>"])
def test_a_page_that_says_nothing(engine, page):
    assert accepted(engine, page) is None
    assert in_hand(engine, page) is None


@pytest.mark.parametrize("engine", PAGES)
def test_numbers_that_are_none(engine):
    spoilt = "".join(
        f"{line.rsplit(' ', 1)[0]} NaN\n" for line in PAGES[engine].splitlines() if "#" not in line
    )
    assert accepted(engine, spoilt) is None
    assert in_hand(engine, spoilt) is None


def test_the_bench_reads_the_same():
    for engine, page in PAGES.items():
        zero = "".join(
            f"{line.rsplit(' ', 1)[0]} 0\n" for line in page.splitlines() if "#" not in line
        )
        found = accepted(engine, page)
        assert found is not None
        assert found.steps is not None
        assert accept_length(zero, page) == found.tokens / found.steps
        assert accept_length(page, page) is None
        assert accept_length(page, zero) is None


def test_what_is_in_hand():
    assert in_hand(Engine.SGLANG, SGLANG) == of_any(SGLANG) == InHand(4, 2)
    assert in_hand(Engine.VLLM, VLLM) == of_any(VLLM) == InHand(5, 1)
    assert in_hand(Engine.LLAMACPP, LLAMA) == of_any(LLAMA) == InHand(2, 1)
    assert in_hand(Engine.UNKNOWN, SGLANG) is None


def test_v1_loads_is_summed_over_ranks():
    ranks = [{"num_running_reqs": 3, "num_waiting_reqs": 1}, {"num_running_reqs": 2}]
    ranks[1]["num_waiting_reqs"] = 4
    found = told(json.dumps({"loads": ranks}))
    assert found is not None
    assert found.total == 10


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"loads": []}',
        '{"loads": 7}',
        '{"loads": [{}]}',
        '{"loads": [{"num_running_reqs": -1, "num_waiting_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": "4", "num_waiting_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": true, "num_waiting_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": NaN, "num_waiting_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": 1e999, "num_waiting_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": null, "num_waiting_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": 1.7e308, "num_waiting_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": %s, "num_waiting_reqs": 0}]}' % ("9" * 400),
        '{"loads": [{"num_running_reqs": 0, "num_waiting_reqs": %s}]}' % ("9" * 400),
        "[" * 100_000,
    ],
)
def test_anything_else_at_v1_loads_is_none(body):
    assert told(body) is None


@pytest.mark.parametrize("absurd", ["1.7e308", "1e9", "9" * 400])
@pytest.mark.parametrize("engine", PAGES)
@pytest.mark.parametrize("names", [RUNNING, WAITING])
def test_absurd_figures_on_a_page_are_none(names, engine, absurd):
    """The sum of the first two is no finite number."""
    spoilt = "".join(f'{names[engine]}{{rank="{rank}"}} {absurd}\n' for rank in (1, 2))
    assert in_hand(engine, spoilt + PAGES[engine]) is None


def test_a_counter_whose_sum_is_no_number_is_none():
    page = 'a_total{rank="1"} 1.7e308\na_total{rank="2"} 1.7e308\n'
    assert counted(page, "a_total") is None


class Page(str):
    """A page that counts how often it is searched, and cannot be cut into lines."""

    searches: int

    def find(self, *of: Any) -> int:
        self.searches += 1
        return super().find(*of)

    def splitlines(self, keepends: bool = False) -> list[str]:
        raise AssertionError("all of it was cut into lines")

    split = splitlines  # type: ignore[assignment]


@pytest.mark.parametrize("other", ["\n", 'sglang:other{priority="3"} 1\n', "sglang:num_running"])
def test_the_lines_of_others_cost_a_page_nothing(other):
    page = Page(other * 10_000 + "\n" + SGLANG + other * 10_000)
    page.searches = 0
    assert in_hand(Engine.SGLANG, page) == in_hand(Engine.SGLANG, SGLANG)
    samples = SGLANG.count("\nsglang:num_running_reqs{") + SGLANG.count("\nsglang:num_queue_reqs{")
    assert page.searches <= 2 * samples + 2 * 2
