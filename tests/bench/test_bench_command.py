"""`specgate bench` as its users start it: exit codes, lines, interruption."""

import asyncio
import json
import re
import shlex
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from specgate.bench.asking import Arm
from specgate.bench.plan import Plan
from specgate.bench.record import CELLS, REQUESTS, lines_of, read_cells
from specgate.bench.stage import Bench
from specgate.cli.bench_values import DURATION, NUMBERS
from specgate.cli.bench_words import broken_off
from specgate.cli.main import main
from specgate.core.lanes import Lane
from specgate.core.profile import Objective, loads
from tests.bench.engines import pair
from tests.bench.synthetic import cell

SHORT = ("--max-tokens", "16", "--repeats", "2", "--requests-per-level", "12")


async def started(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgate", "bench", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    async with asyncio.timeout(40):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def urls(sims) -> tuple[str, ...]:
    return "--spec-url", sims[Lane.SPEC].url, "--plain-url", sims[Lane.PLAIN].url


async def test_it_measures_and_tells(tmp_path):
    out = tmp_path / "bench"
    async with pair(time_scale=15) as sims:
        process = await started(*urls(sims), *SHORT, "--concurrency", "6,12", "--out", str(out))
        code, printed, said = await ended(process)
    # So short a run decides nothing where other work disturbs it.
    assert (code, "Not decided" in printed) in ((0, False), (3, True)), said
    assert str(out / "profile.json") in printed
    # A machine that does other work is warned of besides.
    lines = [line for line in said.strip().splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 8
    assert "tok/s" in said
    assert "left)" in said
    profile = json.loads((out / "profile.json").read_text())
    assert profile["verdict"]["shape"] in ("never", "inconclusive")
    assert [level["concurrency"] for level in profile["levels"]] == [6, 12]


async def test_interrupted_it_loses_nothing_and_goes_on(tmp_path):
    async with pair(time_scale=10) as sims:
        words = (*urls(sims), *SHORT, "--concurrency", "6,12", "--out", str(tmp_path))
        process = await started(*words)
        async with asyncio.timeout(20):
            while len(list(lines_of(tmp_path / CELLS))) < 2:
                await asyncio.sleep(0.02)
            # In the middle of the next cell.
            seen = len(list(lines_of(tmp_path / REQUESTS)))
            while len(list(lines_of(tmp_path / REQUESTS))) < seen + 5:
                await asyncio.sleep(0.005)
        process.send_signal(signal.SIGINT)
        code, _, said = await ended(process)
        assert code == 130, said
        assert "Traceback" not in said
        kept = read_cells(tmp_path)
        assert f"interrupted: {len(kept)} cells measured, and kept in {tmp_path}" in said
        commands = dict(re.findall(r"(?m)^(go on|a profile of it): +(specgate .*)$", said))
        made = shlex.split(commands["a profile of it"])[1:]
        found = await asyncio.to_thread(CliRunner().invoke, main, made)
        assert found.exit_code in (0, 3), found.output
        told = loads((tmp_path / "profile.json").read_text())
        assert {level.concurrency for level in told.levels} == {c.concurrency for c in kept}
        arms = {level: {c.arm for c in kept if c.concurrency == level} for level in (6, 12)}
        both = [level for level, found in arms.items() if len(found) == 2]
        assert [level.concurrency for level in told.compared] == both, "of none with one arm alone"
        requests = len(list(lines_of(tmp_path / REQUESTS)))
        assert 2 <= len(kept) < 8
        assert requests >= seen + 5

        again = shlex.split(commands["go on"])
        assert again == ["specgate", "bench", *words, "--resume"]
        code, printed, said = await ended(await started(*again[2:]))
    assert code in (0, 3), said
    cells = read_cells(tmp_path)
    assert len(cells) == 8
    assert cells[: len(kept) // 2 * 2] == kept[: len(kept) // 2 * 2]
    assert len(list(lines_of(tmp_path / REQUESTS))) > requests
    assert "Profile:" in printed


async def test_an_arm_that_goes_away_ends_it(tmp_path):
    async with pair() as sims:
        words = (*urls(sims), "--max-tokens", "64", "--repeats", "9", "--out", str(tmp_path))
        process = await started(*words, "--concurrency", "1,2,4")
        async with asyncio.timeout(20):
            while not list(lines_of(tmp_path / CELLS)):
                await asyncio.sleep(0.02)
    code, _, said = await ended(process)
    assert code == 4
    assert "arm" in said
    assert "Traceback" not in said
    assert f"go on:           {shlex.join(['specgate', 'bench', *words])}" in said
    assert f"specgate profile import {tmp_path} --out {tmp_path / 'profile.json'}" in said


@pytest.mark.parametrize("key", [("--api-key", "s3cret"), ("--api-key=s3cret",), ()])
def test_the_commands_after_an_interruption_hold_no_key_and_all_else(tmp_path, key):
    words = ("bench", "--plain-url", "http://127.0.0.1:9", *key, "--resume", "--prompts", "a b.txt")
    arm = Arm(name="plain", url="http://127.0.0.1:9")
    plan = Plan(arms=("plain",), levels=(1,), contexts=(None,), max_tokens=(16,), repeats=2)
    asked = Bench(
        arms=(arm,), plan=plan, out=tmp_path, argv=words, margin=0.01, objective=Objective.TPOT
    )
    first, on = broken_off(asked)
    assert first == "no cell was measured to its end"
    bare = "specgate bench --plain-url http://127.0.0.1:9 --prompts 'a b.txt' --resume"
    assert on == f"go on:           {'OPENAI_API_KEY=... ' if key else ''}{bare}"
    (tmp_path / CELLS).write_text(json.dumps(asdict(cell("plain", 1, 100.0))) + "\n")
    first, _, profile = broken_off(asked)
    assert first == f"1 cell measured, and kept in {tmp_path}"
    out = tmp_path / "profile.json"
    assert profile == (
        f"a profile of it: specgate profile import {tmp_path} --out {out} --margin 0.01 "
        "--objective tpot"
    )


def invoked(*words: str):
    return CliRunner().invoke(main, ["bench", *words])


def test_an_arm_that_is_not_there_is_void(tmp_path):
    found = invoked("--arm", "plain=http://127.0.0.1:9", "--out", str(tmp_path / "out"))
    assert found.exit_code == 4
    assert "arm plain took no connection" in found.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "no arm"),
        (("--arm", "spec"), "no NAME=URL"),
        (("--arm", "a=ftp://x"), "must be an http:// or https:// URL"),
        (("--arm", "plain=http://127.0.0.1:9", "--plain-url", "http://127.0.0.1:9"), "a name of"),
        (("--plain-url", "http://127.0.0.1:9", "--concurrency", "0"), "whole numbers"),
        (("--plain-url", "http://127.0.0.1:9", "--budget", "soon"), "no time"),
        (("--plain-url", "http://127.0.0.1:9", "--extra-body", "[]"), "no JSON object"),
        (("--plain-url", "http://127.0.0.1:9", "--prompts", "nowhere"), "No such file"),
    ],
)
def test_wrong_usage_is_two(words, told):
    found = invoked(*words)
    assert found.exit_code == 2, found.output
    assert told in found.output


async def test_a_dry_run_tells_the_plan_and_writes_nothing(tmp_path):
    out = tmp_path / "out"
    async with pair() as sims:
        words = (*urls(sims), "--concurrency", "1,10", "--out", str(out), "--dry-run")
        code, printed, said = await ended(await started(*words))
    assert code == 0, said
    assert "C=10   repeat 2: plain, spec; 10 requests to warm up, 50 that count" in printed
    assert "in all about" in printed
    assert "budget: 15 min" in printed
    assert not out.exists()


async def test_the_key_is_sent_and_not_written(tmp_path):
    async with pair() as sims:
        words = (*urls(sims), *SHORT, "--concurrency", "1", "--out", str(tmp_path))
        code, _, said = await ended(await started(*words, "--api-key", "sk-hush"))
    assert code in (0, 3), said
    for path in Path(tmp_path).rglob("*"):
        assert path.is_dir() or "sk-hush" not in path.read_text()


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("40s", 40), ("15m", 900), ("2h", 7200)])
def test_times_may_have_a_unit(text, seconds):
    assert DURATION.convert(text, None, None) == seconds


def test_levels_are_a_list():
    assert NUMBERS.convert("1,2,2,5", None, None) == (1, 2, 5)
