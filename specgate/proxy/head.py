"""A request's head, read: what is refused at once, and what the parser cannot be told.

llhttp refuses on its own: two different lengths, a length beside chunks, a transfer coding whose
last is not chunked, bare line feeds, folded headers, NUL, bad chunk sizes. Refused here: more than
one Host, codings under the chunks (their bytes would reach the engine undecoded), CONNECT and
TRACE, a WebSocket. Any other `Upgrade` is ignored, as RFC 9110 §7.8 allows.
"""

from urllib.parse import unquote_to_bytes

from specgate.core.errors import RequestRefused
from specgate.core.headers import Pairs
from specgate.proxy.exchange import Exchange, Wire

HEAD_LIMIT = 64 * 1024
"""Bytes of a request's head, line and headers; engines' own servers take as much or less."""


def read_head(
    wire: Wire,
    *,
    method: bytes,
    target: bytes,
    headers: Pairs,
    values: dict[bytes, bytes],
    version: str,
    keep_alive: bool,
) -> Exchange:
    """The exchange for a head; with a `refusal` if it is one that we do not serve."""
    origin_form, path = _split(target)
    exchange = Exchange(
        wire,
        method=method,
        target=origin_form,
        path=path,
        headers=headers,
        values=values,
        http10=version == "1.0",
        keep_alive=keep_alive,
    )
    exchange.refusal = _refusal(exchange)
    return exchange


def _split(target: bytes) -> tuple[bytes, str]:
    """The target in origin form, and its decoded path. Absolute form (`http://host/path`, which
    only clients of a forward proxy send) loses its scheme and host; nothing else is touched."""
    if not target.startswith((b"/", b"*")) and b"://" in target:
        _, _, rest = target.partition(b"://")
        slash = rest.find(b"/")
        target = rest[slash:] if slash >= 0 else b"/"
    raw_path = target.partition(b"?")[0].partition(b"#")[0]
    path = unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path
    return target, path.decode("utf-8", "replace")


def _refusal(exchange: Exchange) -> RequestRefused | None:
    if exchange.method in (b"CONNECT", b"TRACE"):
        method = exchange.method.decode("ascii")
        return RequestRefused(405, f"the gate does not take {method}", code="method_refused")
    if len(exchange.values) < len(exchange.headers) and _count(exchange, b"host") > 1:
        return RequestRefused(400, "more than one Host", code="bad_http")
    coding = exchange.values.get(b"transfer-encoding")
    if coding is not None and (
        coding.strip().lower() != b"chunked"
        or _count(exchange, b"transfer-encoding") > 1
        or exchange.http10
    ):
        return RequestRefused(
            501, "no transfer coding but chunked is understood", code="coding_refused"
        )
    if b"websocket" in exchange.values.get(b"upgrade", b"").lower():
        return RequestRefused(
            501, "the gate does not carry WebSockets; connect to an engine", code="no_websocket"
        )
    return None


def _count(exchange: Exchange, field: bytes) -> int:
    return sum(name.lower() == field for name, _ in exchange.headers)


def framing_again(exchange: Exchange) -> bytes:
    """A head for a new parser that says no more than how the body is framed."""
    if exchange.length is None:
        framing = b"transfer-encoding: chunked"
    else:
        framing = b"content-length: %d" % exchange.length
    connection = b"" if exchange.keep_alive else b"connection: close\r\n"
    return b"POST / HTTP/1.1\r\n" + connection + framing + b"\r\n\r\n"
