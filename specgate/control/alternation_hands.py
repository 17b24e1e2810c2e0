"""What an alternation needs done to engines: the contract (`control.alternation_engines` keeps it).

Each call raises StepFailedError, and nothing else that an engine, a network or a command can cause.
None has a limit of time: whoever asks sets it, and a call that is cancelled leaves nothing running.
"""

from typing import Protocol

from specgate.core.alternation import Step
from specgate.core.label import Label
from specgate.upstream.base import Origin


class StepFailedError(Exception):
    """A step of an alternation failed; says why. late: it may be done yet."""

    def __init__(self, step: Step, why: str, *, late: bool = False) -> None:
        super().__init__(why)
        self.step = step
        self.late = late


class Found(Label):
    """What an engine is. GONE: nothing takes a connection there. UNREADY: something does, and is
    neither ready nor asleep."""

    AWAKE = "awake"
    ASLEEP = "asleep"
    UNREADY = "unready"
    GONE = "gone"


class Hands(Protocol):
    async def look(self, origin: Origin) -> Found:
        """What an engine is now, as far as it can tell. Raises nothing."""
        ...

    async def in_hand(self, origin: Origin) -> int:
        """Sequences that the engine has, from whomever."""
        ...

    async def park(self, origin: Origin, *, waking: bool = False) -> None:
        """Make it give its memory back; nothing, if it has done so or is gone. waking: it may be
        about to take it again."""
        ...

    async def wake(self, origin: Origin) -> None:
        """Make it serve: it is ready then. Nothing, if it is already."""
        ...

    async def check(self, origin: Origin) -> None:
        """Have it answer, and see whether the answer is one."""
        ...

    def forget(self) -> None:
        """Other engines are in the lanes."""
        ...
