"""One lane's engine: takes calls, gives them their tokens, keeps the counts, suffers the faults."""

import asyncio
import contextlib
from collections.abc import Sequence as Several

from specgate.core.lanes import Lane
from specgate.sim.call import Call, Order, Ticket
from specgate.sim.driver import PoolDriver
from specgate.sim.faults import Faults
from specgate.sim.memory import Crash, Holder, Memory
from specgate.sim.meters import Meters
from specgate.sim.model import CannotFitError, LaneModel, Place, Sequence
from specgate.sim.pool import Ended
from specgate.sim.profiles import LaneShape, Profile
from specgate.sim.text import LostTape, Tape

CONTEXT_TOKENS = 131_072

NO_DRAFT = 1e-9
"""An accept length's factor that brings it down to 1."""


class DuplicateRidError(ValueError):
    """A call with this id is in flight."""


class EngineClosedError(RuntimeError):
    """The engine takes no more calls."""


class Engine:
    """What the HTTP surface talks to, and what tests look into.

    `ready`: False while starting. `draining`: new requests are still taken, probes say 503.
    """

    def __init__(
        self,
        lane: Lane,
        profile: Profile,
        driver: PoolDriver,
        *,
        model_name: str = "sim",
        seed: int = 0,
        holder: Holder | None = None,
        asleep: bool = False,
    ) -> None:
        """holder: the pool's room for engines; None: there is enough. asleep: it starts so."""
        self.lane = lane
        self.profile = profile
        self.driver = driver
        self.model_name = model_name
        self.seed = seed
        self._tape, self._lost_tape = Tape(seed), LostTape(seed)
        self.model = LaneModel(profile.lanes[lane], seed=seed)
        self.meters = Meters()
        self.faults = Faults()
        self.ready = True
        self.draining = False
        self.crashed = False
        self.on_crash: Crash | None = None
        self._closed = asyncio.Event()
        self._calls: dict[str, Call] = {}
        self._tickets: dict[Sequence, Ticket] = {}
        self._draft_lost = False
        driver.attach(self.model, self._ended)
        self.memory = Memory(self, holder or Holder(most=len(Lane)), asleep=asleep)

    @property
    def shape(self) -> LaneShape:
        return self.model.shape

    @property
    def tape(self) -> Tape:
        return self._lost_tape if self.memory.garbage else self._tape

    @property
    def in_flight(self) -> int:
        """Sequences that it has."""
        return self.meters.in_flight

    @property
    def context_tokens(self) -> int:
        """Most tokens of prompt and output of one sequence."""
        return min(CONTEXT_TOKENS, self.shape.kv_tokens)

    def call(self, rid: str, orders: Several[Order], *, streaming: bool) -> Call:
        """A scope around one request's sequences.

        Entering it raises DuplicateRidError, CannotFitError or EngineClosedError.
        """
        return Call(
            rid=rid, orders=orders, streaming=streaming, enter=self._enter, leave=self._leave
        )

    def abort_matching(self, prefix: str) -> int:
        """Abort every call whose id begins so; each still gets its last chunk. How many."""
        matching = [call for rid, call in self._calls.items() if rid.startswith(prefix)]
        for call in matching:
            for ticket in call.tickets:
                if self.driver.abort(self.lane, ticket.sequence):
                    self._tickets.pop(ticket.sequence, None)
                    ticket.abort()
        return len(matching)

    async def pause(self, seconds: float | None) -> None:
        """Wait so long in real time, None for ever, but no longer than the engine lives."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    def close(self) -> None:
        """Abort every call, end every pause, take no more calls."""
        self._closed.set()
        self.abort_matching("")

    def crash(self) -> None:
        """End as a process does: no answer to anyone, no listener."""
        if self.crashed:
            return
        self.crashed, self.ready = True, False
        self.memory.end()
        if self.on_crash is not None:
            self.on_crash()
        self.close()

    def freeze(self) -> None:
        self.model.frozen = True

    def thaw(self) -> None:
        self.model.frozen = False
        self.driver.thaw(self.lane)

    def lose_draft(self) -> None:
        self._draft_lost = True
        self.model.set_accept_factor(NO_DRAFT)

    def set_faults(self, faults: Faults) -> None:
        """Replaces whatever was set before; `Faults()` is a healthy engine."""
        self.faults = faults
        self.model.slow_factor = faults.slow_factor
        factor = NO_DRAFT if self._draft_lost else faults.accept_length_factor
        self.model.set_accept_factor(factor)

    def request_faults(self) -> Faults:
        """The faults that one more generation request meets; counts it off `times`."""
        faults = self.faults
        if not faults.spoils_requests or faults.times is None:
            return faults
        if faults.times == 0:
            return Faults()
        self.faults = faults.counted_off()
        return faults

    def state(self) -> dict[str, object]:
        """The exact truth, for tests: counts of sequences, and of tokens generated."""
        return {
            "lane": self.lane.value,
            "profile": self.profile.id,
            "running": self.model.running,
            "queued": self.model.queued,
            "in_flight": self.meters.in_flight,
            "max_in_flight_seen": self.meters.max_in_flight,
            "served": self.meters.served,
            "aborted": self.meters.aborted,
            "tokens": self.model.tokens,
            "accept_length": self.model.accept_length,
            "kv_reserved": self.model.kv_reserved,
            "paused": self.memory.paused,
            "released": self.memory.released,
            "releases": self.memory.releases,
            "crashed": self.crashed,
        }

    def _enter(self, call: Call) -> None:
        if self._closed.is_set():
            raise EngineClosedError("the engine is shutting down")
        if call.rid in self._calls:
            raise DuplicateRidError(f"a request with id {call.rid!r} is in flight")
        now = self.driver.time()
        try:
            for index, order in enumerate(call.orders):
                sequence = self.driver.submit(self.lane, order.job)
                ticket = Ticket(call, index, sequence, now)
                call.tickets.append(ticket)
                self._tickets[sequence] = ticket
        except CannotFitError:
            self._drop(call)
            raise
        self._calls[call.rid] = call
        self.meters.entered(len(call.tickets), sum(o.job.prompt_tokens for o in call.orders))

    def _leave(self, call: Call) -> None:
        del self._calls[call.rid]
        self._drop(call)
        served = sum(t.sequence.place is Place.FINISHED for t in call.tickets)
        self.meters.left(served=served, aborted=len(call.tickets) - served)

    def _drop(self, call: Call) -> None:
        for ticket in call.tickets:
            if self._tickets.pop(ticket.sequence, None) is not None:
                self.driver.abort(self.lane, ticket.sequence)

    def _ended(self, ended: Ended) -> None:
        at = self.driver.time()
        for sequence, tokens, finished in ended.done.progress:
            ticket = self._tickets.get(sequence)
            if ticket is None:
                continue
            self.meters.chunk(ticket, tokens, at)
            if finished:
                del self._tickets[sequence]
                self.meters.finished(ticket, at)
            ticket.give(tokens, finished=finished)
        self.meters.operation(ended.done, self.model, at)
