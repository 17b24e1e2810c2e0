"""The lanes in turn, on a pool that holds one of them: it is awake and serves, the other sleeps.

The policy wants a side; the Alternator sees to it that its lane is the one that is awake, once the
dwell is over. While the lanes change places nobody is admitted: who comes waits in the queue.

    serving -> drain -> idle -> park -> wake -> check -> serving, on the other lane
                 |        |       |       |        |
                 +--------+       +-------+--------+-> whichever lane can be made to serve
                 the lane serves on

What failed is told, and tried again after a pause that doubles. Where neither lane can be made to
serve, both are tried in turn, for ever: requests then leave the queue by its time-out. What is
known of an engine is what it says itself (`Hands.look`), never what it was told to do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from specgate.control.admission_queue import AdmissionQueue
from specgate.control.alternation_hands import Found, Hands, StepFailedError
from specgate.control.gate import Gate
from specgate.core.alternation import AlternationView, Backoff, Step
from specgate.core.config import AlternationConfig
from specgate.core.events import Alternated, AlternationFailed, Observer
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin

EVERY_S = 0.25
"""How often it is looked whether the lanes are to change places."""

LOOK_S = 0.05
"""How often a drain is looked at."""

SPARE_S = 10.0
"""How often the lane that sleeps is looked at: somebody may have started its engine again."""

DOUBTS = 3
"""A lane that took no connection is looked at so often, DOUBT_S apart, before it is given up."""
DOUBT_S = 0.5

RETRY_S = (30.0, 3600.0)
"""The pauses after alternations that failed: each costs a drain, and a lane serves all the same."""

NEITHER_S = (1.0, 30.0)
"""The pauses while no lane serves, or none that may: requests wait."""

SETTLE_S = 5.0
"""How long the end of the process waits for lanes that are changing; its drain waited before."""


class Alternator:
    """`turn` is a supervised loop's. `clock`: monotonic seconds. From the start on nobody is
    admitted until it is known which lane is awake."""

    def __init__(
        self,
        *,
        gate: Gate,
        queue: AdmissionQueue,
        hands: Hands,
        config: AlternationConfig,
        observe: Observer,
        clock: Callable[[], float],
        retry_s: tuple[float, float] = RETRY_S,
        neither_s: tuple[float, float] = NEITHER_S,
    ) -> None:
        self._gate = gate
        self._queue = queue
        self._hands = hands
        self._config = config
        self._observe = observe
        self._clock = clock
        self._retry = Backoff(*retry_s)
        self._neither = Backoff(*neither_s)
        self._origins: dict[Lane, Origin] = {}
        """Where the lanes are of which something is known."""
        self._awake: Lane | None = None
        self._since = self._closed_at = self._spare_at = clock()
        self._spare = False
        """The lane that is to sleep does not."""
        self._doubted = False
        self._step: Step | None = None
        self._failed: tuple[Step, str] | None = None
        self._alternations = 0
        self._hopeless = True
        """No lane is known that could be made to serve."""
        gate.turns = self
        for lane in Lane:
            gate.sleep(lane)
        queue.fence(_FINDING)

    # What the gate asks

    @property
    def changing(self) -> bool:
        return (self._awake is None or self._step is not None) and not self._hopeless

    def look(self) -> None:
        if self._awake is not None and (self._moved() or self._must_leave(self._awake)):
            self._close(f"the {self._awake} lane is to serve no more")

    def hurry(self) -> None:
        self._retry.over()

    def doubt(self, lane: Lane) -> bool:
        if self._awake is not None and lane is not self._awake:
            return False
        if self._awake is not None:
            self._doubted = True
            self._close(f"the {lane} lane took no connection, and is looked at")
        return True

    def view(self) -> AlternationView:
        now = self._clock()
        failed, why = self._failed or (None, None)
        pause = self._neither if self._awake is None else self._retry
        return AlternationView(
            awake=self._awake,
            wanted=self._gate.wanted,
            step=self._step,
            failed=failed,
            why=why,
            retry_s=pause.left_s(now) if failed is not None else None,
            alternations=self._alternations,
        )

    # What it does

    async def turn(self) -> None:
        """Look once whether something is to be done, and do it."""
        try:
            if self._moved():
                await self._find()
            if self._awake is not None:
                await self._serve_on(self._awake)
            elif self._neither.left_s(self._clock()) == 0.0:
                wanted = self._gate.wanted
                await self._raise_first((wanted, wanted.other), before=None)
        finally:
            self._step = None
            self._open()

    async def settle(self, within_s: float) -> None:
        """Wait until the lanes stay where they are; no longer than this."""
        until = self._clock() + within_s
        while self.changing and self._clock() < until:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    async def _find(self) -> None:
        """Find out which lane is awake."""
        self._close(_FINDING)
        self._hands.forget()
        origins = {lane: self._gate.origin(lane) for lane in Lane}
        up = [lane for lane in Lane if await self._hands.look(origins[lane]) is Found.AWAKE]
        self._origins, self._awake, self._spare = origins, None, len(up) > 1
        for lane in Lane:
            self._gate.sleep(lane)
        if up:
            await self._prove(self._gate.wanted if self._spare else up[0])

    async def _serve_on(self, awake: Lane) -> None:
        """A turn while a lane is awake."""
        gone, self._doubted = self._doubted and await self._is_gone(awake), False
        if self._gate.stopping:
            return
        now = self._clock()
        if gone or self._must_leave(awake):
            if self._neither.left_s(now) == 0.0:
                await self._alternate(awake, self._neither, leave=True)
            return
        if self._retry.left_s(now) > 0.0:
            return
        if now - self._spare_at >= SPARE_S:
            self._spare_at = now
            self._spare |= await self._hands.look(self._origin(awake.other)) is Found.AWAKE
        if self._spare:
            await self._park_spare(awake.other)
        over = self._gate.forced or now - self._since >= self._config.dwell_s
        if self._gate.wanted is not awake and over:
            await self._alternate(awake, self._retry, leave=False)

    async def _alternate(self, old: Lane, pause: Backoff, *, leave: bool) -> None:
        """Bring the other lane up in this one's place, or leave things as they were.

        leave: this lane may not stay. pause: after a failure.
        """
        new = old.other
        if not leave and not await self._can_wake(new):
            pause.failed(self._clock())
            self._tell(
                StepFailedError(Step.WAKE, "it is not up, and no drain was begun"), new, pause
            )
            return
        self._close(f"the {new} lane is being woken in place of the {old} lane")
        try:
            if not await self._is_empty(old, leave=leave):
                return
        except StepFailedError as failed:
            pause.failed(self._clock())
            self._tell(failed, old, pause)
            return
        # In this very step it had nothing in hand, and from here on it gets nothing.
        self._gate.sleep(old)
        self._awake, self._spare = None, False
        order = (new, old)
        try:
            await self._within(Step.PARK, self._hands.park(self._origin(old)))
        except StepFailedError as failed:
            self._tell(failed, old)
            if await self._hands.look(self._origin(old)) is Found.AWAKE:
                order = (old, new)
        await self._raise_first(order, before=old)
        if self._awake is new:
            self._alternations += 1
            self._failed = None
            self._retry.clear()
        else:
            pause.failed(self._clock())

    async def _can_wake(self, lane: Lane) -> bool:
        """Whether it is worth a drain to try."""
        found = await self._hands.look(self._origin(lane))
        return lane in self._config.wake or found in (Found.ASLEEP, Found.AWAKE)

    async def _is_empty(self, lane: Lane, *, leave: bool) -> bool:
        """Wait until a lane has nothing in hand, ours or anybody's; False if it may stay after all.
        Raises StepFailedError for what does not end in time."""
        until = self._clock() + self._config.drain_s
        while not self._is_called_off(lane, leave=leave):
            self._step = Step.DRAIN
            carried, beyond = self._gate.lanes[lane].carried, 0
            if not carried:
                self._step = Step.IDLE
                beyond = await self._others_have(lane, leave=leave)
                carried = self._gate.lanes[lane].carried
                if not carried and not beyond and not self._is_called_off(lane, leave=leave):
                    return True
            if self._clock() >= until:
                limit = f"within {self._config.drain_s:g} s"
                if carried:
                    raise StepFailedError(Step.DRAIN, f"{carried} requests did not end {limit}")
                raise StepFailedError(
                    Step.IDLE, f"its engine had {beyond} sequences of others, not ended {limit}"
                )
            await asyncio.sleep(LOOK_S)
        return False

    def _is_called_off(self, lane: Lane, *, leave: bool) -> bool:
        """Whether a lane may stay awake: nothing was done to it yet."""
        return self._gate.stopping or (not leave and self._gate.wanted is lane)

    async def _others_have(self, lane: Lane, *, leave: bool) -> int:
        """Sequences that a lane's engine has in hand; of one that is ill and does not say, none."""
        try:
            return await self._hands.in_hand(self._origin(lane))
        except StepFailedError:
            if leave or await self._hands.look(self._origin(lane)) is Found.GONE:
                return 0
            raise

    async def _raise_first(self, order: tuple[Lane, Lane], before: Lane | None) -> None:
        """Make the first lane serve that can be made to. before: the one that did."""
        for lane in order:
            # Of one that an operator drains the engine may be about to stop.
            if not self._gate.lanes[lane].draining and await self._raise(lane):
                took_s = self._clock() - self._closed_at
                self._observe(Alternated(lane=lane, took_s=took_s, back=lane is before))
                return
        self._hopeless = True
        self._neither.failed(self._clock())

    async def _raise(self, lane: Lane) -> bool:
        """Wake a lane and see whether it serves. If not it is parked again: half awake it could
        hold what the other one needs."""
        origin, late = self._origin(lane), False
        if await self._hands.look(origin) is not Found.AWAKE and not await self._is_clear_of(
            lane.other
        ):
            return False
        try:
            await self._within(Step.WAKE, self._hands.wake(origin))
        except StepFailedError as failed:
            self._tell(failed, lane)
            late = failed.late
        else:
            if await self._prove(lane):
                return True
        with suppress(StepFailedError):
            await self._within(Step.PARK, self._hands.park(origin, waking=late))
        return False

    async def _is_clear_of(self, lane: Lane) -> bool:
        """Whether the pool does not hold this lane, or not any more: two have no room."""
        origin = self._origin(lane)
        if await self._hands.look(origin) is not Found.AWAKE:
            return True
        try:
            await self._within(Step.PARK, self._hands.park(origin))
        except StepFailedError as failed:
            self._tell(failed, lane)
            return False
        return True

    async def _prove(self, lane: Lane) -> bool:
        """See whether a lane that is up answers as it should: then it is the one that serves."""
        try:
            await self._within(Step.CHECK, self._hands.check(self._origin(lane)))
        except StepFailedError as failed:
            self._tell(failed, lane)
            return False
        self._awake, self._since = lane, self._clock()
        self._doubted = self._hopeless = False
        self._neither.clear()
        self._gate.wake(lane)
        return True

    async def _is_gone(self, lane: Lane) -> bool:
        """Whether a lane that took no connection still takes none, or is not ready."""
        for each in range(DOUBTS):
            if each:
                await asyncio.sleep(DOUBT_S)
            if await self._hands.look(self._origin(lane)) is Found.AWAKE:
                return False
        return True

    async def _park_spare(self, lane: Lane) -> None:
        """Both lanes were found awake. The one that is wanted serves meanwhile: nobody waits."""
        try:
            if not await self._others_have(lane, leave=False):
                await self._within(Step.PARK, self._hands.park(self._origin(lane)))
                self._spare = False
        except StepFailedError as failed:
            self._retry.failed(self._clock())
            self._tell(failed, lane, self._retry)

    async def _within(self, step: Step, doing: Awaitable[None]) -> None:
        self._step = step
        limit_s = self._config.step_s
        try:
            async with asyncio.timeout(limit_s):
                await doing
        except TimeoutError as error:
            raise StepFailedError(step, f"not done within {limit_s:g} s", late=True) from error

    def _origin(self, lane: Lane) -> Origin:
        """Where the lane is of which something is known, with its engine's key of now."""
        known, now = self._origins[lane], self._gate.origin(lane)
        return now if now == known else known

    def _moved(self) -> bool:
        """Whether a lane has another URL than the one of which something is known."""
        return any(self._origins.get(lane) != self._gate.origin(lane) for lane in Lane)

    def _must_leave(self, awake: Lane) -> bool:
        """Whether the lane that is awake may serve no more, whatever the policy wants. One that is
        ejected may while the other drains: then it is the last resort."""
        lanes = self._gate.lanes
        ejected = lanes[awake].health is Health.EJECTED
        return lanes[awake].draining or (ejected and not lanes[awake.other].draining)

    def _close(self, why: str) -> None:
        if not self._queue.fenced:
            self._closed_at = self._clock()
        self._queue.fence(why)

    def _open(self) -> None:
        """Admit again, where there is a lane to admit to: an ejected one is asked all the same, as
        the last resort; one that drains is not."""
        awake = self._awake
        if awake is None or self._moved() or self._doubted or self._gate.lanes[awake].draining:
            return
        self._queue.fence(None)

    def _tell(self, failed: StepFailedError, lane: Lane, pause: Backoff | None = None) -> None:
        self._failed = (failed.step, f"{lane}: {failed}")
        self._observe(
            AlternationFailed(
                step=failed.step,
                lane=lane,
                why=str(failed),
                awake=self._awake,
                retry_s=None if pause is None else pause.left_s(self._clock()),
            )
        )


_FINDING = "it is being found out which lane is awake"
