"""What was read from one engine, and what is said about it.

A fact that an engine did not tell is None, and stays so: the checks name it as not known, and none
of them puts a default in its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specgate.core.label import Label
from specgate.engines.base import Engine


class Severity(Label):
    """How bad a finding is. Warnings and errors make the exit code 1."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`check`: its name for scripts. `about`: an engine's label, or `lanes` for both. `evidence`:
    what was read where, with the value. `change`: what to do."""

    severity: Severity
    check: str
    about: str
    what: str
    evidence: tuple[str, ...]
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnown:
    """What could not be found out, and why."""

    about: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Read:
    """A value, and where it stood. `shown`: what stood there, if the value was made from it."""

    value: Any
    where: str
    shown: str | None = None

    def __str__(self) -> str:
        words = {None: "null", True: "true", False: "false"}
        plain = words[self.value] if isinstance(self.value, bool | None) else self.value
        return f"{self.where}: {plain if self.shown is None else self.shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Tokens a step. `over`: of how many steps it is the mean, None if that is not told."""

    length: float
    over: int | None
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRequest:
    """The one request that was sent. `accepted`: None if nothing was verified, or nothing told of
    it; `tells`: whether the engine says how many drafts were accepted in a request."""

    tokens: int
    took_s: float
    accepted: Accepted | None
    tells: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An answer to a GET. `status`: None if none came within `took_s`."""

    path: str
    status: int | None
    took_s: float

    @property
    def refuses(self) -> bool:
        """Whether it said that it is not ready."""
        return self.status is not None and self.status >= 500


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAlive:
    """How long an idle connection stayed open. `closed_after_s`: None if it was still open after
    `watched_s`; 0 if the engine closes after each answer."""

    watched_s: float
    closed_after_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """`fraction`: the share of a GPU that the engine may take. In GB and of one GPU: what was free
    when it started, what the weights took, and what is left of it. `gpus`: as it numbers them.
    `saver`: whether it can give memory back; `backup`, `draft`: whether a copy of its weights, and
    of its drafter's, is kept for then."""

    fraction: Read | None = None
    gpus: frozenset[int] | None = None
    weight_gb: float | None = None
    left_gb: float | None = None
    kv_tokens: Read | None = None
    saver: Read | None = None
    backup: Read | None = None
    draft: Read | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """`on`: whether the engine speculates. `steps`: the most drafts that one step can accept.
    `adaptive`: whether it changes them by load itself. `adaptive_asked`: whether it was told to;
    `adaptive_bars`: what rules that out, as far as the settings tell."""

    on: Read | None = None
    algorithm: str | None = None
    steps: Read | None = None
    topk: int | None = None
    adaptive: Read | None = None
    adaptive_asked: bool | None = None
    adaptive_bars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One engine. `addresses`: IP and port that its URL leads to. `settings`: what must be alike
    in both lanes. `launch`: the flags that it was started with, None if it does not tell.
    `in_flight`: requests that were running or waiting before ours, by sample. `process`: what tells
    it from any other engine. `metrics`: the status of `metrics_path`, asked without a key.
    `replicas`: of a balancer, which answers in their place."""

    label: str
    url: str
    addresses: frozenset[tuple[str, int]] = frozenset()
    engine: Engine = Engine.UNKNOWN
    version: str | None = None
    model: str | None = None
    device: str | None = None
    settings: Mapping[str, Read] = field(default_factory=dict)
    launch: frozenset[str] | None = None
    speculation: Speculation = field(default_factory=Speculation)
    cap: Read | None = None
    graph_limit: Read | None = None
    graphs_off: Read | None = None
    accepted: Accepted | None = None
    request: OwnRequest | None = None
    request_failed: str | None = None
    in_flight: tuple[Read, ...] = ()
    metrics: int | None = None
    metrics_path: str = "/metrics"
    counters: bool = False
    memory: Memory = field(default_factory=Memory)
    ready: Timed | None = None
    health: Timed | None = None
    keep_alive: KeepAlive | None = None
    process: tuple[Any, ...] | None = None
    replicas: "Replicas | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Engines behind a balancer: those that it takes to be up, all that it knows, and those whose
    tokens it tells, None for no page of them."""

    ready: int | None
    total: int | None
    counted: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The load that the engines should carry: `level` in flight, and where that number is from.
    `measured`: whether it is of a profile, and not the bench's default."""

    level: float
    where: str
    measured: bool
