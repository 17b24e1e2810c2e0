"""Which headers end at the gate, and the few that it adds.

Header pairs are bytes, in order, duplicates kept; what is not named here goes through untouched.
Source: RFC 9110 §7.6.1 (Connection and the fields it names), §6.5 (trailers), §7.2 (Host).
"""

import string
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

Pairs = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
"""Fields that mean one connection only. `expect` is answered by the gate, on its own connection."""

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key"})
"""Fields that hold a client's key: for OpenAI's calls, Anthropic's, and Azure's."""

OWN_PREFIX = b"x-specgate-"
"""Ours alone: never forwarded in either direction, so that nobody's can be taken for the gate's."""

_ID_CHARS = frozenset((string.ascii_letters + string.digits + "._:/+=@-").encode())
_ID_MAX = 128


def named_by_connection(pairs: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """The fields that a message's own Connection headers declare hop-by-hop, lower case.

    The body's length is none of them, whatever they say: without it the body has no end.
    """
    names: set[bytes] = set()
    for name, value in pairs:
        if name.lower() == b"connection":
            names.update(token.strip().lower() for token in value.split(b","))
    names.discard(b"content-length")
    return names


def end_to_end(pairs: Pairs) -> Pairs:
    """The pairs that go through: neither hop-by-hop, nor named by Connection, nor ours."""
    dropped = HOP_BY_HOP | named_by_connection(pairs)
    return [
        pair
        for pair in pairs
        if (lower := pair[0].lower()) not in dropped and not lower.startswith(OWN_PREFIX)
    ]


def _names_more(connection: bytes) -> bool:
    """Whether a Connection header names fields beyond those that never go through."""
    tokens = (token.strip().lower() for token in connection.split(b","))
    return not _EXPECTED_IN_CONNECTION.issuperset(tokens)


_EXPECTED_IN_CONNECTION = HOP_BY_HOP | {b"", b"close"}
_SEEN_ON_THE_WAY_UP = HOP_BY_HOP | {b"host", b"x-request-id", b"content-length", b"expect"}
_SEEN_WITH_KEYS = _SEEN_ON_THE_WAY_UP | CREDENTIALS
_SEEN_ON_THE_WAY_DOWN = HOP_BY_HOP | {
    *(b"content-type", b"content-encoding", b"x-request-id", b"x-accel-buffering"),
}


def value_of(pairs: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a field; `name` in lower case."""
    for candidate, value in pairs:
        if candidate.lower() == name:
            return value
    return None


def first_values(pairs: Pairs) -> dict[bytes, bytes]:
    """The first value of each field, by its lower-case name."""
    # Backwards, so that of two the first is written last: a comprehension, and no call a field.
    return {name.lower(): value for name, value in reversed(pairs)}


def usable_id(value: bytes | None) -> bytes | None:
    """A client's own X-Request-Id, if it is one that may be repeated in headers and logs."""
    if value and len(value) <= _ID_MAX and _ID_CHARS.issuperset(value):
        return value
    return None


def body_length(values: Mapping[bytes, bytes]) -> int | None:
    """Bytes of a request's body by its head: 0 for none, None where only its end will tell."""
    if b"transfer-encoding" in values:
        return None
    length = values.get(b"content-length")
    return int(length) if length is not None else 0


def to_lane(
    pairs: Pairs,
    *,
    method: bytes,
    authority: bytes,
    request_id: bytes,
    chunked: bool,
    authorization: bytes | None = None,
) -> Pairs:
    """The request headers for a lane, in the client's order and spelling.

    Host becomes the lane's authority and an unusable request id a fresh one, where they stood.
    Expect was answered by the gate. A chunked body stays chunked; a POST, PUT or PATCH without a
    body says so with a length of 0.

    authorization: what the engine is sent as such, in place of the client's credentials; empty: it
    gets none; None: the client's go through. A preflight needs no key, so it never carries ours.
    """
    sent: Pairs = []
    seen = _SEEN_ON_THE_WAY_UP if authorization is None else _SEEN_WITH_KEYS
    has_host = has_id = has_length = False
    # One pass, and for most fields one look-up: half the cost of dropping first and rewriting then.
    for pair in pairs:
        lower = pair[0].lower()
        if lower not in seen:
            if not lower.startswith(OWN_PREFIX):
                sent.append(pair)
        elif lower == b"host":
            if not has_host:
                sent.append((pair[0], authority))
            has_host = True
        elif lower == b"content-length":
            if not chunked:
                sent.append(pair)
            has_length = True
        elif lower == b"x-request-id":
            if not has_id:
                sent.append((pair[0], request_id))
            has_id = True
        elif lower == b"connection" and _names_more(pair[1]):
            # Seldom: once more, without the fields that it names.
            return to_lane(
                end_to_end(pairs),
                method=method,
                authority=authority,
                request_id=request_id,
                chunked=chunked,
                authorization=authorization,
            )
    if not has_host:
        sent.insert(0, (b"host", authority))
    if not has_id:
        sent.append((b"x-request-id", request_id))
    if authorization and method != b"OPTIONS":
        sent.append((b"authorization", authorization))
    if chunked:
        sent.append((b"transfer-encoding", b"chunked"))
    elif not has_length and method in (b"POST", b"PUT", b"PATCH"):
        sent.append((b"content-length", b"0"))
    return sent


class ClientHead(NamedTuple):
    """A response's headers for the client, and what in them says how its body reads."""

    pairs: Pairs
    content_type: bytes | None
    encoded: bool


def to_client(
    pairs: Pairs, *, request_id: bytes, accel_buffering: bool, own: Iterable[tuple[bytes, bytes]]
) -> ClientHead:
    """The response headers for the client: the engine's, and the documented few of ours.

    accel_buffering: tell a buffering proxy in front (nginx) to pass an event stream on as it
    comes, unless the engine itself said something about it.
    """
    sent: Pairs = []
    content_type: bytes | None = None
    encoded = has_id = has_accel = False
    for pair in pairs:
        lower = pair[0].lower()
        if lower not in _SEEN_ON_THE_WAY_DOWN:
            if not lower.startswith(OWN_PREFIX):
                sent.append(pair)
        elif lower in HOP_BY_HOP:
            if lower == b"connection" and _names_more(pair[1]):
                # Seldom: once more, without the fields that it names.
                return to_client(
                    end_to_end(pairs),
                    request_id=request_id,
                    accel_buffering=accel_buffering,
                    own=own,
                )
        else:
            sent.append(pair)
            if lower == b"content-type":
                content_type = pair[1] if content_type is None else content_type
            elif lower == b"content-encoding":
                encoded = True
            elif lower == b"x-request-id":
                has_id = True
            else:
                has_accel = True
    if not has_id:
        sent.append((b"x-request-id", request_id))
    if accel_buffering and not has_accel and media_type(content_type) == b"text/event-stream":
        sent.append((b"x-accel-buffering", b"no"))
    sent.extend(own)
    return ClientHead(sent, content_type, encoded)


@lru_cache(maxsize=64)
def media_type(content_type: bytes | None) -> bytes:
    """A content type without its parameters, in lower case; empty for none."""
    return (content_type or b"").split(b";", 1)[0].strip().lower()
