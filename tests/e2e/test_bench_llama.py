"""The bench, shortened, on a real engine: it speculates better at a low load than at a high one."""

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


async def test_the_ratio_falls_with_the_load(tmp_path):
    async with llama_pair() as (spec, plain):
        code, said = await bench(
            tmp_path,
            *("--spec-url", spec, "--plain-url", plain),
            *("--concurrency", "1,8", "--repeats", "2", "--requests-per-level", "16"),
            *("--max-tokens", "12", "--temperature", "1"),
        )
    assert code in (0, 3), said
    profile = loads((tmp_path / "profile.json").read_text())
    low, high = profile.levels
    assert (low.concurrency, high.concurrency) == (1, 8)
    assert low.ratio is not None
    assert high.ratio is not None
    assert low.ratio > 1.2 * high.ratio, said
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
    lines = [
        json.loads(line)
        for path in tmp_path.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    counted = [line for line in lines if line.get("output_tokens")]
    assert {line["output_tokens"] for line in counted} == {12}
    assert (tmp_path / "report.html").exists()
