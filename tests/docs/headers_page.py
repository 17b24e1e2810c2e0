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
   such headers of an engine do not reach the client.
6. **`X-Request-Id`** is made where there is none; see below.
7. **`X-Accel-Buffering: no`** is added to an event stream whose engine said nothing of it, unless
   [`SPECGATE_ACCEL_BUFFERING`](settings.md#specgate_accel_buffering) is off.
8. **The gate's own paths** never reach an engine: $own_paths and all below `$own_root/`.
9. Header names reach the engine in small letters: the server in front of the gate's application
   hands them over so. Header names mean the same in any case.

## Headers that the gate adds to responses

$added

Both `$prefix*` headers are left out where
[`SPECGATE_EXPOSE_HEADERS`](settings.md#specgate_expose_headers) is off.

## `X-Request-Id`

A client's own id is kept if it has at most $id_max characters out of letters, digits and
`$id_signs`. Any other, and none, is replaced by 24 hexadecimal digits. The id goes to the engine,
stands in the log line, and comes back in the response. An engine's own `X-Request-Id` in the
response is left as it is.

## Errors of the gate

What the gate answers itself, on the engines' paths, has OpenAI's shape:
`{"error": {"message", "type", "param", "code"}}`.

| status | `code` | when |
|---|---|---|
| 502 | `lane_no_answer` | the request was sent, and the connection ended before a response began |
| 503 | `no_lane_reachable` | neither lane took a connection; with `Retry-After` |
| 504 | `lane_timeout` | no response began within `SPECGATE_FIRST_BYTE_TIMEOUT_S` |
| 404 | `no_route` | a path below `$own_root/`, or a method, that the gate does not have |

After a response has begun its status cannot change. A lane that breaks off then leaves a response
that is cut, so that the client sees that it is not whole.
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
