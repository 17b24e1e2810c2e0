"""What a client may ask of a connection, in bytes and seconds."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None: no limit.

    body_bytes: of one request's body, whichever way it is framed.
    head_s: from a head's first byte to its last. body_s: between two pieces of a body.
    idle_s: between two requests. flush_s: for the rest of a response that ends its connection.
    """

    body_bytes: int | None = None
    head_s: float | None = 30.0
    body_s: float | None = 60.0
    idle_s: float = 75.0
    flush_s: float | None = 300.0


class Deadline:
    """One deadline that is moved often and reached seldom: moving it costs no timer.

    The timer runs for the deadline that it was set for, and is set again when it finds that the
    deadline has moved on. `expired` is told the deadline's `kind`; empty: none is set.
    """

    __slots__ = ("_at", "_expired", "_loop", "_timer", "kind")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[str], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._at: float | None = None
        self.kind = ""
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float | None, kind: str) -> None:
        """From now on, in `seconds`; None: no deadline."""
        self.kind = kind
        if seconds is None:
            self._at = None
            return
        self._at = at = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_at(at, self._ring)
        elif at < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(at, self._ring)

    def clear(self) -> None:
        self._at = None
        self.kind = ""

    def cancel(self) -> None:
        self._at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._at is None:
            return
        if self._loop.time() < self._at:
            self._timer = self._loop.call_at(self._at, self._ring)
            return
        self._at = None
        self._expired(self.kind)
