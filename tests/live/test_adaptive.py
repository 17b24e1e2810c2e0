"""The live accept length and the engines' own load, over sockets with simulated engines."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from specgate.core.lanes import Lane
from specgate.core.profile import dumps
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running
from tests.support.lanes import ScriptedLane, json_response
from tests.support.live import BARE, LiveGate, running_gate
from tests.support.profiles import with_accept_length
from tests.support.steps import response

NAME = "k26-int4-8xrtxpro6000-vllm-ctx10k"
BENCH = 2.5
STEPS = 3
CROSSOVER = 38.6
CHAT = "/v1/chat/completions"


@dataclass
class Pair:
    """A gate in front of two simulated engines of that profile, twenty times as fast."""

    gate: LiveGate
    sims: Mapping[Lane, RunningLane]

    @property
    def spec(self) -> RunningLane:
        return self.sims[Lane.SPEC]

    async def ask(self, count: int, url: str | None = None, **fields: Any) -> None:
        """So many requests, four at a time."""
        body = {
            "model": "sim",
            "messages": [{"role": "user", "content": "Say something."}],
            "max_tokens": 128,
            "ignore_eos": True,
            "x-sim-class": "mix",
            **fields,
        }
        async with httpx2.AsyncClient(base_url=url or self.gate.url, trust_env=False) as http:

            async def some(number: int) -> None:
                for _ in range(number):
                    assert (await http.post(CHAT, json=body, timeout=30)).status_code == 200

            await asyncio.gather(*(some(count // 4) for _ in range(4)))

    async def accept_length(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.gate.status())["accept_length"]
        return found

    async def edge(self) -> float:
        high = (await self.gate.status())["weighing"]["pays"][-1][1]
        return math.inf if high is None else float(high)


@asynccontextmanager
async def pair(file: Path | None = None, **settings: Any) -> AsyncIterator[Pair]:
    if file is not None:
        file.write_text(dumps(with_accept_length(NAME, BENCH)))
        settings["profile"] = str(file)
    lanes = [SimLane(lane=lane) for lane in Lane]
    async with (
        running(lanes, profile=load_profile(NAME), time_scale=20) as sims,
        running_gate(
            sims[Lane.SPEC].url,
            sims[Lane.PLAIN].url,
            **{"scrape_interval_s": 0.1, **BARE, **settings},
        ) as gate,
    ):
        await until(lambda: named(gate))
        if file is not None:  # idle since its start, it goes where a single request is served best
            await until(lambda: speculates(gate))
        yield Pair(gate, sims)


async def named(gate: LiveGate) -> bool:
    lanes = (await gate.status())["lanes"]
    return all(lane["engine"] == "sglang" for lane in lanes.values())


async def speculates(gate: LiveGate) -> bool:
    return bool((await gate.status())["side"] == "spec")


async def until(condition: Callable[[], Awaitable[bool]], within_s: float = 10) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():
            await asyncio.sleep(0.03)


async def after_scrapes(count: int = 4) -> None:
    await asyncio.sleep(0.1 * count + 0.1)


async def test_the_edge_follows_what_the_engine_counts(tmp_path):
    async with pair(tmp_path / "p.json", adaptive="true") as on:
        before = await on.accept_length()
        assert before == {
            "live": BENCH,
            "standard_error": 0.625,
            "bench": BENCH,
            "age_s": None,
            "break_even": before["break_even"],
            "followed": True,
        }
        assert await on.edge() == pytest.approx(CROSSOVER, abs=0.1)
        on.spec.engine.set_faults(Faults(accept_length_factor=1.3))
        await on.ask(60)
        await after_scrapes()
        seen = await on.accept_length()
        model = on.spec.engine.model
        assert seen["live"] == pytest.approx(model.accept_length, rel=0.1)
        assert seen["live"] == pytest.approx(1.3 * BENCH, rel=0.1)
        assert seen["age_s"] < 5
        assert await on.edge() > 1.5 * CROSSOVER
        on.spec.engine.set_faults(Faults(accept_length_factor=0.85))
        await on.ask(60)
        await after_scrapes()
        assert (await on.accept_length())["live"] == pytest.approx(0.85 * BENCH, rel=0.1)
        assert await on.edge() < 0.8 * CROSSOVER
        page = await on.gate.metrics()
        for name in ("", "_error", "_bench", "_break_even", "_age_seconds"):
            assert f"\nspecgate_accept_length{name} " in page


async def test_without_the_setting_it_is_shown_and_moves_nothing(tmp_path):
    async with pair(tmp_path / "p.json") as on:
        on.spec.engine.set_faults(Faults(accept_length_factor=0.6))
        await on.ask(40)
        await after_scrapes()
        seen = await on.accept_length()
        assert seen["live"] < 0.75 * BENCH
        assert not seen["followed"]
        assert await on.edge() == pytest.approx(CROSSOVER, abs=0.1)


WRONG: dict[str, Faults] = {
    "no page": Faults(unread=True),
    "no counters and no gauge": Faults(
        metrics={"spec_verify_calls": None, "spec_accept_length": None}
    ),
    "steps that are no number": Faults(
        metrics={"spec_verify_calls": "NaN", "spec_accept_length": "NaN"}
    ),
    "tokens that are no number": Faults(metrics={"generation_tokens": "+Inf"}),
    "a count that stands": Faults(metrics={"spec_verify_calls": 3.0}),
    "a gauge over what steps can yield": Faults(
        metrics={"spec_verify_calls": None, "spec_accept_length": 4.5}
    ),
    "a gauge of nothing": Faults(metrics={"spec_verify_calls": None, "spec_accept_length": 0.0}),
    "a gauge beside tokens that stand": Faults(
        metrics={
            "spec_verify_calls": None,
            "spec_accept_length": 1.2,
            "generation_tokens": 50.0,
        }
    ),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_an_engine_cannot_mean_is_ignored(tmp_path, what):
    async with pair(tmp_path / "p.json", adaptive="true") as on:
        on.spec.engine.set_faults(WRONG[what])
        await after_scrapes()
        await on.ask(12)
        await after_scrapes()
        seen = await on.accept_length()
        assert (seen["live"], seen["age_s"]) == (BENCH, None)
        assert await on.edge() == pytest.approx(CROSSOVER, abs=0.1)


async def test_a_restart_of_the_counters_is_no_news_and_it_goes_on(tmp_path):
    async with pair(tmp_path / "p.json", adaptive="true") as on:
        await on.ask(20)
        await after_scrapes()
        known = await on.accept_length()
        zero = dict.fromkeys(("spec_verify_calls", "generation_tokens", "num_requests"), 0.0)
        on.spec.engine.set_faults(Faults(metrics={**zero}))
        await after_scrapes()
        again = await on.accept_length()
        assert again["live"] == pytest.approx(known["live"], rel=0.02)
        assert again["age_s"] > known["age_s"]
        on.spec.engine.set_faults(Faults())

        async def news() -> bool:  # the first page after a restart is only what is counted from
            await on.ask(8)
            return bool((await on.accept_length())["age_s"] < again["age_s"])

        await until(news, within_s=20)


async def test_a_gauge_is_enough_while_tokens_move(tmp_path):
    async with pair(tmp_path / "p.json", adaptive="true") as on:
        on.spec.engine.set_faults(
            Faults(metrics={"spec_verify_calls": None, "spec_accept_length": 1.5})
        )
        await after_scrapes()
        await on.ask(40)
        await after_scrapes()
        seen = await on.accept_length()
        assert seen["live"] == pytest.approx(1.5, rel=0.15)
        await asyncio.sleep(0.5)
        assert (await on.accept_length())["age_s"] > 0.4


async def test_traffic_past_the_gate_raises_the_load_and_not_what_is_in_flight():
    async with pair(threshold=3) as on:
        assert (await on.gate.status())["side"] == "spec"
        past = asyncio.ensure_future(
            on.ask(4, on.sims[Lane.PLAIN].url, max_tokens=4000, x_sim_class="mix")
        )

        async def seen() -> bool:
            status = await on.gate.status()
            return bool(status["beyond"] == 4 and status["side"] == "plain")

        await until(seen)
        status = await on.gate.status()
        assert status["load"] == 4
        assert status["in_flight"] == {"total": 0, "spec": 0, "plain": 0, "oldest_s": None}
        assert 'specgate_engine_load_beyond{lane="plain"} 4.0' in await on.gate.metrics()
        past.cancel()

        async def gone() -> bool:
            status = await on.gate.status()
            return bool(status["beyond"] == 0 and status["side"] == "spec")

        await until(gone)


async def test_a_load_that_is_old_or_absurd_is_none():
    async with pair(threshold=3) as on:
        spec = on.spec.engine

        async def beyond(count: int) -> bool:
            return bool((await on.gate.status())["beyond"] == count)

        spec.set_faults(Faults(loads={"num_running_reqs": 8}))
        await until(lambda: beyond(8))
        spec.set_faults(Faults(unread=True))
        await until(lambda: beyond(0))
        for absurd in ("many", -5, 1.7e308, 10**400):
            spec.set_faults(Faults(loads={"num_running_reqs": absurd}))
            await after_scrapes()
            assert await beyond(0)
        spec.set_faults(Faults(loads={"num_running_reqs": 0}))
        await after_scrapes()
        assert (await on.gate.status())["load"] == 0


async def test_a_page_of_more_than_a_mebibyte_is_not_read():
    models = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm"}]}
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        spec.answer("/v1/models", json_response(200, models))
        said = b"vllm:num_requests_running 7\n"
        spec.answer("/metrics", response(200, said))
        settings: dict[str, Any] = {**BARE, "scrape_interval_s": 0.3}
        async with running_gate(spec.url, plain.url, **settings) as gate:

            async def beyond(count: int) -> bool:
                return bool((await gate.status())["beyond"] == count)

            await until(lambda: beyond(7))
            spec.answer("/metrics", response(200, said.replace(b"7", b"9") + b"\n" * 2**20))
            asked = sum(request.target == b"/metrics" for request in spec.requests)

            shown = set()

            async def again() -> bool:
                shown.add((await gate.status())["beyond"])
                now = sum(request.target == b"/metrics" for request in spec.requests)
                return now >= asked + 4

            await until(again)
            assert 9 not in shown
            spec.answer("/metrics", response(200, said.replace(b"7", b"5")))
            await until(lambda: beyond(5))


async def test_what_the_gate_sent_itself_is_not_counted_twice():
    async with pair(threshold="always") as on:
        asking = asyncio.ensure_future(on.ask(80))
        most = 0
        while not asking.done():
            status = await on.gate.status()
            most = max(most, status["beyond"])
            await asyncio.sleep(0.02)
        await asking
        await after_scrapes()
        assert most == 0
        assert (await on.gate.status())["load"] == 0
