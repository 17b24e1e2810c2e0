"""Who may not be admitted yet waits here: first come, first admitted.

A request waits while the gate has as many sequences in flight as it may, or while something bars
the way altogether. One that has no place, or whose time is over, is refused; one whose client
leaves gives up its place at once. It also waits while a switch's drain is held (`core.hold`), which
is for the sake of speed alone: no request is refused for it. A request that waits is in no ledger:
it is queued, and never in flight.

A waiting request is admitted by whoever makes room, in the same step: nobody who comes later can
take its place between its being called and its being awake.
"""

import asyncio
import math
from collections.abc import Callable

from specgate.control.admission import Admission
from specgate.control.gate import Gate
from specgate.core.config import AdmissionConfig
from specgate.core.errors import GateFault, QueueFull, QueueTimeout, Stopping
from specgate.core.hold import holds

HELD_MOST = 1024
"""Requests that wait for a drain; what comes beyond them does not."""

Admit = Callable[[], Admission]


class AdmissionQueue:
    """`straight`: nothing bars the way and nobody waits, so that asking here is needless. Of one
    event loop."""

    def __init__(self, gate: Gate, config: AdmissionConfig) -> None:
        self._gate = gate
        self._config = config
        self._waiting: dict[Waiter, None] = {}
        """In the order of their coming."""
        self._stopping: str | None = None
        """Why everybody is refused, if so."""
        self._fence: str | None = None
        self._drained_at: float | None = None
        """Of which switch the hold is over (`Gate.left_at`)."""
        self.straight = True
        self._settle()

    def __len__(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    def use(self, config: AdmissionConfig) -> None:
        """Other limits from now on; who waits is looked at again."""
        self._config = config
        self.turn()

    def fence(self, why: str | None) -> None:
        """Until it is called with None nobody is admitted, those that are no load included."""
        self._fence = why
        if why is None:
            # What is no load waited for this alone, and not for room like those before it.
            for waiter in [waiter for waiter in self._waiting if not waiter.sequences]:
                del self._waiting[waiter]
                waiter.call()
        self.turn()

    @property
    def fenced(self) -> bool:
        return self._fence is not None

    def stop(self, why: str) -> int:
        """Refuse whoever waits and whoever comes. How many waited."""
        self._stopping = why
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            waiter.refuse(Stopping(why, retry_after_s=self._retry_after_s))
        self._settle()
        return len(waiting)

    def place(self, sequences: int) -> "Waiter | None":
        """None: it may be admitted now. sequences: 0 for what is no load, which only a fence bars.

        Raises QueueFull, Stopping.
        """
        if self._stopping is not None:
            # A fault for each: one that is raised again and again keeps the frames of all.
            raise Stopping(self._stopping, retry_after_s=self._retry_after_s)
        if self._waiting:
            # A hold ends by time, and nobody says so before the next tick: who waited for it goes
            # first, and does not fill the queue for who comes now.
            self.turn()
        full = self._has_no_room(sequences)
        held = sequences > 0 and self._is_held()
        if not full and not held and not (self._waiting and sequences):
            return None
        if held and not full:
            return Waiter(self, sequences) if len(self._waiting) < HELD_MOST else None
        if len(self._waiting) >= self._config.queue_size:
            raise QueueFull(self._full(), retry_after_s=self._retry_after_s)
        return Waiter(self, sequences)

    def turn(self) -> None:
        """Admit whoever may be, in order: called when there may be room."""
        while self._waiting:
            first = next(iter(self._waiting))
            if self._has_no_room(first.sequences) or (first.sequences and self._is_held()):
                break
            del self._waiting[first]
            first.call()
        self._settle()

    def enter(self, waiter: "Waiter") -> None:
        self._waiting[waiter] = None
        self._settle()

    def forget(self, waiter: "Waiter") -> None:
        """It waits no more; nothing if it did not."""
        self._waiting.pop(waiter, None)
        # It may have barred the way for smaller ones behind it.
        self.turn()

    def late(self, waiter: "Waiter") -> None:
        """Its time is over: it is refused, or admitted if it waited for a drain alone."""
        self.turn()  # a hold may be over by now
        if waiter not in self._waiting:
            return
        if self._is_held() and not self._has_no_room(waiter.sequences):
            self._waiting.pop(waiter, None)
            waiter.call()
            return
        message = f"no room within {self.timeout_s:g} s in the queue; try again shortly"
        waiter.refuse(QueueTimeout(message, retry_after_s=self._retry_after_s))

    @property
    def timeout_s(self) -> float:
        return self._config.queue_timeout_s

    def _is_held(self) -> bool:
        """Whether the lane that was left still drains, and is given the time for it."""
        hold, left_at = self._config.hold, self._gate.left_at
        if hold is None or left_at is None or left_at == self._drained_at:
            return False
        if (drain := self._gate.draining()) is not None:
            old, held_s, duration_s = drain
            if holds(hold, old=old, held_s=held_s, duration_s=duration_s):
                return True
        self._drained_at = left_at
        return False

    def _has_no_room(self, sequences: int) -> bool:
        if self._fence is not None:
            return True
        limit = self._config.max_in_flight
        if limit is None or not sequences:
            return False
        # One that is larger than the limit goes alone: else it could never go.
        in_flight = self._gate.in_flight
        return in_flight > 0 and in_flight + sequences > limit

    @property
    def _retry_after_s(self) -> int:
        return max(1, math.ceil(self._config.retry_after_s))

    def _full(self) -> str:
        if self._fence is not None:
            return f"{self._fence}, and {len(self._waiting)} requests wait already"
        limit = self._config.max_in_flight
        what = f"{self._gate.in_flight} sequences are in flight of {limit} that may be"
        size = self._config.queue_size
        return f"{what}, and {len(self._waiting)} requests wait" if size else what

    def _settle(self) -> None:
        """Ask to be told of room while somebody waits; and whether there is anything to ask."""
        self._gate.queued = len(self._waiting)
        self._gate.made_room = self.turn if self._waiting else None
        self.straight = not (
            self._waiting
            or self._config.max_in_flight is not None
            or self._config.hold is not None
            or self._fence is not None
            or self._stopping is not None
        )


class Waiter:
    """A request's place in the queue."""

    __slots__ = ("_admit", "_called", "_queue", "sequences")

    def __init__(self, queue: AdmissionQueue, sequences: int) -> None:
        self._queue = queue
        self.sequences = sequences

    async def admission(self, admit: Admit) -> Admission:
        """Wait for room and be admitted. Raises QueueTimeout, Stopping, and what `admit` raises."""
        loop = asyncio.get_running_loop()
        self._admit = admit
        self._called: asyncio.Future[Admission] = loop.create_future()
        late = loop.call_later(self._queue.timeout_s, self._late)
        self._queue.enter(self)
        try:
            return await self._called
        except asyncio.CancelledError:
            # It may have been admitted in the very step in which its client left.
            if not self._called.cancelled() and self._called.exception() is None:
                self._called.result().__exit__(None, None, None)
            raise
        finally:
            late.cancel()
            self._queue.forget(self)

    def call(self) -> None:
        """There is room: be admitted, unless its client has left and it does not know yet."""
        if self._called.done():
            return
        try:
            self._called.set_result(self._admit())
        except Exception as error:  # noqa: BLE001 - whoever made room is not to blame
            self._called.set_exception(error)

    def refuse(self, fault: GateFault) -> None:
        if not self._called.done():
            self._called.set_exception(fault)

    def _late(self) -> None:
        self._queue.late(self)
