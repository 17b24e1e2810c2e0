"""Who may use the engines: with SPECGATE_API_KEYS, whoever sends one of the keys.

The key is the gate's own: no engine sees it (`core.headers.to_lane`), and no log or error says it.
It is looked at before anything of the request's body is read, and before `100 Continue`.
"""

from collections.abc import Mapping
from typing import Protocol

from specgate.core.errors import RequestRefused
from specgate.core.keys import KeyHashes


class Asking(Protocol):
    """What is asked of a request, whichever form of the gate has it."""

    method: bytes
    length: int | None
    values: Mapping[bytes, bytes]


class Keyring:
    """`keys`: those that clients need one of, None: none is needed. A reload puts new ones in."""

    __slots__ = ("keys",)

    def __init__(self, keys: KeyHashes | None = None) -> None:
        self.keys = keys

    def refusal(self, asking: Asking) -> RequestRefused | None:
        """Why a request for an engine is not to be carried, None if it is."""
        keys = self.keys
        if keys is None or _is_preflight(asking):
            return None
        presented = _presented(asking.values)
        if any(keys.holds(key) for key in presented):
            return None
        if presented:
            return _refused("Incorrect API key provided")
        return _refused("No API key provided: send one as 'Authorization: Bearer KEY'")


def _presented(values: Mapping[bytes, bytes]) -> list[bytes]:
    """Keys as OpenAI's clients send them, and as Anthropic's do."""
    found = []
    scheme, _, credentials = values.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and (key := credentials.strip()):
        found.append(key)
    if key := values.get(b"x-api-key", b"").strip():
        found.append(key)
    return found


def _is_preflight(asking: Asking) -> bool:
    """A browser's question whether it may ask. It can carry no key, and engines answer it to
    anybody."""
    values = asking.values
    return (
        asking.method == b"OPTIONS"
        and asking.length == 0
        and b"origin" in values
        and b"access-control-request-method" in values
    )


def _refused(message: str) -> RequestRefused:
    return RequestRefused(401, message, code="invalid_api_key")
