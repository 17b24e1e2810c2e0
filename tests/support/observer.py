"""A listener that keeps the facts it hears."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Recorder:
    """An observer: call it with facts; read them from `facts`, or wait for one."""

    def __init__(self) -> None:
        self.facts: list[Any] = []
        self._heard = asyncio.Event()

    def __call__(self, fact: object) -> None:
        self.facts.append(fact)
        self._heard.set()

    def of(self, kind: type[T]) -> list[T]:
        """The facts of this type, in order."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    async def wait_for(
        self,
        kind: type[T],
        within_s: float = 2,
        *,
        count: int = 1,
        where: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """The `count`-th fact of this type (that meets the condition), heard already or to come."""
        found: list[T] = []
        try:
            async with asyncio.timeout(within_s):
                while len(found := [fact for fact in self.of(kind) if where(fact)]) < count:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            missing = f"{len(found)} of {count} {kind.__name__} heard in {within_s} s"
            raise AssertionError(f"{missing}, beside {self.facts}") from None
        return found[count - 1]
