"""Structured logs: set up once, and a listener that writes one line a fact.

No body, no header, no query string is ever logged; a path is cut and escaped. What a client can
choose (path, request id) is a value of a field, and every renderer escapes it. Whatever could begin
a line of its own, or move a terminal's cursor, is written as an escape (`visible`).
"""

import logging
import sys
import zlib
from typing import Any

import structlog

from specgate.core.config import ALWAYS, NEVER
from specgate.core.events import (
    Alternated,
    AlternationFailed,
    Change,
    DrainChanged,
    Event,
    HealthChanged,
    LaneFailed,
    LoopFailed,
    Outcome,
    Probed,
    ReloadFailed,
    RequestEnded,
    SettingsChanged,
    Switched,
)
from specgate.core.health import Health
from specgate.telemetry.lines import LineWriter
from specgate.telemetry.request_line import Stamp, encode_line, request_line
from specgate.telemetry.visible import visible

_QUIET = ("httpx2", "httpcore2", "uvicorn.access", "uvicorn.error", "asyncio")
"""Libraries whose INFO lines would double ours."""


def set_up(*, level: str, as_json: bool) -> LineWriter:
    """Send everything, ours and the libraries', through one writer to stderr. Once per process."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        _first("timestamp", "level", "event"),
        structlog.processors.JSONRenderer() if as_json else structlog.processors.LogfmtRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    lines = LineWriter(sys.stderr.buffer)
    handler = _LineHandler(lines)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("uvicorn.error").addFilter(_not_said_by_us)
    return lines


class _LineHandler(logging.Handler):
    def __init__(self, lines: LineWriter) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        line = visible(self.format(record))
        self._lines.write(line.encode("utf-8", "backslashreplace") + b"\n")


def _first(*names: str) -> structlog.typing.Processor:
    """The fields that every line has, at its front, where people and columns look for them."""

    def reorder(
        logger: Any,
        method: str,
        event: structlog.typing.EventDict,
    ) -> structlog.typing.EventDict:
        return {**{name: event[name] for name in names if name in event}, **event}

    return reorder


def _not_said_by_us(record: logging.LogRecord) -> bool:
    """False for what uvicorn says of things that we say with their cause: a response that is cut on
    purpose; and an address that cannot be had, which it logs as the bare exception."""
    return not isinstance(record.msg, OSError) and (
        "without completing response" not in record.getMessage()
    )


class Logs:
    """An observer of facts. `lines`: where requests' lines go as JSON, past the processors, which
    cost more than all else that a request does here; None: through structlog like the others.
    `sample`: the share of the requests that went well whose lines are written."""

    def __init__(self, lines: LineWriter | None = None, sample: float = 1.0) -> None:
        self._log = structlog.stdlib.get_logger("specgate")
        self._lines = lines
        self._loudly = lines is None or logging.getLogger().isEnabledFor(logging.INFO)
        self._stamp = Stamp()
        # Below 2^32, of which a sum is always: see `_in_sample`.
        self._below = None if sample >= 1 else round(sample * 2**32)

    def __call__(self, event: Event) -> None:
        match event:
            case RequestEnded():
                self._request_ended(event)
            case LaneFailed(lane=lane, kind=kind, message=message):
                self._log.warning("lane_failed", lane=lane, kind=kind, message=message)
            case Switched():
                self._log.info(
                    "switched",
                    side=event.side,
                    reason=event.reason,
                    load=round(event.load, 3),
                    count=event.count,
                    threshold=_word(event.threshold),
                )
            case HealthChanged(lane=lane, was=was, now=now, why=why):
                write = self._log.warning if now is Health.EJECTED else self._log.info
                write("lane_health", lane=lane, was=was, now=now, why=why)
            case DrainChanged(lane=lane, draining=draining, in_hand=in_hand):
                self._log.info("lane_drain", lane=lane, draining=draining, in_hand=in_hand)
            case Probed(lane=lane, sign=sign, took_s=took_s):
                self._log.debug("probed", lane=lane, sign=sign, took_s=round(took_s, 4))
            case Alternated(lane=lane, took_s=took_s, back=back):
                write = self._log.warning if back else self._log.info
                write("alternated", lane=lane, took_s=round(took_s, 3), back=back)
            case AlternationFailed():
                self._log.warning(
                    "alternation_failed",
                    step=event.step,
                    lane=event.lane,
                    why=event.why,
                    awake=event.awake,
                    retry_s=None if event.retry_s is None else round(event.retry_s, 1),
                )
            case SettingsChanged(names=names, source=source, changes=changes):
                self._log.info(
                    "settings_changed",
                    names=",".join(names),
                    source=source,
                    changes="; ".join(map(_change, changes)),
                )
            case ReloadFailed(error=error):
                self._log.error("reload_refused", error=error)
            case LoopFailed(loop=loop, error=error):
                self._log.error("loop_failed", loop=loop, error=error)

    def _request_ended(self, event: RequestEnded) -> None:
        ours = event.outcome in _BAD
        if not (ours or self._loudly):
            return  # before its fields cost anything
        if self._below is not None and went_well(event) and not _in_sample(event, self._below):
            return
        line = request_line(event, self._stamp.now(), "warning" if ours else "info")
        if self._lines is None:
            (self._log.warning if ours else self._log.info)("request", **line.fields())
        else:
            self._lines.write(encode_line(line) + b"\n")


def went_well(event: RequestEnded) -> bool:
    """Whether a request's line may be left out: none that somebody will look for."""
    return (
        event.outcome is Outcome.COMPLETED
        and not event.rerouted
        and event.status is not None
        and event.status < 400
    )


def _in_sample(event: RequestEnded, below: int) -> bool:
    """By the id alone, so that all who see a request, other gates too, come to the same."""
    return zlib.crc32(event.request_id.encode()) < below


_BAD = frozenset({Outcome.GATE_ERROR, Outcome.LANE_FAILED, Outcome.REFUSED})


def _change(change: Change) -> str:
    return f"{change.name}: {change.was} -> {change.now}"


def _word(threshold: float | None) -> float | str | None:
    """JSON has no infinity; and these two have names."""
    words = {NEVER: "never", ALWAYS: "always"}
    return threshold if threshold is None else words.get(threshold, threshold)


def listener_failed(observer: Any, error: Exception) -> None:
    """For `core.events.broadcast`: says which listener raised what, with no data of the fact."""
    structlog.stdlib.get_logger("specgate").error(
        "listener_failed", listener=type(observer).__name__, error=type(error).__name__
    )
