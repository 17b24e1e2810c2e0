"""The closed loop, against simulated engines on real sockets."""

import pytest

from specgate.bench.load import Unreachable, closed_loop, read, send
from specgate.bench.plan import Block, Group, Plan
from specgate.bench.prompts import deal, load
from specgate.bench.samples import Loop, Sample, cell_of
from specgate.core.cells import Cell
from specgate.core.lanes import Lane
from specgate.sim.faults import Faults
from specgate.sim.virtual import closed_loop as virtual_loop
from tests.bench.engines import calling, pair, saying, sse

TOKENS = 128


def dealt(concurrency, count=None, *, max_tokens=TOKENS, prompts="builtin"):
    block = Block(
        group=Group(context=None, max_tokens=max_tokens), concurrency=concurrency, repeat=0
    )
    count = count or Plan(arms=("spec",)).sent(concurrency)
    return deal(load(prompts), block, count, seed=1, salt="x")


async def looped(caller, concurrency, *, max_tokens=TOKENS, **more) -> Loop:
    prompts = more.pop("prompts", None) or dealt(concurrency, max_tokens=max_tokens)
    return await closed_loop(
        caller,
        prompts,
        concurrency=concurrency,
        warm_up=concurrency,
        max_tokens=max_tokens,
        **more,
    )


def figures(loop: Loop, concurrency: int):
    return cell_of(
        loop,
        arm="spec",
        concurrency=concurrency,
        context=None,
        max_tokens=TOKENS,
        repeat=0,
        order=0,
        paired=True,
        accept_length=None,
    )


@pytest.mark.parametrize("concurrency", [1, 2, 8])
async def test_exactly_so_many_are_in_flight(concurrency):
    async with pair() as sims, calling(sims[Lane.PLAIN].url) as caller:
        told: list[Sample] = []
        loop = await looped(caller, concurrency, max_tokens=16, on_sample=told.append)
        assert sims[Lane.PLAIN].engine.state()["max_in_flight_seen"] == concurrency
        assert sims[Lane.PLAIN].engine.state()["in_flight"] == 0
        assert len(loop.samples) == Plan(arms=("spec",)).sent(concurrency)
        assert tuple(told) == loop.samples
        assert len(loop.counting()) == 40
        assert loop.void is None


@pytest.mark.parametrize("lane", list(Lane))
@pytest.mark.parametrize("concurrency", [1, 8])
async def test_throughput_is_that_of_the_engine_in_virtual_time(lane, concurrency):
    """In one of three tries: other work on this machine only ever takes away."""
    scale = 10
    cells: list[Cell] = []
    async with pair(time_scale=scale) as sims, calling(sims[lane].url) as caller:
        # One class, so that both loops have the same chance of acceptance.
        caller.manner.extra["x-sim-class"] = "mix"
        virtual = virtual_loop(
            sims[lane].engine.profile, {lane: concurrency}, requests=40, max_tokens=TOKENS
        )[lane]
        while len(cells) < 3:
            prompts = dealt(concurrency, 15 + 2 * concurrency)
            cells.append(figures(await looped(caller, concurrency, prompts=prompts), concurrency))
            if cells[-1].tok_s / scale == pytest.approx(virtual.tok_s, rel=0.05):
                break
    cell = min(cells, key=lambda cell: abs(cell.tok_s / scale / virtual.tok_s - 1))
    assert cell.void is None
    assert cell.tok_s / scale == pytest.approx(virtual.tok_s, rel=0.08)
    assert cell.e2e_s.mean * scale == pytest.approx(virtual.mean_e2e_s, rel=0.15)
    assert cell.tpot_s is not None
    # Little's law: in a closed loop C x tokens = throughput x E2E.
    assert cell.tok_s * cell.e2e_s.mean == pytest.approx(concurrency * TOKENS, rel=0.15)


async def test_tokens_are_the_engines_and_not_the_chunks():
    async with pair() as sims, calling(sims[Lane.SPEC].url) as caller:
        loop = await looped(caller, 2)
    assert {sample.tokens for sample in loop.samples} == {TOKENS}
    assert all(s.prompt_tokens and s.prompt_tokens > 5 for s in loop.samples)
    assert all(s.ttft_s and s.tpot_s and s.ttft_s < s.e2e_s for s in loop.samples)


async def test_sglangs_own_api_tells_the_steps_of_each_request():
    async with pair() as sims, calling(sims[Lane.SPEC].url, api="generate") as caller:
        cell = figures(await looped(caller, 4), 4)
    assert cell.void is None
    assert set(cell.by_class) == {
        *("chat", "code", "summary", "extraction", "maths", "translation"),
    }
    assert all(1 < length <= 3 for length in cell.by_class.values())
    assert cell.by_class["extraction"] > cell.by_class["translation"]


async def test_without_a_stream_there_is_no_ttft():
    async with pair() as sims, calling(sims[Lane.PLAIN].url, stream=False) as caller:
        cell = figures(await looped(caller, 4), 4)
    assert cell.void is None
    assert cell.ttft_s is None
    assert cell.tpot_s is None
    assert cell.tok_s > 0


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        (Faults(status=429), "status 429"),
        (Faults(status=503, times=1), "status 503"),
        (Faults(cut_after_chunks=3), "broke off"),
        (Faults(error_event_first=True), "queue is full"),
        (Faults(garble=True), "spoke no HTTP"),
    ],
)
async def test_a_failed_request_voids_its_cell_in_the_arms_name(faults, told):
    async with pair() as sims, calling(sims[Lane.SPEC].url, "tall") as caller:
        engine = sims[Lane.SPEC].engine
        engine.set_faults(faults)
        loop = await looped(caller, 4, max_tokens=16)
        cell = figures(loop, 4)
    assert cell.void is not None
    assert told in cell.void
    assert "arm tall" in cell.void
    assert "lane" not in cell.void
    assert len(loop.samples) < 20


async def test_short_answers_void_a_cell():
    event = '{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}'
    usage = '{"choices": [], "usage": {"completion_tokens": 5}}'
    async with saying(sse(event, usage, "[DONE]")) as url, calling(url) as caller:
        loop = await looped(caller, 2, max_tokens=16)
        assert loop.void is not None
        assert "5 tokens of the 16 asked for" in loop.void
    reply = sse(event, usage, "[DONE]")
    async with saying(reply) as url, calling(url, ignore_eos=False) as caller:
        loop = await looped(caller, 2, max_tokens=16)
        assert loop.void is None


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (sse('{"choices": [{"delta": {"content": "a"}}]}', "[DONE]"), "no token counts"),
        (sse('{"choices": [{"delta": {"content": "a"}}]}'), "without its end mark"),
        (sse('{"error": {"message": "out of memory"}}', "[DONE]"), "out of memory"),
        (
            sse('{"text": "a", "meta_info": {"completion_tokens": 16, "finish_reason": null}}')
            + b"",
            "without its end mark",
        ),
    ],
)
async def test_what_cannot_be_counted_voids_a_cell(reply, told):
    async with saying(reply) as url, calling(url) as caller:
        loop = await looped(caller, 2, max_tokens=16)
    assert loop.void is not None
    assert told in loop.void


async def test_llama_cpp_counts_in_timings():
    event = '{"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]}'
    last = (
        '{"choices": [], "timings": {"prompt_n": 7, "cache_n": 1, "predicted_n": 16, '
        '"draft_n": 12, "draft_n_accepted": 5}}'
    )
    async with saying(sse(event, last, "[DONE]")) as url, calling(url) as caller:
        prompt = dealt(1, 1)[0]
        sample = read(caller, prompt, 16, 0, await send(caller, prompt, 16))
    assert sample.error is None
    assert (sample.tokens, sample.prompt_tokens, sample.cached_tokens) == (16, 7, 1)
    assert sample.steps == 10


async def test_an_arm_that_takes_no_connection_ends_the_loop():
    async with calling("http://127.0.0.1:9", "plain") as caller:
        with pytest.raises(Unreachable, match=r"arm plain took no connection.*127\.0\.0\.1:9"):
            await looped(caller, 4)


async def test_what_the_listener_raises_ends_the_loop():
    def full(sample):
        raise OSError("no space left on device")

    async with pair() as sims, calling(sims[Lane.PLAIN].url) as caller:
        with pytest.raises(OSError, match="no space"):
            await looped(caller, 2, max_tokens=16, on_sample=full)


async def test_the_clients_own_cost_is_told():
    async with pair() as sims, calling(sims[Lane.PLAIN].url) as caller:
        loop = await looped(caller, 2, max_tokens=16)
    # The simulated engines run in this process too.
    assert loop.client_busy > 0.02


def sample(begin, first, end, tokens=10) -> Sample:
    return Sample(
        index=0,
        prompt_class="x",
        sent_at=begin,
        first_output_at=first,
        ended_at=end,
        tokens=tokens,
    )


def test_tokens_over_an_edge_are_shared_out_by_overlap():
    assert sample(0, 2, 12).tokens_between(0, 12) == 10
    assert sample(0, 2, 12).tokens_between(7, 20) == 5
    assert sample(0, 2, 12).tokens_between(0, 2) == 0
    assert sample(0, None, 10).tokens_between(5, 10) == 5
    assert sample(0, 3, 3).tokens_between(0, 5) == 10


def test_a_window_counts_what_ended_in_it_once():
    samples = (sample(0, 1, 5), sample(0, 1, 6), sample(5, 6, 10), sample(6, 7, 11))
    loop = Loop(samples=samples, counted=(1, 3), begin=5, end=10, client_busy=0.1, void=None)
    assert [s.ended_at for s in loop.counting()] == [6, 10]
    cell = figures(loop, 2)
    assert cell.requests == 2
    assert cell.window_s == 5
    assert cell.tok_s == pytest.approx((2 + 10 + 7.5) / 5)
    assert cell.e2e_s.mean == 5.5


def test_a_window_that_never_opened_is_void():
    loop = Loop(samples=(), counted=(2, 0), begin=None, end=None, client_busy=0.0, void=None)
    assert figures(loop, 2).void == "no request ended while all were in flight"
