"""The page of several engines, as sglang-router 0.3.2 writes it."""

import pytest

from specgate.core.accept import Counted
from specgate.engines.loads import InHand
from specgate.engines.replicas import Told, accept_length_of_all, is_read, told_of_all
from tests.contract.test_engine_counts import LLAMA, SGLANG, VLLM

ROUTER = """\
# HELP sglang_generation_tokens_total Output tokens.
# TYPE sglang_generation_tokens_total counter
sglang_generation_tokens_total{engine_type="unified",model_name="sim",worker_addr="http://a:1"} 150
sglang_generation_tokens_total{engine_type="unified",model_name="sim",worker_addr="http://b:1"} 390

# HELP sglang_num_requests_total Requests received.
# TYPE sglang_num_requests_total counter
sglang_num_requests_total{engine_type="unified",model_name="sim",worker_addr="http://a:1"} 3
sglang_num_requests_total{engine_type="unified",model_name="sim",worker_addr="http://b:1"} 5
sglang_spec_verify_calls_total{engine_type="unified",model_name="sim",worker_addr="http://a:1"} 65
sglang_spec_verify_calls_total{engine_type="unified",model_name="sim",worker_addr="http://b:1"} 35
sglang_num_running_reqs{moe_ep_rank="0",tp_rank="0",worker_addr="http://a:1"} 2
sglang_num_running_reqs{moe_ep_rank="0",tp_rank="0",worker_addr="http://b:1"} 7
sglang_num_queue_reqs{moe_ep_rank="0",tp_rank="0",worker_addr="http://b:1"} 1
sglang_time_to_first_token_seconds_bucket{worker_addr="http://a:1",le="0.1"} 3
"""


def merged(**pages: str) -> str:
    """What the router makes of its workers' pages."""
    lines = []
    for worker, page in pages.items():
        for line in page.splitlines():
            name, brace, rest = line.partition("{")
            if line.startswith("#"):
                continue
            if not brace:
                name, _, value = line.partition(" ")
                rest = f"}} {value}"
            labels = f'worker_addr="{worker}"' + ("," if rest[0] != "}" else "")
            lines.append(f"{name.replace(':', '_')}{{{labels}{rest}")
    return "\n".join(lines) + "\n"


def test_each_worker_counts_for_itself():
    told = told_of_all(ROUTER)
    assert told == Told(
        tokens={"http://a:1": 150, "http://b:1": 390},
        steps={"http://a:1": Counted(147, 65, 3), "http://b:1": Counted(385, 35, 5)},
        in_hand=InHand(9, 1),
    )


def test_workers_may_be_of_any_engine():
    told = told_of_all(merged(s=SGLANG, v=VLLM, l=LLAMA))
    assert told is not None
    assert told.steps == {
        "s": Counted(1000, 400, 10),
        "v": Counted(1000, 400, 9),
        "l": Counted(600, 42),
    }
    assert told.in_hand == InHand(4 + 5 + 2, 2 + 1 + 1)


def test_the_bench_reads_tokens_over_steps_of_all():
    after = ROUTER.replace("} 390", "} 690").replace("} 35", "} 135").replace("} 150", "} 160")
    after = after.replace("} 65", "} 70")
    assert accept_length_of_all(ROUTER, after) == pytest.approx(310 / 105)
    assert accept_length_of_all(ROUTER, ROUTER) is None
    assert accept_length_of_all("", ROUTER) is None


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html>not here</html>",
        SGLANG,
        "http_requests_total 5\n",
        "sglang_generation_tokens_total 4\n",
        'other_total{worker_addr="a"} 4\n',
    ],
)
def test_any_other_page_tells_of_no_worker(page):
    assert told_of_all(page) is None


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf", "", "x"])
def test_a_worker_whose_number_is_none_is_left_out(value):
    page = ROUTER.replace("} 390", f"}} {value}").replace('b:1"} 7', f'b:1"}} {value}')
    told = told_of_all(page)
    assert told is not None
    assert set(told.tokens) == set(told.steps) == {"http://a:1"}
    assert told.in_hand == InHand(2, 0)


def test_only_the_lines_that_are_read_are_kept():
    kept = "".join(
        line for line in ROUTER.splitlines(keepends=True) if is_read(line.encode().rstrip())
    )
    assert len(kept.splitlines()) == 9
    assert told_of_all(kept) == told_of_all(ROUTER)
