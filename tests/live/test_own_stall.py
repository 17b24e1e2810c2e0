"""A gate that stands still for longer than a lane may take, while the lane's answer is there."""

import time

from specgate.core.events import LaneFailed
from tests.support.client import chat
from tests.support.lanes import Connection, Request, response
from tests.support.stage import stage


async def test_a_first_byte_that_nobody_looked_for(form: str):
    async def answer(request: Request, connection: Connection) -> None:
        await connection.send(response(200, b"ok").data)
        time.sleep(1)

    async with stage(first_byte_timeout_s=0.4, probe_interval_s=3600) as on:
        on.spec.answer("*", answer)
        for _ in range(2):
            assert (await on.ask(body=chat(stream=False))).status == 200
        assert on.gate.facts.of(LaneFailed) == []
