"""Which headers end at the gate, and the few that it adds.

Header pairs are bytes, in order, duplicates kept; what is not named here goes through untouched.
Source: RFC 9110 §7.6.1 (Connection and the fields it names), §6.5 (trailers), §7.2 (Host).
"""

import string
from collections.abc import Iterable

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


def end_to_end(pairs: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """The pairs that go through: neither hop-by-hop, nor named by Connection, nor ours."""
    pairs = list(pairs)
    dropped = HOP_BY_HOP | named_by_connection(pairs)
    return [
        (name, value)
        for name, value in pairs
        if (lower := name.lower()) not in dropped and not lower.startswith(OWN_PREFIX)
    ]


def value_of(pairs: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a field; `name` in lower case."""
    for candidate, value in pairs:
        if candidate.lower() == name:
            return value
    return None


def request_id(pairs: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The client's own X-Request-Id, if it is one that may be repeated in headers and logs."""
    value = value_of(pairs, b"x-request-id")
    if value and len(value) <= _ID_MAX and _ID_CHARS.issuperset(value):
        return value
    return None


def to_lane(pairs: Pairs, *, method: bytes, authority: bytes, request_id: bytes) -> Pairs:
    """The request headers for a lane.

    Host becomes the lane's authority. Expect was answered by the gate. A chunked body stays
    chunked; a body-less POST, PUT or PATCH says so with a length of 0.
    """
    sent = [(b"host", authority)]
    for name, value in end_to_end(pairs):
        lower = name.lower()
        if lower in (b"host", b"expect", b"x-request-id"):
            continue
        sent.append((name, value))
    sent.append((b"x-request-id", request_id))
    if value_of(pairs, b"transfer-encoding") is not None:
        sent = [pair for pair in sent if pair[0].lower() != b"content-length"]
        sent.append((b"transfer-encoding", b"chunked"))
    elif value_of(pairs, b"content-length") is None and method in (b"POST", b"PUT", b"PATCH"):
        sent.append((b"content-length", b"0"))
    return sent


def to_client(
    pairs: Pairs, *, request_id: bytes, accel_buffering: bool, own: Iterable[tuple[bytes, bytes]]
) -> Pairs:
    """The response headers for the client: the engine's, and the documented few of ours.

    accel_buffering: tell a buffering proxy in front (nginx) to pass an event stream on as it
    comes, unless the engine itself said something about it.
    """
    sent = end_to_end(pairs)
    if value_of(sent, b"x-request-id") is None:
        sent.append((b"x-request-id", request_id))
    if (
        accel_buffering
        and is_event_stream(value_of(sent, b"content-type"))
        and value_of(sent, b"x-accel-buffering") is None
    ):
        sent.append((b"x-accel-buffering", b"no"))
    sent.extend(own)
    return sent


def is_event_stream(content_type: bytes | None) -> bool:
    """Whether a content type is Server-Sent Events, whatever its parameters and case."""
    return media_type(content_type) == b"text/event-stream"


def media_type(content_type: bytes | None) -> bytes:
    """A content type without its parameters, in lower case; empty for none."""
    return (content_type or b"").split(b";", 1)[0].strip().lower()
