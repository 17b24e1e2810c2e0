"""Answers that say that their lane did not take the request on, known as such before anything of
them goes down: the other lane may have the request then.

Looked at are 503s, and the beginning of event streams, since SGLang tells of a full queue within
one (`engines.declining`). What is looked at goes down unchanged unless it is such an answer, whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from specgate.control.gate import Gate
from specgate.core.errors import FailureKind
from specgate.core.events import LaneFailed, Observer
from specgate.core.headers import Pairs
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.engines.base import Engine
from specgate.engines.declining import Declined, declined, declined_in_stream, may_decline
from specgate.proxy.account import Account
from specgate.upstream.base import Peeked, Response, Sink

LOOK_S = 1.0
"""How long an answer may be looked at, at most: the head of a stream waits for its first event."""

_IN_STREAM = frozenset({Engine.SGLANG, Engine.UNKNOWN})
"""Engines that may say in an event stream that they did not take its request on."""

_BOUND = frozenset({Reason.HELD, Reason.REQUESTED, Reason.SPEC_REFUSES, Reason.SPEC_CHANGES})
"""Reasons for which a declined request stays declined: the other lane would serve it otherwise than
it was asked to. One that is not reachable at all is another matter (`core.rules`)."""


@dataclass(frozen=True, slots=True)
class Declining:
    """`clock`: monotonic seconds."""

    gate: Gate
    observe: Observer
    clock: Callable[[], float]

    async def found(self, response: Response, account: Account) -> "WholeAnswer | None":
        """The lane's answer, if it says that it did not take the request on, and the other lane may
        have it. Raises StreamBroken if the answer breaks off meanwhile."""
        lane, stream = response.lane, response.status != 503
        if stream and self.gate.engine(lane) not in _IN_STREAM:
            return None
        found = await _why_declined(response, stream=stream)
        account.head_at = self.clock()  # what was waited for was the engine's
        if found is None:
            return None
        why, answer = found
        if not self._other_may_have_it(lane, why, account):
            return None
        message = f"the {lane} lane declined a request: {why}"
        self.observe(LaneFailed(lane=lane, kind=FailureKind.DECLINED, message=message))
        return answer

    def _other_may_have_it(self, lane: Lane, why: Declined, account: Account) -> bool:
        """Whether the other lane serves, and no rule speaks against it."""
        if account.reason in _BOUND:
            return False
        if why is Declined.QUEUE_FULL and account.sequences > 1:
            return False  # the engine may have taken some of them
        other = self.gate.view().lanes[lane.other]
        alone = len(self.gate.origins()) == 1
        return not (alone or other.draining or other.health is Health.EJECTED)


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


async def _why_declined(response: Response, *, stream: bool) -> tuple[Declined, WholeAnswer] | None:
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
