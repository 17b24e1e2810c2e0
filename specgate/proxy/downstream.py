"""The client's side of one exchange, as the seven steps see it.

A Protocol, so that the same steps run over ASGI (`proxy.app`) and over a connection of our own
(`proxy.exchange`). It is a sink too: a response's body is pushed into it.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from specgate.core.errors import Fault
from specgate.core.headers import Pairs
from specgate.upstream.base import Sink


class Downstream(Sink, Protocol):
    """One request and the response to it.

    target: the request target's bytes as received. path: percent-decoded, without the query.
    headers: pairs in order, fixed before the body is read. values: the first value of each field,
    by its lower-case name. length: bytes of the request's body, 0
    for none, None where only its end will tell.
    """

    method: bytes
    target: bytes
    path: str
    headers: Pairs
    values: Mapping[bytes, bytes]
    length: int | None

    def whole(self) -> bytes | None:
        """The request's body, if all of it has come in one piece; None: `read` it."""
        ...

    async def read(self) -> bytes | None:
        """The next piece of the request's body, None at its end.

        Raises ClientGone if the client left first.
        """
        ...

    def on_gone(self, tell: Callable[[Fault], None] | None) -> None:
        """From now on call `tell`, once, when the client leaves, or at once if it has, or when the
        exchange is to end for another reason, with the fault that it is; None: no more."""
        ...

    async def start(self, status: int, reason: bytes, headers: Pairs) -> None:
        """Send the head. Once. `reason` may be empty."""
        ...

    def last(self) -> None:
        """The connection ends with this response; before `start`."""
        ...

    async def finish(self, trailers: Pairs) -> None:
        """The response is complete. One that is never finished is cut, so that the client sees
        that it is not whole."""
        ...
