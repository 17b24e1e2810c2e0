"""From what an engine answered to facts: documents in, no I/O.

SGLang tells most, in /server_info. vLLM tells its speculation and its memory share in /metrics, and
its settings in /server_info only where VLLM_SERVER_DEV_MODE is set. llama.cpp: /v1/models, /props,
/slots and /metrics.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specgate.doctor import sglang
from specgate.doctor.documents import first_of, mapped, number, real, text
from specgate.doctor.facts import (
    Accepted,
    Facts,
    KeepAlive,
    Memory,
    OwnRequest,
    Read,
    Speculation,
    Timed,
)
from specgate.doctor.replicas import facts_behind, in_flight_behind
from specgate.engines.accepting import ACCEPTED, DRAFTED, DRAFTS, accepted
from specgate.engines.base import MODELS_PATH, Engine, engine_of
from specgate.engines.counters import OUTPUT_TOKENS, counted

SERVER_INFO, LOADS, VERSION = sglang.SERVER_INFO, "/v1/loads", "/version"
METRICS, PROPS, SLOTS = "/metrics", "/props", "/slots"

_SGLANG_SETTINGS = (
    *("dtype", "quantization", "kv_cache_dtype", "tp_size", "pp_size", "dp_size", "ep_size"),
    *("attention_backend", "disable_radix_cache", "chunked_prefill_size"),
)
_VLLM_SETTINGS = {
    "dtype": ("model_config", "dtype"),
    "quantization": ("model_config", "quantization"),
    "kv_cache_dtype": ("cache_config", "cache_dtype"),
    "tp_size": ("parallel_config", "tensor_parallel_size"),
    "pp_size": ("parallel_config", "pipeline_parallel_size"),
    "dp_size": ("parallel_config", "data_parallel_size"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one engine answered. `documents`: decoded JSON by path, of answers with status 200.
    `metrics`: the text of /metrics, or a balancer's page of all its replicas; `metrics_status`:
    asked as the gate does, without a key."""

    label: str
    url: str
    addresses: frozenset[tuple[str, int]]
    documents: Mapping[str, Any] = field(default_factory=dict)
    metrics: str = ""
    metrics_status: int | None = None
    in_flight: tuple[Read, ...] = ()
    ready: Timed | None = None
    health: Timed | None = None
    keep_alive: KeepAlive | None = None
    request: OwnRequest | None = None
    request_failed: str | None = None


def engine_in(documents: Mapping[str, Any]) -> Engine:
    """Which engine answered so; UNKNOWN where it cannot be told."""
    named = engine_of(documents.get(MODELS_PATH))
    if named is Engine.UNKNOWN and "internal_states" in mapped(documents.get(SERVER_INFO)):
        return Engine.SGLANG
    return named


def facts_of(asked: Asked) -> Facts:
    """Everything that the answers say."""
    engine = engine_in(asked.documents)
    card = first_of(mapped(asked.documents.get(MODELS_PATH)).get("data"))
    counter = OUTPUT_TOKENS.get(engine)
    own: dict[Engine, dict[str, Any]] = {
        Engine.SGLANG: _sglang(card, asked),
        Engine.VLLM: _vllm(card, asked),
        Engine.LLAMACPP: _llamacpp(card, asked),
        Engine.UNKNOWN: facts_behind(asked.documents, asked.metrics),
    }
    known = {"counters": counter is not None and counted(asked.metrics, counter) is not None}
    return Facts(
        label=asked.label,
        url=asked.url,
        addresses=asked.addresses,
        engine=engine,
        model=text(card.get("id")),
        request=asked.request,
        request_failed=asked.request_failed,
        in_flight=asked.in_flight,
        metrics=asked.metrics_status,
        ready=asked.ready,
        health=asked.health,
        keep_alive=asked.keep_alive,
        **(known | own[engine]),
    )


def in_flight(documents: Mapping[str, Any], page: str) -> Read | None:
    """What an engine has running and waiting, in its own words."""
    loads = mapped(documents.get(LOADS)).get("loads")
    counts = [
        number(mapped(each).get(name))
        for each in (loads if isinstance(loads, list) else [])
        for name in ("num_running_reqs", "num_waiting_reqs")
    ]
    if counts and None not in counts:
        return Read(sum(each or 0 for each in counts), f"{LOADS} running and waiting")
    for running, waiting in (
        ("vllm:num_requests_running", "vllm:num_requests_waiting"),
        ("llamacpp:requests_processing", "llamacpp:requests_deferred"),
        ("sglang:num_running_reqs", "sglang:num_queue_reqs"),
    ):
        value = counted(page, running)
        if value is not None:
            total = round(value + (counted(page, waiting) or 0))
            return Read(total, f"{METRICS} {running} and {waiting.partition(':')[2]}")
    return in_flight_behind(page)


def _sglang(card: dict[str, Any], asked: Asked) -> dict[str, Any]:
    info = mapped(asked.documents.get(SERVER_INFO))
    settings = {
        name: Read(info[name], f"{SERVER_INFO} {name}") for name in _SGLANG_SETTINGS if name in info
    }
    settings |= _context(card, info.get("context_length"))
    launch = sglang.flags(info.get("launch_command"))
    speculation = sglang.speculation(info, launch)
    limit, off = sglang.graphs(info)
    loads = asked.documents.get(LOADS)
    return {
        "version": text(info.get("version")),
        "device": text(info.get("device")),
        "settings": settings,
        "launch": launch,
        "speculation": speculation,
        "cap": sglang.cap(info),
        "graph_limit": limit,
        "graphs_off": off,
        "accepted": sglang.accepted(info, loads, asked.metrics) if speculation.algorithm else None,
        "memory": sglang.memory(info),
        "process": sglang.process(info),
    }


def _vllm(card: dict[str, Any], asked: Asked) -> dict[str, Any]:
    config = mapped(mapped(asked.documents.get(SERVER_INFO)).get("vllm_config"))
    labels = _labels(asked.metrics, "vllm:cache_config_info")
    settings = {
        name: Read(mapped(config[part])[member], f"{SERVER_INFO} {part}.{member}")
        for name, (part, member) in _VLLM_SETTINGS.items()
        if member in mapped(config.get(part))
    }
    if "cache_dtype" in labels:
        settings.setdefault("kv_cache_dtype", Read(labels["cache_dtype"], f"{METRICS} cache_dtype"))
    settings |= _context(card, None)
    ranks = set(re.findall(r'^vllm:num_requests_running\{.*?engine="(\d+)"', asked.metrics, re.M))
    if ranks:
        where = f"{METRICS} engines of vllm:num_requests_running"
        settings.setdefault("dp_size", Read(len(ranks), where))
    cap = number(mapped(config.get("scheduler_config")).get("max_num_seqs"))
    graphs = number(mapped(config.get("compilation_config")).get("max_cudagraph_capture_size"))
    graphs_where = f"{SERVER_INFO} compilation_config.max_cudagraph_capture_size"
    share = real(labels.get("gpu_memory_utilization"))
    share_where = f"{METRICS} gpu_memory_utilization"
    return {
        "version": text(mapped(asked.documents.get(VERSION)).get("version")),
        "settings": settings,
        "speculation": _vllm_speculation(config, settings.get("dp_size"), asked.metrics),
        "cap": None if cap is None else Read(cap, f"{SERVER_INFO} scheduler_config.max_num_seqs"),
        "graph_limit": None if graphs is None else Read(graphs, graphs_where),
        "accepted": _accepted(Engine.VLLM, asked.metrics),
        "memory": Memory(fraction=None if share is None else Read(share, share_where)),
    }


def _vllm_speculation(config: dict[str, Any], ranks: Read | None, page: str) -> Speculation:
    """vLLM has the counters of speculation only where it is on."""
    name = DRAFTS[Engine.VLLM]
    on = None
    if counted(page, name) is not None:
        on = Read(True, METRICS, f"has {name}")  # noqa: FBT003 - what was read
    elif counted(page, OUTPUT_TOKENS[Engine.VLLM]) is not None:
        on = Read(False, METRICS, f"has no {name}")  # noqa: FBT003
    spec = mapped(config.get("speculative_config"))
    table = None
    bars: tuple[str, ...] = ()
    if spec:
        member = "num_speculative_tokens_per_batch_size"
        table = Read(bool(spec.get(member)), f"{SERVER_INFO} speculative_config.{member}")
    if ranks is not None and (number(ranks.value) or 1) > 1:
        bars = (f"data parallelism ({ranks})",)
    return Speculation(
        on=on,
        algorithm=text(spec.get("method")),
        steps=_positions("vllm", page),
        adaptive=table,
        adaptive_asked=None if table is None else bool(table.value),
        adaptive_bars=bars,
    )


def _llamacpp(card: dict[str, Any], asked: Asked) -> dict[str, Any]:
    props, meta = mapped(asked.documents.get(PROPS)), mapped(card.get("meta"))
    slot = first_of(asked.documents.get(SLOTS))
    settings = {
        name: Read(meta[member], f"{MODELS_PATH} meta.{member}")
        for name, member in (("quantization", "ftype"), ("parameters", "n_params"))
        if member in meta
    }
    context = number(mapped(props.get("default_generation_settings")).get("n_ctx"))
    if context is not None:
        where = f"{PROPS} default_generation_settings.n_ctx, a slot"
        settings["context_length"] = Read(context, where)
    slots = number(props.get("total_slots"))
    on = None
    if isinstance(slot.get("speculative"), bool):
        on = Read(slot["speculative"], f"{SLOTS} speculative")
    elif drafts := counted(asked.metrics, DRAFTS[Engine.LLAMACPP]):
        # It has the counters always, so that 0 tells nothing.
        where = f"{METRICS} {DRAFTS[Engine.LLAMACPP]}"
        on = Read(True, where, f"{drafts:g}")  # noqa: FBT003
    return {
        "version": text(props.get("build_info")),
        "settings": settings,
        "speculation": Speculation(on=on, steps=_positions("llamacpp", asked.metrics)),
        "cap": None if slots is None else Read(slots, f"{PROPS} total_slots"),
        "accepted": _accepted(Engine.LLAMACPP, asked.metrics),
    }


def _positions(prefix: str, page: str) -> Read | None:
    """How many drafts a step may accept: vLLM and llama.cpp count each place by itself."""
    name = f"{prefix}:spec_decode_num_accepted_tokens_per_pos_total"
    places = set(re.findall(rf'^{name}\{{.*?position="(\d+)"', page, re.M))
    return Read(len(places), f"{METRICS} positions of {name}") if places else None


def _accepted(engine: Engine, page: str) -> Accepted | None:
    """Tokens a decode step since the start, counted as the bench and the gate do."""
    found = accepted(engine, page)
    if not counted(page, DRAFTED[engine]) or found is None or not found.steps or not found.tokens:
        return None
    # vLLM's steps are its drafts; llama.cpp's the tokens that were no accepted draft.
    steps = DRAFTS[engine] if engine is Engine.VLLM else OUTPUT_TOKENS[engine]
    where = f"{METRICS} {steps} and {ACCEPTED[engine]}"
    return Accepted(length=found.tokens / found.steps, over=round(found.steps), where=where)


def _context(card: dict[str, Any], told: Any) -> dict[str, Read]:
    """What the model's card says holds also where the flag was left out."""
    for value, where in (
        (card.get("max_model_len"), f"{MODELS_PATH} max_model_len"),
        (told, f"{SERVER_INFO} context_length"),
    ):
        length = number(value)
        if length is not None:
            return {"context_length": Read(length, where)}
    return {}


def _labels(page: str, name: str) -> dict[str, str]:
    """The labels of a metric's first sample."""
    found = re.search(rf"^{re.escape(name)}\{{(.*)\}}", page, re.M)
    return dict(re.findall(r'(\w+)="([^"]*)"', found[1])) if found else {}
