"""docs/reference/headers.md, from `specgate.core.headers` and `specgate.proxy`."""

from string import Template

from specgate.core import headers
from specgate.core.lanes import Lane
from specgate.proxy.app import OWN_PATHS, OWN_ROOT
from specgate.proxy.replies import LANE_HEADER, REASON_HEADER
from tests.docs.markdown import code, table, written_from

PAGE = Template("""\
$origin

# Headers, and what the gate changes on the way

Path, query, header pairs and bodies go through as they came, in both directions. Bodies are never
decoded and encoded again. Streams go down chunk by chunk.

## The exceptions

This list is complete.

1. **Hop-by-hop headers** end at the gate, in both directions, together with every field that the
   message's own `Connection` names: $hop_by_hop.
2. **`Host`** becomes the lane's authority.
3. **`Expect`** is answered by the gate and not forwarded.
4. **Framing** is made anew for each connection. A chunked request body is sent on chunked, without
   `Content-Length`. A POST, PUT or PATCH without a body is sent with `Content-Length: 0`.
5. **`$prefix*`** belongs to the gate alone. Such headers of a client do not reach the engine, and
   such headers of an engine do not reach the client. Of a client's only `${prefix}lane` means
   anything, where [`SPECGATE_FORCE_LANE`](settings.md#specgate_force_lane) allows it.
6. **`X-Request-Id`** is made where there is none; see below.
7. **`X-Accel-Buffering: no`** is added to an event stream whose engine said nothing of it, unless
   [`SPECGATE_ACCEL_BUFFERING`](settings.md#specgate_accel_buffering) is off.
8. **The gate's own paths** never reach an engine: $own_paths and all below `$own_root/`.
9. **`Authorization`, `X-Api-Key` and `Api-Key`** end at the gate where it has keys of its own
   ([`SPECGATE_API_KEYS`](settings.md#specgate_api_keys)) or the engine's
   ([`SPECGATE_SPEC_API_KEY`](settings.md#specgate_spec_api_key)), which it then sends; see
   [keys](../how-to/keys.md).
10. **The body**, only with [`SPECGATE_REQUEST_USAGE`](settings.md#specgate_request_usage): a stream
   is asked for its token count where its client did not, and the extra event is taken out again.
11. **An error event** is added to an event stream of a generation that breaks off, and then the
    stream is cut; see [reliability](../explanation/reliability.md#an-engine-that-breaks-off).

Another server than `specgate serve` changes [a little more](portable-form.md).

## Headers that the gate adds to responses

$added

Both `$prefix*` headers are left out where
[`SPECGATE_EXPOSE_HEADERS`](settings.md#specgate_expose_headers) is off.

## `X-Request-Id`

A client's own id is kept if it has at most $id_max characters out of letters, digits and
`$id_signs`. Any other, and none, is replaced by hexadecimal digits: the gate's own, and a number.
The id goes to the engine, stands in the log line, and comes back in the response. An engine's own
`X-Request-Id` in the response is left as it is.

## Errors of the gate

What the gate answers itself, on the engines' paths, has OpenAI's shape:
`{"error": {"message", "type", "param", "code"}}`.

| status | `code` | when |
|---|---|---|
| 502 | `lane_no_answer` | the request was sent, and the connection ended before a response began |
| 502 | `lane_stream_broken` | a stream broke off before its first event; later it is an event |
| 503 | `no_lane_reachable` | neither lane took the request; with `Retry-After` |
| 400 | `bad_http` | what came is not HTTP, or could be read in two ways; the connection ends |
| 400 | `bad_path` | the path's dot segments lead out of the path of the lane's URL |
| 401 | `invalid_api_key` | none of `SPECGATE_API_KEYS` was sent; with `WWW-Authenticate: Bearer` |
| 405 | `method_refused` | CONNECT and TRACE |
| 408 | `slow_head`, `slow_body` | later than `SPECGATE_HEAD_TIMEOUT_S`, `SPECGATE_BODY_TIMEOUT_S` |
| 413 | `body_too_large` | larger than `SPECGATE_BODY_LIMIT` |
| 431 | `head_too_large` | a request's head above 64 KiB |
| 400 | `bad_lane` | `${prefix}lane` names no lane, where `SPECGATE_FORCE_LANE` allows it |
| 403 | `engine_admin_refused` | the call changes an engine; see [rules](rules.md) |
| 413 | `body_too_large` | above `SPECGATE_PEEK_LIMIT`, of a call that would go to both lanes |
| 502 | `half_done` | of a call that goes to both lanes, one alone was answered |
| 503 | `holder_unreachable` | the lane that holds what the request refers to takes no connection |
| 501 | `no_websocket` | the gate carries no WebSockets |
| 505 | `version_refused` | neither HTTP/1.1 nor HTTP/1.0 |
| 504 | `lane_timeout` | no response began within `SPECGATE_FIRST_BYTE_TIMEOUT_S` |
| 404 | `no_route` | a path below `$own_root/`, or a method, that the gate does not have |

After a response has begun its status cannot change. A lane that breaks off then leaves a response
that is cut, so that the client sees that it is not whole; on an event stream of a generation an
error event says so first.
""")

ADDED = {
    LANE_HEADER: f"the lane that the request was last sent to, or was to be: {code(*Lane)}",
    REASON_HEADER: "why that lane; see [reasons](reasons.md)",
    b"x-request-id": "the request's id, where the engine set none",
    b"x-accel-buffering": "`no`, on event streams, as above",
    b"retry-after": "whole seconds, with `no_lane_reachable`: about one probe interval",
}


def headers_page() -> str:
    letters_and_digits = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")
    signs = sorted(headers._ID_CHARS - letters_and_digits - frozenset(range(65, 91)))
    return PAGE.substitute(
        origin=written_from("specgate/core/headers.py and specgate/proxy"),
        hop_by_hop=code(*sorted(name.decode() for name in headers.HOP_BY_HOP)),
        prefix=headers.OWN_PREFIX.decode(),
        own_paths=code(*sorted(OWN_PATHS)),
        own_root=OWN_ROOT,
        id_max=headers._ID_MAX,
        id_signs=bytes(signs).decode(),
        added=table(
            ("header", "value"), ((f"`{name.decode()}`", text) for name, text in ADDED.items())
        ),
    )
