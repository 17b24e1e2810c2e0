"""docs/reference/metrics.md, from `specgate.telemetry.metrics`."""

import time
from collections.abc import Iterable, Mapping
from string import Template

from prometheus_client.metrics_core import Metric

from specgate.core.alternation import Step
from specgate.core.errors import FailureKind, TurnedAway
from specgate.core.events import Phase
from specgate.core.health import Health, Sign
from specgate.core.lanes import Lane
from specgate.core.load import Counts
from specgate.core.policy import Mode, Reason
from specgate.core.routes import RouteClass
from specgate.core.view import EngineCounters
from specgate.telemetry.metrics import NO_LANE, STATUS_CLASSES, Metrics
from specgate.telemetry.tracing import RESULTS
from tests.docs.a_gate import a_gate
from tests.docs.markdown import code, table, written_from

PAGE = Template("""\
$origin

# Metrics

`GET /metrics` answers in Prometheus's text format, or in OpenMetrics where `Accept` asks for it.
Every label has a closed set of values. Nothing that a client sends becomes a label.

Gauges of the load, the side and the lanes are read from the gate at the scrape, so they cannot be
stale. Counters and histograms count what has ended. In the text format each of their series has one
that ends in `_created` beside it: the time when it began.

$rows

Without a threshold the three edges `specgate_threshold`, `specgate_plain_above` and
`specgate_speculate_below` have no series: absent is not 0. A threshold of `always` reads `+Inf`.

## Labels

$labels

## Buckets

$buckets

## The process

On Linux the usual figures of the process are there too, under the gate's own prefix:

$process

## How to read them

- `specgate_output_tokens_total` counts what the engines state in `usage`. A stream states it only
  if the client asks with `stream_options: {"include_usage": true}`. Responses that state nothing
  are counted in `specgate_responses_without_usage_total`. Chunks are never counted as tokens: under
  speculation one chunk holds several.
- `specgate_ttft_seconds` has a sample for streams only.
- `specgate_request_duration_seconds` and `specgate_ttft_seconds` begin when the request's head
  arrived, so they include the gate and the engine's queue.
- `specgate_overhead_seconds` is the gate's own part: deciding, and starting the answer.
- `specgate_in_flight_disagreement` is 0. Anything else is a leak of the gate's: a request that
  ended stands in a sum, or one that goes on does not. `specgate_oldest_in_flight_seconds` above the
  longest time that a request may take says the same of a single one. Please report both.
- `specgate_unauthorized_total` counts requests without one of
  [`SPECGATE_API_KEYS`](settings.md#specgate_api_keys). It rises with a client whose key was taken
  away, and with somebody who guesses.
- `specgate_upstream_errors_total` counts a failure even if a reroute then saved the request.
""")

CLOSED: Mapping[str, tuple[str, ...]] = {
    "lane": tuple(Lane),
    "route": tuple(RouteClass),
    "status": STATUS_CLASSES,
    "reason": tuple(Reason),
    "kind": tuple(FailureKind),
    "why": tuple(TurnedAway),
    "step": tuple(Step),
    "phase": tuple(Phase),
    "side": tuple(Lane),
    "mode": tuple(Mode),
    "state": tuple(Health),
}
OF_ONE: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("specgate_requests", "lane"): (*Lane, NO_LANE),
    ("specgate_probes", "result"): (Sign.READY, Sign.NOT_READY, Sign.SLOW, Sign.UNREACHED),
    ("specgate_reloads", "result"): ("applied", "refused"),
    ("specgate_spans", "result"): RESULTS,
}
MEANS = {
    "lane": "the lane; `none`, in `specgate_requests_total` alone, for a request that ended before "
    "a decision",
    "route": "the class of the call; all but `other` are generation",
    "status": "the class of the status that the client was sent; `gone`: it left before one was",
    "reason": "why; see [reasons](reasons.md)",
    "kind": "how a lane failed; see [facts](events.md#failurekind)",
    "why": "why it was not let in; see [facts](events.md#turnedaway)",
    "step": "of lanes that take turns; see [facts](events.md#step)",
    "phase": "how far the request had come; see [facts](events.md#phase)",
    "side": "the side for new requests",
    "mode": "who decides the side",
    "state": "the lane's health; see [health](../explanation/health.md)",
    "result": "of a probe or of a reload, or what became of a span: `dropped`: too many waited; "
    "`failed`: the collector did not take it",
    "version": "of specgate",
}
PROCESS = "specgate_process_"


def families() -> list[Metric]:
    """Every family there is, as a scrape finds it, in the order of the scrape."""
    read = {lane: EngineCounters(url="", output_tokens=1, at=0.0) for lane in Lane}
    metrics = Metrics(
        view=a_gate(threshold="8").gate.view,
        engines=lambda: read,
        disagreement=lambda: Counts(spec=0, plain=0),
        clock=time.monotonic,
        version="0",
    )
    return list(metrics.registry.collect())


def exposed_name(family: Metric) -> str:
    """The name that a query uses: counters end in _total there, infos in _info."""
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def labels_of(family: Metric) -> tuple[str, ...]:
    names = {name: None for sample in family.samples for name in sample.labels if name != "le"}
    return tuple(names)


def values_of(family: str, label: str) -> tuple[str, ...]:
    """The closed set of a label, by the family's name without `_total`; () for a version."""
    return OF_ONE.get((family, label), CLOSED.get(label, ()))


def metrics_page() -> str:
    every = families()
    ours = [family for family in every if not family.name.startswith(PROCESS)]
    labels = {label: None for family in ours for label in labels_of(family)}
    return PAGE.substitute(
        origin=written_from("specgate/telemetry/metrics.py"),
        rows=table(("name", "type", "labels", "what it says"), map(_row, ours)),
        labels=table(("label", "values", "meaning"), (_label(label, ours) for label in labels)),
        buckets="\n".join(
            f"- `{family.name}`, in seconds: {', '.join(_buckets(family))}"
            for family in ours
            if family.type == "histogram"
        ),
        process=table(
            ("name", "type", "what it says"),
            (
                (f"`{exposed_name(family)}`", family.type, family.documentation)
                for family in every
                if family not in ours
            ),
        ),
    )


def _row(family: Metric) -> tuple[str, ...]:
    labels = code(*labels_of(family))
    return f"`{exposed_name(family)}`", family.type, labels, family.documentation


def _label(label: str, ours: Iterable[Metric]) -> tuple[str, ...]:
    values = {
        value: None
        for family in ours
        if label in labels_of(family)
        for value in values_of(family.name, label)
    }
    return f"`{label}`", code(*values), MEANS[label]


def _buckets(family: Metric) -> Iterable[str]:
    bounds = (sample.labels.get("le") for sample in family.samples)
    return dict.fromkeys(f"{float(bound):g}" for bound in bounds if bound not in (None, "+Inf"))
