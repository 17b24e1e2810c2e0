"""Settings as the rooms below see them: frozen, validated elsewhere, units in the names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from specgate.core.contexts import Contexts
from specgate.core.curves import Curves
from specgate.core.hold import Hold
from specgate.core.label import Label
from specgate.core.lanes import Lane
from specgate.core.profile import Fingerprint

NEVER = 0.0
"""A threshold that no load is below: the gate never speculates."""

ALWAYS = math.inf
"""A threshold that every load is below: the gate always speculates."""


class Placement(Label):
    """Where the lanes run: on one pool of GPUs, each on its own, or on a pool that holds only one
    of them at a time."""

    SHARED = "shared"
    SPLIT = "split"
    ALTERNATE = "alternate"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """The knobs of `core.policy`, whose docstring says what each does.

    threshold: load in sequences, a real number; NEVER, ALWAYS, or None: nothing was measured.
    band: width of the hysteresis band as a share of the threshold, in [0, 1).
    smoothing_s: time constant of the load's average; 0 compares the bare count.
    burst: an instantaneous load of burst x threshold leaves the spec side at once; >= 1.
    dwell_s: least time after a switch before the gate comes back to the spec side.
    curves: what a profile says of both lanes. With them the side is weighed, and threshold, band,
        smoothing, burst and dwell are not used.
    contexts: the same by the length of the prompts (`core.contexts`); `curves` are its main ones.
    switches_per_h: with curves, after so many within an hour the gate stays on the plain side.
    fingerprint: what the curves, or the threshold of a profile, were measured on.
    adaptive: with curves, they are moved by the live accept length (`core.adaptive`).
    placement: on a shared pool the whole gate switches; split, each request is placed; alternate,
        the side is the lane that is wanted awake (`control.alternation`).
    shadow: everything goes to this lane, and the policy decides for show; None: it decides.
    """

    threshold: float | None = None
    band: float = 0.2
    smoothing_s: float = 60.0
    burst: float = 2.0
    dwell_s: float = 60.0
    curves: Curves | None = None
    contexts: Contexts | None = None
    fingerprint: Fingerprint | None = None
    switches_per_h: int = 12
    adaptive: bool = False
    placement: Placement = Placement.SHARED
    shadow: Lane | None = None

    @property
    def plain_above(self) -> float | None:
        """The edge at which the gate leaves the spec side: the threshold itself."""
        return self.threshold

    @property
    def speculate_below(self) -> float | None:
        """The edge below which the gate comes back to the spec side."""
        return None if self.threshold is None else self.threshold * (1.0 - self.band)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutConfig:
    """How long the data path waits, in seconds; None waits for ever.

    connect_s: for a lane to accept a connection.
    first_byte_s: from the request's last byte to the head of the response.
    idle_s: between two pieces of a response.
    send_s: for a client that does not read.
    """

    connect_s: float = 5.0
    first_byte_s: float | None = None
    idle_s: float | None = None
    send_s: float | None = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionConfig:
    """How much the gate lets in at once.

    max_in_flight: sequences in flight, both lanes together; None: as many as come.
    queue_size: requests that wait for room.
    queue_timeout_s: how long one waits.
    retry_after_s: what a refused one is told.
    hold: after a switch requests wait until the side that was left has so many sequences
        (`core.hold`); None: they do not.
    """

    max_in_flight: int | None = None
    queue_size: int = 0
    queue_timeout_s: float = 30.0
    retry_after_s: float = 1.0
    hold: Hold | None = None


Command = tuple[str, ...]
"""A program and its arguments: no shell reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternationConfig:
    """How the lanes take turns on a pool that holds only one of them.

    dwell_s: how long a lane stays awake at least, once it is.
    drain_s: how long all wait for what is in flight on it to end.
    step_s: how long parking or waking an engine may take, each.
    park, wake: a lane's command; of a lane that has none, its engine's own calls.
    """

    dwell_s: float = 600.0
    drain_s: float = 20.0
    step_s: float = 120.0
    park: Mapping[Lane, Command] = field(default_factory=dict)
    wake: Mapping[Lane, Command] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """What the data path adds to, and waits for on, the way through.

    peek_limit: bytes of a body that are read ahead and decoded for their few fields: 256 KiB are
        60 thousand tokens and a few hundred microseconds of work.
    request_usage: ask engines for a stream's token count where its client did not.
    expose_headers: answer with x-specgate-lane and x-specgate-reason.
    accel_buffering: add `X-Accel-Buffering: no` to event streams whose engine set none.
    force_lane: a client may name its lane in x-specgate-lane.
    admin_to_both: calls that change an engine go to both lanes; else they are refused.
    keep_conversations: learn which conversation a request belongs to (`core.rules`).
    """

    timeouts: TimeoutConfig = field(default_factory=TimeoutConfig)
    peek_limit: int = 256 * 1024
    request_usage: bool = False
    expose_headers: bool = True
    accel_buffering: bool = True
    force_lane: bool = False
    admin_to_both: bool = False
    keep_conversations: bool = False
