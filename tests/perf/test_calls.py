"""Budgets that need no clock: the calls that a request and a chunk take. And one that does.

A ceiling lies a tenth above what was counted when it was set. Whoever passes one has made every
request dearer: make it cheaper, or raise the ceiling and say why in the changelog.
"""

import statistics
import time

import pytest

from specgate.core.config import PolicyConfig
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Situation, decide
from tests.perf.counting import allow_files, calls_per_chunk, calls_per_request

REQUEST_PYTHON, REQUEST_TOTAL = 164, 315
CHUNK_PYTHON, CHUNK_TOTAL = 6, 10

DECIDE_S = 5e-6
SLACK = 4
"""For what is timed: how much slower a busy machine may be."""


async def test_calls_of_a_request():
    calls = await calls_per_request()
    assert calls.python <= REQUEST_PYTHON, calls.python
    assert calls.total <= REQUEST_TOTAL, calls.total


async def test_calls_of_a_chunk_do_not_grow_with_the_streams():
    few = await calls_per_chunk(streams=64, chunks=20, gap_ms=50)
    assert few.python <= CHUNK_PYTHON, few.python
    assert few.total <= CHUNK_TOTAL, few.total
    if not allow_files(8192):
        pytest.skip("1,024 streams in one process take 4,096 open files")
    many = await calls_per_chunk(streams=1024, chunks=4, gap_ms=600)
    assert many.total <= 1.3 * few.total, (many.total, few.total)


async def test_calls_of_a_request_do_not_grow_with_the_connections():
    alone = await calls_per_request(20)
    among = await calls_per_request(20, connections_resting=256)
    assert among.total <= 1.1 * alone.total, (among.total, alone.total)


def test_deciding_takes_microseconds():
    policy = PolicyConfig(threshold=24.0)
    now = Situation(
        mode=Mode.AUTO,
        side=Lane.SPEC,
        since_switch_s=100.0,
        in_flight=12,
        arriving=1,
        smoothed=11.5,
        usable=frozenset(Lane),
    )
    assert _median_s(lambda: decide(policy, now), 1000) < SLACK * DECIDE_S


def _median_s(work, times: int) -> float:
    """Of 9 runs of `times` turns: seconds for one turn."""
    took = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(times):
            work()
        took.append((time.perf_counter() - start) / times)
    return statistics.median(took)
