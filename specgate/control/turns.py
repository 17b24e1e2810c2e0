"""Lanes that take turns, as the gate sees whoever has them do it (`control.alternation`)."""

from typing import Protocol

from specgate.core.alternation import AlternationView
from specgate.core.lanes import Lane


class Turns(Protocol):
    """All of it returns at once."""

    @property
    def changing(self) -> bool:
        """Whether the lanes change places, and a lane is known to serve at the end of it."""
        ...

    def look(self) -> None:
        """Something changed of the lanes: bar the way at once if nobody may be admitted now."""
        ...

    def hurry(self) -> None:
        """An operator wants a side: what is wanted is not rested on any longer."""
        ...

    def doubt(self, lane: Lane) -> bool:
        """A lane took no connection. Bars the way until it is known which lane serves; False if
        that may not be waited for: the lane that is awake is another one."""
        ...

    def view(self) -> AlternationView: ...
