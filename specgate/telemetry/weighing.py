"""Metrics of what is weighed with a profile, and of what the gate has gained by it."""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from specgate.core.lanes import Lane
from specgate.core.switchback import Experiment
from specgate.core.view import GateView

BOUNDS = ("low", "middle", "high")


class WeighingFigures(Collector):
    """Read from the gate at the scrape; without a profile to weigh by there are no series."""

    def __init__(self, view: Callable[[], GateView]) -> None:
        self._view = view

    def collect(self) -> Iterable[Metric]:
        view = self._view()
        regret = GaugeMetricFamily(
            "specgate_regret",
            "What staying on this side costs, as a share of a switch's price: at 1 it moves.",
        )
        offered = GaugeMetricFamily(
            "specgate_offered_tokens_per_second",
            "Output tokens a second that are asked of both lanes together, averaged.",
        )
        gain = GaugeMetricFamily(
            "specgate_gain_seconds",
            "Seconds of mean latency gained over serving everything from one lane, since the "
            "start; by the profile, with its interval where it has one.",
            labels=["against", "bound"],
        )
        if view.weighed is not None and view.gain is not None:
            regret.add_metric([], view.weighed.regret)
            offered.add_metric([], view.weighed.offered)
            each = max(1, view.gain.sequences)
            sums = {Lane.PLAIN: view.gain.against_plain, Lane.SPEC: view.gain.against_spec}
            for lane, bounds in sums.items():
                for bound, value in zip(BOUNDS, bounds, strict=True):
                    if value is not None:
                        gain.add_metric([lane, bound], value / each)
        yield regret
        yield offered
        yield gain
        yield from _experiment(view.experiment)


def _experiment(found: Experiment | None) -> Iterable[Metric]:
    pairs = CounterMetricFamily(
        "specgate_switchback_pairs", "Pairs of blocks of the experiment that were measured whole."
    )
    spent = CounterMetricFamily(
        "specgate_switchback_seconds",
        "Time in which blocks held the side that the policy would not have chosen.",
    )
    faster = GaugeMetricFamily(
        "specgate_switchback_ratio",
        "The plain side's pace over the spec side's at low load, above 1 where speculation is "
        "faster: as the blocks measured it, with its 90 % interval, and as the profile says it.",
        labels=["bound"],
    )
    if found is not None:
        pairs.add_metric([], found.pairs)
        spent.add_metric([], found.spent_s)
        named = {
            "low": found.low,
            "middle": found.faster,
            "high": found.high,
            "expected": found.expected,
        }
        for bound, value in named.items():
            if value is not None:
                faster.add_metric([bound], value)
    yield pairs
    yield spent
    yield faster
