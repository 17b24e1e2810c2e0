"""The recorder keeps facts and waits for those to come."""

import asyncio

import pytest

from tests.support.observer import Recorder


async def test_facts_are_kept_in_order_and_found_by_type():
    recorder = Recorder()
    for fact in (1, "a", 2):
        recorder(fact)
    assert recorder.facts == [1, "a", 2]
    assert recorder.of(int) == [1, 2]


async def test_waiting_takes_facts_already_heard_and_facts_to_come():
    recorder = Recorder()
    recorder("a")
    assert await recorder.wait_for(str) == "a"
    async with asyncio.TaskGroup() as waiting:
        second = waiting.create_task(recorder.wait_for(str, count=2))
        seven = waiting.create_task(recorder.wait_for(int, where=lambda number: number == 7))
        await asyncio.sleep(0)
        for fact in (1, "b", 7):
            recorder(fact)
    assert (second.result(), seven.result()) == ("b", 7)


async def test_waiting_in_vain_fails_with_what_was_heard():
    recorder = Recorder()
    recorder("a")
    with pytest.raises(AssertionError, match=r"0 of 1 int heard .* beside \['a'\]"):
        await recorder.wait_for(int, within_s=0.01)
