"""Which metrics there are: of a gate and simulated SGLang engines by asking, of other engines by
their names."""

import re
from typing import Any

import httpx2

from specgate.core.lanes import Lane
from specgate.sim.profiles import load_profile
from specgate.sim.server import SimLane, running
from tests.support.live import running_gate

VLLM = {
    "vllm:num_requests_running": "gauge",
    "vllm:num_requests_waiting": "gauge",
    "vllm:kv_cache_usage_perc": "gauge",
    "vllm:generation_tokens_total": "counter",
    "vllm:num_preemptions_total": "counter",
    "vllm:prefix_cache_hits_total": "counter",
    "vllm:prefix_cache_queries_total": "counter",
    "vllm:spec_decode_num_drafts_total": "counter",
    "vllm:spec_decode_num_accepted_tokens_total": "counter",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total": "counter",
    "vllm:time_to_first_token_seconds_bucket": "histogram",
}
"""Of vllm 0.33.0, read from its source."""

LLAMACPP = {
    "llamacpp:requests_processing": "gauge",
    "llamacpp:requests_deferred": "gauge",
    "llamacpp:n_busy_slots_per_decode": "gauge",
    "llamacpp:prompt_tokens_total": "counter",
    "llamacpp:tokens_predicted_total": "counter",
    "llamacpp:spec_decode_num_drafts_total": "counter",
    "llamacpp:spec_decode_num_accepted_tokens_total": "counter",
}
"""Of llama.cpp's server; `test_llama` holds them against a real one."""

NAMES = VLLM.keys() | LLAMACPP.keys()


async def exposed() -> set[str]:
    """The names of a gate's and of simulated engines' series and families."""
    lanes: list[Any] = [SimLane(lane=lane) for lane in Lane]
    async with (
        running(lanes, profile=load_profile("reference")) as sims,
        running_gate(sims[Lane.SPEC].url, sims[Lane.PLAIN].url, threshold=3) as gate,
        httpx2.AsyncClient(trust_env=False) as http,
    ):
        pages = [(await http.get(f"{sims[lane].url}/metrics")).text for lane in Lane]
        pages.append(await gate.metrics())
    return names("\n".join(pages))


def names(page: str) -> set[str]:
    """Of series, and of families that have none now."""
    series = re.findall(r"^([a-z][\w:]*)[{ ]", page, re.MULTILINE)
    return {*series, *re.findall(r"^# TYPE ([a-z][\w:]*) ", page, re.MULTILINE)}
