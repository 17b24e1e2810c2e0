"""Step 2: the request's body, read once, and what is known of the request.

A body that fits into `peek_limit` bytes is read ahead: a generation request's is decoded for a few
fields (`proxy.fields`), and any of them can be sent again if a connection turns out dead. A longer
one flows through as it arrives, unread: it counts as one sequence, and no rule looks at it. Bytes
are never re-encoded. What cannot be read goes to the engine as it is: refusing it is the engine's
business.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from specgate.core.config import ProxyConfig
from specgate.core.errors import RequestRefused
from specgate.core.lanes import Lane
from specgate.core.routes import GENERATES, RouteClass
from specgate.core.rules import Asked
from specgate.engines.routes import stored_id
from specgate.proxy.downstream import Downstream
from specgate.proxy.fields import conversation_of, known, session_of, with_usage
from specgate.proxy.replies import LANE_HEADER


class Intake(NamedTuple):
    """A request, understood as far as the gate needs. `sequences`: at least 1 for a generation
    route, else 0. `pieces`: the body read so far; `rest`: what is still to come, if any.
    `asks_usage`: the body was edited to ask for the token count. `asked`: what rules look at, None
    for nothing.
    """

    sequences: int
    pieces: tuple[bytes, ...] = ()
    rest: AsyncIterator[bytes] | None = None
    asks_usage: bool = False
    asked: Asked | None = None


async def take_in(
    down: Downstream, route: RouteClass, config: ProxyConfig, *, held: bool = False
) -> Intake:
    """Read what deciding needs. Raises ClientGone if the client leaves meanwhile, and
    RequestRefused for a lane's name that is none.

    held: all of the body is needed, as it may go to both lanes; RequestRefused if it is too large.
    """
    generates = route in GENERATES
    named = _named(down) if config.force_lane and LANE_HEADER in down.values else None
    asked = None if named is None else Asked(lane=named)
    length = down.length
    if length == 0:
        if route is RouteClass.STORED:
            asked = Asked(lane=named, state=stored_id(down.path))
        return Intake(int(generates), asked=asked)
    # Of unknown length, and nothing in it matters here: it may be a stream that never ends.
    endless = length is None and not generates and not held
    if endless or (length is not None and length > config.peek_limit):
        if held:
            raise _too_large(config.peek_limit)
        return Intake(int(generates), (), _rest(down), asked=asked)
    if (body := down.whole()) is not None:
        pieces = [body]
    else:
        pieces, size = [], 0
        while (piece := await down.read()) is not None:
            pieces.append(piece)
            size += len(piece)
            if size > config.peek_limit:
                if held:
                    raise _too_large(config.peek_limit)
                return Intake(int(generates), tuple(pieces), _rest(down), asked=asked)
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if not generates:
        if route is RouteClass.STORED:
            asked = Asked(lane=named, state=stored_id(down.path) or session_of(body))
        return Intake(0, tuple(pieces), asked=asked)
    told = known(body, conversation=config.keep_conversations)
    sequences, features, state, conversation = told
    if config.keep_conversations and (name := down.values.get(SESSION_HEADER)):
        conversation = conversation_of(name)
    if features or state or conversation or named:
        asked = Asked(features, named, state, conversation)
    if config.request_usage and (asking := with_usage(route, body)) is not None:
        return Intake(sequences, (asking,), None, asks_usage=True, asked=asked)
    return Intake(sequences, tuple(pieces), asked=asked)


SESSION_HEADER = b"x-session-id"
"""A client's name for its conversation; vLLM reads it too."""


async def _rest(down: Downstream) -> AsyncIterator[bytes]:
    while (piece := await down.read()) is not None:
        yield piece


def _named(down: Downstream) -> Lane:
    """The lane that the client names."""
    name = down.values[LANE_HEADER].decode("latin-1").strip().lower()
    if name not in set(Lane):
        raise RequestRefused(
            400, f"{LANE_HEADER.decode()} must be spec or plain, not {name[:40]!r}", code="bad_lane"
        )
    return Lane(name)


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        413,
        f"a body of more than {limit} bytes (SPECGATE_PEEK_LIMIT) is not sent to both lanes: call "
        "each engine itself",
        code="body_too_large",
    )
