"""Answers that say that their lane did not take the request on, known as such before anything of
them goes down: the other lane may have the request then.

Looked at are 503s, and the beginning of event streams, since SGLang tells of a full queue within
one (`engines.declining`). What is looked at goes down unchanged unless it is such an answer, whole.
"""

from dataclasses import dataclass, field

from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.engines.declining import Declined, declined, declined_in_stream, may_decline
from specgate.upstream.base import Peeked, Response, Sink

LOOK_S = 1.0
"""How long an answer may be looked at, at most: the head of a stream waits for its first event."""


@dataclass(slots=True)
class WholeAnswer:
    """An answer that came whole and waits in memory: `upstream.base.Response`."""

    lane: Lane
    status: int
    reason: bytes
    headers: Pairs
    body: bytes
    trailers: Pairs = field(default_factory=list)

    async def deliver(self, sink: Sink, idle_s: float | None) -> None:
        if self.body and sink.write(self.body):
            await sink.drain()

    async def peek(self, undecided: object, within_s: float) -> Peeked:
        return Peeked(self.body, complete=True)

    async def aclose(self) -> None:
        """It holds no connection."""


async def why_declined(response: Response, *, stream: bool) -> tuple[Declined, WholeAnswer] | None:
    """Why the lane did not take the request on, and the answer that says so; None if it did, or if
    it takes its time to say. Raises StreamBroken if the answer breaks off meanwhile."""
    said = await response.peek(may_decline if stream else _until_its_end, LOOK_S)
    if not said.complete:
        return None
    why = declined_in_stream(said.body) if stream else declined(said.body)
    if why is None:
        return None
    status, reason, headers = response.status, response.reason, response.headers
    return why, WholeAnswer(response.lane, status, reason, headers, said.body)


def _until_its_end(_: bytes) -> bool:
    return True
