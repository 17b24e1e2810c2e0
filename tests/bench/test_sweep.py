"""Whole runs against the simulated pair: order, record, voids, warnings, arms one by one."""

import asyncio
import json
from typing import Any

import pytest

from specgate.bench import sweep
from specgate.bench.asking import Arm
from specgate.bench.concluding import conclude, undecided
from specgate.bench.faults import Misused, Voided
from specgate.bench.load import closed_loop
from specgate.bench.plan import Block, Group, Plan
from specgate.bench.prompts import deal, load
from specgate.bench.record import CELLS, ENVIRONMENT, NOTES, REQUESTS, lines_of
from specgate.bench.stage import Bench
from specgate.core.lanes import Lane
from specgate.core.profile import loads
from specgate.core.shape import Shape
from specgate.sim.faults import Faults
from tests.bench.engines import calling, pair, saying, sse


class Listener:
    def __init__(self) -> None:
        self.cells: list[Any] = []
        self.warnings: list[str] = []
        self.said: list[str] = []

    def begins(self, arm, block, requests) -> None: ...

    def request(self) -> None: ...

    def ends(self, cell, left_s) -> None:
        self.cells.append(cell)

    def warns(self, text) -> None:
        self.warnings.append(text)

    def says(self, text) -> None:
        self.said.append(text)


def bench(sims, out, *, arms=Lane, levels=(1, 4), repeats=2, max_tokens=32, **fields) -> Bench:
    """Of fifteen requests a cell, or one a stream: shorter than a user may want it."""
    urls = {lane.value: running.url for lane, running in sims.items()}
    named = tuple(Arm(name=lane.value, url=urls[lane.value]) for lane in arms)
    names = tuple(arm.name for arm in named)
    plan = Plan(arms=names, levels=levels, max_tokens=(max_tokens,), repeats=repeats, requests=15)
    return Bench(**{"arms": named, "plan": plan, "out": out, **fields})


async def ran(asked: Bench) -> tuple[sweep.Outcome, Listener]:
    listener = Listener()
    return await sweep.run(asked, listener), listener


async def test_arms_turn_around_and_everything_is_recorded(tmp_path):
    async with pair() as sims:
        outcome, listener = await ran(bench(sims, tmp_path))
        most = [sims[lane].engine.state()["max_in_flight_seen"] for lane in Lane]
    assert most == [4, 4]
    assert [(c.concurrency, c.repeat, c.arm, c.order) for c in listener.cells] == [
        *((1, 0, "spec", 0), (1, 0, "plain", 1), (1, 1, "plain", 0), (1, 1, "spec", 1)),
        *((4, 0, "spec", 0), (4, 0, "plain", 1), (4, 1, "plain", 0), (4, 1, "spec", 1)),
    ]
    assert all(c.void is None and c.paired and c.requests == 15 for c in outcome.cells)
    assert outcome.voids == ()
    assert not outcome.spent
    requests = list(lines_of(tmp_path / REQUESTS))
    plan = Plan(arms=("spec", "plain"), requests=15)
    assert len(requests) == 4 * (plan.sent(1) + plan.sent(4))
    assert all(line["error"] is None and line["tokens"] == 32 for line in requests)
    spec, plain = (
        [line["class"] for line in requests if line["arm"] == arm and line["repeat"] == 0]
        for arm in ("spec", "plain")
    )
    assert sorted(spec) == sorted(plain)
    assert all((c.accept_length is None) == (c.arm == "plain") for c in outcome.cells)
    assert all(1.5 < c.accept_length < 3 for c in outcome.cells if c.accept_length is not None)
    (run,) = json.loads((tmp_path / ENVIRONMENT).read_text())["runs"]
    assert run["arms"]["spec"]["flags"]["speculative_num_steps"] == 2
    assert run["arms"]["spec"]["flags"]["max_running_requests"] == 64
    assert run["arms"]["plain"]["engine"] == "sglang"
    assert run["arms"]["plain"]["models"] == ["sim"]


async def test_both_arms_get_the_same_prompts_and_seeds():
    """What a deal says; and that the engine's prompt counts agree, arm by arm."""
    block = Block(group=Group(context=None, max_tokens=32), concurrency=2, repeat=1)
    dealt = deal(load("builtin"), block, 20, seed=5, salt="s")
    counts = []
    async with pair() as sims:
        for lane in Lane:
            async with calling(sims[lane].url) as caller:
                loop = await closed_loop(caller, dealt, concurrency=2, warm_up=2, max_tokens=8)
                by_index = sorted(loop.samples, key=lambda s: s.index)
                counts.append([s.prompt_tokens for s in by_index])
    assert counts[0] == counts[1]


async def test_a_crossing_is_found_and_written_down(tmp_path):
    """Each lane is slowed down where it is to lose: what other work there is here hides nothing."""
    async with pair(time_scale=10) as sims:

        class Slows(Listener):
            def begins(self, arm, block, requests) -> None:
                loser = "plain" if block.concurrency == 1 else "spec"
                factor = 3.0 if arm == loser else 1.0
                sims[Lane(arm)].engine.set_faults(Faults(slow_factor=factor))

        outcome = await sweep.run(bench(sims, tmp_path, levels=(1, 8), max_tokens=16), Slows())
    assert outcome.voids == ()
    profile = conclude(tmp_path, 0.03)
    assert profile is not None
    assert profile.verdict.shape is Shape.CROSSES
    assert profile.verdict.paired
    assert undecided(profile) is None
    assert loads((tmp_path / "profile.json").read_text()) == profile
    assert profile.fingerprint.engines["spec"].name == "sglang"
    assert profile.fingerprint.model == "sim"


async def test_arms_measured_one_after_the_other_share_a_folder(tmp_path):
    async with pair(time_scale=15) as sims:
        # A difference that no other work on this machine hides.
        sims[Lane.SPEC].engine.set_faults(Faults(slow_factor=3))
        first, _ = await ran(bench(sims, tmp_path, arms=[Lane.SPEC], levels=(2, 8)))
        alone = conclude(tmp_path, 0.03)
        assert alone is not None
        assert "no plain arm" in str(undecided(alone))
        with pytest.raises(Misused, match="already holds cells of spec"):
            await ran(bench(sims, tmp_path, arms=[Lane.SPEC]))
        both, _ = await ran(bench(sims, tmp_path, arms=[Lane.PLAIN], levels=(2, 8)))
    assert len(first.cells) == 4
    assert len(both.cells) == 8
    assert not any(cell.paired for cell in both.cells)
    texts = [
        sorted(
            (line["index"], line["prompt_tokens"])
            for line in lines_of(tmp_path / REQUESTS)
            if line["arm"] == arm
        )
        for arm in ("spec", "plain")
    ]
    assert texts[0] == texts[1]
    profile = conclude(tmp_path, 0.03)
    assert profile is not None
    assert profile.verdict.shape is Shape.NEVER
    assert not profile.verdict.paired


async def test_a_void_level_is_left_and_others_go_on(tmp_path):
    async with pair() as sims:
        asked = bench(sims, tmp_path, arms=[Lane.PLAIN], levels=(1, 2))
        engine = sims[Lane.PLAIN].engine

        class Breaks(Listener):
            def begins(self, arm, block, requests) -> None:
                engine.set_faults(
                    Faults(status=429, times=1) if block.concurrency == 1 else Faults()
                )

        listener = Breaks()
        outcome = await sweep.run(asked, listener)
        assert len(outcome.voids) == 1
        assert outcome.voids[0].startswith("C=1: arm plain answered with status 429")
        assert [(c.concurrency, c.void is None) for c in outcome.cells] == [
            (1, False),
            (2, True),
            (2, True),
        ]
        again, _ = await ran(bench(sims, tmp_path, arms=[Lane.PLAIN], levels=(1, 2), resume=True))
    assert [c.void for c in again.cells] == [None] * 4


async def test_a_block_that_broke_off_is_measured_again_whole(tmp_path):
    async with pair() as sims:
        asked = bench(sims, tmp_path, levels=(2,), repeats=2)
        await ran(asked)
        lines = (tmp_path / CELLS).read_text().splitlines(keepends=True)
        (tmp_path / CELLS).write_text("".join(lines[:3]))
        outcome, listener = await ran(bench(sims, tmp_path, levels=(2,), resume=True))
    assert [(c.repeat, c.arm) for c in listener.cells] == [(1, "plain"), (1, "spec")]
    assert len(outcome.cells) == 4


async def test_that_there_is_nothing_to_resume_is_said(tmp_path):
    async with pair() as sims:
        said = f"{tmp_path} holds no cell of spec or plain: nothing to resume, begun anew"
        _, listener = await ran(bench(sims, tmp_path, levels=(1,), resume=True))
        assert listener.warnings.count(said) == 1
        _, listener = await ran(bench(sims, tmp_path, levels=(1,), resume=True))
        assert said not in listener.warnings


@pytest.mark.parametrize(
    ("faults", "kind", "told"),
    [
        (Faults(status=429), Voided, "arm spec answered with status 429"),
        (Faults(status=401), Misused, "arm spec answered with status 401"),
        (Faults(cut_after_chunks=1), Voided, "arm spec broke off"),
    ],
)
async def test_an_arm_that_cannot_be_measured_is_told_before_anything_is(
    tmp_path, faults, kind, told
):
    out = tmp_path / "out"
    async with pair() as sims:
        sims[Lane.SPEC].engine.set_faults(faults)
        with pytest.raises(kind, match=told):
            await ran(bench(sims, out))
    assert not out.exists()


async def test_no_usage_is_told(tmp_path):
    reply = sse('{"choices": [{"delta": {"content": "a"}}]}', "[DONE]")
    async with saying(reply) as url:
        plan = Plan(arms=("plain",), levels=(1,), max_tokens=(8,))
        asked = Bench(arms=(Arm(name="plain", url=url),), plan=plan, out=tmp_path)
        with pytest.raises(Voided, match="arm plain gives no token counts"):
            await ran(asked)


async def test_a_wrong_model_is_told_with_the_right_one(tmp_path):
    async with pair() as sims:
        with pytest.raises(Misused, match=r"arm spec at .* serves sim, not --model llama"):
            await ran(bench(sims, tmp_path, model="llama"))


async def test_traffic_on_another_arm_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("specgate.bench.measuring.SETTLE_S", 0.1)
    block = Block(group=Group(context=None, max_tokens=9), concurrency=1, repeat=0)
    prompts = deal(load("fixed"), block, 1, seed=0, salt="")
    listener = Listener()
    async with pair() as sims, calling(sims[Lane.SPEC].url) as caller:
        busy = asyncio.ensure_future(
            closed_loop(caller, prompts, concurrency=1, warm_up=1, max_tokens=60_000)
        )
        await sweep.run(bench(sims, tmp_path, levels=(1,), repeats=1, max_tokens=8), listener)
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)
    assert "arm spec is not idle: 1 requests" in listener.warnings[0]
    assert [line["text"] for line in lines_of(tmp_path / NOTES)] == listener.warnings


async def test_a_budget_ends_a_run_and_says_so(tmp_path):
    async with pair(time_scale=10) as sims:
        asked = bench(sims, tmp_path, levels=(1, 2, 4, 8), budget_s=2.5)
        outcome, listener = await ran(asked)
    assert len(outcome.cells) < 16
    assert "the budget is 2 s: beginning with C=1" in listener.said[0]


async def test_a_budget_that_holds_nothing_measures_nothing(tmp_path):
    async with pair(time_scale=1) as sims:
        outcome, _ = await ran(bench(sims, tmp_path, levels=(1,), budget_s=0.5))
    assert outcome.spent
    assert outcome.cells == ()
    assert conclude(tmp_path, 0.03) is None
