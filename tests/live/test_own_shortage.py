"""A gate that is out of files can make no connection, and that is no fault of a lane."""

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest

from specgate.control.prober import Prober, probe_client
from specgate.core.config import PolicyConfig
from specgate.core.events import HealthChanged, Probed
from specgate.core.health import Health, Sign
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin
from tests.support.client import CHAT, JSON, chat, connect
from tests.support.control import message
from tests.support.lanes import refuses
from tests.support.scripted import manual_gate
from tests.support.stage import Stage, stage


@contextmanager
def no_file_left() -> Iterator[None]:
    """What is open stays, and nothing more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        most = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        try:
            while True:
                stack.callback(os.close, os.dup(0))
        except OSError:
            pass
        yield


def health(on: Stage) -> set[str]:
    return {lane.health for lane in on.gate.service.gate.view().lanes.values()}


@pytest.mark.parametrize("upstream", ["pooled", "httpx"])
async def test_no_lane_is_ejected_for_it_by_traffic(upstream: str):
    async with stage(upstream=upstream, probe_interval_s=3600) as on, connect(on.url) as client:
        assert (await client.request(b"GET", b"/livez")).status == 200
        # What the first probes had open is closed: a file that came free would be a connection.
        await asyncio.sleep(0.3)
        with no_file_left():
            for _ in range(4):
                reply = await client.request(b"POST", CHAT, [JSON], chat(stream=False))
                assert reply.status == 503
                assert "short of files" in message(reply)
                assert reply.values(b"retry-after")
        assert health(on) == {Health.HEALTHY}
        reply = await client.request(b"POST", CHAT, [JSON], chat(stream=False))
        assert (reply.status, reply.values(b"x-specgate-lane")) == (200, [b"spec"])
        assert len(on.gate.facts.of(HealthChanged)) == 2, "the two of the start"


async def test_nor_by_probes():
    gate, clock, facts = manual_gate(PolicyConfig())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Nobody accepts: were there a file after all, the lane would be slow for five seconds.
        lane = Origin.of(Lane.SPEC, f"http://127.0.0.1:{listener.getsockname()[1]}")
        gate.set_origin(lane)
        async with probe_client() as client:
            with refuses() as nobody, pytest.raises(httpx2.ConnectError):
                await client.get(nobody)  # all that is loaded at first use is loaded
            prober = Prober(gate=gate, client=client, observe=facts, clock=clock)
            with no_file_left():
                await prober.probe(Lane.SPEC)
        (probed,) = facts.of(Probed)
        assert probed.sign is Sign.SLOW
        assert gate.lanes[Lane.SPEC].health is Health.PROBING, "one failure would eject it"
