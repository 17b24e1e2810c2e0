"""The engine in jumping time: what calls see, and how stale the published load is."""

import asyncio

import pytest

from specgate.core.lanes import Lane
from specgate.sim.call import Call, Order
from specgate.sim.driver import PoolDriver
from specgate.sim.engine import DuplicateRidError, Engine, EngineClosedError
from specgate.sim.faults import Faults
from specgate.sim.model import CannotFitError, Job
from specgate.sim.profiles import load_profile
from tests.support.clocks import JumpingLoop, run_in_jumping_time

REFERENCE = load_profile("reference")


def engine_of(lane: Lane = Lane.PLAIN, *, time_scale: float = 1.0) -> Engine:
    driver = PoolDriver(clock=asyncio.get_running_loop(), time_scale=time_scale)
    return Engine(lane, REFERENCE, driver, seed=3)


def order_of(output_tokens: int, *, reserve: int | None = None) -> Order:
    job = Job(
        prompt_tokens=128,
        output_tokens=output_tokens,
        reserve_tokens=reserve or output_tokens,
    )
    return Order(job=job, place=0, finish="length")


async def drain(call: Call) -> list[int]:
    """The tokens of each piece of news, until the call is finished."""
    pieces = []
    while not call.finished:
        for ticket in await call.take():
            start, stop = ticket.take()
            pieces.append(stop - start)
    return pieces


@pytest.mark.parametrize("time_scale", [1.0, 2.0, 0.5])
def test_a_call_takes_its_simulated_time(time_scale: float) -> None:
    async def scenario() -> None:
        engine = engine_of(time_scale=time_scale)
        began = asyncio.get_running_loop().time()
        with engine.call("a", [order_of(11)], streaming=True) as call:
            assert await drain(call) == [1] * 11
        took_s = asyncio.get_running_loop().time() - began
        alone_s = 0.05 + 10 * REFERENCE.lanes[Lane.PLAIN].step_s(1)
        assert took_s * time_scale == pytest.approx(alone_s, abs=0.002)

    run_in_jumping_time(scenario())


def test_a_step_of_the_spec_lane_gives_several_tokens_at_once() -> None:
    async def scenario() -> None:
        engine = engine_of(Lane.SPEC)
        with engine.call("a", [order_of(300)], streaming=True) as call:
            pieces = await drain(call)
        assert sum(pieces) == 300
        assert set(pieces) == {1, 2, 3}
        assert 1.9 < (300 - 1) / (len(pieces) - 1) < 2.5

    run_in_jumping_time(scenario())


def test_leaving_a_call_early_aborts_it() -> None:
    async def scenario() -> None:
        engine = engine_of()
        with engine.call("a", [order_of(1_000), order_of(1)], streaming=True) as call:
            while call.tickets[1].sequence.emitted == 0:
                await call.take()
            assert engine.state()["in_flight"] == 2
        state = engine.state()
        assert (state["in_flight"], state["running"], state["kv_reserved"]) == (0, 0, 0)
        assert (state["served"], state["aborted"], state["max_in_flight_seen"]) == (1, 1, 2)

    run_in_jumping_time(scenario())


def test_an_abort_by_prefix_ends_the_call_with_a_last_piece() -> None:
    async def scenario() -> None:
        engine = engine_of()
        with engine.call("abc-1", [order_of(1_000)], streaming=True) as call:
            await call.take()
            assert engine.abort_matching("nothing") == 0
            assert engine.abort_matching("abc") == 1
            await drain(call)
            assert call.tickets[0].finish == "abort"
        assert engine.state()["aborted"] == 1

    run_in_jumping_time(scenario())


def test_a_rid_in_flight_cannot_be_used_again() -> None:
    async def scenario() -> None:
        engine = engine_of()
        with engine.call("a", [order_of(5)], streaming=True):
            with pytest.raises(DuplicateRidError):
                engine.call("a", [order_of(5)], streaming=True).__enter__()
            assert engine.state()["in_flight"] == 1
        with engine.call("a", [order_of(5)], streaming=True) as call:
            await drain(call)

    run_in_jumping_time(scenario())


def test_a_call_of_which_one_sequence_cannot_fit_is_refused_whole() -> None:
    async def scenario() -> None:
        engine = engine_of()
        orders = [order_of(5), order_of(5, reserve=1_000_000)]
        with pytest.raises(CannotFitError):
            engine.call("a", orders, streaming=True).__enter__()
        state = engine.state()
        assert (state["running"], state["queued"], state["in_flight"]) == (0, 0, 0)

    run_in_jumping_time(scenario())


def test_closing_ends_calls_and_pauses() -> None:
    async def scenario() -> None:
        engine = engine_of()
        with engine.call("a", [order_of(1_000)], streaming=True) as call:
            asyncio.get_running_loop().call_later(1.0, engine.close)
            await engine.pause(None)
            await drain(call)
        with pytest.raises(EngineClosedError):
            engine.call("b", [order_of(1)], streaming=True).__enter__()

    run_in_jumping_time(scenario())


def test_published_load_lags_behind() -> None:
    async def scenario() -> None:
        engine = engine_of()
        loads, metrics = engine.meters.loads, engine.meters.metrics
        with engine.call("a", [order_of(100)], streaming=True) as call:
            seen: dict[int, tuple[int, int, int]] = {}
            while not call.finished:
                for ticket in await call.take():
                    _, stop = ticket.take()
                    seen[stop] = (
                        loads.published.running,
                        metrics.published.running,
                        loads.published.used_tokens,
                    )
        # /v1/loads knows the sequence since its prefill, and its tokens in steps of fifteen;
        # /metrics hears of it at the fortieth step.
        assert seen[1] == (1, 0, 129)
        assert seen[15] == (1, 0, 129)
        assert seen[16] == (1, 0, 144)
        assert seen[40] == (1, 0, 159)
        assert seen[41] == (1, 1, 159)
        assert (loads.published.running, metrics.published.running) == (0, 0)

    run_in_jumping_time(scenario())


def test_accept_length_is_published_and_stays_when_idle() -> None:
    async def scenario() -> None:
        engine = engine_of(Lane.SPEC)
        with engine.call("a", [order_of(400)], streaming=True) as call:
            await drain(call)
        published = engine.meters.metrics.published
        assert 1.5 < published.accept_length < 3
        assert published.accept_rate == pytest.approx((published.accept_length - 1) / 2)
        assert published.tok_s == 0.0

    run_in_jumping_time(scenario())


def test_faults_limited_to_some_requests_run_out() -> None:
    async def scenario() -> None:
        engine = engine_of()
        engine.set_faults(Faults(status=503, slow_factor=2.0, times=2))
        assert [engine.request_faults().status for _ in range(3)] == [503, 503, None]
        assert engine.model.slow_factor == 2.0

    run_in_jumping_time(scenario())


def test_two_engines_of_one_lane_cannot_share_a_pool() -> None:
    async def scenario() -> None:
        engine = engine_of()
        with pytest.raises(ValueError, match="plain lane already"):
            Engine(Lane.PLAIN, REFERENCE, engine.driver)

    run_in_jumping_time(scenario())


def test_a_machine_that_slept_does_not_catch_up() -> None:
    async def scenario() -> None:
        engine = engine_of()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        with engine.call("a", [order_of(1_000)], streaming=True) as call:
            await call.take()
            loop.now += 3_600
            began = loop.time()
            await drain(call)
        # Without the sleep it would have taken about 11 s; 64 steps at most were made up for.
        assert loop.time() - began > 9

    run_in_jumping_time(scenario())


@pytest.mark.parametrize("time_scale", [0.0, -1.0, float("nan")])
def test_time_must_pass(time_scale: float) -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match="time_scale"):
            PoolDriver(clock=asyncio.get_running_loop(), time_scale=time_scale)

    run_in_jumping_time(scenario())
