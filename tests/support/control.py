"""The control surface, as its tests speak to it."""

import json
from typing import Any

from tests.support.client import Response, connect
from tests.support.live import LiveGate
from tests.support.process import GateProcess
from tests.support.stage import Stage

TOKEN = "the-token"
KEY = [(b"Authorization", b"Bearer the-token"), (b"Content-Type", b"application/json")]


async def change(
    on: Stage | LiveGate | GateProcess,
    method: bytes,
    path: str,
    body: Any = None,
    headers: Any = KEY,
) -> Response:
    """One changing call; `body` as JSON, or the bytes as they are."""
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    async with connect(on.url) as client:
        return await client.request(method, b"/_specgate/" + path.encode(), headers, sent)


def said(reply: Response) -> Any:
    return json.loads(reply.body.data)


def message(reply: Response) -> str:
    """The message of an error in OpenAI's shape."""
    error = said(reply)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    return str(error["message"])
