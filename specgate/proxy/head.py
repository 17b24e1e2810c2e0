"""A request's head, read: what is refused at once, and what the parser cannot be told.

llhttp refuses on its own: two lengths, a length beside chunks, a transfer coding whose last is not
chunked, bare line feeds, folded headers, NUL, bad chunk sizes, methods that it does not know.
Refused here: versions other than 1.0 and 1.1, none or more than one Host, codings under the chunks
(their bytes would reach the engine undecoded), targets that are no path, CONNECT and TRACE, a
WebSocket. Any other `Upgrade` is ignored, as RFC 9110 §7.8 allows.
"""

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import unquote_to_bytes

from specgate.core.errors import RequestRefused
from specgate.core.headers import Pairs, first_values
from specgate.proxy.exchange import Exchange, Wire

HEAD_LIMIT = 64 * 1024
"""Bytes of a request's head, line and headers; engines' own servers take as much or less."""

_LENGTH_MAX = 40
"""Characters of a Content-Length: twice what the largest length that the parser takes needs."""


def read_head(
    wire: Wire,
    *,
    method: bytes,
    target: bytes,
    headers: Pairs,
    version: str,
    keep_alive: bool,
) -> Exchange:
    """The exchange for a head; with a `refusal` if it is one that we do not serve. Raises
    RequestRefused where not even its framing can be known."""
    values = first_values(headers)
    if len(values.get(b"content-length", b"")) > _LENGTH_MAX:
        raise RequestRefused(400, "a Content-Length of too many digits", code="bad_http")
    origin_form, path = _split(target)
    exchange = Exchange(
        wire,
        method,
        origin_form,
        path,
        headers,
        values,
        http10=version == "1.0",
        keep_alive=keep_alive,
    )
    if version not in ("1.1", "1.0"):
        spoken = f"the gate speaks HTTP/1.1 and HTTP/1.0, not {version}"
        exchange.fail(RequestRefused(505, spoken, code="version_refused"))
    elif (fault := refusal(exchange)) is not None:
        exchange.fail(fault)
    return exchange


def _split(target: bytes) -> tuple[bytes, str]:
    """The target in origin form, and its decoded path. Absolute form (`http://host/path`, which
    only clients of a forward proxy send) loses its scheme and host; nothing else is touched."""
    if not target.startswith((b"/", b"*")) and b"://" in target:
        _, _, rest = target.partition(b"://")
        authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
        target = rest[len(authority) :]
        if not target.startswith(b"/"):
            target = b"/" + target
    raw_path = target.partition(b"?")[0].partition(b"#")[0]
    path = unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path
    return target, path.decode("utf-8", "replace")


_AUTHORITY_END = re.compile(rb"[/?#]")


class Head(Protocol):
    """What is asked of a head, whichever form of the gate has it."""

    method: bytes
    target: bytes
    headers: Pairs
    values: Mapping[bytes, bytes]
    http10: bool


def refusal(head: Head) -> RequestRefused | None:
    """Why a request is not to be carried, None if it is."""
    method, target, values = head.method, head.target, head.values
    if method in (b"CONNECT", b"TRACE"):
        return RequestRefused(
            405, f"the gate does not take {method.decode('ascii')}", code="method_refused"
        )
    if not target.startswith(b"/") and (method, target) != (b"OPTIONS", b"*"):
        return RequestRefused(400, "a target that is no path", code="bad_http")
    if b"host" not in values and not head.http10:
        return RequestRefused(400, "no Host", code="bad_http")
    repeated = len(values) < len(head.headers)
    if repeated and _count(head, b"host") > 1:
        return RequestRefused(400, "more than one Host", code="bad_http")
    coding = values.get(b"transfer-encoding")
    if coding is not None and (
        coding.strip().lower() != b"chunked"
        or (repeated and _count(head, b"transfer-encoding") > 1)
        or head.http10
    ):
        return RequestRefused(
            400, "no transfer coding but chunked is taken, and that in HTTP/1.1", code="bad_http"
        )
    if b"websocket" in values.get(b"upgrade", b"").lower():
        return RequestRefused(
            501, "the gate does not carry WebSockets; connect to an engine", code="no_websocket"
        )
    return None


def _count(head: Head, field: bytes) -> int:
    return sum(name.lower() == field for name, _ in head.headers)


def framing_again(exchange: Exchange) -> bytes:
    """A head for a new parser that says no more than how the body is framed."""
    if exchange.length is None:
        framing = b"transfer-encoding: chunked"
    else:
        framing = b"content-length: %d" % exchange.length
    connection = b"" if exchange.keep_alive else b"connection: close\r\n"
    return b"POST / HTTP/1.1\r\n" + connection + framing + b"\r\n\r\n"
