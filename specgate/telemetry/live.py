"""Metrics that are read live from the gate when scraped: what is not stored cannot be stale."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.outlook import outlook
from specgate.core.policy import Mode, Reason
from specgate.core.view import EngineCounters, GateView


class LiveFigures(Collector):
    """Read from the gate at the scrape: what is not stored cannot be stale."""

    def __init__(self, view: Callable[[], GateView], version: str) -> None:
        self._view = view
        self._version = version

    def collect(self) -> Iterable[Metric]:
        view = self._view()
        in_flight = GaugeMetricFamily(
            "specgate_in_flight", "Sequences in flight, from the ledger.", labels=["lane"]
        )
        for lane in Lane:
            in_flight.add_metric([lane], view.counts.of(lane))
        yield in_flight
        yield GaugeMetricFamily(
            "specgate_oldest_in_flight_seconds",
            "Age of the oldest request in flight, 0 for none.",
            value=view.oldest_s or 0.0,
        )
        yield GaugeMetricFamily(
            "specgate_queued", "Requests that wait for room, in no other count.", value=view.queued
        )
        yield GaugeMetricFamily(
            "specgate_load", "The load that the policy compares, in sequences.", value=view.load
        )
        beyond = GaugeMetricFamily(
            "specgate_engine_load_beyond",
            "Sequences that the lane's engine has in hand besides the gate's; part of the load.",
            labels=["lane"],
        )
        for lane in Lane:
            beyond.add_metric([lane], view.beyond.of(lane))
        yield beyond
        yield from _accept_length(view)
        yield from _edges(view)
        yield from _outlook(view)
        yield _one_of("specgate_side", "The side for new requests: 1 for it.", view.side, Lane)
        yield _one_of("specgate_reason", "Why it is that side: 1 for it.", view.reason, Reason)
        yield _one_of("specgate_mode", "Who decides the side: 1 for it.", view.mode, Mode)
        shadow = GaugeMetricFamily(
            "specgate_shadow",
            "1 for the lane that everything goes to in shadow; 0 for both: the policy is followed.",
            labels=["lane"],
        )
        for lane in Lane:
            shadow.add_metric([lane], float(lane is view.policy.shadow))
        yield shadow
        switches = CounterMetricFamily(
            "specgate_switches", "Times that the gate changed side for new requests."
        )
        switches.add_metric([], view.switches)
        yield switches
        health = GaugeMetricFamily(
            "specgate_lane_health", "A lane's state: 1 for it.", labels=["lane", "state"]
        )
        for lane, seen in view.lanes.items():
            for state in Health:
                health.add_metric([lane, state], float(seen.health is state))
        yield health
        asleep = GaugeMetricFamily(
            "specgate_lane_asleep",
            "1 for a lane that sleeps, on a pool that holds one lane at a time.",
            labels=["lane"],
        )
        for lane, seen in view.lanes.items():
            asleep.add_metric([lane], float(seen.asleep))
        yield asleep
        yield InfoMetricFamily(
            "specgate_build", "What is running.", value={"version": self._version}
        )


class EngineFigures(Collector):
    """What the engines count themselves: a stream that states no usage is counted here alone."""

    def __init__(
        self, latest: Callable[[], Mapping[Lane, EngineCounters]], clock: Callable[[], float]
    ) -> None:
        self._latest = latest
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        tokens = CounterMetricFamily(
            "specgate_engine_output_tokens",
            "Output tokens by the engine's own counter; no series where it has none.",
            labels=["lane"],
        )
        age = GaugeMetricFamily(
            "specgate_engine_read_age_seconds",
            "Time since the engine's counters were last read.",
            labels=["lane"],
        )
        for lane, read in self._latest().items():
            tokens.add_metric([lane], read.output_tokens)
            age.add_metric([lane], self._clock() - read.at)
        yield tokens
        yield age


def _edges(view: GateView) -> Iterable[Metric]:
    """Without a threshold there are no edges, and no series: absent is not 0."""
    policy = view.policy
    yield _gauge(
        "specgate_threshold", "The load below which the gate speculates.", policy.threshold
    )
    yield _gauge(
        "specgate_plain_above",
        "The load at which the gate leaves the spec side.",
        policy.plain_above,
    )
    yield _gauge(
        "specgate_speculate_below",
        "The load below which the gate comes back to the spec side.",
        policy.speculate_below,
    )


def _outlook(view: GateView) -> Iterable[Metric]:
    """Of whatever the side is decided by, threshold or profile; no series where there is none."""
    seen = outlook(view)
    yield _gauge(
        "specgate_edge_low",
        "Lower end of the band that is nearest to the load, in sequences.",
        seen.low,
    )
    yield _gauge(
        "specgate_edge_high", "Its upper end; the same where it is a single edge.", seen.high
    )
    yield _gauge(
        "specgate_edge_distance",
        "Sequences that the load must rise by, or below 0 fall by, before the side may change.",
        seen.away,
    )


def _accept_length(view: GateView) -> Iterable[Metric]:
    """Only with a profile that has the bench's; the age only once something was learnt."""
    accept = view.accept
    yield _gauge(
        "specgate_accept_length",
        "Tokens that a decode step of the spec lane yields a sequence, of recent requests.",
        None if accept is None else accept.live,
    )
    yield _gauge(
        "specgate_accept_length_error",
        "Its standard error.",
        None if accept is None else accept.standard_error,
    )
    yield _gauge(
        "specgate_accept_length_age_seconds",
        "Time since something was last learnt of it from the engine.",
        None if accept is None else accept.age_s,
    )
    yield _gauge(
        "specgate_accept_length_bench",
        "The same in the profile's measurement.",
        None if accept is None else accept.bench,
    )
    yield _gauge(
        "specgate_accept_length_break_even",
        "The accept length at which speculation would just pay at the load that is.",
        None if accept is None else accept.break_even,
    )


def _gauge(name: str, text: str, value: float | None) -> Metric:
    """None: no series."""
    family = GaugeMetricFamily(name, text)
    if value is not None:
        family.add_metric([], value)
    return family


def _one_of(name: str, text: str, now: str, values: Iterable[str]) -> Metric:
    label = name.rsplit("_", 1)[1]
    family = GaugeMetricFamily(name, text, labels=[label])
    for value in values:
        family.add_metric([value], float(value == now))
    return family
