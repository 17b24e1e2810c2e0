"""Step 2: the request's body, read once, and the few fields that matter in it.

A body that fits into `peek_limit` bytes is read ahead: a generation request's is decoded for its
number of sequences, and any of them can be sent again if a connection turns out dead. A longer one
flows through as it arrives, unread, and counts as one. Bytes are never re-encoded. What cannot be
read (not JSON, compressed, absurd) counts as one sequence and goes to the engine as it is: refusing
it is the engine's business.
"""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec

from specgate.core.routes import RouteClass
from specgate.core.usage import asking
from specgate.engines.routes import classify
from specgate.proxy.downstream import Downstream

MAX_SEQUENCES = 1024
"""No request counts for more, whatever it says: a wrong `n` must not move the gate for all."""


class Intake(NamedTuple):
    """A request, understood as far as the gate needs. `sequences`: n x prompts, at least 1 for a
    generation route. `asks_usage`: the body was edited to ask for the token count. `pieces`: the
    body read so far; `rest`: what is still to come, if any.
    """

    route: RouteClass
    sequences: int
    asks_usage: bool = False
    pieces: tuple[bytes, ...] = ()
    rest: AsyncIterator[bytes] | None = None


async def take_in(down: Downstream, peek_limit: int, *, request_usage: bool = False) -> Intake:
    """Read what deciding needs; raises ClientGone if the client leaves meanwhile.

    request_usage: have a stream's token count asked for where its client did not.
    """
    route = classify(down.method.decode("ascii", "replace"), down.path)
    sequences = int(route.is_generation)
    length = down.length
    if length == 0:
        return Intake(route=route, sequences=sequences)
    # Of unknown length, and nothing in it matters here: it may be a stream that never ends.
    endless = length is None and not route.is_generation
    if endless or (length is not None and length > peek_limit):
        return Intake(route=route, sequences=sequences, rest=_rest(down))
    pieces: list[bytes] = []
    size = 0
    while size <= peek_limit:
        piece = await down.read()
        if piece is None:
            if not route.is_generation:
                return Intake(route=route, sequences=sequences, pieces=tuple(pieces))
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if request_usage and (asking := _asking(route, body)) is not None:
                return Intake(
                    route=route, sequences=sequences_of(body), asks_usage=True, pieces=(asking,)
                )
            return Intake(route=route, sequences=sequences_of(body), pieces=tuple(pieces))
        pieces.append(piece)
        size += len(piece)
    return Intake(route=route, sequences=sequences, pieces=tuple(pieces), rest=_rest(down))


async def _rest(down: Downstream) -> AsyncIterator[bytes]:
    while (piece := await down.read()) is not None:
        yield piece


class _Fields(msgspec.Struct):
    """Only these are built; everything else is skipped."""

    n: Any = None
    prompt: msgspec.Raw | None = None
    text: msgspec.Raw | None = None
    input_ids: msgspec.Raw | None = None
    sampling_params: msgspec.Raw | None = None


class _Stream(msgspec.Struct):
    stream: Any = None
    stream_options: Any = msgspec.UNSET


def _asking(route: RouteClass, body: bytes) -> bytes | None:
    """The body with the question for usage, None where it has no place or the client has its own
    word on it, whatever that is."""
    if route not in (RouteClass.CHAT, RouteClass.COMPLETIONS):
        return None
    try:
        fields = _decode_stream(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    if fields.stream is not True or fields.stream_options is not msgspec.UNSET:
        return None
    return asking(body)


class _Sampling(msgspec.Struct):
    n: Any = None


_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_sampling = msgspec.json.Decoder(_Sampling).decode
_decode_stream = msgspec.json.Decoder(_Stream).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def sequences_of(body: bytes) -> int:
    """How many sequences a body asks for: `n` times the prompts of a batch."""
    try:
        fields = _decode_fields(body)
        n = fields.n
        if fields.sampling_params is not None and n is None:
            n = _decode_sampling(fields.sampling_params).n
        prompts = max(_prompts(raw) for raw in (fields.prompt, fields.text, fields.input_ids))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return 1
    copies = n if isinstance(n, int) and not isinstance(n, bool) else 1
    return min(MAX_SEQUENCES, max(1, copies) * prompts)


def _prompts(raw: msgspec.Raw | None) -> int:
    """1 for a text or a list of token ids; the length of a list of texts or of lists."""
    if raw is None:
        return 1
    value = bytes(raw).lstrip()
    if not value.startswith(b"["):
        return 1
    items = _decode_list(value)
    if not items or not bytes(items[0]).lstrip().startswith((b'"', b"[", b"{")):
        return 1
    return len(items)
