"""The ledger against a model: whatever order requests come, end and end again in."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from specgate.core.lanes import Lane
from specgate.ledger.base import Entry, Ledger
from specgate.ledger.local import LocalLedger
from tests.support.clocks import ManualClock


class Ledgers(RuleBasedStateMachine):
    """`there` is the model: what has entered and not left, with the moment of its coming."""

    ledger: Ledger

    inside = Bundle("inside")
    gone = Bundle("gone")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.ledger = LocalLedger()
        self.there: dict[Entry, tuple[Lane, int, float]] = {}

    @rule(target=inside, lane=st.sampled_from(Lane), sequences=st.integers(1, 1024))
    def enter(self, lane: Lane, sequences: int) -> Entry:
        entry = self.ledger.enter(lane, sequences, self.clock())
        assert (entry.lane, entry.sequences) == (lane, sequences)
        assert entry not in self.there
        self.there[entry] = (lane, sequences, self.clock())
        return entry

    @rule(target=gone, entry=consumes(inside))
    def leave(self, entry: Entry) -> Entry:
        assert self.ledger.leave(entry) is True
        del self.there[entry]
        return entry

    @rule(entry=gone)
    def leave_again(self, entry: Entry) -> None:
        assert self.ledger.leave(entry) is False

    @rule(lane=st.sampled_from(Lane))
    def leave_another_ledger_s(self, lane: Lane) -> None:
        stranger = LocalLedger().enter(lane, 7, self.clock())
        assert self.ledger.leave(stranger) is False

    @rule(seconds=st.floats(0, 1e6))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def it_is_exact(self) -> None:
        counts = self.ledger.counts()
        for lane in Lane:
            expected = sum(n for where, n, _ in self.there.values() if where is lane)
            assert counts.of(lane) == expected >= 0
        assert counts.total == counts.spec + counts.plain

    @invariant()
    def the_oldest_is_the_oldest(self) -> None:
        came = [at for _, _, at in self.there.values()]
        expected = self.clock() - min(came) if came else None
        assert self.ledger.oldest_s(self.clock()) == expected

    def teardown(self) -> None:
        for entry in list(self.there):
            assert self.ledger.leave(entry) is True
        counts = self.ledger.counts()
        assert (counts.spec, counts.plain, counts.total) == (0, 0, 0)
        assert self.ledger.oldest_s(self.clock()) is None


Ledgers.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLocalLedger = Ledgers.TestCase
