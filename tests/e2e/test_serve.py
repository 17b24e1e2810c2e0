"""`specgate serve` as a process: how it starts, what it says, how it stops."""

import asyncio
import signal
import socket

import pytest

from specgate.bench.shipped import shipped
from specgate.core.profile import dumps
from tests.support.client import chat_request, connect, get
from tests.support.lanes import DONE, ScriptedLane, delta, sse_response
from tests.support.process import serve_process


async def test_it_says_where_it_listens_and_serves_there():
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {"SPECGATE_SPEC_URL": spec.url, "SPECGATE_PLAIN_URL": plain.url}
        async with serve_process(environ) as gate:
            assert gate.url.startswith("http://127.0.0.1:")
            assert (await get(gate.url + "/livez")).status == 200
            gate.process.terminate()
            assert await gate.stopped() == 0


async def test_without_a_threshold_it_warns_and_serves_plain():
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {"SPECGATE_SPEC_URL": spec.url, "SPECGATE_PLAIN_URL": plain.url}
        async with serve_process(environ) as gate:
            warning = await gate.logged("unmeasured")
            assert warning["level"] == "warning"
            async with connect(gate.url) as client:
                await client.send(chat_request())
                _, headers = await client.read_head()
                await client.read_body()
            assert (b"x-specgate-lane", b"plain") in headers
            assert (b"x-specgate-reason", b"unmeasured") in headers
            assert len(plain.requests) == 1
            assert spec.requests == []


async def test_what_does_nothing_beside_a_profile_is_said_once(tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text(dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")))
    environ = {
        "SPECGATE_SPEC_URL": "http://127.0.0.1:1",
        "SPECGATE_PLAIN_URL": "http://127.0.0.1:2",
        "SPECGATE_PROFILE": str(profile),
        "SPECGATE_DWELL_S": "5",
        "SPECGATE_BAND": "0.1",
    }
    async with serve_process(environ) as gate:
        said = await gate.logged("settings_unused")
        assert said["level"] == "warning"
        assert said["names"] == "SPECGATE_BAND,SPECGATE_DWELL_S"
        gate.process.send_signal(signal.SIGHUP)
        await gate.logged("settings_changed")
        gate.process.send_signal(signal.SIGINT)
        await gate.logged("stopped")
        assert sum(line["event"] == "settings_unused" for line in gate.log) == 1
    del environ["SPECGATE_DWELL_S"], environ["SPECGATE_BAND"]
    async with serve_process(environ) as gate:  # which listens, and would have said so before
        assert not any(line["event"] == "settings_unused" for line in gate.log)


async def test_a_wrong_setting_stops_the_start_with_a_line_that_names_it():
    async with serve_process({"SPECGATE_THRESHOLD": "many"}, listening=False) as gate:
        assert await gate.stopped() == 2
        await asyncio.sleep(0.05)
        lines = "\n".join(entry["event"] for entry in gate.log)
    assert "SPECGATE_THRESHOLD='many'" in lines
    assert "must be a positive number, never or always" in lines
    assert "SPECGATE_SPEC_URL is not set" in lines
    assert "Traceback" not in lines


async def test_a_taken_port_stops_the_start_with_a_line_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environ = {
            "SPECGATE_SPEC_URL": "http://127.0.0.1:1",
            "SPECGATE_PLAIN_URL": "http://127.0.0.1:2",
            "SPECGATE_PORT": str(port),
        }
        async with serve_process(environ, listening=False) as gate:
            assert await gate.stopped() == 1
            said = await gate.logged("not_listening")
    assert said["level"] == "error"
    where = f"SPECGATE_PORT={port}: cannot listen on 127.0.0.1:{port}"
    assert said["message"] == f"{where}: address already in use"
    # Once, and not in uvicorn's words too.
    assert "Errno" not in str(list(gate.log))
    assert "Traceback" not in str(list(gate.log))


@pytest.mark.parametrize("own", [{}, {"SPECGATE_METRICS_PORT": "0"}])
@pytest.mark.parametrize(
    ("host", "why"),
    [
        # Names that end so are nobody's (RFC 6761).
        ("no-such-host.invalid", ""),
        # For documents alone (RFC 5737).
        ("192.0.2.1", "no address of this machine (cannot assign requested address)"),
    ],
)
async def test_a_host_that_cannot_be_listened_on_is_named(host: str, why: str, own: dict[str, str]):
    environ = {
        "SPECGATE_SPEC_URL": "http://127.0.0.1:1",
        "SPECGATE_PLAIN_URL": "http://127.0.0.1:2",
        "SPECGATE_HOST": host,
        **own,
    }
    async with serve_process(environ, listening=False) as gate:
        assert await gate.stopped() == 1
        said = await gate.logged("not_listening")
    assert said["message"].startswith(f"SPECGATE_HOST='{host}': {why}")
    assert "Errno" not in str(list(gate.log))


async def test_a_host_of_its_own_for_metrics_is_named():
    environ = {
        "SPECGATE_SPEC_URL": "http://127.0.0.1:1",
        "SPECGATE_PLAIN_URL": "http://127.0.0.1:2",
        "SPECGATE_METRICS_HOST": "192.0.2.1",
        "SPECGATE_METRICS_PORT": "0",
    }
    async with serve_process(environ, listening=False) as gate:
        assert await gate.stopped() == 1
        said = await gate.logged("not_listening")
    assert said["message"].startswith(
        "SPECGATE_METRICS_HOST='192.0.2.1': no address of this machine"
    )


async def test_sigterm_lets_a_stream_end_and_exits_with_0():
    frames = [delta(f"t{i}") for i in range(10)] + [DONE]
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        plain.answer("*", sse_response(frames, pause_s=0.1))
        environ = {"SPECGATE_SPEC_URL": spec.url, "SPECGATE_PLAIN_URL": plain.url}
        async with serve_process(environ) as gate, connect(gate.url) as client:
            await client.send(chat_request(stream=True))
            await client.read_head()
            await client.read_until(b"\n\n\r\n")
            gate.process.send_signal(signal.SIGTERM)
            body = await client.read_body()
            assert body.clean
            assert body.data.endswith(DONE)
            assert await gate.stopped() == 0


async def test_neither_keys_nor_prompts_reach_the_log():
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_ADMIN_TOKEN": "the-admin-token",
            "SPECGATE_LOG_LEVEL": "debug",
        }
        async with serve_process(environ) as gate:
            request = chat_request(
                messages=[{"role": "user", "content": "a secret prompt"}],
                headers=[(b"Authorization", b"Bearer client-key")],
            ).replace(b"/v1/chat/completions ", b"/v1/chat/completions?api_key=in-query ")
            async with connect(gate.url) as client:
                await client.send(request)
                await client.read_head()
                await client.read_body()
            await gate.logged("request")
            await get(gate.url + "/_specgate/status", [(b"Authorization", b"Bearer wrong-token")])
            text = repr(list(gate.log))
    for secret in ("the-admin-token", "a secret prompt", "client-key", "in-query", "wrong-token"):
        assert secret not in text
