"""Counters and histograms for what happens once a request, cheap to add to.

`prometheus_client` finds a child by its labels and takes a lock at every step, which together cost
more than deciding and forwarding do. Facts come from one thread, so here a series is a number in a
dict. The library still makes the exposition: these are collectors of its registry.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


class Tally(Collector):
    """A counter. `name` without `_total`, as the library's families have it."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str] = (), *, registry: CollectorRegistry
    ) -> None:
        self._name = name.removesuffix("_total")
        self._text = text
        self._labels = tuple(labels)
        self._counts: dict[Labels, float] = {} if labels else {(): 0}
        registry.register(self)

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + amount

    def begin(self, *labels: str) -> None:
        """Have the series at 0 before its first event."""
        self._counts.setdefault(labels, 0)

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        yield family


class Spread(Collector):
    """A histogram of seconds. `bounds`: upper bounds of its buckets, ascending, without +Inf."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        *,
        bounds: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._name = name
        self._text = text
        self._labels = tuple(labels)
        self._bounds = tuple(float(bound) for bound in bounds)
        self._series: dict[Labels, _Buckets] = {}
        if not labels:
            self.begin()
        registry.register(self)

    def begin(self, *labels: str) -> None:
        """Have the series, empty, before its first event."""
        self._series.setdefault(labels, _Buckets(len(self._bounds) + 1))

    def observe(self, seconds: float, labels: Labels = ()) -> None:
        buckets = self._series.get(labels)
        if buckets is None:
            buckets = self._series[labels] = _Buckets(len(self._bounds) + 1)
        buckets.counts[bisect_left(self._bounds, seconds)] += 1
        buckets.sum += seconds

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, buckets in list(self._series.items()):
            family.add_metric(labels, self._cumulative(buckets), buckets.sum)
        yield family

    def _cumulative(self, buckets: "_Buckets") -> list[tuple[str, float]]:
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        total = 0
        rows: list[tuple[str, float]] = []
        for name, count in zip(names, buckets.counts, strict=True):
            total += count
            rows.append((name, float(total)))
        return rows


class _Buckets:
    __slots__ = ("counts", "sum")

    def __init__(self, size: int) -> None:
        self.counts = [0] * size
        self.sum = 0.0
