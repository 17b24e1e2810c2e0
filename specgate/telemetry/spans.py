"""Spans to a collector, by OTLP over HTTP. The only module that needs the extra `otel`.

Where to, with which headers, certificates, compression and time-out: the exporter reads the
standard OTEL_EXPORTER_OTLP_* variables itself (`settings.collector` has looked at them), and
OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say whose spans they are.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import structlog
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from specgate.core.trace_context import Parent
from specgate.telemetry.tracing import Kept

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_ERROR, _UNSET = Status(StatusCode.ERROR), Status(StatusCode.UNSET)

_PAUSE_S = 1e-5

REMIND_S = 60.0
"""While a collector takes nothing, one line says so in so many seconds."""


class OtlpSpans:
    """An `Exporter`. `version`: of specgate."""

    def __init__(self, version: str) -> None:
        own = {"service.name": "specgate", "service.version": version}
        self._resource = Resource.create({**own, **OTELResourceDetector().detect().attributes})
        self._scope = InstrumentationScope("specgate", version)
        self._ids = RandomIdGenerator()
        self._why = _Why()
        logging.getLogger(trace_exporter.__name__).addFilter(self._why)
        self._otlp = trace_exporter.OTLPSpanExporter()
        self._log = structlog.stdlib.get_logger("specgate")
        self._lost = 0
        self._told_at: float | None = None
        self._log.info("tracing", endpoint=self.endpoint)

    @property
    def endpoint(self) -> str:
        """Where to: without what may be a secret in it."""
        url = urlsplit(self._otlp._endpoint)
        host = url.netloc.rpartition("@")[2]
        return f"{url.scheme}://{host}{url.path}"

    def export(self, spans: Sequence[Kept]) -> bool:
        try:
            made = _Unhurried(map(self._span, spans))
            taken = self._otlp.export(made) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 - the border to another's code, on a thread
            self._why.last, taken = type(error).__name__, False
        self._tell(taken, len(spans))
        return taken

    def give_up(self) -> None:
        self._otlp.shutdown()  # type: ignore[no-untyped-call]

    def _span(self, kept: Kept) -> ReadableSpan:
        parent = None if kept.parent is None else _context(kept.parent)
        trace_id = self._ids.generate_trace_id() if parent is None else parent.trace_id
        return ReadableSpan(
            name=kept.name,
            context=SpanContext(
                trace_id, self._ids.generate_span_id(), is_remote=False, trace_flags=_SAMPLED
            ),
            parent=parent,
            resource=self._resource,
            attributes=kept.attributes,
            kind=SpanKind.SERVER,
            status=_ERROR if kept.error else _UNSET,
            start_time=kept.start_ns,
            end_time=kept.end_ns,
            instrumentation_scope=self._scope,
        )

    def _tell(self, taken: bool, count: int) -> None:  # noqa: FBT001 - one caller, above
        if taken:
            if self._told_at is not None:
                self._log.info("spans_exported_again", endpoint=self.endpoint, lost=self._lost)
            self._lost, self._told_at = 0, None
            return
        self._lost += count
        now = time.monotonic()
        if self._told_at is None or now - self._told_at >= REMIND_S:
            self._told_at = now
            self._log.warning(
                "spans_not_exported", endpoint=self.endpoint, why=self._why.last, lost=self._lost
            )


def _context(parent: Parent) -> SpanContext:
    return SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=_SAMPLED)


class _Unhurried(list[ReadableSpan]):
    """Lets other threads run after each span. To encode one takes a tenth of a millisecond, and
    a thread that computes gives the interpreter away every 5 ms alone: streams would wait for it
    (3 ms in the median at 4,000 spans a second; so it is 0.1 ms)."""

    def __iter__(self) -> Iterator[ReadableSpan]:
        for span in super().__iter__():
            time.sleep(_PAUSE_S)
            yield span


class _Why(logging.Filter):
    """The exporter says why it failed in its log alone: several lines a batch, with the URL's
    query in them. None goes on, and what is kept of the last one is the error's name or status."""

    last = "unknown"

    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else ()
        errors = [type(one).__name__ for one in arguments if isinstance(one, Exception)]
        words = [str(one) for one in arguments if isinstance(one, int | str) and one != "spans"]
        self.last = " ".join(errors or words) or self.last
        return False
