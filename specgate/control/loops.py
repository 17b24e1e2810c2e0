"""Background loops: named, supervised, ended together.

A turn that raises is reported as a fact and the loop goes on with its next turn: a loop that died
silently would leave the gate deciding on old news.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from specgate.core.events import LoopFailed, Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """`turn` runs, then the loop rests for `every_s` seconds, for ever."""

    name: str
    every_s: float
    turn: Callable[[], Awaitable[None]]


@asynccontextmanager
async def running(loops: list[Loop], observe: Observer) -> AsyncIterator[None]:
    """The loops run while the block does, and are cancelled and awaited at its end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_forever(loop, observe), name=loop.name) for loop in loops]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _forever(loop: Loop, observe: Observer) -> None:
    while True:
        try:
            await loop.turn()
        except Exception as error:  # noqa: BLE001 - the supervisor's border
            observe(LoopFailed(loop=loop.name, error=f"{type(error).__name__}: {error}"))
        await asyncio.sleep(loop.every_s)
