"""Case M06: what the gate says to those who want no plain exchange."""

from tests.support.client import connect, request_bytes
from tests.support.refusals import read_refusal
from tests.support.stage import stage


async def test_m06_websocket_upgrade():
    """An upgrade for /v1/realtime was a 403, or hung."""
    offer = [
        (b"Connection", b"keep-alive, Upgrade"),
        (b"Upgrade", b"WebSocket"),
        (b"Sec-WebSocket-Version", b"13"),
        (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    async with stage() as on, connect(on.url) as client:
        await client.send(request_bytes(b"GET", b"/v1/realtime", offer))
        reply = await read_refusal(client, 501, "no_websocket")
        assert b"WebSocket" in reply.body.data
        assert on.spec.requests == on.plain.requests == []
