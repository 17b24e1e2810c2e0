"""Times in which the event loop did not run, and a time-out that they do not use up.

A loop that stands still (another process has the processor, the machine was suspended) finds its
timers due before it has looked at one socket. A time-out that fires then says nothing of the peer,
which may have answered long ago.
"""

import asyncio
import time
from types import TracebackType

PARTS = 4
"""A time-out is counted in so many parts."""


class Stalls:
    """`with stalls:` looks on. `longest_s`: of the stalls so far; one that is
    shorter than `every_s` may not be seen."""

    __slots__ = ("_due", "_every_s", "_loop", "_timer", "longest_s")

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self.longest_s = 0.0

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._next()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _next(self) -> None:
        # By our own look at the clock: uvloop's is that of the turn's beginning.
        self._due = time.monotonic() + self._every_s
        self._timer = self._loop.call_later(self._every_s, self._look)

    def _look(self) -> None:
        late_s = time.monotonic() - self._due
        self.longest_s = max(self.longest_s, late_s)
        self._looked(late_s)

    def _looked(self, late_s: float) -> None:
        self._next()


class RunningTimeout(Stalls):
    """`async with RunningTimeout(limit_s):` as `asyncio.timeout`, of time in which the event loop
    ran: a stall takes the place of one part of it at most. Raises TimeoutError.

    It ends all the same where the loop is late again and again: PARTS parts are spared.
    """

    __slots__ = ("_left", "_limit", "_spare")

    def __init__(self, limit_s: float) -> None:
        super().__init__(limit_s / PARTS)
        self._left = self._spare = PARTS
        self._limit = asyncio.timeout(None)

    @property
    def expired(self) -> bool:
        """Whether it ended what it was around."""
        return self._limit.expired()

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__()
        await self._limit.__aexit__(kind, error, trace)

    def _looked(self, late_s: float) -> None:
        if late_s >= self._every_s / 2 and self._spare:
            self._spare -= 1
        else:
            self._left -= 1
        if self._left:
            self._next()
        else:
            self._limit.reschedule(self._loop.time())
