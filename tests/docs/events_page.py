"""docs/reference/events.md, from `specgate.core.events`: the facts, and the line each becomes."""

import inspect
import re
from enum import StrEnum
from string import Template
from typing import get_args

import structlog.testing

from specgate.core.alternation import Step
from specgate.core.errors import FailureKind, TurnedAway
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
    Phase,
    Probed,
    ReloadFailed,
    RequestEnded,
    SettingsChanged,
    Switched,
)
from specgate.core.health import Health, Sign
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass
from specgate.telemetry.logs import Logs
from tests.docs.markdown import code, prose, table, written_from

PAGE = Template("""\
$origin

# Facts and log lines

What happens in the gate is told as facts, one small immutable object each. Metrics and logs listen
to them. A listener that fails harms neither the request nor the other listeners.

Each fact becomes one log line, on stderr: JSON, or `key=value` text on a terminal
([`SPECGATE_LOG_FORMAT`](settings.md#specgate_log_format)). No body, no header and no query string
is logged; a path is cut to 200 characters. Of the requests that went well, those whose status is
below 400 and that were not rerouted,
[`SPECGATE_LOG_SAMPLE`](settings.md#specgate_log_sample) may leave lines out: the CRC-32 of the id,
divided by 2^32, is below the share for those that are written.

$facts

## Closed sets

$sets

## Lines that are no facts

- `starting`: the lanes and the threshold that the gate starts with.
- `listening`: where it listens.
- `not_listening`, level `error`: it cannot listen, why, and by which setting; exit status 1.
- `stopping`: which signal it was told by, and how long it serves on.
- `stopped`: what ended, what was cut, and what was refused while it stopped.
- `settings`: a warning about a variable, at the start.
- `unmeasured`: there is no threshold, so every generation request goes to the plain lane.
- `settings_unused`, level `warning`: `names` were set, and do nothing beside the other settings;
  the `message` says which ones. A line for each reason (a profile is weighed, none is,
  `SPECGATE_POOL=split`, a pool without turns), once, at the start.
- `listener_failed`: a listener raised; the fact reached the others.
- `tracing`: where [spans](../how-to/traces.md) go, at the start.
- `spans_not_exported`: the collector took none, why, and how many were lost by then; once a minute
  while that lasts. `spans_exported_again`: it takes them again.
""")

ENDED = RequestEnded(
    request_id="4be1fd0f9d1c2f0d6a0b8c11",
    method="POST",
    path="/v1/chat/completions",
    route=RouteClass.CHAT,
    sequences=1,
    lane=Lane.SPEC,
    reason=Reason.BELOW_THRESHOLD,
    rerouted=False,
    status=200,
    outcome=Outcome.COMPLETED,
    phase=Phase.STREAM,
    duration_s=1.2,
    tpot_s=0.02,
    ttft_s=0.1,
    output_tokens=96,
    overhead_s=0.0003,
)
SAMPLES: tuple[Event, ...] = (
    ENDED,
    LaneFailed(lane=Lane.SPEC, kind=FailureKind.CONNECT, message="connection refused"),
    Switched(side=Lane.PLAIN, reason=Reason.ABOVE_THRESHOLD, load=8.1, count=11, threshold=8.0),
    HealthChanged(lane=Lane.SPEC, was=Health.HEALTHY, now=Health.EJECTED, why="/ready: 503"),
    DrainChanged(lane=Lane.SPEC, draining=True, in_hand=12),
    Probed(lane=Lane.SPEC, sign=Sign.READY, took_s=0.004),
    Alternated(lane=Lane.SPEC, took_s=7.2),
    AlternationFailed(
        step=Step.WAKE, lane=Lane.SPEC, why="not done within 120 s", awake=None, retry_s=None
    ),
    SettingsChanged(
        names=("threshold",), source="SIGHUP", changes=(Change("threshold", "8", "6.5"),)
    ),
    ReloadFailed(error="SPECGATE_BAND='1.5': must be a number from 0 to below 1"),
    LoopFailed(loop="probe-spec", error="RuntimeError: ..."),
)
NOTES: dict[type[object], str] = {
    RequestEnded: "The level is `warning` where the outcome is `lane_failed`, `refused` or "
    "`gate_error`. The line has status 499 for a client that left.",
    HealthChanged: "The level is `info` where the lane is not ejected.",
    SettingsChanged: "`changes` is text, such as `threshold: 8 -> 6.5; band: 0.2 -> 0.1`; of a "
    "secret the name alone is told, in `names`.",
    Alternated: "The level is `warning` where it is the lane of before.",
}
SETS: tuple[type[StrEnum], ...] = (
    Outcome,
    Phase,
    FailureKind,
    TurnedAway,
    Sign,
    Health,
    Step,
    RouteClass,
)


def events_page() -> str:
    return PAGE.substitute(
        origin=written_from("specgate/core/events.py and specgate/telemetry/logs.py"),
        facts="\n\n".join(_fact(kind) for kind in get_args(Event)),
        sets="\n\n".join(_set(kind) for kind in SETS),
    )


def _fact(kind: type[Event]) -> str:
    with structlog.testing.capture_logs() as lines:
        Logs()(next(sample for sample in SAMPLES if isinstance(sample, kind)))
    [line] = lines
    annotations = inspect.get_annotations(kind).items()
    fields = [(f"`{name}`", f"`{_type(of)}`") for name, of in annotations]
    parts = [
        f"## {kind.__name__}",
        prose(kind.__doc__),
        f"Log line `{line['event']}`, level `{line['log_level']}`. {NOTES.get(kind, '')}".strip(),
        table(("field", "type"), fields),
    ]
    return "\n\n".join(parts)


def _type(kind: object) -> str:
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    return re.sub(r"(\w+\.)+(?=\w)", "", str(kind))


def _set(kind: type[StrEnum]) -> str:
    return f"### {kind.__name__}\n\n{prose(kind.__doc__)}\n\n{code(*kind)}"
