"""How the data path stops: first it is not ready, then it takes nothing new, then it is over.

settle   `/readyz` says 503, and all is served: balancers take the gate out of their lists
refuse   what comes, and what waits for room, is answered 503 on a connection that then ends;
         idle connections are closed; what is in hand goes on
cut      what is left at the deadline ends with an error
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from specgate.control.admission_queue import AdmissionQueue
from specgate.control.gate import Gate
from specgate.core.errors import CutShort, Fault

LOOK_S = 0.05
"""How often it looks whether the last one has ended."""

LAST_WORDS_S = 1.0
"""How long what was cut may take to tell its client so."""

RETRY_AFTER_S = 1
"""For a client that is refused: another gate, or this one's next start, serves it."""


class Connection(Protocol):
    """A client's connection."""

    def shutdown(self) -> None:
        """End now if it is idle, else with its response."""
        ...

    def cut_short(self, fault: Fault) -> None:
        """End what is answered on it, with this fault."""
        ...


@dataclass(frozen=True, slots=True)
class Drained:
    """Exchanges with a lane: in hand when nothing new was taken any more, and how they ended;
    refused: requests that waited for room then."""

    ended: int
    cut: int
    refused: int


class Drain:
    """`connections`: those that are open, asked anew each time."""

    def __init__(
        self, gate: Gate, queue: AdmissionQueue, connections: Callable[[], Iterable[Connection]]
    ) -> None:
        self._gate = gate
        self._queue = queue
        self._connections = connections

    async def run(self, *, settle_s: float, timeout_s: float) -> Drained:
        self._gate.stopping = True
        await asyncio.sleep(settle_s)

        in_hand = self._gate.carried
        refused = self._queue.stop("the gate is about to stop; try again")
        for connection in list(self._connections()):
            connection.shutdown()
        await self._rest(timeout_s)

        cut = self._gate.carried
        if cut:
            for connection in list(self._connections()):
                message = "the gate stopped before the end"
                connection.cut_short(CutShort(message, retry_after_s=RETRY_AFTER_S))
            await self._rest(LAST_WORDS_S)
        return Drained(ended=in_hand - cut, cut=cut, refused=refused)

    async def _rest(self, within_s: float) -> None:
        """Until nothing is in hand and no lane is changing, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        # Looking, and not being told: a drain is once, and requests are many.
        while self._gate.unsettled and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
