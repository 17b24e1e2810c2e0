"""Jumping time runs long scenarios at once; the manual clock stands until it is set."""

import asyncio
import time

import pytest

from tests.support.clocks import ManualClock, run_in_jumping_time


def test_hundreds_of_seconds_pass_at_once():
    async def scenario():
        loop = asyncio.get_running_loop()
        start, woken = loop.time(), []

        async def sleeper(seconds):
            await asyncio.sleep(seconds)
            woken.append((seconds, loop.time() - start))

        async with asyncio.TaskGroup() as sleepers:
            for seconds in (300, 7.5, 129, 30):
                sleepers.create_task(sleeper(seconds))
        return woken

    began = time.monotonic()
    woken = run_in_jumping_time(scenario())
    assert [seconds for seconds, _ in woken] == [7.5, 30, 129, 300]
    assert all(at == pytest.approx(seconds) for seconds, at in woken)
    assert time.monotonic() - began < 1


def test_cancelled_timers_are_not_jumped_to():
    async def scenario():
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.timeout(600):
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        return loop.time() - start

    assert run_in_jumping_time(scenario()) == pytest.approx(2)


def test_timeouts_fire_at_their_time():
    async def scenario():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_in_jumping_time(scenario()) == pytest.approx(1060)


def test_a_deadlock_is_an_error_not_a_hang():
    async def scenario():
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="no timer will wake"):
        run_in_jumping_time(scenario())


def test_manual_clock_stands_until_set():
    clock = ManualClock(5.0)
    assert clock() == clock() == 5.0
    clock.advance(2)
    assert clock() == 7.0
    clock.now = 1.0
    assert clock() == 1.0
