"""Metrics of the profile that the policy goes by: which model it is of, and how old it is."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from specgate.core.view import GateView


class ProfileFigures(Collector):
    """Read from the gate at the scrape; without a profile in force there are no series. The label
    `model` is what the file says: one value, the operator's own."""

    def __init__(self, view: Callable[[], GateView]) -> None:
        self._view = view

    def collect(self) -> Iterable[Metric]:
        told = self._view().policy.fingerprint
        of_model = InfoMetricFamily(
            "specgate_profile", "The model that the profile in force was measured with."
        )
        measured = GaugeMetricFamily(
            "specgate_profile_measured_timestamp_seconds",
            "When it was measured, in seconds since the epoch; no series where it does not say.",
        )
        if told is not None:
            of_model.add_metric([], {"model": told.model or ""})
            at = _seconds(told.measured_at)
            if at is not None:
                measured.add_metric([], at)
        yield of_model
        yield measured


def _seconds(text: str | None) -> float | None:
    """Of a date and time of ISO 8601, UTC where it does not say; None for anything else."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
