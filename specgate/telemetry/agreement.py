"""Whether the gate's sums agree with each other: a leak seen before it matters."""

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from specgate.core.lanes import Lane
from specgate.core.load import Counts


class Agreement(Collector):
    """Counted anew at the scrape. `disagreement`: of each lane, 0 unless something leaks."""

    def __init__(self, disagreement: Callable[[], Counts]) -> None:
        self._disagreement = disagreement

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "specgate_in_flight_disagreement",
            "By how much the ledger, its entries and the exchanges in hand differ.",
            labels=["lane"],
        )
        differs = self._disagreement()
        for lane in Lane:
            family.add_metric([lane], differs.of(lane))
        yield family
