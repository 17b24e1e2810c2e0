"""Streams that are begun and left open, for as long as a test wants load."""

import asyncio

from tests.support.client import RawClient, chat_request
from tests.support.lanes import DONE, Send, WaitFor, chunk, delta, sse_head
from tests.support.stage import Stage
from tests.support.steps import Step


def held(until: asyncio.Event) -> list[Step]:
    """A stream that sends its head and its first token, and the rest when it may."""
    return [Send(sse_head() + chunk(delta("a"))), WaitFor(until), Send(chunk(DONE) + b"0\r\n\r\n")]


async def begin(on: Stage, clients: list[RawClient]) -> dict[bytes, bytes]:
    """One more stream, begun and left open: its response's headers."""
    client = await RawClient.open(on.gate.host, on.gate.port)
    clients.append(client)
    await client.send(chat_request())
    _, pairs = await client.read_head()
    return dict(pairs)


async def finish(clients: list[RawClient]) -> None:
    """Read them to their ends, and close."""
    for client in clients:
        assert (await client.read_body()).clean
        await client.close()
