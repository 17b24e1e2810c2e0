"""The steps of an alternation, each of one lane: empty it, park it, wake it, see whether it serves.

Which lane, and when, is `control.alternation`'s business; how it is done to an engine, that of
`control.alternation_hands`. Each step of an engine has a limit of time, and what failed is told.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from specgate.control.alternation_hands import Found, Hands, StepFailedError
from specgate.control.gate import Gate
from specgate.core.alternation import Step
from specgate.core.config import AlternationConfig
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin

LOOK_S = 0.05
"""How often a drain is looked at."""

DOUBTS = 3
"""A lane that took no connection is looked at so often, DOUBT_S apart, before it is given up."""
DOUBT_S = 0.5


class Steps:
    """`current`: the step that is under way. `tell`: of one that failed, and nobody is told of it
    by an error. `clock`: monotonic seconds."""

    def __init__(
        self,
        gate: Gate,
        hands: Hands,
        config: AlternationConfig,
        clock: Callable[[], float],
        tell: Callable[[StepFailedError, Lane], None],
    ) -> None:
        self._gate = gate
        self._hands = hands
        self._config = config
        self._clock = clock
        self._tell = tell
        self._origins: dict[Lane, Origin] = {}
        """Where the lanes are of which something is known."""
        self.current: Step | None = None

    # Where the lanes are

    @property
    def moved(self) -> bool:
        """Whether a lane has another URL than the one of which something is known."""
        return any(self._origins.get(lane) != self._gate.origin(lane) for lane in Lane)

    async def find(self) -> list[Lane]:
        """Look at both lanes where they are now; those that are awake."""
        self._hands.forget()
        origins = {lane: self._gate.origin(lane) for lane in Lane}
        up = [lane for lane in Lane if await self._hands.look(origins[lane]) is Found.AWAKE]
        self._origins = origins
        return up

    def _origin(self, lane: Lane) -> Origin:
        """Where the lane is of which something is known, with its engine's key of now."""
        known, now = self._origins[lane], self._gate.origin(lane)
        return now if now == known else known

    # What its engine is

    async def is_awake(self, lane: Lane) -> bool:
        return await self._hands.look(self._origin(lane)) is Found.AWAKE

    async def can_wake(self, lane: Lane) -> bool:
        """Whether it is worth a drain to try."""
        found = await self._hands.look(self._origin(lane))
        return lane in self._config.wake or found in (Found.ASLEEP, Found.AWAKE)

    async def is_gone(self, lane: Lane) -> bool:
        """Whether a lane that took no connection still takes none, or is not ready."""
        for each in range(DOUBTS):
            if each:
                await asyncio.sleep(DOUBT_S)
            if await self.is_awake(lane):
                return False
        return True

    # Down

    async def emptied(self, lane: Lane, called_off: Callable[[], bool], *, leave: bool) -> bool:
        """Wait until a lane has nothing in hand, ours or anybody's; False if it may stay after all.
        Raises StepFailedError for what does not end in time.

        called_off: whether it may, as nothing was done to it yet. leave: it may not stay.
        """
        until = self._clock() + self._config.drain_s
        while not called_off():
            self.current = Step.DRAIN
            carried, beyond = self._gate.lanes[lane].carried, 0
            if not carried:
                self.current = Step.IDLE
                beyond = await self.others_have(lane, leave=leave)
                carried = self._gate.lanes[lane].carried
                if not carried and not beyond and not called_off():
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

    async def others_have(self, lane: Lane, *, leave: bool) -> int:
        """Sequences that a lane's engine has in hand; of one that is ill and does not say, none."""
        try:
            return await self._hands.in_hand(self._origin(lane))
        except StepFailedError:
            if leave or await self._hands.look(self._origin(lane)) is Found.GONE:
                return 0
            raise

    async def park(self, lane: Lane) -> None:
        """Have its engine give its memory back. Raises StepFailedError."""
        await self._within(Step.PARK, self._hands.park(self._origin(lane)))

    # Up

    async def raised(self, lane: Lane) -> bool:
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
            if await self.proved(lane):
                return True
        with suppress(StepFailedError):
            await self._within(Step.PARK, self._hands.park(origin, waking=late))
        return False

    async def proved(self, lane: Lane) -> bool:
        """See whether a lane that is up answers as it should."""
        try:
            await self._within(Step.CHECK, self._hands.check(self._origin(lane)))
        except StepFailedError as failed:
            self._tell(failed, lane)
            return False
        return True

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

    async def _within(self, step: Step, doing: Awaitable[None]) -> None:
        self.current = step
        limit_s = self._config.step_s
        try:
            async with asyncio.timeout(limit_s):
                await doing
        except TimeoutError as error:
            raise StepFailedError(step, f"not done within {limit_s:g} s", late=True) from error
