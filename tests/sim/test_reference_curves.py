"""The simulated lanes against the measured tables, in virtual time."""

from statistics import fmean

import pytest

from specgate.core.lanes import Lane
from specgate.sim.profiles import load_profile, profile_names
from specgate.sim.virtual import Arrival, closed_loop, open_loop

REFERENCE = load_profile("reference")
POINTS = [
    (lane, concurrency, tok_s)
    for lane in Lane
    for concurrency, tok_s in zip(REFERENCE.concurrency, REFERENCE.measured[lane], strict=True)
]


@pytest.mark.parametrize(("lane", "concurrency", "tok_s"), POINTS)
def test_reference_throughput_is_within_five_percent(
    lane: Lane, concurrency: int, tok_s: float
) -> None:
    requests = max(30, 2 * concurrency)
    result = closed_loop(REFERENCE, {lane: concurrency}, requests=requests)[lane]
    assert result.tok_s == pytest.approx(tok_s, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_the_hardest_spec_point_holds_for_other_seeds(seed: int) -> None:
    result = closed_loop(REFERENCE, {Lane.SPEC: 2}, requests=150, seed=seed)[Lane.SPEC]
    assert result.tok_s == pytest.approx(125.1, rel=0.05)
    assert result.accept_length == pytest.approx(2.2, rel=0.03)


@pytest.mark.parametrize("name", [name for name in profile_names() if name != "reference"])
def test_a_table_profile_gives_back_its_table(name: str) -> None:
    profile = load_profile(name)
    for lane in Lane:
        points = list(zip(profile.concurrency, profile.measured[lane], strict=True))
        for concurrency, tok_s in (points[0], points[len(points) // 2], points[-2]):
            result = closed_loop(profile, {lane: concurrency}, requests=max(24, concurrency))
            assert result[lane].tok_s == pytest.approx(tok_s, rel=0.03)


@pytest.mark.parametrize("lane", list(Lane))
def test_littles_law_holds(lane: Lane) -> None:
    result = closed_loop(REFERENCE, {lane: 10}, requests=60)[lane]
    assert result.mean_e2e_s * result.tok_s == pytest.approx(10 * 512, rel=0.02)


def test_beyond_the_cap_requests_wait_for_their_first_token() -> None:
    below = closed_loop(REFERENCE, {Lane.PLAIN: 30}, requests=60)[Lane.PLAIN]
    beyond = closed_loop(REFERENCE, {Lane.PLAIN: 70}, requests=140)[Lane.PLAIN]
    assert below.mean_ttft_s < 2
    assert 15 < beyond.mean_ttft_s < 30


def test_the_same_seed_gives_the_same_run() -> None:
    first, again, other = (
        closed_loop(REFERENCE, {Lane.SPEC: 5}, requests=20, seed=seed)[Lane.SPEC]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first.records != other.records


@pytest.mark.parametrize(("kappa", "left"), [(0.0, 0.5), (0.4, 0.7), (1.0, 1.0)])
def test_two_busy_lanes_share_the_pool(kappa: float, left: float) -> None:
    alone = {lane: closed_loop(REFERENCE, {lane: 10}, requests=20)[lane].tok_s for lane in Lane}
    both = closed_loop(REFERENCE, dict.fromkeys(Lane, 10), requests=20, kappa=kappa)
    for lane in Lane:
        assert both[lane].tok_s == pytest.approx(left * alone[lane], rel=0.05)


def test_one_stream_on_the_idle_lane_costs_the_other_nearly_half() -> None:
    alone = closed_loop(REFERENCE, {Lane.PLAIN: 10}, requests=20)[Lane.PLAIN].tok_s
    beside = closed_loop(REFERENCE, {Lane.PLAIN: 10, Lane.SPEC: 1}, requests=10)[Lane.PLAIN].tok_s
    assert beside / alone == pytest.approx(0.55, abs=0.06)


def test_prompts_that_speculate_well_raise_throughput_as_measured() -> None:
    mixed = closed_loop(REFERENCE, {Lane.SPEC: 1}, requests=60)[Lane.SPEC]
    favourable = closed_loop(REFERENCE, {Lane.SPEC: 1}, requests=60, accept_p=0.906)[Lane.SPEC]
    assert favourable.tok_s / mixed.tok_s == pytest.approx(96.1 / 77.5, rel=0.04)


def test_an_open_loop_sends_each_arrival_where_it_is_told() -> None:
    arrivals = [Arrival(at=2.0 * i, prompt_tokens=128, output_tokens=64) for i in range(20)]
    loads: list[int] = []

    def choose(now: float, in_flight: object) -> Lane:
        assert isinstance(in_flight, dict)
        loads.append(sum(in_flight.values()))
        return Lane.SPEC if now < 20 else Lane.PLAIN

    records = open_loop(REFERENCE, arrivals, choose)
    assert [record.lane for record in records] == [Lane.SPEC] * 10 + [Lane.PLAIN] * 10
    assert loads == [0] * 20
    assert all(record.output_tokens == 64 for record in records)
    assert fmean(record.ttft_s for record in records) == pytest.approx(0.05, rel=0.01)
    assert all(0 < record.tpot_s < 0.02 for record in records)


def test_an_overloaded_open_loop_queues_and_still_ends() -> None:
    arrivals = [Arrival(at=0.1 * i, prompt_tokens=128, output_tokens=128) for i in range(200)]
    records = open_loop(REFERENCE, arrivals, lambda now, in_flight: Lane.SPEC)
    assert len(records) == 200
    assert max(record.ttft_s for record in records) > 10
