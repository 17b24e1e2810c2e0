"""Trailers of a response: they pass like headers, on our own connections."""

from tests.support.client import chat_request, connect
from tests.support.lanes import Send, chunk, sse_head
from tests.support.stage import stage


async def test_trailers_pass_but_for_what_ends_here():
    end = b"0\r\nX-Sum: 1\r\nX-Specgate-Lane: none\r\nKeep-Alive: timeout=5\r\n\r\n"
    piece = chunk(b"data: a\n\n")
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next([Send(sse_head() + piece + end)])
        await client.send(chat_request(stream=True))
        await client.read_head()
        assert await client.read_until(b"\r\n\r\n") == piece + b"0\r\nX-Sum: 1\r\n\r\n"
