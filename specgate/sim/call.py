"""One request's sequences, as a scope: entered when the engine takes them, left exactly once.

    with engine.call(rid, orders, streaming=True) as call:
        while not call.finished:
            for ticket in await call.take(): ...

Leaving the `with` aborts whatever has not finished.
"""

import asyncio
from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from specgate.sim.model import Job, Sequence

Finish = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A job, where on the tape its answer begins, and why it will end if nobody interferes."""

    job: Job
    place: int
    finish: Finish


class Ticket:
    """One sequence of a call. `taken` tokens were handed out, `pending` wait to be taken.

    `noted`: it is among its call's news. `sent_at`, `first_at`, `last_at`: seconds on the driver's
    clock, of its submission and of its first and latest tokens.
    """

    __slots__ = (
        "call",
        "finish",
        "finished",
        "first_at",
        "index",
        "last_at",
        "noted",
        "order",
        "pending",
        "sent_at",
        "sequence",
        "taken",
    )

    def __init__(self, call: "Call", index: int, sequence: Sequence, sent_at: float) -> None:
        self.call = call
        self.index = index
        self.order = call.orders[index]
        self.sequence = sequence
        self.finish: Finish = self.order.finish
        self.finished = False
        self.pending = 0
        self.taken = 0
        self.noted = False
        self.sent_at = sent_at
        self.first_at: float | None = None
        self.last_at = sent_at

    def give(self, tokens: int, *, finished: bool) -> None:
        """The engine's side: more tokens, perhaps the last."""
        self.pending += tokens
        self.finished = finished
        self.call.wake(self)

    def abort(self) -> None:
        """The engine's side: no more tokens will come."""
        self.finish = "abort"
        self.give(0, finished=True)

    def take(self) -> tuple[int, int]:
        """The pending tokens, as a range (start, stop) of the answer; they count as taken."""
        start = self.taken
        self.taken += self.pending
        self.pending = 0
        return start, self.taken


class Call:
    """The sequences of one request. `take` waits until some of them have news."""

    def __init__(
        self,
        *,
        rid: str,
        orders: Several[Order],
        streaming: bool,
        enter: Callable[["Call"], None],
        leave: Callable[["Call"], None],
    ) -> None:
        self.rid = rid
        self.orders = orders
        self.streaming = streaming
        self.tickets: list[Ticket] = []
        self._enter = enter
        self._leave = leave
        self._news: list[Ticket] = []
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        self._enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._leave(self)

    @property
    def finished(self) -> bool:
        """Every sequence has ended and its tokens have been taken."""
        return all(ticket.finished and not ticket.pending for ticket in self.tickets)

    def wake(self, ticket: Ticket) -> None:
        if not ticket.noted:
            ticket.noted = True
            self._news.append(ticket)
        self._event.set()

    async def take(self) -> list[Ticket]:
        """The tickets with news since the last call; waits for the first."""
        await self._event.wait()
        self._event.clear()
        news, self._news = self._news, []
        for ticket in news:
            ticket.noted = False
        return news
