"""The bench, shortened, on a real engine. Other tests run beside it, so its figures are rough: what
a whole run gave on a machine that did nothing else is in docs/explanation/trust.md."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from specgate.core.profile import loads
from tests.support.llama import llama_pair

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600), pytest.mark.xdist_group("llama")]


async def bench(out: Path, *options: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgate", "bench", "--out", str(out), *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_a_pair_is_measured(tmp_path):
    async with llama_pair() as (spec, plain):
        code, said = await bench(
            tmp_path,
            *("--spec-url", spec, "--plain-url", plain),
            *("--concurrency", "1,8", "--repeats", "2", "--requests-per-level", "16"),
            *("--max-tokens", "16", "--temperature", "1"),
        )
    assert code in (0, 3), said
    profile = loads((tmp_path / "profile.json").read_text())
    low, high = profile.levels
    assert (low.concurrency, high.concurrency) == (1, 8)
    assert low.ratio is not None
    assert high.ratio is not None
    # Which lane wins beside other tests on two cores is chance, and no test of ours.
    for level in profile.levels:
        for name, arm in level.arms.items():
            # The cells' ramp and tail are left out of what counts.
            assert arm.requests == 32
            assert arm.ttft_s is not None
            assert (arm.accept_length is not None) == (name == "spec")
    accepted = low.arms["spec"].accept_length
    assert accepted is not None
    assert 1.0 < accepted < 17.0, "a step drafts 16 tokens"
    assert profile.fingerprint.engines["spec"].name == "llamacpp"
    text = (tmp_path / "requests.jsonl").read_text()
    asked = [json.loads(line) for line in text.splitlines()]
    assert {line["tokens"] for line in asked} == {16}
    assert {line["arm"] for line in asked} == {"spec", "plain"}
    assert (tmp_path / "report.html").exists()
