"""The gate's account beside the lanes' own, in mid-load: everything holds its breath for a moment,
and then the two must be equal.

Clients begin nothing, leave nothing and read on; lanes send nothing more of what they answer. What
is in transit arrives, within some turns, and what is in flight stays there.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from specgate.core.lanes import Lane
from tests.chaos.clients import Crowd
from tests.chaos.lanes import LaneProcess
from tests.support.client import get

WITHIN_S = 6.0
"""In which the accounts must come to agree. It takes some hundredths of a second. Not longer than
the gate's time-outs for a silent lane: what those have ended is in no account any more."""

LOOK_S = 0.05


class Account(NamedTuple):
    """Sequences and requests in progress, a lane each."""

    sequences: dict[str, int]
    requests: dict[str, int]


class Sample(NamedTuple):
    """looks: how many it took until both accounts agreed; None: they never did."""

    gate: Account
    lanes: Account
    looks: int | None


async def status_of(url: str) -> dict[str, Any]:
    status: dict[str, Any] = json.loads((await get(url + "/_specgate/status")).body.data)
    return status


async def take(url: str, lanes: Mapping[Lane, LaneProcess], crowd: Crowd) -> Sample:
    """Whoever changes the lanes waits meanwhile."""
    async with lanes[Lane.SPEC].lock, lanes[Lane.PLAIN].lock:
        crowd.may_move.clear()
        for lane in lanes.values():
            await lane.tell("freeze")
        try:
            return await compared(url, lanes)
        finally:
            for lane in lanes.values():
                await lane.tell("thaw")
            crowd.may_move.set()


async def compared(url: str, lanes: Mapping[Lane, LaneProcess]) -> Sample:
    """Look until both say the same twice running."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WITHIN_S
    looks, before = 0, None
    while True:
        looks += 1
        gate, theirs = _gates(await status_of(url)), await _theirs(lanes)
        if gate == theirs == before:
            return Sample(gate, theirs, looks)
        if loop.time() > deadline and gate != theirs:
            return Sample(gate, theirs, None)
        before = gate
        await asyncio.sleep(LOOK_S)


def _gates(status: dict[str, Any]) -> Account:
    return Account(
        {lane: status["in_flight"][lane] for lane in Lane},
        {lane: status["lanes"][lane]["in_hand"] for lane in Lane},
    )


async def _theirs(lanes: Mapping[Lane, LaneProcess]) -> Account:
    counts = {name: await lane.tell("count") for name, lane in lanes.items()}
    return Account(
        {name: count["sequences"] for name, count in counts.items()},
        {name: count["requests"] for name, count in counts.items()},
    )
