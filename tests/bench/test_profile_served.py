"""A profile under a running gate: a new file is taken by a reload, a broken one is not."""

import signal
from typing import Any

from specgate.bench.shipped import shipped
from specgate.core.profile import dumps
from tests.support.client import chat_request, connect, get
from tests.support.control import TOKEN, change, message, said
from tests.support.lanes import ScriptedLane
from tests.support.process import GateProcess, serve_process

CROSSES = dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k"))
NEVER = dumps(shipped("reference"))
BROKEN = CROSSES.replace('"crosses"', '"crossing"')


async def lane_of(gate: GateProcess) -> tuple[bytes, bytes]:
    """Where the next request goes, and why."""
    async with connect(gate.url) as client:
        await client.send(chat_request())
        _, headers = await client.read_head()
        await client.read_body()
    named = dict(headers)
    return named[b"x-specgate-lane"], named[b"x-specgate-reason"]


async def threshold_of(gate: GateProcess) -> Any:
    return said(await get(gate.url + "/_specgate/status"))["threshold"]


async def test_a_changed_profile_is_taken_and_a_broken_one_is_told(tmp_path):
    file = tmp_path / "profile.json"
    file.write_text(CROSSES)
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_PROFILE": str(file),
            "SPECGATE_ADMIN_TOKEN": TOKEN,
            "SPECGATE_DWELL_S": "0",
        }
        async with serve_process(environ) as gate:
            assert round(await threshold_of(gate), 1) == 38.6
            await gate.logged("switched", side="spec")  # idle since its start
            assert (await lane_of(gate))[0] == b"spec"

            file.write_text(NEVER)
            assert (await lane_of(gate))[0] == b"spec", "nothing changes before a reload"
            reply = await change(gate, b"POST", "reload")
            assert said(reply)["changed"] == ["threshold"]
            assert await threshold_of(gate) == "never"
            assert (await lane_of(gate))[0] == b"plain"

            file.write_text(BROKEN)
            reply = await change(gate, b"POST", "reload")
            assert reply.status == 422
            told = message(reply)
            assert told.startswith(f"nothing changed: SPECGATE_PROFILE={str(file)!r}: ")
            assert 'verdict.shape: must be "never"' in told
            file.unlink()
            gate.process.send_signal(signal.SIGHUP)
            refused = await gate.logged("reload_refused", count=2)
            assert "SPECGATE_PROFILE" in refused["error"]
            assert "No such file" in refused["error"]
            assert await threshold_of(gate) == "never"
            assert (await lane_of(gate))[0] == b"plain"

            file.write_text(CROSSES)
            gate.process.send_signal(signal.SIGHUP)
            taken = await gate.logged("settings_changed", count=2)
            assert (taken["names"], taken["source"]) == ("threshold", "SIGHUP")
            # When it comes back to the spec side is the policy's affair.
            assert round(await threshold_of(gate), 1) == 38.6
