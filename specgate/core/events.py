"""Facts: what happened, one frozen dataclass each. `telemetry/` listens; nobody else needs to know.

An observer is a plain callable. It must not raise: `broadcast` keeps what it raises away from the
data path, and reports it once per observer through the `on_error` it is given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specgate.core.alternation import Step
from specgate.core.errors import FailureKind, TurnedAway
from specgate.core.health import Health, Sign
from specgate.core.label import Label
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass


class Phase(Label):
    """How far a request had come. A closed set: metric label and log field."""

    UPLOAD = "upload"
    QUEUED = "queued"
    PREFILL = "prefill"
    STREAM = "stream"


class Outcome(Label):
    """How a request ended."""

    COMPLETED = "completed"
    CLIENT_GONE = "client_gone"
    CLIENT_STALLED = "client_stalled"
    LANE_FAILED = "lane_failed"
    REFUSED = "refused"
    CUT_SHORT = "cut_short"
    GATE_ERROR = "gate_error"


# Not frozen like the others, since one is made for each request: it is filled in as the request
# goes (`proxy.account`), and nobody changes it once it is told. Building a frozen one or a named
# tuple at the end, by its sixteen names, took 1 to 2 % of all that a request costs.
@dataclass(slots=True)
class RequestEnded:
    """One request, from its head's arrival to its last byte or its end otherwise.

    lane, reason: None when it ended before a decision. status: as sent to the client; None when
    nothing was. ttft_s: from arrival to the first output on a stream, None where that has no
    meaning or did not happen. tpot_s: seconds per output token after the first, of a stream of one
    sequence whose count is known. output_tokens, prompt_tokens: the engine's own counts, None where
    it gave none. overhead_s: time the gate itself added before and after the engine's part.
    queued_s: time in the admission queue, None where it did not wait. turned_away: why it was not
    let in, if so. traceparent: the client's header, while requests are traced; no log line has it.
    """

    request_id: str
    method: str
    path: str
    route: RouteClass = RouteClass.OTHER
    sequences: int = 0
    lane: Lane | None = None
    reason: Reason | None = None
    rerouted: bool = False
    status: int | None = None
    outcome: Outcome = Outcome.COMPLETED
    phase: Phase = Phase.UPLOAD
    duration_s: float = 0.0
    ttft_s: float | None = None
    tpot_s: float | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    overhead_s: float | None = None
    queued_s: float | None = None
    turned_away: TurnedAway | None = None
    traceparent: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFailed:
    """A lane failed one request; another may have answered it all the same."""

    lane: Lane
    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """The gate changed side for new requests. `load` is in sequences, smoothed. `count` is what
    the policy looked at: the sequences in flight, those that engines have from others, and those of
    the request that arrived and moved it, if one did."""

    side: Lane
    reason: Reason
    load: float
    count: int
    threshold: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChanged:
    """A lane's health moved."""

    lane: Lane
    was: Health
    now: Health
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainChanged:
    """An operator drains a lane, or sends it new requests again. `in_hand`: requests that it has
    still to end, whatever they ask for."""

    lane: Lane
    draining: bool
    in_hand: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """One active health check of a lane ended."""

    lane: Lane
    sign: Sign
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternated:
    """A lane serves that did not before. `took_s`: while nobody was admitted. `back`: it is the one
    that did before, since the other one failed."""

    lane: Lane
    took_s: float
    back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternationFailed:
    """A step with this lane failed. `awake`: the lane that serves on, None: neither does yet.
    `retry_s`: when the same is tried again, None: something else is at once."""

    step: Step
    lane: Lane
    why: str
    awake: Lane | None
    retry_s: float | None


class Change(NamedTuple):
    """A setting's values, as text."""

    name: str
    was: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged:
    """Settings took effect at run time; `names` are the settings', sorted. `changes`: of those
    that are no secret, what was in force before and what is now, as a person would write them."""

    names: tuple[str, ...]
    source: str
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadFailed:
    """A reload was refused and the last good settings stay."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFailed:
    """A background loop's turn raised; the loop goes on with its next turn."""

    loop: str
    error: str


Event = (
    RequestEnded
    | LaneFailed
    | Switched
    | HealthChanged
    | DrainChanged
    | Probed
    | Alternated
    | AlternationFailed
    | SettingsChanged
    | ReloadFailed
    | LoopFailed
)

Observer = Callable[[Event], None]


def broadcast(
    observers: Sequence[Observer], on_error: Callable[[Observer, Exception], None]
) -> Observer:
    """One observer that tells all; what one of them raises harms nobody else."""

    def tell(event: Event) -> None:
        for observer in observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - the border between facts and listeners
                on_error(observer, error)

    return tell
