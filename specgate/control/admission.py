"""What a request gets from the gate: a lane, and the scope in which it is in flight."""

from types import TracebackType
from typing import Protocol

from specgate.core.demand import Mark
from specgate.core.policy import Decision
from specgate.ledger.base import Entry
from specgate.upstream.base import Origin


class Admitting(Protocol):
    """The gate, as an admission sees it."""

    def leave(self, admission: "Admission") -> None:
        """Take it out of all accounts; once, whatever is called how often."""
        ...


class Admission:
    """A decision, and the scope in which its request is in flight: left once, on every path.

    entry: its place in the ledger, None where it is no load. mark: its place in the demand.
    """

    __slots__ = ("_gate", "entry", "lane", "left", "mark", "origin", "reason")

    def __init__(
        self,
        gate: Admitting,
        decision: Decision,
        origin: Origin,
        entry: Entry | None,
        mark: Mark | None = None,
    ) -> None:
        self._gate = gate
        self.lane = decision.lane
        self.reason = decision.reason
        self.origin = origin
        self.entry = entry
        self.mark = mark
        self.left = False

    def __enter__(self) -> "Admission":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gate.leave(self)
