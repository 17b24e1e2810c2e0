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
from specgate.proxy.downstream import Downstream

MAX_SEQUENCES = 1024
"""No request counts for more, whatever it says: a wrong `n` must not move the gate for all."""


class Intake(NamedTuple):
    """A request, understood as far as the gate needs. `sequences`: n x prompts, at least 1 for a
    generation route. `pieces`: the body read so far; `rest`: what is still to come, if any.
    `asks_usage`: the body was edited to ask for the token count.
    """

    sequences: int
    pieces: tuple[bytes, ...] = ()
    rest: AsyncIterator[bytes] | None = None
    asks_usage: bool = False


async def take_in(
    down: Downstream, route: RouteClass, peek_limit: int, *, request_usage: bool = False
) -> Intake:
    """Read what deciding needs; raises ClientGone if the client leaves meanwhile.

    request_usage: have a stream's token count asked for where its client did not.
    """
    generates = route is not RouteClass.OTHER
    length = down.length
    if length == 0:
        return Intake(int(generates))
    # Of unknown length, and nothing in it matters here: it may be a stream that never ends.
    endless = length is None and not generates
    if endless or (length is not None and length > peek_limit):
        return Intake(int(generates), (), _rest(down))
    if (body := down.whole()) is not None:
        pieces = [body]
    else:
        pieces, size = [], 0
        while (piece := await down.read()) is not None:
            pieces.append(piece)
            size += len(piece)
            if size > peek_limit:
                return Intake(int(generates), tuple(pieces), _rest(down))
    if not generates:
        return Intake(0, tuple(pieces))
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if request_usage and (asking := _asking(route, body)) is not None:
        return Intake(sequences_of(body), (asking,), None, asks_usage=True)
    return Intake(sequences_of(body), tuple(pieces))


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
        prompts = 1
        for raw in (fields.prompt, fields.text, fields.input_ids):
            if raw is not None:
                prompts = max(prompts, _prompts(raw))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return 1
    if n is None and prompts == 1:
        return 1  # the common case
    copies = n if isinstance(n, int) and not isinstance(n, bool) else 1
    return min(MAX_SEQUENCES, max(1, copies) * prompts)


def _prompts(raw: msgspec.Raw) -> int:
    """1 for a text or a list of token ids; the length of a list of texts or of lists."""
    value = bytes(raw).lstrip()
    if not value.startswith(b"["):
        return 1
    items = _decode_list(value)
    if not items or not bytes(items[0]).lstrip().startswith((b'"', b"[", b"{")):
        return 1
    return len(items)
