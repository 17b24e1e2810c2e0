"""Result files of the engines' own bench tools, as rows of one arm.

    sglang      JSON Lines of `sglang.bench_serving --output-file`, a result a line
    vllm        JSON of `vllm bench serve --save-result`, or a result a line (`--append-result`)

Field names are those of SGLang 0.5.23 and vLLM 0.33.0. A result is refused where it measured
something else: without --max-concurrency, with arrivals paced by --request-rate, with failed
requests, or with fewer requests than should have been in flight.
"""

import json
from collections.abc import Mapping
from math import isinf
from typing import Any, TypeGuard

from specgate.bench.importing import ImportRefusedError, Row, figure
from specgate.core.profile import Engine, Times

HELD = 0.9
"""Of the level: below it on average, ramp and tail make up much of what was measured."""

_FLAGS = (
    *("max_running_requests", "context_length", "tp_size", "dp_size", "attention_backend"),
    *("speculative_algorithm", "speculative_eagle_topk", "speculative_num_draft_tokens"),
    *("quantization", "kv_cache_dtype", "mem_fraction_static", "enable_dp_attention"),
    *("enable_multi_layer_eagle", "enable_two_batch_overlap", "enable_pdmux", "enable_lora"),
    "speculative_adaptive",
)


def rows_of_results(arm: str, text: str) -> list[Row]:
    """Of one arm's file, in either form. Raises ImportRefusedError."""
    try:
        results = [json.loads(text)]
    except (ValueError, RecursionError):
        try:
            results = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise ImportRefusedError(f"{arm}: not JSON: {error}") from error
    if not results:
        raise ImportRefusedError(f"{arm}: no result in it")
    return [_row(arm, result, i) for i, result in enumerate(results, start=1)]


def _row(arm: str, result: object, number: int) -> Row:
    where = f"{arm}, result {number}"
    if not isinstance(result, dict):
        raise ImportRefusedError(f"{where}: an object was expected")
    level = result.get("max_concurrency")
    if isinstance(level, bool) or not isinstance(level, int) or level < 1:
        raise ImportRefusedError(
            f"{where}: max_concurrency is {level!r}: without one nothing says at which load it was"
        )
    _refuse(result, level, where)
    length = result.get("accept_length", result.get("spec_decode_acceptance_length"))
    completed = result.get("completed", 0)
    goodput = result.get("request_goodput")
    engine, model = _engine(result)
    return Row(
        arm=arm,
        concurrency=level,
        tok_s=figure(result.get("output_throughput"), f"{where}: output_throughput"),
        ttft_s=_times(result, "ttft"),
        tpot_s=_times(result, "tpot"),
        e2e_s=_times(result, "e2e_latency") or _times(result, "e2el"),
        slo_goodput=float(goodput) if _is_number(goodput) else None,
        accept_length=float(length) if _is_number(length) and length >= 1 else None,
        requests=completed if isinstance(completed, int) else 0,
        doubt=_doubt(result, level, where),
        engine=engine,
        model=model,
    )


def _refuse(result: Mapping[str, Any], level: int, where: str) -> None:
    """Raises ImportRefusedError where it is no measurement of a level held."""
    rate = result.get("request_rate")
    # SGLang writes Infinity, and vLLM "inf", where nothing paced the arrivals.
    if rate not in (None, "inf") and not (_is_number(rate) and isinf(rate)):
        raise ImportRefusedError(
            f"{where}: request_rate is {rate!r}: arrivals were paced, so nothing held {level} in "
            "flight"
        )
    errors = result.get("errors")
    failed = result.get("failed") or sum(map(bool, errors) if isinstance(errors, list) else [])
    if failed:
        raise ImportRefusedError(f"{where}: {failed} requests failed")
    completed = result.get("completed")
    if isinstance(completed, int) and completed < level:
        raise ImportRefusedError(f"{where}: {completed} requests cannot hold {level} in flight")


def _doubt(result: Mapping[str, Any], level: int, where: str) -> str | None:
    """Where fewer were in flight on average than the level says."""
    held = result.get("concurrency")
    if not _is_number(held):
        # vLLM does not write it: by Little's law it is what all requests took over the time.
        took, duration = result.get("latencies"), result.get("duration")
        if not isinstance(took, list) or not _is_number(duration) or duration <= 0:
            return None
        held = sum(t for t in took if _is_number(t)) / duration
    if held >= HELD * level:
        return None
    return (
        f"{where}: {held:.1f} in flight on average at {level}: ramp and tail are in its figures, "
        "and more requests would make them small"
    )


def _times(result: Mapping[str, Any], name: str) -> Times | None:
    """Both tools write milliseconds, and a median for the 50th percentile."""

    def of(prefix: str) -> float | None:
        value = result.get(f"{prefix}_{name}_ms")
        return value / 1000.0 if _is_number(value) and value > 0 else None

    mean = of("mean")
    return (
        None if mean is None else Times(mean=mean, p50=of("median"), p90=of("p90"), p99=of("p99"))
    )


def _engine(result: Mapping[str, Any]) -> tuple[Engine | None, str | None]:
    """What the engine said of itself (SGLang's tool keeps that), and the model's name."""
    info = result.get("server_info")
    if not isinstance(info, dict):
        name = result.get("model_id")
        return None, name if isinstance(name, str) else None
    steps, version = info.get("speculative_num_steps"), info.get("version")
    name = info.get("served_model_name")
    engine = Engine(
        name="sglang",
        version=version if isinstance(version, str) else None,
        steps=steps if isinstance(steps, int) else None,
        settings={
            flag: info[flag]
            for flag in _FLAGS
            if isinstance(info.get(flag), str | int | float | bool)
        },
    )
    return engine, name if isinstance(name, str) else None


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
