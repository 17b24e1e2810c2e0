"""The gate's own stream of events, read as a browser would."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.client import RawClient, connect, request_bytes

EVENTS = b"/_specgate/events"


class Events:
    """`client`: the connection, after its head was read."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    async def next(self, kind: str) -> Any:
        """The data of the next event of this kind; others before it are passed over."""
        while True:
            name, data = await self._next()
            if name == kind:
                return json.loads(data)

    async def _next(self) -> tuple[str, str]:
        fields: dict[str, str] = {}
        while not fields.get("data"):
            size = int(await self.client.read_until(b"\r\n"), 16)
            piece = (await self.client.read_exact(size)).decode()
            await self.client.read_exact(2)
            # The gate sends whole events a piece, and the first with the time to reconnect.
            for line in piece.splitlines():
                name, _, value = line.partition(": ")
                fields[name] = value
        return fields["event"], fields["data"]


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[Events]:
    async with connect(url) as client:
        await client.send(request_bytes(b"GET", EVENTS))
        await client.read_head()
        assert client.status == 200, client.headers
        yield Events(client)
