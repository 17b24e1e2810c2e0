"""Which headers end at the gate, and the few that it adds.

Header pairs are bytes, in order, duplicates kept; what is not named here goes through untouched.
Source: RFC 9110 §7.6.1 (Connection and the fields it names), §6.5 (trailers), §7.2 (Host).
"""

import string
from collections.abc import Iterable, Mapping, Set
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
"""Fields that mean one connection only. `expect` is answered by the server in front of the app."""

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


def _through(pairs: Pairs) -> list[tuple[bytes, bytes, bytes]]:
    """The pairs that go through, each with its lower-case name first."""
    lowered = [name.lower() for name, _ in pairs]
    dropped: Set[bytes] = HOP_BY_HOP
    if b"connection" in lowered:
        dropped = HOP_BY_HOP | named_by_connection(pairs)
    return [
        (lower, name, value)
        for lower, (name, value) in zip(lowered, pairs, strict=True)
        if lower not in dropped and not lower.startswith(OWN_PREFIX)
    ]


def end_to_end(pairs: Pairs) -> Pairs:
    """The pairs that go through: neither hop-by-hop, nor named by Connection, nor ours."""
    return [(name, value) for _, name, value in _through(pairs)]


def value_of(pairs: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a field; `name` in lower case."""
    for candidate, value in pairs:
        if candidate.lower() == name:
            return value
    return None


def first_values(pairs: Pairs) -> dict[bytes, bytes]:
    """The first value of each field, by its lower-case name."""
    values: dict[bytes, bytes] = {}
    for name, value in pairs:
        values.setdefault(name.lower(), value)
    return values


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
    pairs: Pairs, *, method: bytes, authority: bytes, request_id: bytes, chunked: bool
) -> Pairs:
    """The request headers for a lane, in the client's order and spelling.

    Host becomes the lane's authority and an unusable request id a fresh one, where they stood.
    Expect was answered by the gate. A chunked body stays chunked; a POST, PUT or PATCH without a
    body says so with a length of 0.
    """
    sent: Pairs = []
    has_host = has_id = has_length = False
    for lower, name, value in _through(pairs):
        if lower == b"host":
            if not has_host:
                sent.append((name, authority))
            has_host = True
        elif lower == b"x-request-id":
            if not has_id:
                sent.append((name, request_id))
            has_id = True
        elif lower == b"content-length":
            if not chunked:
                sent.append((name, value))
            has_length = True
        elif lower != b"expect":
            sent.append((name, value))
    if not has_host:
        sent.insert(0, (b"host", authority))
    if not has_id:
        sent.append((b"x-request-id", request_id))
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
    for lower, name, value in _through(pairs):
        sent.append((name, value))
        if lower == b"content-type":
            content_type = value if content_type is None else content_type
        elif lower == b"content-encoding":
            encoded = True
        elif lower == b"x-request-id":
            has_id = True
        elif lower == b"x-accel-buffering":
            has_accel = True
    if not has_id:
        sent.append((b"x-request-id", request_id))
    if accel_buffering and not has_accel and media_type(content_type) == b"text/event-stream":
        sent.append((b"x-accel-buffering", b"no"))
    sent.extend(own)
    return ClientHead(sent, content_type, encoded)


def media_type(content_type: bytes | None) -> bytes:
    """A content type without its parameters, in lower case; empty for none."""
    return (content_type or b"").split(b";", 1)[0].strip().lower()
