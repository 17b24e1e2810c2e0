"""The client's side of one exchange, as the seven steps see it.

A Protocol, so that the same steps run over ASGI and over a connection of our own.
"""

from typing import Protocol

from specgate.core.headers import Pairs


class Downstream(Protocol):
    """One request and the response to it.

    target: the request target's bytes as received. path: percent-decoded, without the query.
    headers: pairs in order, fixed before the body is read.
    """

    method: bytes
    target: bytes
    path: str
    headers: Pairs

    async def read(self) -> bytes | None:
        """The next piece of the request's body, None at its end.

        Raises ClientGone if the client left first.
        """
        ...

    async def gone(self) -> None:
        """Returns when the client has left. Waits for the end of the body before it looks: one
        reader at a time."""
        ...

    async def start(self, status: int, headers: Pairs) -> None:
        """Send the head. Once."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body; waits while the client does not read."""
        ...

    async def finish(self) -> None:
        """The response is complete. One that is never finished is cut, so that the client sees
        that it is not whole."""
        ...
