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
from collections.abc import Callable
from functools import partial

from specgate.control.admission_queue import AdmissionQueue
from specgate.control.alternation_hands import Hands, StepFailedError
from specgate.control.alternation_steps import LOOK_S, Steps
from specgate.control.gate import Gate
from specgate.core.alternation import AlternationView, Backoff, Step
from specgate.core.config import AlternationConfig
from specgate.core.events import Alternated, AlternationFailed, Observer
from specgate.core.health import Health
from specgate.core.lanes import Lane

EVERY_S = 0.25
"""How often it is looked whether the lanes are to change places."""

SPARE_S = 10.0
"""How often the lane that sleeps is looked at: somebody may have started its engine again."""

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
        self._config = config
        self._observe = observe
        self._clock = clock
        self._steps = Steps(gate, hands, config, clock, self._tell)
        self._retry = Backoff(*retry_s)
        self._neither = Backoff(*neither_s)
        self._awake: Lane | None = None
        self._served: Lane | None = None
        """The lane that served last; None: none did yet."""
        self._since = self._closed_at = self._spare_at = clock()
        self._spare = False
        """The lane that is to sleep does not."""
        self._doubted = False
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
        return (self._awake is None or self._steps.current is not None) and not self._hopeless

    def look(self) -> None:
        if self._awake is not None and (self._steps.moved or self._must_leave(self._awake)):
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
            step=self._steps.current,
            failed=failed,
            why=why,
            retry_s=pause.left_s(now) if failed is not None else None,
            alternations=self._alternations,
        )

    # What it does

    async def turn(self) -> None:
        """Look once whether something is to be done, and do it."""
        try:
            if self._steps.moved:
                await self._find()
            if self._awake is not None:
                await self._serve_on(self._awake)
            elif self._neither.left_s(self._clock()) == 0.0:
                wanted = self._gate.wanted
                await self._raise_first((wanted, wanted.other))
                if self._awake is wanted:
                    self._worked()
        finally:
            self._steps.current = None
            self._open()

    async def settle(self, within_s: float) -> None:
        """Wait until the lanes stay where they are; no longer than this."""
        until = self._clock() + within_s
        while self.changing and self._clock() < until:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    async def _find(self) -> None:
        """Find out which lane is awake."""
        self._close(_FINDING)
        up = await self._steps.find()
        self._awake, self._spare = None, len(up) > 1
        for lane in Lane:
            self._gate.sleep(lane)
        if up:
            first = self._gate.wanted if self._spare else up[0]
            if await self._steps.proved(first):
                self._serves(first)

    async def _serve_on(self, awake: Lane) -> None:
        """A turn while a lane is awake."""
        gone, self._doubted = self._doubted and await self._steps.is_gone(awake), False
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
            self._spare |= await self._steps.is_awake(awake.other)
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
        if not leave and not await self._steps.can_wake(new):
            pause.failed(self._clock())
            self._tell(
                StepFailedError(Step.WAKE, "it is not up, and no drain was begun"), new, pause
            )
            return
        self._close(f"the {new} lane is being woken in place of the {old} lane")
        try:
            called_off = partial(self._is_called_off, old, leave=leave)
            if not await self._steps.emptied(old, called_off, leave=leave):
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
            await self._steps.park(old)
        except StepFailedError as failed:
            self._tell(failed, old)
            if await self._steps.is_awake(old):
                order = (old, new)
        await self._raise_first(order)
        if self._awake is new:
            self._worked()
        else:
            pause.failed(self._clock())

    def _is_called_off(self, lane: Lane, *, leave: bool) -> bool:
        """Whether a lane may stay awake: nothing was done to it yet."""
        return self._gate.stopping or (not leave and self._gate.wanted is lane)

    async def _raise_first(self, order: tuple[Lane, Lane]) -> None:
        """Make the first lane serve that can be made to."""
        before = self._served
        for lane in order:
            # Of one that an operator drains the engine may be about to stop.
            if not self._gate.lanes[lane].draining and await self._steps.raised(lane):
                self._serves(lane)
                took_s = self._clock() - self._closed_at
                if before is lane.other:
                    self._alternations += 1
                self._observe(Alternated(lane=lane, took_s=took_s, back=lane is before))
                return
        self._hopeless = True
        self._neither.failed(self._clock())

    def _worked(self) -> None:
        """The lane serves that is to: what failed before is over."""
        self._failed = None
        self._retry.clear()

    def _serves(self, lane: Lane) -> None:
        """It answered as it should: it is the one that serves."""
        self._awake = self._served = lane
        self._since = self._clock()
        self._doubted = self._hopeless = False
        self._neither.clear()
        self._gate.wake(lane)

    async def _park_spare(self, lane: Lane) -> None:
        """Both lanes were found awake. The one that is wanted serves meanwhile: nobody waits."""
        try:
            if not await self._steps.others_have(lane, leave=False):
                await self._steps.park(lane)
                self._spare = False
        except StepFailedError as failed:
            self._retry.failed(self._clock())
            self._tell(failed, lane, self._retry)

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
        if awake is None or self._steps.moved or self._doubted or self._gate.lanes[awake].draining:
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
