"""Metrics of both lanes at once: how long they shared the pool, and what is forced to plain."""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from specgate.core.view import GateView


class Mixing(Collector):
    """Read from the gate at the scrape."""

    def __init__(self, view: Callable[[], GateView]) -> None:
        self._view = view

    def collect(self) -> Iterable[Metric]:
        view = self._view()
        yield CounterMetricFamily(
            "specgate_mixed_seconds",
            "Time in which both lanes had sequences in flight, looked at four times a second.",
            value=view.mixed_s,
        )
        yield GaugeMetricFamily(
            "specgate_forced_share",
            "The share of recent sequences that must go to the plain lane by rules.",
            value=view.forced_share,
        )
