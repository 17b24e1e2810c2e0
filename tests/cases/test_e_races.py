"""Case E04: both ends leave at once."""

import asyncio
import random
from typing import Any

from specgate.core.events import LaneFailed, Outcome, RequestEnded
from tests.support.client import chat_request, connect
from tests.support.lanes import Send, Signal, chunk, delta, sse_head
from tests.support.stage import Stage, stage

TURNS = 500
AT_ONCE = 20


async def test_e04_close_raising_inside_cleanup():
    """Closing a connection that had just broken raised, and the request stayed in the count."""
    seeded = random.Random(4)
    async with stage() as on:
        for _ in range(TURNS // AT_ONCE):
            async with asyncio.TaskGroup() as clients:
                for _ in range(AT_ONCE):
                    clients.create_task(both_leave(on, seeded.random(), seeded.choice("rc")))
        await on.ended(TURNS)
        ended = on.gate.facts.of(RequestEnded)
        assert len(ended) == TURNS
        assert {fact.outcome for fact in ended} <= {Outcome.CLIENT_GONE, Outcome.LANE_FAILED}
        assert len(on.gate.facts.of(LaneFailed)) <= TURNS


async def both_leave(on: Stage, lead: float, how: str) -> None:
    """The lane resets and the client leaves, within a millisecond of each other."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def leave(_request: Any, connection: Any) -> None:
        await go.wait()
        await asyncio.sleep(max(0.0, lead - 0.5) / 500)
        connection.rst()

    on.spec.answer_next([Send(sse_head() + chunk(delta("a"))), Signal(begun), leave])
    async with connect(on.url) as client:
        await client.send(chat_request())
        await client.read_head()
        await begun.wait()
        go.set()
        await asyncio.sleep(max(0.0, 0.5 - lead) / 500)
        if how == "r":
            client.rst()
