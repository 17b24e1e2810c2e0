"""A reload under traffic: what changes, what waits, and what a mistake does."""

import asyncio
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from specgate.bench.shipped import shipped
from specgate.core.events import ReloadFailed, SettingsChanged
from specgate.core.profile import dumps
from specgate.server import reload_on_hangup
from specgate.service import Service
from tests.support.client import chat, chat_request, connect, get
from tests.support.control import KEY, TOKEN, change, message, said
from tests.support.figures import total
from tests.support.invariants import assert_at_rest
from tests.support.lanes import (
    ScriptedLane,
)
from tests.support.live import BARE, LiveGate, environment, gate_in
from tests.support.process import serve_process
from tests.support.streams import held


class File:
    """A settings file for two lanes."""

    def __init__(self, path: Path, spec: str, plain: str) -> None:
        self.path = path
        self.lines = {"spec_url": spec, "plain_url": plain, "threshold": 4, **BARE}

    def write(self, **changes: Any) -> None:
        self.lines |= changes
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.lines.items()]
        self.path.write_text("\n".join(lines))


async def test_a_reload_takes_what_changed_in_the_file(tmp_path):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        file = File(tmp_path / "gate.toml", spec.url, plain.url)
        file.write()
        async with gate_in(environment(config=file.path, admin_token=TOKEN)) as gate:
            file.write(threshold=6.5, band=0.5, smoothing_s=9, dwell_s=8, burst=3, port=9)
            reply = said(await change(gate, b"POST", "reload"))
            assert reply["changed"] == ["band", "burst", "dwell_s", "smoothing_s", "threshold"]
            assert reply["needs_restart"] == ["port"]
            status = await gate.status()
            assert (status["threshold"], status["speculate_below"]) == (6.5, 3.25)
            policy = gate.service.gate.view().policy
            assert (policy.smoothing_s, policy.dwell_s, policy.burst) == (9, 8, 3)
            assert total(await gate.metrics(), "specgate_reloads_total", result="applied") == 1
            # What waits for a restart is named until there was one.
            assert said(await change(gate, b"POST", "reload"))["needs_restart"] == ["port"]


async def test_a_reload_ends_what_was_set_by_hand(tmp_path):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        file = File(tmp_path / "gate.toml", spec.url, plain.url)
        file.write()
        async with gate_in(environment(config=file.path, admin_token=TOKEN)) as gate:
            await change(gate, b"PUT", "threshold", {"threshold": 9})
            told = said(await change(gate, b"POST", "reload"))
            assert told["changed"] == ["threshold"]
            assert (await gate.status())["threshold"] == 4
            facts = gate.facts.of(SettingsChanged)
            assert [fact.changes for fact in facts] == [
                (("threshold", "4", "9"),),
                (("threshold", "9", "4"),),
            ]


async def test_a_reload_tells_what_was_and_what_is_but_no_secret(tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text(dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")))
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        file = File(tmp_path / "gate.toml", spec.url, plain.url)
        file.write(spec_api_key="the-old-key")
        async with serve_process({"SPECGATE_CONFIG": str(file.path)}) as gate:
            file.write(threshold="never", band=0.5, spec_api_key="the-new-key")
            gate.process.send_signal(signal.SIGHUP)
            line = await gate.logged("settings_changed")
            assert line["names"] == "band,spec_api_key,threshold"
            assert line["changes"] == "band: 0 -> 0.5; threshold: 4 -> never"
            del file.lines["threshold"], file.lines["band"]
            file.write(profile=str(profile))
            gate.process.send_signal(signal.SIGHUP)
            line = await gate.logged("settings_changed", count=2)
            assert "threshold: never -> " in line["changes"]
            assert line["changes"].endswith("(weighed by the profile)")
            assert f"profile: unset -> {profile}" in line["changes"]
            assert "-key" not in str(list(gate.log))


BROKEN = [
    ("threshold = ", "not TOML"),
    ("", "holds no settings"),
    (
        "threshold = 'sometimes'",
        "threshold='sometimes': must be a positive number, never or always",
    ),
    ("thresold = 7", "'thresold' is not a setting"),
    ("threshold = 7", "SPECGATE_SPEC_URL is not set"),
    (None, "no such file"),
]


async def test_a_broken_file_under_traffic_keeps_the_last_good_settings(tmp_path):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        file = File(tmp_path / "gate.toml", spec.url, plain.url)
        file.write()
        end = asyncio.Event()
        spec.answer_next(held(end))
        async with (
            gate_in(environment(config=file.path, admin_token=TOKEN)) as gate,
            connect(gate.url) as streaming,
        ):
            await streaming.send(chat_request())
            await streaming.read_head()
            async with asyncio.TaskGroup() as group:
                traffic = group.create_task(_traffic(gate, until=end))
                for number, (text, why) in enumerate(BROKEN, 1):
                    file.path.write_text(text) if text is not None else file.path.unlink()
                    reply = await change(gate, b"POST", "reload")
                    assert reply.status == 422
                    assert "nothing changed" in message(reply)
                    assert why in message(reply)
                    status = await gate.status()
                    assert (status["threshold"], status["mode"]) == (4, "auto")
                    assert status["lanes"]["spec"]["url"] == spec.url
                    assert len(gate.facts.of(ReloadFailed)) == number
                    await asyncio.sleep(0.05)
                # The next good one applies in full.
                file.write(threshold=7)
                assert said(await change(gate, b"POST", "reload"))["changed"] == ["threshold"]
                assert (await gate.status())["threshold"] == 7
                end.set()
            assert (await streaming.read_body()).clean
            assert traffic.result() > 20
            metrics = await gate.metrics()
            assert total(metrics, "specgate_reloads_total", result="refused") == len(BROKEN)
            await assert_at_rest(gate.url, [spec, plain])


async def _traffic(gate: LiveGate, until: asyncio.Event) -> int:
    """One request after the other, on new and on kept connections; how many were served."""
    served = 0
    while not until.is_set():
        async with connect(gate.url) as client:
            for _ in range(3):
                reply = await client.request(b"POST", b"/v1/chat/completions", [KEY[1]], chat())
                assert (reply.status, reply.body.clean) == (200, True)
                served += 1
    return served


async def test_lane_urls_change_under_traffic_while_old_streams_finish(tmp_path):
    async with (
        ScriptedLane("spec") as spec,
        ScriptedLane("plain") as plain,
        ScriptedLane("new spec") as new,
    ):
        file = File(tmp_path / "gate.toml", spec.url, plain.url)
        file.write()
        end, done = asyncio.Event(), asyncio.Event()
        spec.answer_next(held(end))
        async with (
            gate_in(environment(config=file.path, admin_token=TOKEN)) as gate,
            connect(gate.url) as old,
        ):
            await old.send(chat_request())
            await old.read_head()
            async with asyncio.TaskGroup() as group:
                traffic = group.create_task(_traffic(gate, until=done))
                await spec.saw_requests(5)
                file.write(spec_url=new.url)
                assert said(await change(gate, b"POST", "reload"))["changed"] == ["spec_url"]
                await new.saw_requests(5)
                asked = spec.requests_total
                await new.saw_requests(10)
                # A request that was decided before may have been on its way.
                assert spec.requests_total <= asked
                status = await gate.status()
                assert status["lanes"]["spec"]["url"] == new.url
                assert status["in_flight"]["spec"] >= 1
                done.set()
            assert traffic.result() > 10
            # The lane that was left may go: what it says is about no lane any more.
            end.set()
            assert (await old.read_body()).clean
            await spec.stop()
            async with asyncio.timeout(2):
                while (await gate.status())["lanes"]["spec"]["health"] != "healthy":
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
            assert (await gate.status())["lanes"]["spec"]["health"] == "healthy"
            await assert_at_rest(gate.url, [plain, new])


async def test_sighup_reloads_a_served_gate(tmp_path):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        file = File(tmp_path / "gate.toml", spec.url, plain.url)
        file.write()
        end = asyncio.Event()
        spec.answer_next(held(end))
        async with (
            serve_process({"SPECGATE_CONFIG": str(file.path)}) as gate,
            connect(gate.url) as client,
        ):
            await client.send(chat_request())
            await client.read_head()

            async def threshold() -> Any:
                return said(await get(gate.url + "/_specgate/status"))["threshold"]

            assert await threshold() == 4
            file.write(threshold=6.5)
            gate.process.send_signal(signal.SIGHUP)
            line = await gate.logged("settings_changed")
            assert (line["names"], line["source"]) == ("threshold", "SIGHUP")
            assert await threshold() == 6.5

            file.path.write_text("threshold = [")
            gate.process.send_signal(signal.SIGHUP)
            assert "not TOML" in (await gate.logged("reload_refused"))["error"]
            assert await threshold() == 6.5

            file.write(threshold="never")
            gate.process.send_signal(signal.SIGHUP)
            await gate.logged("settings_changed", count=2)
            assert await threshold() == "never"
            end.set()
            assert (await client.read_body()).clean
            await assert_at_rest(gate.url, [spec, plain])


async def test_a_profile_that_cannot_be_reckoned_with_ends_no_gate(tmp_path):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        file = File(tmp_path / "gate.toml", spec.url, plain.url)
        del file.lines["threshold"], file.lines["band"]
        profile = tmp_path / "profile.json"
        good = dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k"))
        profile.write_text(good)
        file.write(profile=str(profile))
        async with serve_process({"SPECGATE_CONFIG": str(file.path)}) as gate:
            large = json.loads(good)
            large["levels"][0]["arms"]["plain"]["tok_s"] = 10**400
            profile.write_text(json.dumps(large))
            gate.process.send_signal(signal.SIGHUP)
            refused = (await gate.logged("reload_refused"))["error"]
            assert "levels[0].arms.plain.tok_s: must be a number" in refused
            assert said(await get(gate.url + "/_specgate/status"))["mode"] == "auto"


async def test_an_error_in_a_reload_ends_nothing_but_the_reload():
    """One that is no word on the settings ended the process, and all its streams with it."""
    asked: asyncio.Queue[str] = asyncio.Queue()

    class Failing:
        async def reload(self, source: str) -> None:
            asked.put_nowait(source)
            raise ZeroDivisionError

    service = cast("Service", SimpleNamespace(reloader=Failing()))
    async with asyncio.timeout(10), reload_on_hangup(service):
        for _ in range(2):
            signal.raise_signal(signal.SIGHUP)
            assert await asked.get() == "SIGHUP"
