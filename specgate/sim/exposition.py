"""`/metrics` of the simulated engine: SGLang's names and labels over our meters.

Built from plain numbers at each scrape, in a registry of its own; the data path touches none of it.
Gauges come from the published, stale view; counters and histograms are exact. Times are real
seconds, as a client of the engine would measure them, whatever the time scale.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from specgate.sim.engine import Engine
from specgate.sim.meters import Histogram


class EngineCollector(Collector):
    """Turns one engine's meters into metric families."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tokenizer = {"model_name": engine.model_name, "engine_type": "unified"}
        self._scheduler = self._tokenizer | {"tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}

    def collect(self) -> Iterable[Metric]:
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()

    def _gauges(self) -> Iterator[Metric]:
        engine, shape = self._engine, self._engine.shape
        seen = engine.meters.metrics.published
        share = seen.used_tokens / shape.kv_tokens
        values: dict[str, tuple[str, float]] = {
            "num_running_reqs": ("Requests in the running batch.", seen.running),
            "num_queue_reqs": ("Requests waiting for the batch.", seen.waiting),
            "num_grammar_queue_reqs": ("Requests waiting for a grammar.", 0),
            "num_retracted_reqs": ("Requests put back into the queue.", 0),
            "num_paused_reqs": ("Requests paused.", 0),
            "num_used_tokens": ("KV tokens in use.", seen.used_tokens),
            "max_total_num_tokens": ("KV tokens there are.", shape.kv_tokens),
            "token_usage": ("Share of the KV tokens in use.", share),
            "full_token_usage": ("The same, of full attention layers.", share),
            "swa_token_usage": ("The same, of sliding-window layers.", 0),
            "cache_hit_rate": ("Share of prompt tokens found in the prefix cache.", 0),
            "gen_throughput": ("Output tokens per second.", seen.tok_s),
            "utilization": ("Running requests over the most allowed.", seen.running / shape.cap),
            "is_cuda_graph": ("Whether the last step ran as a graph.", 1),
            "spec_accept_length": ("Mean tokens of a verification.", seen.accept_length),
            "spec_accept_rate": ("Accepted over proposed draft tokens.", seen.accept_rate),
            "spec_num_steps": ("Draft steps.", shape.draft_steps),
            "spec_num_draft_tokens": (
                "Draft tokens verified for a request in a step.",
                shape.draft.tokens if shape.draft else 0,
            ),
        }
        for name, (text, value) in values.items():
            gauge = GaugeMetricFamily(f"sglang:{name}", text, labels=list(self._scheduler))
            shown = engine.faults.metrics.get(name, value)
            if shown is not None:
                gauge.add_metric(list(self._scheduler.values()), float(shown))
                yield gauge

    def _counters(self) -> Iterator[Metric]:
        meters, model = self._engine.meters, self._engine.model
        values = {
            "prompt_tokens": ("Prompt tokens.", meters.prompt_tokens),
            "generation_tokens": ("Output tokens.", model.tokens),
            "num_requests": ("Requests received.", meters.requests),
            "num_aborted_requests": ("Requests aborted.", meters.aborted),
            "spec_verify_calls": ("Verifications of one request's drafts.", model.verified),
        }
        for name, (text, value) in values.items():
            counter = CounterMetricFamily(f"sglang:{name}", text, labels=list(self._tokenizer))
            shown = self._engine.faults.metrics.get(name, value)
            if shown is not None:
                counter.add_metric(list(self._tokenizer.values()), float(shown))
                yield counter

    def _histograms(self) -> Iterator[Metric]:
        meters = self._engine.meters
        for name, text, by_streaming in (
            ("time_to_first_token_seconds", "From arrival to the first token.", meters.ttft),
            ("e2e_request_latency_seconds", "From arrival to the last token.", meters.e2e),
        ):
            labels = [*self._tokenizer, "is_streaming"]
            family = HistogramMetricFamily(f"sglang:{name}", text, labels=labels)
            for streaming, histogram in by_streaming.items():
                values = [*self._tokenizer.values(), "true" if streaming else "false"]
                family.add_metric(values, *_buckets(histogram))
            yield family
        for name, text, histogram in (
            ("inter_token_latency_seconds", "Between tokens of a request.", meters.inter_token),
            (
                "request_time_per_output_token_seconds",
                "A request's time after its first token, per token.",
                meters.time_per_token,
            ),
        ):
            family = HistogramMetricFamily(f"sglang:{name}", text, labels=list(self._tokenizer))
            family.add_metric(list(self._tokenizer.values()), *_buckets(histogram))
            yield family


def exposition(engine: Engine) -> bytes:
    """The whole page, in Prometheus' text format 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineCollector(engine))
    return generate_latest(registry)


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts up to each bound, and the sum of values."""
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    buckets: list[tuple[str, float]] = []
    below = 0
    for bound, count in zip(bounds, histogram.counts, strict=True):
        below += count
        buckets.append((bound, below))
    return buckets, histogram.total
