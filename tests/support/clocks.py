"""Clocks for tests: one that is set by hand, and an event loop that jumps from timer to timer.

The loop stands on asyncio's internals (`_ready`, `_scheduled`, `_run_once`), so it stays in tests.
It is for code that sleeps and waits, not for sockets or threads: where only those could go on, it
raises.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ManualClock:
    """A clock for code that takes `now()`: it stands until it is set."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its time stands while there is work, and jumps to the next timer when there is none."""

    now = 1000.0
    _ready: Any
    _scheduled: Any

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and not self.is_closed():
            timers = [timer.when() for timer in self._scheduled if not timer.cancelled()]
            if not timers:
                raise RuntimeError("every task waits, and no timer will wake one")
            self.now = max(self.now, min(timers))
        super()._run_once()  # type: ignore[misc]


def run_in_jumping_time(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a scenario of any simulated length in milliseconds; from a test that is a plain `def`."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(scenario)
