"""What SGLang's /server_info says of speculation, running cap, graphs and memory.

Its settings are the resolved ones: an adaptive mode that the engine gave up at the start stands
there as false, and a running cap that nobody set as 48. `launch_command` (0.5.23) says what was
asked for. Names and rules: sglang 0.5.23; older ones keep the same names where they have them.
"""

import json
import shlex
from typing import Any

from specgate.doctor.documents import first_of, mapped, number, real, text
from specgate.doctor.facts import Accepted, Memory, Read, Speculation
from specgate.engines.counters import counted

SERVER_INFO = "/server_info"
DEFAULT_CAP = 48
"""What --max-running-requests is set to with speculation, where it was left out (sglang#34290)."""

ADAPTIVE_FLAG = "--speculative-adaptive"
CAP_FLAG = "--max-running-requests"
_EAGLE = ("EAGLE", "EAGLE3", "NEXTN")
_STEPWISE = (*_EAGLE, "STANDALONE", "FROZEN_KV_MTP")
"""Algorithms whose `speculative_num_steps` is what it says; others verify a block of tokens."""

_BARS = (
    *("enable_dp_attention", "enable_multi_layer_eagle", "enable_two_batch_overlap"),
    *("enable_pdmux", "enable_lora"),
)
"""Settings with which the engine does not adapt its steps (sglang 0.5.23)."""


def speculation(info: dict[str, Any], launch: frozenset[str] | None) -> Speculation:
    """`launch`: the flags of the launch command."""
    if "speculative_algorithm" not in info:
        return Speculation()
    algorithm = text(info["speculative_algorithm"])
    where = f"{SERVER_INFO} speculative_algorithm"
    on = Read(algorithm is not None, where, algorithm or "null")
    if algorithm is None:
        return Speculation(on=on)
    adaptive = info.get("speculative_adaptive")
    told = isinstance(adaptive, bool)
    return Speculation(
        on=on,
        algorithm=algorithm,
        # An adaptive engine changes its steps, so the number of the moment bounds nothing.
        steps=None if adaptive is True else _steps(info, algorithm),
        topk=number(info.get("speculative_eagle_topk")),
        adaptive=Read(adaptive, f"{SERVER_INFO} speculative_adaptive") if told else None,
        adaptive_asked=adaptive is True or (None if launch is None else ADAPTIVE_FLAG in launch),
        adaptive_bars=_bars(info, algorithm),
    )


def _steps(info: dict[str, Any], algorithm: str) -> Read | None:
    name = "speculative_num_steps" if algorithm in _STEPWISE else "speculative_num_draft_tokens"
    steps = number(info.get(name))
    if steps is None:
        return None
    if algorithm in _STEPWISE:
        return Read(steps, f"{SERVER_INFO} {name}")
    # Of the tokens that are verified one is the bonus token's place.
    return Read(steps - 1, f"{SERVER_INFO} {name} less one")


def _bars(info: dict[str, Any], algorithm: str) -> tuple[str, ...]:
    """What makes the engine fall back to static speculation, or not start."""
    found = []
    if algorithm not in _EAGLE:
        found.append(f"speculative_algorithm={algorithm} (EAGLE and EAGLE3 only)")
    topk = number(info.get("speculative_eagle_topk"))
    if algorithm in _EAGLE and topk is not None and topk != 1:
        found.append(f"speculative_eagle_topk={topk} (1 only)")
    if (number(info.get("attn_dp_size")) or 1) > 1:
        found.append(f"attn_dp_size={info['attn_dp_size']} (no DP attention)")
    found += [f"{name}=true" for name in _BARS if info.get(name) is True]
    if (number(info.get("pp_size")) or 1) > 1:
        found.append(f"pp_size={info['pp_size']} (no pipeline parallelism)")
    return tuple(found)


def cap(info: dict[str, Any]) -> Read | None:
    """The most requests that run at once, over all data-parallel ranks."""
    ranks = number(info.get("dp_size")) or 1
    name = "effective_max_running_requests_per_dp"
    effective = number(first_of(info.get("internal_states")).get(name))
    if effective is not None:
        times = f", times dp_size={ranks}" if ranks > 1 else ""
        return Read(effective * ranks, f"{SERVER_INFO} {name}{times}")
    told = number(info.get("max_running_requests"))
    return None if told is None else Read(told, f"{SERVER_INFO} max_running_requests")


def graphs(info: dict[str, Any]) -> tuple[Read | None, Read | None]:
    """The largest decode batch with a CUDA graph; and what says that there are none at all."""
    if info.get("disable_cuda_graph") is True:
        return None, Read("true", f"{SERVER_INFO} disable_cuda_graph")
    decode = mapped(mapped(info.get("cuda_graph_config")).get("decode"))
    if decode.get("backend") == "disabled":
        return None, Read("disabled", f"{SERVER_INFO} cuda_graph_config.decode.backend")
    captured = first_of(info.get("internal_states")).get("decode_cuda_graph_bs")
    sizes = [number(size) or 0 for size in captured] if isinstance(captured, list) else []
    if sizes:
        return Read(max(sizes), f"{SERVER_INFO} decode_cuda_graph_bs, its largest"), None
    for holder, name, inside in (
        (decode, "max_bs", "cuda_graph_config.decode."),
        (info, "cuda_graph_max_bs_decode", ""),
        (info, "cuda_graph_max_bs", ""),
    ):
        limit = number(holder.get(name))
        if limit is not None:
            return Read(limit, f"{SERVER_INFO} {inside}{name}"), None
    return None, None


def accepted(info: dict[str, Any], loads: Any, page: str) -> Accepted | None:
    """The mean since the start. What is below 1 stands for: nothing verified yet."""
    over = counted(page, "sglang:spec_verify_calls_total")
    average = first_of(info.get("internal_states")).get("avg_spec_accept_length")
    load = mapped(first_of(mapped(loads).get("loads")).get("speculative")).get("accept_length")
    for value, where in (
        (average, f"{SERVER_INFO} avg_spec_accept_length"),
        (load, "/v1/loads speculative.accept_length"),
    ):
        length = real(value)
        if length is not None and length >= 1:
            return Accepted(length=length, over=None if over is None else round(over), where=where)
    return None


def memory(info: dict[str, Any]) -> Memory:
    """Of the first rank's GPU."""
    fraction, tokens = (
        real(info.get("mem_fraction_static")),
        number(info.get("max_total_num_tokens")),
    )
    usage = mapped(first_of(info.get("internal_states")).get("memory_usage"))
    weight, kv, free = (real(usage.get(n)) for n in ("weight", "kvcache", "startup_available"))
    taken = sum(real(each) or 0.0 for each in mapped(usage.get("graph")).values())
    first, step = number(info.get("base_gpu_id")), number(info.get("gpu_id_step")) or 1
    ranks = (number(info.get("tp_size")) or 1) * (number(info.get("pp_size")) or 1)
    return Memory(
        fraction=None if fraction is None else Read(fraction, f"{SERVER_INFO} mem_fraction_static"),
        gpus=None if first is None else frozenset(first + i * step for i in range(ranks)),
        weight_gb=weight,
        left_gb=None
        if weight is None or kv is None or free is None
        else free - weight - kv - taken,
        kv_tokens=None if tokens is None else Read(tokens, f"{SERVER_INFO} max_total_num_tokens"),
        saver=_switch(info, "enable_memory_saver"),
        backup=_switch(info, "enable_weights_cpu_backup"),
        draft=_switch(info, "enable_draft_weights_cpu_backup"),
    )


def _switch(info: dict[str, Any], name: str) -> Read | None:
    value = info.get(name)
    return Read(value, f"{SERVER_INFO} {name}") if isinstance(value, bool) else None


def process(info: dict[str, Any]) -> tuple[Any, ...] | None:
    """What no two engines share: how long each part of its start took, and its random seed."""
    took = info.get("startup_time")
    if not isinstance(took, dict) or not any(isinstance(each, float) for each in took.values()):
        return None
    return json.dumps(took, sort_keys=True, default=str), info.get("random_seed"), info.get("port")


def flags(command: Any) -> frozenset[str] | None:
    """The names of the flags in a launch command; its values may be secret, and stay out."""
    if isinstance(command, list):
        words = [str(word) for word in command]
    elif isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
    else:
        return None
    return frozenset(word.partition("=")[0] for word in words if word.startswith("--"))
