"""With a profile's curves, over a real socket: what is weighed, why, and what is told of it."""

import asyncio
import json
from typing import Any

from specgate.bench.shipped import shipped
from specgate.core.profile import dumps
from tests.support.client import chat_request, connect, get
from tests.support.control import said
from tests.support.lanes import ScriptedLane
from tests.support.process import GateProcess, serve_process
from tests.support.streams import held

CROSSES_AT_39 = dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k"))


async def status(gate: GateProcess) -> dict[str, Any]:
    found: dict[str, Any] = said(await get(gate.url + "/_specgate/status"))
    return found


async def lane_of(gate: GateProcess) -> bytes:
    async with connect(gate.url) as client:
        await client.send(chat_request())
        _, headers = await client.read_head()
        await client.read_body()
    return dict(headers)[b"x-specgate-lane"]


async def test_a_profile_is_weighed_and_a_burst_leaves_the_spec_lane(tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text(CROSSES_AT_39)
    end = asyncio.Event()
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_PROFILE": str(profile),
        }
        async with serve_process(environ) as gate:
            # How much will be asked is not known: it begins on the lane that carries more.
            assert (await status(gate))["side"] == "plain"
            async with asyncio.timeout(10):
                while (await status(gate))["side"] != "spec":
                    await asyncio.sleep(0.05)
            assert await lane_of(gate) == b"spec"
            await asyncio.sleep(0.6)  # a tick or two, that see the drain of nothing over
            weighing = (await status(gate))["weighing"]
            assert weighing["pays"][0][0] == 0
            assert 38 < weighing["pays"][0][1] < 39
            assert weighing["sequences"] == 1
            assert weighing["against_spec"]["mean_s"] == 0

            spec.answer_next(held(end))
            async with connect(gate.url) as burst:
                await burst.send(chat_request(n=80))
                await burst.read_head()
                # It is one as it comes, and needs no tick of the gate's to be seen.
                assert await lane_of(gate) == b"plain"
                assert (await status(gate))["switches"] == 2
                assert (await gate.logged("switched", side="plain"))["reason"] == "burst"
                end.set()
                await burst.read_body()

            page = (await get(gate.url + "/metrics")).body.data.decode()
            for series in ("specgate_regret ", "specgate_offered_tokens_per_second "):
                assert f"\n{series}" in page
            assert 'specgate_gain_seconds{against="plain",bound="middle"}' in page
            assert 'bound="low"' not in page, "this profile has no intervals"
            assert json.loads(profile.read_text())["verdict"]["interval"] is None
