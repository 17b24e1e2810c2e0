"""The gate's own replies on the engines' paths: OpenAI-shaped errors, as clients expect them."""

import json
from functools import cache

from specgate.core.errors import Fault, GateFault
from specgate.core.headers import OWN_PREFIX, Pairs
from specgate.core.lanes import Lane
from specgate.core.policy import Reason

LANE_HEADER = OWN_PREFIX + b"lane"
REASON_HEADER = OWN_PREFIX + b"reason"


_CLIENTS = "invalid_request_error"
_TAKEN = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
"""Methods that go to engines, as a 405 has to say; a few that nobody sends go there as well."""

_KINDS = {429: "rate_limit_error"}
"""OpenAI's words for whose error it is."""


@cache
def own_headers(lane: Lane, reason: Reason) -> tuple[tuple[bytes, bytes], ...]:
    """What the gate says of its decision. Both sets are closed, so that each pair is made once."""
    return (LANE_HEADER, lane.encode("ascii")), (REASON_HEADER, reason.encode("ascii"))


def error_body(message: str, *, kind: str, code: str) -> bytes:
    """`{"error": {message, type, param, code}}`, as OpenAI's API and its clients have it."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def fault_reply(fault: Fault, *, request_id: bytes) -> tuple[int, Pairs, bytes]:
    """Status, headers and body for a fault that a client can still be told of."""
    kind = _KINDS.get(fault.status, "server_error" if fault.status >= 500 else _CLIENTS)
    body = error_body(str(fault), kind=kind, code=fault.code)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id),
    ]
    if fault.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if fault.status == 405:
        headers.append((b"allow", _TAKEN))
    if isinstance(fault, GateFault):
        headers.append((b"retry-after", b"%d" % fault.retry_after_s))
    return fault.status, headers, body
