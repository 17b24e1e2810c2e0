"""The ledger's contract.

A request enters once and leaves once, on every path. Calls are synchronous and never block: the
gate decides and enters with no await between, so that no arrival slips in unseen. A ledger that
others share (other processes, other hosts) answers from what it knows and settles in its own time.
"""

from typing import NamedTuple, Protocol

from specgate.core.lanes import Lane
from specgate.core.load import Counts


class Entry(Protocol):
    """One request's place in the account."""

    @property
    def lane(self) -> Lane: ...

    @property
    def sequences(self) -> int: ...


class Recount(NamedTuple):
    """What the entries themselves say: how many there are, and their sequences."""

    entries: Counts
    sequences: Counts


class Ledger(Protocol):
    """See the module. `now` is monotonic seconds."""

    def enter(self, lane: Lane, sequences: int, now: float) -> Entry:
        """Count `sequences` (>= 1) on `lane` until the entry leaves."""
        ...

    def leave(self, entry: Entry) -> bool:
        """Stop counting; False, and nothing changed, if the entry had left before."""
        ...

    @property
    def total(self) -> int:
        """Sequences in flight now, both lanes together."""
        ...

    def counts(self) -> Counts:
        """What is in flight now. O(1)."""
        ...

    def recount(self) -> Recount:
        """This process's own entries counted one by one, to hold the sums against. O(in flight)."""
        ...

    def oldest_s(self, now: float) -> float | None:
        """Age of the oldest entry, None if there is none. O(1)."""
        ...
