"""The control surface over a real socket: what it says, what it changes, whom it lets."""

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from specgate import __version__
from specgate.core.events import LaneFailed, ReloadFailed, SettingsChanged
from tests.support.client import RawClient, Response, chat, chat_request, connect, get
from tests.support.figures import total
from tests.support.invariants import assert_at_rest
from tests.support.lanes import (
    DONE,
    ScriptedLane,
    Send,
    WaitFor,
    chunk,
    delta,
    never_ending_stream,
    refuses,
    sse_head,
)
from tests.support.live import BARE, LiveGate, environment, gate_in, running_gate
from tests.support.process import serve_process
from tests.support.stage import Stage, stage

TOKEN = "the-token"
KEY = [(b"Authorization", b"Bearer the-token"), (b"Content-Type", b"application/json")]


async def change(
    on: Stage | LiveGate, method: bytes, path: str, body: Any = None, headers: Any = KEY
) -> Response:
    """One changing call; `body` as JSON, or the bytes as they are."""
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    async with connect(on.url) as client:
        return await client.request(method, b"/_specgate/" + path.encode(), headers, sent)


def said(reply: Response) -> Any:
    return json.loads(reply.body.data)


def message(reply: Response) -> str:
    """The message of an error in OpenAI's shape."""
    error = said(reply)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    return str(error["message"])


def held(until: asyncio.Event) -> list[Any]:
    return [Send(sse_head() + chunk(delta("a"))), WaitFor(until), Send(chunk(DONE) + b"0\r\n\r\n")]


# What it says


async def test_status_has_the_fields_that_were_agreed():
    async with stage(threshold=8, band=0.25) as on:
        status = await on.gate.status()
        assert status.keys() >= {
            *("mode", "side", "threshold", "speculate_below", "plain_above", "load", "smoothed"),
            *("in_flight", "lanes", "switches", "version"),
        }
        assert (status["mode"], status["side"], status["threshold"]) == ("auto", "spec", 8)
        assert (status["speculate_below"], status["plain_above"]) == (6, 8)
        assert status["in_flight"] == {"total": 0, "spec": 0, "plain": 0, "oldest_s": None}
        assert status["lanes"] == {
            "spec": {"url": on.spec.url, "health": "healthy", "engine": "unknown"},
            "plain": {"url": on.plain.url, "health": "healthy", "engine": "unknown"},
        }
        assert (status["load"], status["smoothed"], status["switches"]) == (0, 0, 0)
        assert status["version"] == __version__


async def test_status_follows_the_load():
    end = asyncio.Event()
    async with stage(threshold=8) as on:
        on.spec.answer_next(held(end))
        async with connect(on.url) as client:
            await client.send(chat_request(n=3))
            await client.read_head()
            status = await on.gate.status()
            assert status["in_flight"].pop("oldest_s") > 0
            assert status["in_flight"] == {"total": 3, "spec": 3, "plain": 0}
            assert status["load"] == status["smoothed"] == 3
            end.set()
            await client.read_body()


async def test_an_engine_is_named_by_what_it_says_of_itself():
    models = Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 43\r\n\r\n"
        b'{"data": [{"id": "m", "owned_by": "vllm"}]}'
    )
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        plain.answer("/v1/models", models)
        async with running_gate(spec.url, plain.url, **BARE) as gate, asyncio.timeout(2):
            while (await gate.status())["lanes"]["plain"]["engine"] != "vllm":
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("path", ["/readyz", "/health", "/ready"])
async def test_it_is_ready_while_a_lane_serves_and_alive_whatever_the_lanes_do(path: str):
    async with stage() as on:

        async def becomes(status: int, lanes: dict[str, str]) -> None:
            async with asyncio.timeout(5):
                while True:
                    reply = await get(on.url + path)
                    if (reply.status, said(reply)["lanes"]) == (status, lanes):
                        assert said(reply)["ready"] is (status == 200)
                        return
                    await asyncio.sleep(0.02)

        await becomes(200, {"spec": "healthy", "plain": "healthy"})
        await on.spec.stop()
        await becomes(200, {"spec": "ejected", "plain": "healthy"})
        await on.plain.stop()
        await becomes(503, {"spec": "ejected", "plain": "ejected"})
        assert (await get(on.url + "/livez")).status == 200
        await on.spec.start()
        await becomes(200, {"spec": "healthy", "plain": "ejected"})


@pytest.mark.parametrize("path", [b"/livez", b"/readyz", b"/health", b"/ready"])
async def test_probes_answer_head_too(path: bytes):
    async with stage() as on:
        async with connect(on.url) as client:
            reply = await client.request(b"HEAD", path)
            assert reply.status == 200
            # Nothing of a body follows on the connection.
            assert (await client.request(b"GET", b"/livez")).status == 200
        assert not on.plain.requests


async def test_a_gate_that_knows_no_lane_yet_is_not_ready():
    async with ScriptedLane() as lane:
        lane.answer("/ready", WaitFor(asyncio.Event()))
        async with running_gate(lane.url, lane.url, ready=False) as gate:
            assert (await get(gate.url + "/readyz")).status == 503
            assert (await get(gate.url + "/livez")).status == 200


async def test_the_docs_page_asks_nobody_outside():
    async with stage() as on:
        page = await get(on.url + "/_specgate/docs")
        assert page.values(b"content-type")[0].startswith(b"text/html")
        html = page.body.data.decode()
        assert "//" not in re.sub(r"<!--.*?-->|^\s*//.*$", "", html, flags=re.S | re.M)
        asked = re.findall(r"""(?:src|href)="([^"]+)"|url: '([^']+)'""", html)
        paths = {path for pair in asked for path in pair if path}
        assert len(paths) >= 4
        for path in paths:
            reply = await get(on.url + path)
            assert (reply.status, path.startswith("/_specgate/")) == (200, True), path
            assert reply.body.data
        assert not on.plain.requests


async def test_openapi_describes_the_control_surface():
    async with stage() as on:
        reply = await get(on.url + "/_specgate/openapi.json")
        assert b"://" not in reply.body.data
        schema = said(reply)
        assert schema["info"]["version"] == __version__
        assert {(path, method) for path, item in schema["paths"].items() for method in item} == {
            ("/livez", "get"),
            ("/readyz", "get"),
            ("/metrics", "get"),
            ("/_specgate/status", "get"),
            ("/_specgate/threshold", "put"),
            ("/_specgate/mode", "put"),
            ("/_specgate/reload", "post"),
        }


@pytest.mark.parametrize("path", ["/_specgate", "/_specgate/nothing", "/_specgate/docs/x"])
async def test_what_it_does_not_know_is_not_the_engines(path: str):
    async with stage() as on:
        reply = await get(on.url + path)
        assert reply.status == 404
        assert "/_specgate/docs" in message(reply)
        assert not on.plain.requests


# Whom it lets

CHANGES = [
    (b"PUT", "threshold", {"threshold": 5}),
    (b"PUT", "mode", {"mode": "plain"}),
    (b"POST", "reload", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_without_a_token_changes_are_refused_with_how_to_allow_them(method, path, body):
    async with stage(threshold=8) as on:
        reply = await change(on, method, path, body)
        assert reply.status == 403
        assert "SPECGATE_ADMIN_TOKEN" in message(reply)
        assert "Authorization: Bearer" in message(reply)
        status = await on.gate.status()
        assert (status["threshold"], status["mode"]) == (8, "auto")
        assert on.gate.facts.of(SettingsChanged) == []


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
@pytest.mark.parametrize(
    "given",
    [None, b"Bearer wrong", b"Bearer ", b"Basic dGhlLXRva2Vu", b"the-token", b"Bearer \xff"],
)
async def test_a_wrong_token_is_refused(method, path, body, given):
    headers = [KEY[1]] + ([(b"Authorization", given)] if given is not None else [])
    async with stage(threshold=8, admin_token=TOKEN) as on:
        reply = await change(on, method, path, body, headers)
        assert reply.status == 401
        assert reply.values(b"www-authenticate") == [b"Bearer"]
        assert TOKEN not in message(reply)
        status = await on.gate.status()
        assert (status["threshold"], status["mode"]) == (8, "auto")
        assert on.gate.facts.of(SettingsChanged) == []


async def test_reading_needs_no_token():
    async with stage(admin_token=TOKEN) as on:
        for path in ("/_specgate/status", "/metrics", "/readyz", "/_specgate/docs"):
            assert (await get(on.url + path)).status == 200


# Threshold and mode


@pytest.mark.parametrize(
    ("value", "threshold", "lane", "reason"),
    [
        (2.5, 2.5, b"spec", b"below_threshold"),
        (1, 1, b"plain", b"above_threshold"),
        ("8", 8, b"spec", b"below_threshold"),
        ("never", "never", b"plain", b"never"),
        (0, "never", b"plain", b"never"),
        ("always", "always", b"spec", b"always"),
    ],
)
async def test_put_threshold(value, threshold, lane, reason):
    async with stage(threshold=4, admin_token=TOKEN) as on:
        reply = await change(on, b"PUT", "threshold", {"threshold": value})
        assert (reply.status, said(reply)["threshold"]) == (200, threshold)
        assert (await on.gate.status())["threshold"] == threshold
        asked = await on.ask()
        assert asked.values(b"x-specgate-lane") == [lane]
        assert asked.values(b"x-specgate-reason") == [reason]
        assert [fact.names for fact in on.gate.facts.of(SettingsChanged)] == [("threshold",)]


@pytest.mark.parametrize(
    ("body", "names", "allowed"),
    [
        ({"threshold": -1}, "threshold", "a positive number, never or always"),
        ({"threshold": True}, "threshold", "a positive number, never or always"),
        ({"threshold": "sometimes"}, "threshold", "a positive number, never or always"),
        ({"threshold": [8]}, "threshold", "a positive number, never or always"),
        ({"threshold": 10**400}, "threshold", "a positive number, never or always"),
        (b'{"threshold": NaN}', "threshold", "a positive number, never or always"),
        (b'{"threshold": 1e999}', "threshold", "a positive number, never or always"),
        ({"threshold": None}, "threshold", "number"),
        ({}, "threshold", "required"),
        ({"thresold": 8}, "thresold", "not permitted"),
        ({"threshold": 8, "band": 1}, "band", "not permitted"),
        ([], "body", "JSON object"),
        (b"{", "body", "JSON object"),
        (b"\xff\xfe", "body", "JSON object"),
        (b"", "body", "JSON object"),
    ],
)
async def test_a_wrong_threshold_changes_nothing_and_is_named(body, names, allowed):
    async with stage(threshold=4, admin_token=TOKEN) as on:
        reply = await change(on, b"PUT", "threshold", body)
        assert reply.status == 422
        assert names in message(reply)
        assert allowed in message(reply)
        assert (await on.gate.status())["threshold"] == 4
        assert on.gate.facts.of(SettingsChanged) == []


async def test_a_body_of_another_type_is_told_what_to_send():
    """As `curl -X PUT -d '{"threshold": 8}'` sends it."""
    headers = [KEY[0], (b"Content-Type", b"application/x-www-form-urlencoded")]
    async with stage(threshold=4, admin_token=TOKEN) as on:
        reply = await change(on, b"PUT", "threshold", {"threshold": 8}, headers)
        assert reply.status == 422
        assert "Content-Type: application/json" in message(reply)


async def test_put_mode_forces_a_side_and_gives_it_back():
    async with stage(threshold=4, admin_token=TOKEN) as on:
        for mode, lane, reason in (
            ("plain", b"plain", b"forced"),
            ("spec", b"spec", b"forced"),
            ("auto", b"spec", b"below_threshold"),
        ):
            reply = await change(on, b"PUT", "mode", {"mode": mode})
            assert (reply.status, said(reply)["mode"]) == (200, mode)
            asked = await on.ask()
            assert asked.values(b"x-specgate-lane") == [lane]
            assert asked.values(b"x-specgate-reason") == [reason]


@pytest.mark.parametrize("body", [{"mode": "both"}, {"mode": 1}, {"mode": None}, {}])
async def test_a_wrong_mode_changes_nothing_and_is_named(body):
    async with stage(threshold=4, admin_token=TOKEN) as on:
        reply = await change(on, b"PUT", "mode", body)
        assert reply.status == 422
        assert "mode: " in message(reply)
        if body:
            assert all(mode in message(reply) for mode in ("auto", "spec", "plain"))
        assert (await on.gate.status())["mode"] == "auto"


# Reload


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
            await change(gate, b"POST", "reload")
            assert (await gate.status())["threshold"] == 4


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


# Lanes that are down


@pytest.mark.parametrize("probed", [True, False])
async def test_both_lanes_down_is_503_with_when_to_come_again(probed: bool):
    interval = 0.1 if probed else 60
    with refuses() as spec, refuses() as plain:
        async with running_gate(spec, plain, threshold=8, probe_interval_s=interval) as gate:
            async with connect(gate.url) as client:
                reply = await client.request(b"POST", b"/v1/chat/completions", body=chat())
            assert reply.status == 503
            (retry_after,) = reply.values(b"retry-after")
            assert int(retry_after) == max(1, round(interval))
            assert reply.values(b"content-type") == [b"application/json"]
            assert "neither lane" in message(reply)
            assert said(reply)["error"]["type"] == "server_error"
            assert said(reply)["error"]["code"] == "no_lane_reachable"
            assert len(gate.facts.of(LaneFailed)) == 2
            await assert_at_rest(gate.url)


@pytest.mark.parametrize(
    ("threshold", "down", "up"), [("always", "spec", b"plain"), ("never", "plain", b"spec")]
)
async def test_one_lane_down_is_the_other_with_the_reason(threshold, down, up):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        await (spec if down == "spec" else plain).stop()
        lane = plain if down == "spec" else spec
        async with running_gate(spec.url, plain.url, threshold=threshold) as gate:
            for call, reason in (("chat/completions", b"lane_down"), ("embeddings", None)):
                async with connect(gate.url) as client:
                    lane.answer_next(never_ending_stream())
                    await client.send(chat_request().replace(b"chat/completions", call.encode(), 1))
                    await client.read_head()
                    assert (b"x-specgate-lane", up) in client.headers
                    assert (b"x-specgate-reason", reason or b"not_generation") in client.headers
            assert gate.facts.of(LaneFailed) == []
            assert (await gate.status())["side"] == down
            await assert_at_rest(gate.url, [lane])


async def test_a_connect_failure_is_rerouted_once():
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        settings: dict[str, Any] = {**BARE, "probe_interval_s": 60}
        async with running_gate(spec.url, plain.url, threshold=8, **settings) as gate:
            await spec.stop()
            end = asyncio.Event()
            plain.answer_next(held(end))
            client = await RawClient.open(gate.host, gate.port)
            await client.send(chat_request(n=2))
            await client.read_head()
            assert client.status == 200
            assert (b"x-specgate-lane", b"plain") in client.headers
            assert (b"x-specgate-reason", b"rerouted") in client.headers
            assert plain.requests[0].body == chat(n=2)
            counts = (await gate.status())["in_flight"]
            assert (counts["spec"], counts["plain"]) == (0, 2)
            end.set()
            await client.read_body()
            await client.close()
            metrics = await gate.metrics()
            assert total(metrics, "specgate_reroutes_total", lane="plain") == 1
            assert (
                total(metrics, "specgate_upstream_errors_total", lane="spec", kind="connect") == 1
            )
            assert total(metrics, "specgate_upstream_errors_total") == 1

            await plain.stop()
            async with connect(gate.url) as client:
                reply = await client.request(b"POST", b"/v1/chat/completions", body=chat())
            assert reply.status == 503
            assert len(gate.facts.of(LaneFailed)) == 3
            await assert_at_rest(gate.url)
