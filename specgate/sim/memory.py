"""An engine's memory, given back and taken again as SGLang does it, its traps included.

awake      serves
paused     takes requests and makes no step; `/ready` says 503
released   its memory is somebody else's. It does not fence itself: unless it is paused too, the
           next request runs into it

To release it while it has requests, or to resume it when it was not released, ends it, as an
assertion of the scheduler does. Engines on one pool that holds one of them run out of memory, and
end, when a second one resumes.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from specgate.sim.faults import Faults


class Host(Protocol):
    """The engine, as its memory sees it."""

    faults: Faults

    @property
    def in_flight(self) -> int: ...

    def freeze(self) -> None:
        """No step from now on."""
        ...

    def thaw(self) -> None: ...

    def lose_draft(self) -> None:
        """No draft is accepted any more."""
        ...

    def abort_matching(self, prefix: str) -> int: ...

    def crash(self) -> None: ...

    async def pause(self, seconds: float | None) -> None: ...


class Refused(Exception):
    """The engine answers with this status, and lives."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Holder:
    """A pool that holds as many awake engines as `most`. `held` is the most that there were."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.awake = 0
        self.held = 0

    def take(self) -> bool:
        """False: there is no room."""
        if self.awake >= self.most:
            return False
        self.awake += 1
        self.held = max(self.held, self.awake)
        return True

    def give(self) -> None:
        self.awake -= 1


class Memory:
    """`holder`: the pool. asleep: it starts released and paused. garbage: it lost its weights."""

    def __init__(self, host: Host, holder: Holder, *, asleep: bool = False) -> None:
        self._host = host
        self._holder = holder
        self._going = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._retracts = False
        self.released = asleep
        self.paused = asleep
        self.garbage = False
        self.releases = 0
        if asleep:
            host.freeze()
        else:
            holder.take()
            self._going.set()

    async def admit(self) -> None:
        """A generation request came: returns when it may run, which may be never."""
        while self.paused:
            await self._going.wait()
        if self.released:
            if self._host.faults.asleep_request_kills:
                self._host.crash()
            await self._host.pause(None)

    def stop(self, mode: str) -> None:
        """`/pause_generation`."""
        if self._host.faults.no_pause:
            raise Refused(404, "Not Found")
        self.paused, self._retracts = True, mode == "retract"
        self._going.clear()
        if mode == "abort":
            self._host.abort_matching("")
        self._host.freeze()

    def go_on(self) -> None:
        """`/continue_generation`."""
        if self._host.faults.no_pause:
            raise Refused(404, "Not Found")
        self.paused = False
        self._host.thaw()
        self._going.set()

    async def release(self) -> None:
        """`/release_memory_occupation`. Raises Refused; ends the engine if it is not idle."""
        async with self._one_at_a_time:
            self._release()

    def _release(self) -> None:
        faults = self._host.faults
        waits_only = self.paused and self._retracts
        if self._host.in_flight and not waits_only:
            if not faults.busy_release_kills:
                raise Refused(400, "release_memory_occupation: the server is not idle")
            self._host.crash()
            return
        if faults.release_fails:
            raise Refused(500, "release_memory_occupation failed")
        if not self.released:
            self.released = True
            self.releases += 1
            self._holder.give()

    async def resume(self) -> None:
        """`/resume_memory_occupation`. Raises Refused."""
        async with self._one_at_a_time:
            await self._resume()

    async def _resume(self) -> None:
        faults = self._host.faults
        if not self.released:
            self._host.crash()
            return
        if faults.resume_s:
            await self._host.pause(faults.resume_s)
        if faults.resume_fails:
            raise Refused(500, "resume_memory_occupation failed")
        if not self._holder.take():
            self._host.crash()
            return
        self.released = False
        self.garbage = self.garbage or faults.weights_lost
        if faults.draft_lost:
            self._host.lose_draft()

    def end(self) -> None:
        """The process is gone, and its memory with it."""
        if not self.released:
            self.released = True
            self._holder.give()


Crash = Callable[[], None]
"""Ends an engine's process: no listener, no connection, no answer."""
