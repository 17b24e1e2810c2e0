"""Waiting with an end: for the client's leaving, and for things that may take too long."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

from specgate.core.errors import Fault
from specgate.proxy.downstream import Downstream
from specgate.upstream.stalls import RunningTimeout

T = TypeVar("T")


class WhilePresent:
    """`with WhilePresent(down):` cancels its block when the client leaves, and raises ClientGone in
    its place; or when the exchange is to end for another reason, and raises that. A cancellation
    from elsewhere passes as what it is."""

    __slots__ = ("_cancelling", "_down", "_task", "_why")

    def __init__(self, down: Downstream) -> None:
        self._down = down
        self._why: Fault | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._down.on_gone(self._leave)

    def _leave(self, why: Fault) -> None:
        if self._why is None:
            self._why = why
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._down.on_gone(None)
        if self._why is None:
            return
        ours = self._task.uncancel() <= self._cancelling
        if ours and isinstance(error, asyncio.CancelledError):
            raise self._why from None


async def within(limit_s: float | None, waiting: Awaitable[T], late: Callable[[], Fault]) -> T:
    """The result of `waiting`, or the fault that `late` makes after `limit_s` seconds in which the
    event loop ran."""
    if limit_s is None:
        return await waiting
    limit = RunningTimeout(limit_s)
    try:
        async with limit:
            return await waiting
    except TimeoutError:
        if not limit.expired:
            raise
        raise late() from None
