"""A lane behind which a balancer has several engines, and a page of them all: what the gate reads
there, over sockets. With the real sglang-router: tests/deploy/test_router.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from specgate.bench.asking import Arm
from specgate.bench.meters import Meter
from specgate.control.scraper import LINE_LIMIT
from specgate.core.profile import dumps
from tests.live.test_adaptive import BENCH, NAME, until
from tests.support.lanes import ScriptedLane, error_response
from tests.support.live import BARE, LiveGate, running_gate
from tests.support.profiles import with_accept_length
from tests.support.steps import Fin, Script, Send, response

PAGE = "/engine_metrics"


def page(*workers: tuple[int, int, int, int]) -> bytes:
    """Output tokens, verifications, requests ended and running, of each."""
    names = ("generation_tokens_total", "spec_verify_calls_total", "num_requests_total")
    text = "".join(
        f'sglang_{name}{{model_name="m",worker_addr="http://w{i}:1"}} {value}\n'
        for i, worker in enumerate(workers)
        for name, value in zip((*names, "num_running_reqs"), worker, strict=True)
    )
    return text.encode()


@asynccontextmanager
async def behind(
    folder: Path, first: Script | bytes | None
) -> AsyncIterator[tuple[LiveGate, ScriptedLane]]:
    """first: what the page is when the gate begins; None: there is none."""
    profile = folder / "profile.json"
    profile.write_text(dumps(with_accept_length(NAME, BENCH)))
    async with (
        ScriptedLane("spec") as spec,
        ScriptedLane("plain") as plain,
    ):
        if first is not None:
            spec.answer(PAGE, response(200, first) if isinstance(first, bytes) else first)
        settings: dict[str, Any] = {**BARE, "profile": profile, "adaptive": True}
        async with running_gate(spec.url, plain.url, scrape_interval_s=0.05, **settings) as gate:
            yield gate, spec


def asked(lane: ScriptedLane) -> int:
    return sum(request.target == PAGE.encode() for request in (*lane.probes, *lane.requests))


async def read(lane: ScriptedLane, text: bytes) -> None:
    """Show the page until the gate has read it."""
    lane.answer(PAGE, response(200, text))
    before = asked(lane)

    async def again() -> bool:
        return asked(lane) >= before + 3  # one may be under way, and the last one not read yet

    await until(again)


async def live(gate: LiveGate) -> float:
    found: float = (await gate.status())["accept_length"]["live"]
    return found


async def test_the_accept_length_is_tokens_over_steps_of_all_of_them(tmp_path):
    async with behind(tmp_path, page((0, 0, 0, 0), (9000, 9000, 9, 0))) as (gate, spec):
        await read(spec, page((0, 0, 0, 0), (9000, 9000, 9, 0)))
        assert await live(gate) == BENCH
        # One makes 3 tokens a step in 3000 steps, the other 1 in 1000: 2.5, and not 2.
        await read(spec, page((9100, 3000, 100, 0), (10100, 10000, 109, 0)))
        assert await live(gate) == pytest.approx(2.5, rel=0.02)
        assert (await gate.status())["accept_length"]["age_s"] is not None
        await read(spec, page((39200, 23000, 200, 0), (10100, 10000, 109, 0)))
        assert await live(gate) == pytest.approx(1.5, rel=0.02)


async def test_one_that_was_started_anew_decides_nothing(tmp_path):
    async with behind(tmp_path, page((0, 0, 0, 0), (90_000, 30_000, 900, 0))) as (gate, spec):
        await read(spec, page((0, 0, 0, 0), (90_000, 30_000, 900, 0)))
        # The sum falls; what the first one does counts all the same: 2 a step.
        await read(spec, page((20_100, 10_000, 100, 0), (5, 1, 1, 0)))
        assert await live(gate) == pytest.approx(2.0, rel=0.02)
        metrics = await gate.metrics()
        assert 'specgate_engine_output_tokens_total{lane="spec"} 110100.0' in metrics


async def test_their_loads_are_one_sum(tmp_path):
    async with behind(tmp_path, page((1, 1, 1, 3), (1, 1, 1, 4))) as (gate, spec):

        async def all_seven() -> bool:
            return bool((await gate.status())["beyond"] == 7)

        await until(all_seven)
        spec.answer(PAGE, error_response(503, "no worker"))

        async def none() -> bool:
            return bool((await gate.status())["beyond"] == 0)

        await until(none)


async def test_a_server_without_such_a_page_is_asked_once(tmp_path):
    async with behind(tmp_path, None) as (gate, spec):

        async def known() -> bool:
            return asked(spec) >= 1

        await until(known)
        await asyncio.sleep(0.4)
        assert asked(spec) == 1
        assert (await gate.status())["accept_length"]["age_s"] is None


ENDLESS = [Send(b"HTTP/1.1 200 OK\r\n\r\n"), *[Send(b"x" * LINE_LIMIT)] * 8, Fin()]
HTML = response(200, b"<html><body>all is well</body></html>")


@pytest.mark.parametrize("other", [ENDLESS, HTML, error_response(500, "oh")], ids=lambda _: "")
async def test_any_other_answer_is_none_and_the_next_page_counts(tmp_path, other):
    async with behind(tmp_path, other) as (gate, spec):
        await until(lambda: seen(spec, 3))
        assert (await gate.status())["accept_length"]["age_s"] is None
        await read(spec, page((0, 0, 0, 0)))
        await read(spec, page((20_100, 10_000, 100, 0)))
        assert await live(gate) == pytest.approx(2.0, rel=0.02)


async def seen(lane: ScriptedLane, count: int) -> bool:
    return asked(lane) >= count


async def test_the_bench_reads_them_too():
    async with ScriptedLane("spec") as lane, httpx2.AsyncClient(trust_env=False) as http:
        lane.answer(PAGE, response(200, page((0, 0, 0, 2), (9000, 9000, 9, 3))))
        meter = Meter(Arm(name="spec", url=lane.url), http)
        assert await meter.in_flight() == 5
        async with meter.watching() as found:
            lane.answer(PAGE, response(200, page((9100, 3000, 100, 2), (10100, 10000, 109, 3))))
        assert found.accept_length == 2.5
