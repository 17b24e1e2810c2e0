"""Requests that the gate must not carry: refused, the connection ended, and no lane the wiser."""

import json

from tests.support.client import RawClient, Response, connect
from tests.support.stage import Stage


async def read_refusal(client: RawClient, status: int, code: str) -> Response:
    """The answer to what was sent: this error, in OpenAI's shape, whole, and then the end."""
    line, headers = await client.read_head()
    reply = Response(client.status, line, headers, await client.read_body())
    assert reply.status == status, (line, reply.body.data)
    assert reply.body.ending == "length"
    error = json.loads(reply.body.data)["error"]
    assert error["code"] == code, error
    assert reply.values(b"connection") == [b"close"]
    assert await client.ended() == "fin", "a reset may take the answer with it"
    return reply


async def refused(on: Stage, raw: bytes, status: int = 400, code: str = "bad_http") -> Response:
    """Send exactly these bytes on a connection of their own."""
    async with connect(on.url) as client:
        await client.send(raw)
        reply = await read_refusal(client, status, code)
    assert on.spec.requests == on.plain.requests == [], raw
    return reply
