"""`specgate doctor` as its users start it, on engines that listen on real sockets."""

import asyncio
import json
import os
import re
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trustme
from click.testing import CliRunner

from specgate.cli.main import main
from tests.doctor.engines import (
    LAUNCH,
    llamacpp,
    models,
    router,
    serving,
    sglang,
    vllm,
    without,
)
from tests.support.live import running_gate

BARE = f"{LAUNCH} --speculative-adaptive"


async def run(*words: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgate", "doctor", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )
    async with asyncio.timeout(50):
        out, err = await process.communicate()
    assert process.returncode is not None
    assert b"Traceback" not in err, err.decode()
    return process.returncode, out.decode(), err.decode()


async def run_json(*words: str, env: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    code, out, err = await run(*words, "--json", env=env)
    assert out, err
    return code, json.loads(out)


def pair(spec: str, plain: str) -> tuple[str, ...]:
    return "--spec-url", spec, "--plain-url", plain


def checks(said: dict[str, Any]) -> dict[str, str]:
    return {each["check"]: each["severity"] for each in said["findings"]}


@asynccontextmanager
async def simulated() -> AsyncIterator[list[str]]:
    lanes = ("--lane", "spec", "--port", "0", "--lane", "plain", "--port", "0")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgate", "sim", *lanes, "--time-scale", "20"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        lines = [(await process.stdout.readline()).decode() for _ in range(2)]
        yield [found[0] for line in lines if (found := re.search(r"http://\S+", line))]
    finally:
        process.terminate()
        await process.communicate()


async def test_the_simulated_pair():
    async with simulated() as (spec, plain):
        (code, page, _), (_, said) = await asyncio.gather(
            run(*pair(spec, plain)), run_json(plain, spec, "--profile", "reference")
        )
    assert code == 1
    assert f"spec     {spec}  sglang 0.5.23, model sim" in page
    assert "speculates with EAGLE3, at most 2 drafts a step, accept length" in page
    assert re.search(r"/health 200 in 1\.\d\d s", page)
    assert re.search(r"closes an idle connection after [45]\.\d s", page)
    assert "read    plain, /server_info effective_max_running_requests_per_dp: 36" in page
    assert "Not known:" in page
    assert [engine["lane"] for engine in said["engines"]] == ["plain", "spec"]
    assert checks(said) == {
        "running-cap": "warning",
        "caps-differ": "warning",
        "health-slow": "note",
        "never-pays": "note",
    }


async def test_nothing_wrong_is_zero_and_a_key_is_sent_and_not_shown():
    async with (
        serving(sglang(spec=True), key="sk-hush") as spec,
        serving(sglang(), key="sk-hush") as plain,
    ):
        (code, page, err), (refused, _, why) = await asyncio.gather(
            run(*pair(spec, plain), "--api-key", "sk-hush"), run(spec, "--api-key", "sk-wrong")
        )
        asked, _, line = await run(*pair(spec, plain), env={"OPENAI_API_KEY": ""})
    # /metrics is behind the key too here, and the gate reads it without.
    assert code == 1, err
    assert "metrics asks for a key" in page
    assert "1 warning" in page
    assert "sk-hush" not in page + err
    assert refused == asked == 2
    assert why == f"Error: {spec}: refuses this key (/v1/models answered 401)\n"
    assert line.splitlines() == [
        f"Error: {url}: asks for a key: give --api-key (/v1/models answered 401)"
        for url in (spec, plain)
    ]


@pytest.mark.parametrize("engine", [sglang, llamacpp])
async def test_notes_alone_are_zero(engine):
    async with serving(engine(spec=True)) as spec, serving(engine()) as plain:
        code, said = await run_json(*pair(spec, plain))
    assert code == 0, said
    assert set(checks(said).values()) <= {"note"}


async def test_an_sglang_pair_with_every_fault():
    small = {"effective_max_running_requests_per_dp": 48, "decode_cuda_graph_bs": [1, 8]}
    memory: dict[str, Any] = {"mem_fraction_static": 0.88, "base_gpu_id": 0}
    spec_documents = without(
        sglang(
            spec=True,
            state=small,
            launch_command=BARE,
            speculative_eagle_topk=4,
            max_running_requests=48,
            kv_cache_dtype="fp8_e5m2",
            **memory,
        ),
        "/metrics",
    )
    spec_documents["/generate"]["meta_info"]["spec_verify_ct"] = 47
    plain_documents = sglang(**memory) | {"/v1/models": models("sglang", "other")}
    plain_documents["/v1/loads"]["loads"][0]["num_running_reqs"] = 2
    slow = {"/health": 1.1}
    async with (
        serving(spec_documents, slow=slow, idle_s=1.0) as spec,
        serving(plain_documents, slow=slow) as plain,
    ):
        code, said = await run_json(*pair(spec, plain))
    assert code == 1
    assert checks(said) == {
        "models-differ": "error",
        "running-cap-default": "warning",
        "graph-limit": "warning",
        "accept-length": "warning",
        "adaptive-static": "warning",
        "metrics-off": "warning",
        "keep-alive": "warning",
        "settings-differ": "warning",
        "caps-differ": "warning",
        "memory": "warning",
        "health-slow": "note",
        "busy": "note",
    }
    assert all(each["evidence"] and each["change"] for each in said["findings"])
    assert "sk-hush" not in json.dumps(said)


async def test_a_vllm_pair_that_is_the_wrong_way_round_and_too_large():
    async with (
        serving(vllm(utilization="0.92")) as spec,
        serving(vllm(spec=True, utilization="0.92")) as plain,
    ):
        code, said = await run_json(*pair(spec, plain))
    assert code == 1
    assert checks(said) == {
        "spec-lane-plain": "error",
        "plain-lane-speculates": "error",
        "memory": "warning",
    }
    assert any("VLLM_SERVER_DEV_MODE" in each["why"] for each in said["not_known"])


async def test_one_engine_in_both_lanes():
    async with serving(sglang(spec=True)) as url:
        code, said = await run_json(*pair(url, url.replace("127.0.0.1", "localhost")))
    assert code == 1
    assert checks(said)["same-engine"] == "error"


async def test_an_engine_that_is_not_there_and_one_that_is():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
    async with serving(sglang()) as plain:
        code, page, err = await run(*pair(gone, plain))
    assert code == 4
    assert err == f"Error: {gone}: took no connection: Connection refused\n"
    assert f"plain    {plain}" in page


@asynccontextmanager
async def saying(reply: bytes) -> AsyncIterator[str]:
    """Something that answers so to anything, or not at all, and keeps the connection."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(reply)
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended.set()


async def test_what_is_no_engine_is_one_clear_line():
    page = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
    redirect = b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n"
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        urls = [await enter(saying(reply)) for reply in (page, redirect, b"SSH-2.0-x\r\n\r\n", b"")]
        urls.append(await enter(serving({})))
        urls.append(urls[0].replace("http://", "https://"))
        gate = await enter(running_gate(urls[0], urls[1], ready=False))
        closed = {"admin_token": "t", "control_read": "token"}
        other = await enter(running_gate(urls[0], urls[1], ready=False, **closed))
        found = await asyncio.gather(*(run(url) for url in (*urls, gate.url, other.url)))
    codes = [code for code, _, _ in found]
    errors = [err for _, _, err in found]
    assert codes == [2, 2, 4, 4, 2, 4, 2, 2], errors
    for words, err in zip(
        (
            "without a list",
            "answered 302",
            "spoke no HTTP",
            "no answer in time",
            "404",
            "TLS failed",
        ),
        errors,
        strict=False,
    ):
        assert words in err
    assert all("a specgate, and no engine" in error for error in errors[-2:])
    assert all(err.startswith("Error: http") and err.count("\n") == 1 for err in errors), errors


async def test_https_with_a_certificate_that_holds_and_one_that_does_not(tmp_path):
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with serving(sglang(), tls=context) as url:
        (refused, _, err), (code, said) = await asyncio.gather(
            run(url), run_json(url, env={"SSL_CERT_FILE": str(tmp_path / "ca.pem")})
        )
    assert refused == 4
    assert "its certificate does not hold: " in err
    assert code == 0, said


@pytest.mark.slow
async def test_an_engine_that_hangs_is_given_up_in_thirty_seconds():
    documents = sglang(spec=True)
    began = time.monotonic()
    async with serving(documents, slow=dict.fromkeys(set(documents) - {"/v1/models"}, 60)) as url:
        code, said = await run_json(url)
    assert time.monotonic() - began < 31
    assert code == 1
    assert checks(said) == {"probe-silent": "warning"}
    assert "whether it speculates" in [each["what"] for each in said["not_known"]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "no engine"),
        (("http://a", "http://b", "http://c"), "two engines at most"),
        (("http://a", "--spec-url", "http://b"), "not both"),
        (("ftp://a",), "must be an http:// or https:// URL"),
        (("--spec-url", "http://me:hush@a"), "user name or password"),
        (("http://a", "--profile", "nowhere.json"), "no such file"),
    ],
)
def test_wrong_usage_is_two(words, told):
    found = CliRunner().invoke(main, ["doctor", *words])
    assert found.exit_code == 2, found.output
    assert told in found.output
    assert "hush" not in found.output


def finding(said: dict[str, Any], check: str) -> dict[str, Any]:
    (found,) = [each for each in said["findings"] if each["check"] == check]
    return dict(found)


ALTERNATE = {"SPECGATE_POOL": "alternate"}


async def test_lanes_in_turns_that_cannot_give_their_memory_back():
    """SGLang answers the call with 200 all the same, and frees nothing."""
    whole: dict[str, Any] = {"mem_fraction_static": 0.88, "base_gpu_id": 0}
    off = {"enable_memory_saver": False, **whole}
    async with (
        serving(sglang(spec=True, **off)) as spec,
        serving(sglang(**off)) as plain,
        serving(sglang(**{**off, "base_gpu_id": None}, state=TIGHT)) as tight,
    ):
        (code, said), (_, shared), (_, alone) = await asyncio.gather(
            run_json(*pair(spec, plain), env=ALTERNATE),
            run_json(*pair(spec, plain), "--pool", "shared", env=ALTERNATE),
            run_json(tight),
        )
    assert code == 1
    saver = finding(said, "memory-saver")
    assert saver["severity"] == "warning"
    assert saver["about"] == "spec, plain"
    assert saver["evidence"] == ["/server_info enable_memory_saver: false"]
    assert "--enable-memory-saver" in saver["change"]
    assert "memory" not in checks(said), "each may have all of it in its turn"
    assert "memory" in checks(shared)
    assert "memory-saver" not in checks(shared)
    assert "it needs --enable-memory-saver, which is off here" in finding(alone, "room")["change"]


TIGHT = {"memory_usage": {"weight": 40, "kvcache": 30, "startup_available": 78, "graph": {}}}


async def test_a_lane_that_sleeps_is_left_alone_and_one_without_a_copy_wakes_without_weights():
    saver = {"enable_memory_saver": True, "enable_weights_cpu_backup": True}
    asleep = sglang(**saver) | {"/ready": 503}
    asked: list[str] = []
    async with (
        serving(sglang(spec=True, **saver, enable_draft_weights_cpu_backup=False)) as spec,
        serving(asleep, asked=asked) as plain,
    ):
        code, said = await run_json(*pair(spec, plain), "--pool", "alternate")
        assert {"/ready", "/server_info"} <= set(asked)
        assert not {"/health", "/generate"} & set(asked), "each generates a token"
        (refused, down), (_, other) = await asyncio.gather(
            run_json(*pair(spec, plain)), run_json(plain, env=ALTERNATE)
        )
    assert code == 1
    assert finding(said, "not-ready")["severity"] == "note"
    backup = finding(said, "weights-backup")
    assert backup["about"] == "spec"
    assert "draft weights" in backup["what"]
    assert "start it with --enable-draft-weights-cpu-backup, or park it" in backup["change"]
    assert refused == 1
    assert checks(down)["not-ready"] == checks(other)["not-ready"] == "error"


async def test_a_balancer_before_several_engines():
    """What it passes on of them is read where the gate reads it, and what it hides is not known."""
    async with serving(router()) as spec, serving(router(verified=0)) as plain:
        (code, page, _), (_, said) = await asyncio.gather(
            run(*pair(spec, plain)), run_json(*pair(plain, spec))
        )
    assert code == 0, page
    assert f"spec     {spec}  sglang-router, 2 of 2 replicas ready, model m" in page
    assert "speculates, accept length 2.50 since its start" in page
    assert re.search(r"/readiness 200 in \d+ ms", page)
    assert "metrics are off" not in page
    assert "plain: whether it speculates: /engine_metrics counts no verified draft" in page
    busy = "/engine_metrics running and waiting, of all replicas, before our own request: 1, 1"
    assert busy in page
    assert "which engine its replicas are" in page
    assert said["engines"][0]["replicas"] == {"ready": 2, "total": 2, "counted": 2}
    (wrong,) = [each for each in said["findings"] if each["severity"] == "error"]
    assert (wrong["check"], wrong["about"]) == ("plain-lane-speculates", "plain")
    assert wrong["evidence"] == [
        "/engine_metrics, of 2 replicas together: 400 verifications",
    ]


async def test_a_balancer_whose_engines_are_down_or_tell_nothing():
    async with (
        serving(router(ready=1)) as half,
        serving(router(tokens=1, verified=0)) as silent,
        serving(router(tokens=0, verified=0)) as mute,
    ):
        found = await asyncio.gather(*(run_json(url) for url in (half, silent, mute)))
    assert [code for code, _ in found] == [1, 1, 1]
    down, uncounted, off = (said for _, said in found)
    assert checks(down) == {"replicas-down": "warning", "busy": "note"}
    assert "1 of its 2 replicas are ready" in finding(down, "replicas-down")["what"]
    assert checks(uncounted) == {"replicas-uncounted": "warning"}
    assert checks(off) == {"metrics-off": "warning"}
    assert finding(off, "metrics-off")["evidence"] == ["/engine_metrics has no counters of tokens"]
    assert "--enable-metrics" in finding(off, "metrics-off")["change"]
