"""The contract of an upstream: an event loop that stands still is no fault of a lane."""

import asyncio
import socket
import time

import pytest

from specgate.core.errors import ConnectFailed
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin, Upstream
from specgate.upstream.stalls import RunningTimeout
from tests.contract.asking import OK, ask
from tests.contract.conftest import Form
from tests.contract.engine import Engine, answers

CONNECT_S = 0.4


async def ask_and_stall(upstream: Upstream, target: Engine | Origin, stall_s: float) -> None:
    """The loop stands still as soon as a connection is under way."""
    asking = asyncio.ensure_future(ask(upstream, target))
    await asyncio.sleep(0)
    time.sleep(stall_s)
    await asking


@pytest.mark.parametrize("times", [1.2, 3, 6])
async def test_a_stall_for_longer_than_connecting_may_take(form: Form, times: float):
    """The connection was there all the while, and nobody looked."""
    upstream = form.build(connect_timeout_s=CONNECT_S)
    async with Engine(answers(OK)) as engine:
        await ask_and_stall(upstream, engine, times * CONNECT_S)
    await upstream.aclose()


async def test_a_lane_that_takes_none_fails_all_the_same(form: Form):
    upstream = form.build(connect_timeout_s=CONNECT_S)
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for taken in (first, second):
            taken.setblocking(False)
            taken.connect_ex(listener.getsockname())
        await asyncio.sleep(0.05)
        lane = Origin.of(Lane.SPEC, f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(ConnectFailed):
            await ask_and_stall(upstream, lane, 2 * CONNECT_S)
    await upstream.aclose()


async def test_a_loop_that_is_always_late_is_waited_for_only_so_long():
    async def stall() -> None:
        while True:
            time.sleep(0.03)
            await asyncio.sleep(0)

    stalling = asyncio.ensure_future(stall())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5), RunningTimeout(0.04):
            await asyncio.Event().wait()
    stalling.cancel()
