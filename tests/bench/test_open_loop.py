"""Open loops: times of arrival, what is counted, saturation, lateness, and what follows from it."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean

import pytest
from click.testing import CliRunner

from specgate.bench import at_rate
from specgate.bench.at_rate import rate_cell_of
from specgate.bench.concluding import conclude, undecided
from specgate.bench.judging import Rules
from specgate.bench.merging import merged
from specgate.bench.open_loop import OpenRun, open_loop
from specgate.bench.plan import Group, Plan
from specgate.bench.prompts import deal, load
from specgate.bench.rate_sweep import RateOutcome, run_rates
from specgate.bench.rate_table import doubts, rate_table
from specgate.bench.rates import RateBlock, RatePlan, arrivals
from specgate.bench.rating import rated
from specgate.bench.record import RATES, REQUESTS, lines_of, read_rate_cells
from specgate.bench.samples import Sample
from specgate.bench.shipped import shipped
from specgate.bench.slo import slo
from specgate.bench.wording import headline
from specgate.cli.main import main
from specgate.core.cells import RateCell, Spread
from specgate.core.lanes import Lane
from specgate.core.profile import Objective, dumps, loads
from specgate.core.threshold import threshold_and_band
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.virtual import Arrival
from specgate.sim.virtual import open_loop as virtual_loop
from tests.bench.engines import calling, pair
from tests.bench.test_sweep import Listener, bench

BLOCK = RateBlock(group=Group(context=None, max_tokens=16), rate=20.0, repeat=0)


def test_arrivals_are_poisson_the_same_for_all_and_a_longer_run_begins_like_a_shorter_one():
    found = arrivals(BLOCK, 4000, seed=3)
    assert found[:10] == arrivals(BLOCK, 10, seed=3)
    assert found[:10] != arrivals(BLOCK, 10, seed=4)
    assert found[:10] != arrivals(replace(BLOCK, repeat=1), 10, seed=3)
    gaps = [b - a for a, b in pairwise(found)]
    assert fmean(gaps) == pytest.approx(1 / 20, rel=0.05)
    assert fmean(g > 1 / 20 for g in gaps) == pytest.approx(math.exp(-1), abs=0.03)


def test_a_rate_has_enough_requests_and_seconds_and_each_is_seen_before_any_is_repeated():
    plan = RatePlan(plan=Plan(arms=("spec", "plain")), rates=(0.5, 10.0))
    assert (plan.counted(0.5), plan.counted(10.0)) == (100, 600)
    assert plan.warming(10.0) == 150
    assert [(b.repeat, b.rate) for b in plan.blocks()] == [(0, 0.5), (0, 10), (1, 0.5), (1, 10)]
    assert [plan.order(b)[0] for b in plan.blocks()] == ["spec", "spec", "plain", "plain"]
    few = RatePlan(plan=Plan(arms=("spec",), requests=8, warm_up=5), rates=(1.0,))
    assert (few.counted(1.0), few.warming(1.0), few.most(1.0)) == (8, 5, 26)


async def test_requests_are_sent_when_they_are_due_whatever_the_others_do():
    due = arrivals(BLOCK, 40, seed=1)
    dealt = deal(load("builtin"), BLOCK, 40, seed=1, salt="x")
    async with pair(time_scale=5) as sims, calling(sims[Lane.PLAIN].url) as caller:
        run = await open_loop(caller, dealt, due, warm_up=5, counted=15, max_tokens=16)
        seen = sims[Lane.PLAIN].engine.state()
    assert run.spoilt is None
    assert [s.index for s in run.counting() if s.index not in range(5, 20)] == []
    assert len(run.counting()) == 15
    assert len(run.late_s) == 15
    by_index = {s.index: s.sent_at for s in run.samples}
    began = run.begin - due[5]
    # Late at most: other work on this machine never makes it early.
    assert all(by_index[i] >= began + due[i] - 0.002 for i in by_index)
    assert seen["max_in_flight_seen"] not in (0, 1), "no request waits for another"
    assert run.end - run.begin == pytest.approx(due[20] - due[5])


def ran(load_: float, rate: float, *, requests: int, service_s: float, **fields) -> OpenRun:
    """One server, first come first served, at a share of what it can do: a queue of its own."""
    rng = Random(f"{load_}{requests}{fields.pop('seed', 0)}")
    warm_up = requests // 4
    due = arrivals(BLOCK, 2 * (warm_up + requests), seed=rng.getrandbits(16))
    due = [at * BLOCK.rate / rate for at in due]
    samples, free_at = [], 0.0
    for index, at in enumerate(due):
        begins = max(at, free_at)
        free_at = begins + load_ / rate * rng.uniform(0.5, 1.5)
        samples.append(
            Sample(
                index=index,
                prompt_class="x",
                sent_at=at,
                first_output_at=begins + service_s / 10,
                ended_at=free_at + service_s,
                tokens=10,
            )
        )
    over_at = max(s.ended_at for s in samples[warm_up : warm_up + requests])
    over_at = min(over_at, due[-1])
    defaults = {
        "samples": tuple(s for s in samples if s.ended_at <= over_at),
        "left": tuple(s.sent_at for s in samples if s.ended_at > over_at and s.sent_at <= over_at),
        "warm_up": warm_up,
        "counted": requests,
        "begin": due[warm_up],
        "end": due[warm_up + requests],
        "late_s": (0.0005,) * requests,
        "client_busy": 0.1,
        "spoilt": None,
    }
    return OpenRun(**{**defaults, **fields})


def figures(run: OpenRun, rate: float, **fields) -> RateCell:
    place = {
        "arm": "spec",
        "rate": rate,
        "context": None,
        "max_tokens": 16,
        "repeat": 0,
        "order": 0,
        "paired": True,
        "accept_length": None,
    }
    return rate_cell_of(run, **{**place, **fields})


def test_in_flight_is_littles_of_the_window_and_latencies_are_of_all_that_arrived_in_it():
    run = ran(0.3, 2.0, requests=400, service_s=1.0)
    cell = figures(run, 2.0, goodput=slo("e2e=60m").goodput)
    assert cell.void is None
    assert cell.saturated is None
    assert cell.requests == 400
    assert cell.in_flight == pytest.approx(2.0 * cell.e2e_s.mean, rel=0.15)
    assert cell.tok_s == pytest.approx(20.0, rel=0.15)
    assert cell.slo_goodput == pytest.approx(2.0, rel=0.15)
    assert cell.late_s.mean == 0.0005


@pytest.mark.parametrize(
    ("load_", "most", "least"), [(0.3, 1, 0), (0.6, 1, 0), (1.3, 20, 17), (2.0, 20, 20)]
)
def test_a_queue_that_grows_is_told_from_one_that_wanders(load_, most, least):
    cells = [
        figures(ran(load_, 2.0, requests=200, service_s=1.0, seed=seed), 2.0) for seed in range(20)
    ]
    assert least <= sum(cell.saturated is not None for cell in cells) <= most
    assert all(cell.void is None for cell in cells)


def test_requests_that_never_end_are_a_queue_that_grows():
    run = ran(0.3, 2.0, requests=100, service_s=1.0)
    cell = figures(replace(run, samples=run.samples[:90]), 2.0)
    assert cell.saturated is not None
    assert "of 100 requests had not ended" in cell.saturated


@pytest.mark.parametrize("status", [429, 503])
def test_a_full_queue_is_saturation_and_any_other_refusal_is_void(status):
    run = ran(0.3, 2.0, requests=100, service_s=1.0)
    full = f"arm spec answered with status {status}: queue is full"
    cell = figures(replace(run, spoilt=full), 2.0)
    assert (cell.saturated, cell.void) == (full, None)
    cell = figures(replace(run, spoilt="arm spec broke off"), 2.0)
    assert (cell.saturated, cell.void) == (None, "arm spec broke off")


def test_a_client_that_was_late_voids_a_cell():
    run = ran(0.3, 2.0, requests=100, service_s=1.0)
    late = (0.001 + 0.1 * fmean(s.ttft_s or 0 for s in run.counting()),) * 100
    cell = figures(replace(run, late_s=late), 2.0)
    assert cell.void is not None
    assert "the bench sent" in cell.void
    assert "ms late on average" in cell.void


def test_a_window_shorter_than_its_requests_says_nothing_of_a_steady_state():
    steady = figures(ran(0.1, 2.0, requests=60, service_s=5.0), 2.0)
    assert (steady.void, steady.saturated) == (None, None)
    long = ran(0.1, 2.0, requests=60, service_s=15.0)
    cell = figures(long, 2.0, alone_s=15.0)
    assert cell.saturated is None
    assert "give --requests-per-level 7" in str(cell.void)
    # One that had grown all along, as nothing had ended yet, is no queue either.
    nothing = replace(long, samples=(), left=tuple(s.sent_at for s in long.samples))
    assert "give --requests-per-level" in str(figures(nothing, 2.0, alone_s=40.0).void)


def rate_cell(arm: str, rate: float, e2e: float, **changes) -> RateCell:
    spread = Spread(mean=e2e, p50=e2e, p90=2 * e2e, p99=3 * e2e)
    fields = {
        "arm": arm,
        "rate": rate,
        "context": None,
        "max_tokens": 16,
        "repeat": 0,
        "order": 0,
        "paired": True,
        "requests": 100,
        "window_s": 50.0,
        "in_flight": rate * e2e,
        "in_flight_thirds": (rate * e2e,) * 3,
        "late_s": Spread(mean=0.0, p50=0.0, p90=0.0, p99=0.0),
        "tok_s": rate * 16,
        "ttft_s": spread,
        "tpot_s": None,
        "e2e_s": spread,
        "slo_goodput": None,
        "accept_length": None,
        "saturated": None,
        "void": None,
    }
    return RateCell(**{**fields, **changes})


def cells_of_two_rates() -> list[RateCell]:
    return [
        *(rate_cell("spec", 1.0, 2.0 + 0.01 * i, repeat=i) for i in range(2)),
        *(rate_cell("plain", 1.0, 3.0 + 0.02 * i, repeat=i) for i in range(2)),
        rate_cell("spec", 4.0, 50.0, saturated="in flight grew"),
        *(rate_cell("plain", 4.0, 4.0, repeat=i) for i in range(2)),
    ]


def test_rates_are_compared_where_both_arms_carry_them():
    (loop,) = rated(cells_of_two_rates(), Rules())
    low, high = loop.rates
    assert loop.compared is Objective.E2E
    assert low.arms["spec"].ratio == pytest.approx(1.5, rel=0.01)
    assert low.arms["spec"].ratio_interval is not None
    assert low.arms["spec"].ratio_interval[0] > 1.2
    assert low.arms["plain"].ratio is None
    saturated = high.arms["spec"]
    assert saturated.saturated == "in flight grew"
    assert (saturated.e2e_s, saturated.in_flight, saturated.ratio) == (None, None, None)
    assert high.arms["plain"].e2e_s is not None
    profile = replace(shipped("reference"), open_loop=(loop,))
    assert loads(dumps(profile)) == profile
    assert profile.verdict == shipped("reference").verdict
    assert list(doubts(profile)) == ["spec cannot carry 4/s: in flight grew"]
    assert rate_table(loop).row_count == 4
    assert merged([profile]).open_loop == (loop,)


def test_void_cells_are_told_and_lengths_stand_side_by_side():
    found = rated(
        [
            rate_cell("plain", 1.0, 2.0),
            rate_cell("plain", 2.0, 2.0, void="late"),
            rate_cell("plain", 1.0, 2.0, context=900),
        ],
        Rules(),
    )
    assert [loop.context for loop in found] == [None, 900]
    assert found[0].alarms == ("void: plain at 2 requests a second, repeat 0: late",)
    assert [rate.rate for rate in found[0].rates] == [1.0]


def test_a_saturated_repeat_leaves_no_figures_of_the_others():
    (loop,) = rated(
        [rate_cell("plain", 1.0, 2.0), rate_cell("plain", 1.0, 9.0, repeat=1, saturated="grew")],
        Rules(),
    )
    assert loop.rates[0].arms["plain"].saturated == "grew"
    assert loop.rates[0].arms["plain"].e2e_s is None


async def swept(asked, rates, **plan) -> tuple[RateOutcome, Listener]:
    listener = Listener()
    chosen = RatePlan(plan=replace(asked.plan, **plan), rates=rates)
    return await run_rates(replace(asked, rates=chosen), chosen, listener), listener


async def test_a_sweep_of_rates_is_recorded_concluded_and_goes_on(tmp_path, monkeypatch):
    # Other work on this machine may make the client late, which is not what is tested here.
    monkeypatch.setattr(at_rate, "LATE", 1e9)
    async with pair(time_scale=5) as sims:
        sims[Lane.SPEC].engine.set_faults(Faults(slow_factor=10))
        asked = bench(sims, tmp_path, slo=slo("e2e=1s"), max_tokens=8)
        outcome, listener = await swept(asked, (20.0, 40.0), requests=40, repeats=2)
        assert outcome.voids == ()
        measured = [(c.rate, c.repeat, c.arm) for c in listener.cells]
        # The slowed lane cannot carry the lower rate, so it is not asked for a higher one.
        assert measured == [
            *((20.0, 0, "spec"), (20.0, 0, "plain"), (40.0, 0, "plain")),
            *((20.0, 1, "plain"), (40.0, 1, "plain")),
        ]
        again, listener = await swept(
            replace(asked, resume=True), (20.0, 40.0), requests=40, repeats=2
        )
        assert listener.cells == []
    assert again.cells == outcome.cells
    assert read_rate_cells(tmp_path) == list(outcome.cells)
    assert {line["rate"] for line in lines_of(tmp_path / REQUESTS)} == {20.0, 40.0}
    assert all("client_busy" in line["seen"] for line in lines_of(tmp_path / RATES))
    profile = conclude(tmp_path, 0.03)
    assert profile is not None
    assert profile.levels == ()
    assert "tells no crossover" in str(undecided(profile))
    assert "which tell no crossover" in headline(profile)
    assert threshold_and_band(profile).threshold is None
    low, high = profile.open_loop[0].rates
    assert low.arms["spec"].saturated is not None
    assert low.arms["plain"].in_flight is not None
    assert high.arms["plain"].slo_goodput is not None
    shown = CliRunner().invoke(main, ["profile", "show", str(tmp_path / "profile.json")])
    assert "saturated" in shown.output
    assert CliRunner().invoke(main, ["verdict", str(tmp_path / "profile.json")]).exit_code == 3


async def test_a_budget_that_is_too_small_leaves_rates_out(tmp_path):
    async with pair(time_scale=5) as sims:
        asked = bench(sims, tmp_path, arms=[Lane.PLAIN], max_tokens=8, budget_s=5)
        outcome, _ = await swept(asked, (0.1,), requests=10, repeats=1)
    assert outcome.spent
    assert outcome.cells == ()


async def test_figures_are_those_of_the_engine_in_virtual_time(tmp_path, monkeypatch):
    """The same arrivals, with and without sockets; other work here only ever adds to times."""
    monkeypatch.setattr(at_rate, "LATE", 1e9)
    rate, scale, tokens = 12.0, 8.0, 32
    async with pair(time_scale=scale) as sims:
        asked = bench(sims, tmp_path, arms=[Lane.PLAIN], max_tokens=tokens)
        (cell,) = (await swept(asked, (rate,), requests=60, repeats=1))[0].cells
    block = RateBlock(group=Group(context=None, max_tokens=tokens), rate=rate, repeat=0)
    due = arrivals(block, 150, seed=0)
    records = virtual_loop(
        load_profile("reference"),
        [Arrival(at=at * scale, prompt_tokens=128, output_tokens=tokens) for at in due],
        lambda now, in_flight: Lane.PLAIN,
    )
    counted = sorted(records, key=lambda record: record.sent_at)[15:75]
    expected = fmean(record.e2e_s for record in counted) / scale
    assert expected * 0.9 < cell.e2e_s.mean < expected * 1.5 + 0.05
    assert cell.in_flight == pytest.approx(rate * cell.e2e_s.mean, rel=0.25)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--open-loop", "0"), "no list of rates"),
        (("--open-loop", "fast"), "no list of rates"),
        (("--open-loop", "1,"), "no list of rates"),
        (("--open-loop", "1", "--concurrency", "4"), "two runs: give one of them"),
    ],
)
def test_wrong_rates_are_wrong_usage(words, told):
    found = CliRunner().invoke(main, ["bench", "--plain-url", "http://127.0.0.1:9", *words])
    assert found.exit_code == 2
    assert told in found.output


async def test_a_dry_run_tells_the_rates(tmp_path):
    from tests.bench.test_bench_command import ended, started, urls

    async with pair() as sims:
        words = (*urls(sims), "--open-loop", "2,0.5", "--out", str(tmp_path / "o"), "--dry-run")
        code, printed, said = await ended(await started(*words))
    assert code == 0, said
    assert "0.5/s  256 output tokens, repeat 1: spec, plain; 25 arrivals to warm up, 100" in printed
    assert "in all about" in printed
    assert json.loads(json.dumps(printed))
