"""The engines by their own account, next to the gate's figures for the same lane.

Names: sglang 0.5.23 (--enable-metrics), vllm 0.33.0, llama.cpp's server (--metrics), as
`specgate/engines` reads them. A row of an engine that is not there stays empty.
"""

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.builders import timeseries

from tests.deploy.grafana.frame import framed, section, with_engines
from tests.deploy.grafana.parts import BAD, Query, chart, engine, gate, rate

GATE = Query(f"sum by (lane) ({gate('specgate_in_flight')})", "{{lane}}: the gate's in flight")
ABSENT = "Nothing: no engine of that kind is scraped with a label lane."


def engines() -> builder.Dashboard:
    page = framed(
        "engines",
        "specgate / Engines",
        "What SGLang, vLLM or llama.cpp say of themselves, next to what the gate says of the same "
        "lane. Prometheus has to scrape them with a label lane.",
    )
    with_engines(page)
    for title, panels in (
        ("SGLang", _sglang()),
        ("vLLM", _vllm()),
        ("llama.cpp", _llamacpp()),
    ):
        section(page, title, panels)
    return page


def _lanes(metric: str, how: str = "sum") -> str:
    return f"{how} by (lane) ({engine(metric)})"


def _rates(metric: str) -> str:
    return f"sum by (lane) ({rate(engine(metric))})"


def _quantile(histogram: str) -> str:
    return f"histogram_quantile(0.95, sum by (lane, le) ({rate(engine(histogram + '_bucket'))}))"


def _in_hand(running: str, waiting: str, cap: str) -> timeseries.Panel:
    """Of SGLang the priorities' own series are left out: the one without has them all."""
    return chart(
        "Running and queued, against the gate's in flight",
        "What the engine runs and what waits in it; dashed: what the gate has sent and not got "
        f"back. A queue while running stays flat: {cap} is reached, and not the GPU. In flight far "
        f"above both for long: a count that leaks. {ABSENT}",
        (12, 9),
        Query(f"sum by (lane) ({running})", "{{lane}} running"),
        Query(f"sum by (lane) ({waiting})", "{{lane}} queued"),
        GATE,
        dashed=("in flight$",),
        colours={r"spec queued": "#c4162a", r"plain queued": "#ff7383"},
    )


def _accepted(expr: str, counted: str) -> timeseries.Panel:
    return chart(
        "Accept length",
        "Tokens that a decode step of the spec lane yields a sequence, bonus token included, from "
        f"{counted}; dashed: as the gate follows it with a profile. At 1 it drafts in vain. "
        f"{ABSENT}",
        (12, 9),
        Query(expr, "spec by the engine"),
        Query(f"avg({gate('specgate_accept_length')})", "as the gate has it"),
        dashed=("^as",),
        colours={"^as": "orange"},
        floor=1,
        line=(1, BAD),
    )


def _tokens(metric: str) -> timeseries.Panel:
    return chart(
        "Output tokens a second, both counts",
        "By the engine's own counter, and dashed by the gate's, which misses streams that state "
        f"no usage. {ABSENT}",
        (8, 8),
        Query(_rates(metric), "{{lane}} by the engine"),
        Query(
            f"sum by (lane) ({rate(gate('specgate_output_tokens_total'))})", "{{lane}} by the gate"
        ),
        dashed=("gate$",),
    )


def _ttft(histogram: str) -> timeseries.Panel:
    ours = rate(gate("specgate_ttft_seconds_bucket"))
    return chart(
        "Time to first token, p95, both counts",
        "By the engine, and dashed by the gate. The difference is the way in between and the "
        f"buckets' coarseness. {ABSENT}",
        (8, 8),
        Query(_quantile(histogram), "{{lane}} by the engine"),
        Query(f"histogram_quantile(0.95, sum by (lane, le) ({ours}))", "{{lane}} by the gate"),
        unit="s",
        dashed=("gate$",),
    )


def _pool(metric: str) -> timeseries.Panel:
    return chart(
        "KV pool in use",
        "Share of the engine's KV tokens. Near 100 % it puts requests back into the queue. On a "
        f"shared GPU each lane has a pool of its own, fixed at its start. {ABSENT}",
        (8, 8),
        Query(_lanes(metric, "max"), "{{lane}}"),
        unit="percentunit",
        ceiling=1,
        line=(0.95, BAD),
    )


def _sglang() -> Iterator[timeseries.Panel]:
    verified = _rates("sglang:spec_verify_calls_total")
    decoded = f"{_rates('sglang:generation_tokens_total')} - {_rates('sglang:num_requests_total')}"
    yield _in_hand(
        engine("sglang:num_running_reqs", priority=""),
        engine("sglang:num_queue_reqs", priority=""),
        "--max-running-requests",
    )
    yield _accepted(
        f"({decoded}) / ({verified} > 0)", "its counters of tokens, requests and verifications"
    )
    yield _tokens("sglang:generation_tokens_total")
    yield _ttft("sglang:time_to_first_token_seconds")
    yield _pool("sglang:token_usage")
    yield chart(
        "Prefix cache and retractions",
        "Share of prompt tokens found in the prefix cache, and requests that were put back into "
        f"the queue for want of KV room. Each switch starts with a colder cache. {ABSENT}",
        (8, 8),
        Query(_lanes("sglang:cache_hit_rate", "max"), "{{lane}} cache hits"),
        Query(_lanes("sglang:num_retracted_reqs"), "{{lane}} put back"),
        dashed=("back$",),
    )
    yield chart(
        "Aborted",
        "Requests that ended early, a minute: mostly clients that left, which the gate passes on. "
        f"{ABSENT}",
        (8, 8),
        Query(f"{_rates('sglang:num_aborted_requests_total')} * 60", "{{lane}}"),
    )
    yield chart(
        "Batch as a graph",
        "1 while the last step ran as a CUDA graph. 0 under load: the batch is above "
        f"--cuda-graph-max-bs, and the lane is slower than it need be. {ABSENT}",
        (8, 8),
        Query(_lanes("sglang:is_cuda_graph", "min"), "{{lane}}"),
        ceiling=1,
    )


def _vllm() -> Iterator[timeseries.Panel]:
    yield _in_hand(
        engine("vllm:num_requests_running"),
        engine("vllm:num_requests_waiting"),
        "--max-num-seqs",
    )
    yield _accepted(
        f"1 + {_rates('vllm:spec_decode_num_accepted_tokens_total')} / "
        f"({_rates('vllm:spec_decode_num_drafts_total')} > 0)",
        "its counters of drafts and accepted tokens; steps without a draft are not in them",
    )
    yield _tokens("vllm:generation_tokens_total")
    yield _ttft("vllm:time_to_first_token_seconds")
    yield _pool("vllm:kv_cache_usage_perc")
    yield chart(
        "Prefix cache and preemptions",
        "Share of prompt tokens found in the prefix cache, and requests preempted a second for "
        f"want of KV room. Each switch starts with a colder cache. {ABSENT}",
        (8, 8),
        Query(
            f"{_rates('vllm:prefix_cache_hits_total')} / "
            f"({_rates('vllm:prefix_cache_queries_total')} > 0)",
            "{{lane}} cache hits",
        ),
        Query(_rates("vllm:num_preemptions_total"), "{{lane}} preempted"),
        dashed=("preempted$",),
    )
    by_position = rate(engine("vllm:spec_decode_num_accepted_tokens_per_pos_total"))
    drafts = rate(engine("vllm:spec_decode_num_drafts_total"))
    yield chart(
        "Accepted by position",
        "Share of drafts whose token at this position was accepted, spec lane. Late positions "
        f"near 0 cost time and yield nothing: draft fewer. {ABSENT}",
        (8, 8),
        Query(
            f"sum by (position) ({by_position}) / on () group_left () (sum({drafts}) > 0)",
            "position {{position}}",
        ),
        unit="percentunit",
        ceiling=1,
    )


def _llamacpp() -> Iterator[timeseries.Panel]:
    yield _in_hand(
        engine("llamacpp:requests_processing"),
        engine("llamacpp:requests_deferred"),
        "the number of slots (-np)",
    )
    predicted = _rates("llamacpp:tokens_predicted_total")
    accepted = _rates("llamacpp:spec_decode_num_accepted_tokens_total")
    drafts = _rates("llamacpp:spec_decode_num_drafts_total")
    yield _accepted(
        f"({predicted} and {drafts} > 0) / ({predicted} - {accepted} > 0)",
        "its counters of tokens and accepted drafts",
    )
    yield _tokens("llamacpp:tokens_predicted_total")
    yield chart(
        "Prompt tokens a second",
        f"Prompt tokens that the engine has worked through. {ABSENT}",
        (8, 8),
        Query(_rates("llamacpp:prompt_tokens_total"), "{{lane}}"),
    )
    yield chart(
        "Busy slots in a step",
        "Slots that decode in one step, on the mean since the engine's start: the batch that it "
        f"really has. {ABSENT}",
        (8, 8),
        Query(_lanes("llamacpp:n_busy_slots_per_decode", "max"), "{{lane}}"),
    )
