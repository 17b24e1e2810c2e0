"""Step 2: the request's body, read once, and the few fields that matter in it.

A generation request's body is read ahead up to PEEK_LIMIT bytes; one that ends within that is
decoded for its number of sequences, of a longer one the rest flows through unread and it counts
as one. Bytes are never re-encoded. What cannot be read (not JSON, compressed, absurd) counts as
one sequence and goes to the engine as it is: refusing it is the engine's business.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

from specgate.core.routes import RouteClass
from specgate.engines.routes import classify
from specgate.proxy.downstream import Downstream

PEEK_LIMIT = 256 * 1024
"""Bytes decoded for their fields: a few hundred microseconds of work, and 60 thousand tokens."""

MAX_SEQUENCES = 1024
"""No request counts for more, whatever it says: a wrong `n` must not move the gate for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """A request, understood as far as the gate needs. `sequences`: n x prompts, at least 1."""

    route: RouteClass
    sequences: int
    down: Downstream
    head: tuple[bytes, ...]
    complete: bool

    async def body(self) -> AsyncIterator[bytes]:
        """The body's bytes: what was read ahead, then the rest as it arrives."""
        for piece in self.head:
            yield piece
        if not self.complete:
            while (piece_or_end := await self.down.read()) is not None:
                yield piece_or_end


async def take_in(down: Downstream) -> Intake:
    """Read what deciding needs; raises ClientGone if the client leaves meanwhile."""
    route = classify(down.method.decode("ascii", "replace"), down.path)
    if not route.is_generation:
        return Intake(route=route, sequences=0, down=down, head=(), complete=False)
    pieces: list[bytes] = []
    size = 0
    complete = False
    while size <= PEEK_LIMIT:
        piece = await down.read()
        if piece is None:
            complete = True
            break
        pieces.append(piece)
        size += len(piece)
    sequences = sequences_of(b"".join(pieces)) if complete else 1
    return Intake(
        route=route, sequences=sequences, down=down, head=tuple(pieces), complete=complete
    )


class _Fields(msgspec.Struct):
    """Only these are built; everything else is skipped."""

    n: Any = None
    prompt: msgspec.Raw | None = None
    text: msgspec.Raw | None = None
    input_ids: msgspec.Raw | None = None
    sampling_params: msgspec.Raw | None = None


class _Sampling(msgspec.Struct):
    n: Any = None


_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_sampling = msgspec.json.Decoder(_Sampling).decode
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
