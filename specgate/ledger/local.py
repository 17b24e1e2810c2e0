"""The ledger of one process."""

from dataclasses import dataclass

from specgate.core.lanes import Lane
from specgate.core.load import Counts
from specgate.ledger.base import Entry, Recount


@dataclass(slots=True, eq=False)
class LocalEntry:
    lane: Lane
    sequences: int
    entered_at: float


class LocalLedger:
    """Sums kept as they change, and the entries in the order of their coming."""

    def __init__(self) -> None:
        # Insertion order is age order, so the oldest is the first. No key outlives its request.
        self._entries: dict[Entry, float] = {}
        self._sums = {Lane.SPEC: 0, Lane.PLAIN: 0}
        self.total = 0

    def enter(self, lane: Lane, sequences: int, now: float) -> Entry:
        entry = LocalEntry(lane, sequences, now)
        self._entries[entry] = now
        self._sums[lane] += sequences
        self.total += sequences
        return entry

    def leave(self, entry: Entry) -> bool:
        if self._entries.pop(entry, None) is None:
            return False
        self._sums[entry.lane] -= entry.sequences
        self.total -= entry.sequences
        return True

    def counts(self) -> Counts:
        return Counts(spec=self._sums[Lane.SPEC], plain=self._sums[Lane.PLAIN])

    def recount(self) -> Recount:
        entries, sequences = dict.fromkeys(Lane, 0), dict.fromkeys(Lane, 0)
        for entry in self._entries:
            entries[entry.lane] += 1
            sequences[entry.lane] += entry.sequences
        return Recount(
            Counts(spec=entries[Lane.SPEC], plain=entries[Lane.PLAIN]),
            Counts(spec=sequences[Lane.SPEC], plain=sequences[Lane.PLAIN]),
        )

    def oldest_s(self, now: float) -> float | None:
        for entered_at in self._entries.values():
            return max(0.0, now - entered_at)
        return None
