"""A load of streamed chats, each client with one after the other, and what every request got.

async with chatting(gate.url, 8, body) as load:
    ...
assert not load.failed
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.client import CHAT, JSON, RawClient, connect, request_bytes

DONE = b"data: [DONE]\n\n"
ERROR_EVENT = b'data: {"error":'


@dataclass(frozen=True, slots=True)
class Got:
    """One request's end. began: monotonic seconds. whole: to its last event, framed as promised;
    told: an error event was the last of it."""

    began: float
    status: int
    lane: str
    reason: str
    whole: bool
    told: bool
    body: bytes


@dataclass
class Load:
    """`got`: in the order in which they ended."""

    got: list[Got] = field(default_factory=list)
    stopping: bool = False
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def failed(self) -> list[Got]:
        return [each for each in self.got if not each.whole]

    async def add(self, got: Got) -> None:
        async with self._news:
            self.got.append(got)
            self._news.notify_all()

    async def served_by(self, lane: str, count: int, within_s: float = 30) -> None:
        """Wait until a lane has served so many more."""
        before = len(self.got)

        def served() -> bool:
            return sum(each.whole and each.lane == lane for each in self.got[before:]) >= count

        async with self._news, asyncio.timeout(within_s):
            await self._news.wait_for(served)


@asynccontextmanager
async def chatting(url: str, clients: int, body: bytes) -> AsyncIterator[Load]:
    """Clients that ask until the block is left, and then end what they have begun."""
    load = Load()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(clients):
            tasks.create_task(_chat(url, body, load))
        try:
            yield load
        finally:
            load.stopping = True


async def _chat(url: str, body: bytes, load: Load) -> None:
    while not load.stopping:
        async with connect(url) as client:
            again = True
            while again and not load.stopping:
                got, again = await _ask(client, body)
                await load.add(got)


async def _ask(client: RawClient, body: bytes) -> tuple[Got, bool]:
    """What came, and whether the connection goes on."""
    began = time.monotonic()
    await client.send(request_bytes(b"POST", CHAT, [JSON], body))
    await client.read_head()
    answer = await client.read_body()
    said = {name.lower(): value for name, value in client.headers}
    last = answer.data.rstrip(b"\n").rpartition(b"\n\n")[2]
    got = Got(
        began,
        client.status,
        said.get(b"x-specgate-lane", b"").decode(),
        said.get(b"x-specgate-reason", b"").decode(),
        whole=client.status == 200 and answer.clean and answer.data.endswith(DONE),
        told=last.startswith(ERROR_EVENT),
        body=answer.data[-500:],
    )
    return got, answer.clean and said.get(b"connection") != b"close"
