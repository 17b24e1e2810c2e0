"""Step 5: the request goes to a lane. What is seen of the lane goes to its health, and what failed
is told."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from specgate.control.gate import Gate
from specgate.core.errors import (
    ConnectFailed,
    FirstByteTimeout,
    LaneFault,
    NoAnswer,
    RequestRefused,
)
from specgate.core.events import LaneFailed, Observer, Phase
from specgate.core.headers import Pairs, to_lane
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.engines.spelling import climbs
from specgate.proxy.account import Account
from specgate.proxy.downstream import Downstream
from specgate.proxy.intake import Intake
from specgate.proxy.watch import within
from specgate.upstream.base import Origin, Request, Response, Upstream
from specgate.upstream.descriptors import is_ours


@dataclass(frozen=True, slots=True)
class Sending:
    """`first_byte_s`: the longest wait for a response's head, None for any. `clock`: monotonic
    seconds."""

    upstream: Upstream
    gate: Gate
    first_byte_s: float | None
    observe: Observer
    clock: Callable[[], float]

    async def send(
        self, origin: Origin, down: Downstream, intake: Intake, account: Account
    ) -> Response:
        """The lane's response, once its head has come. Raises LaneFault, and RequestRefused for a
        path that no engine is to see."""
        if origin.base and climbs(down.path):
            raise _climbing_refused()
        chunked = down.length is None
        request = Request(
            down.method,
            origin.target(down.target),
            to_lane(
                _with_length(down, intake) if intake.asks_usage else down.headers,
                method=down.method,
                authority=origin.authority,
                request_id=account.wire_id,
                chunked=chunked,
                authorization=origin.authorization,
            ),
            chunked,
            intake.pieces,
            intake.rest and _until_sent(intake.rest, account),
        )
        if intake.rest is None:
            account.phase = Phase.PREFILL
        account.sent_at = self.clock()
        limit_s = self.first_byte_s

        try:
            sending = self.upstream.send(origin, request)
            if limit_s is not None:
                sending = within(limit_s, sending, lambda: _late(origin.lane, limit_s))
            response = await sending
        except LaneFault as fault:
            if isinstance(fault, ConnectFailed):
                # Else both lanes would be ejected as soon as this process is out of files.
                if not is_ours(fault):
                    self.gate.saw(origin, Sign.UNREACHED, str(fault))
            elif isinstance(fault, NoAnswer) and fault.unheard:
                self.gate.saw(origin, Sign.BROKE, str(fault))
            self.observe(LaneFailed(lane=fault.lane, kind=fault.kind, message=str(fault)))
            raise
        account.head_at = self.clock()
        if response.status != 503:
            self.gate.saw(origin, Sign.SERVED, "it served a request")
        return response


async def _until_sent(rest: AsyncIterator[bytes], account: Account) -> AsyncIterator[bytes]:
    """The rest of a body as it arrives: its end is the end of the upload."""
    async for piece in rest:
        yield piece
    account.phase = Phase.PREFILL


def _with_length(down: Downstream, intake: Intake) -> Pairs:
    """The client's headers, with the length that a body has which was edited."""
    if down.length is None:
        return down.headers
    length = b"%d" % sum(map(len, intake.pieces))
    return [
        (name, length if name.lower() == b"content-length" else value)
        for name, value in down.headers
    ]


def _climbing_refused() -> RequestRefused:
    """For a path that leads out of the base of a lane's URL, to who knows what else is there."""
    return RequestRefused(400, "the path's dot segments lead above its root", code="bad_path")


def _late(lane: Lane, limit_s: float) -> FirstByteTimeout:
    message = f"the {lane} lane did not begin to answer within {limit_s:g} s"
    return FirstByteTimeout(message, lane=lane)
