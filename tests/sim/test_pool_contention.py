import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.lanes import Lane
from specgate.sim.model import Job, LaneModel
from specgate.sim.pool import Pool
from specgate.sim.profiles import load_profile

REFERENCE = load_profile("reference")
JOB = Job(prompt_tokens=128, output_tokens=2, reserve_tokens=2)


def pool_of(kappa: float = 0.0) -> Pool:
    return Pool((LaneModel(shape) for shape in REFERENCE.lanes.values()), kappa=kappa)


def test_an_idle_pool_has_no_next_event() -> None:
    pool = pool_of()
    assert pool.next_at is None
    assert pool.advance(5.0) == []
    assert pool.now == 5.0


def test_alone_an_operation_takes_its_own_time() -> None:
    pool = pool_of()
    pool.submit(Lane.PLAIN, JOB, 1.0)
    assert pool.next_at == pytest.approx(1.05)
    assert pool.advance(1.049) == []
    (ended,) = pool.advance(1.051)
    assert ended.lane is Lane.PLAIN
    assert ended.at == pytest.approx(1.05)


@pytest.mark.parametrize(("kappa", "rate"), [(0.0, 0.5), (0.4, 0.7), (1.0, 1.0)])
def test_beside_another_lane_it_progresses_at_the_shared_rate(kappa: float, rate: float) -> None:
    pool = pool_of(kappa)
    pool.submit(Lane.PLAIN, JOB, 0.0)
    pool.submit(Lane.SPEC, JOB, 0.02)
    assert pool.next_at == pytest.approx(0.02 + 0.03 / rate)


def test_when_the_other_lane_falls_idle_the_rest_goes_at_full_rate() -> None:
    pool = pool_of()
    pool.submit(Lane.PLAIN, JOB, 0.0)
    pool.submit(Lane.SPEC, Job(prompt_tokens=7_000, output_tokens=1, reserve_tokens=1), 0.0)
    step_s = REFERENCE.lanes[Lane.PLAIN].step_s(1)
    ended = pool.advance(10.0)
    assert [x.lane for x in ended] == [Lane.PLAIN, Lane.PLAIN, Lane.SPEC]
    # The plain lane used 0.05 + one step of the pool, the spec lane one second.
    assert ended[-1].at == pytest.approx(1.05 + step_s)


def test_it_catches_up_in_slices() -> None:
    pool = pool_of()
    pool.submit(Lane.PLAIN, Job(prompt_tokens=1, output_tokens=50, reserve_tokens=50), 0.0)
    assert len(pool.advance(100.0, most=10)) == 10
    late = pool.submit(Lane.PLAIN, JOB, 100.0)
    assert late.submitted_at == pytest.approx(pool.now) != 100.0
    assert len(pool.advance(100.0)) > 40
    assert pool.now == 100.0


@pytest.mark.parametrize("kappa", [-0.1, 1.1, float("nan")])
def test_kappa_is_a_share(kappa: float) -> None:
    with pytest.raises(ValueError, match="kappa"):
        pool_of(kappa)


@given(
    st.lists(
        st.tuples(st.sampled_from(Lane), st.floats(0, 0.3), st.integers(1, 30)),
        min_size=1,
        max_size=20,
    ),
    st.floats(0, 1),
)
def test_time_never_goes_back_and_no_work_is_lost(
    arrivals: list[tuple[Lane, float, int]], kappa: float
) -> None:
    pool = pool_of(kappa)
    now, before, tokens = 0.0, 0.0, 0
    for lane, gap_s, output in arrivals:
        now += gap_s
        for ended in pool.advance(now):
            assert before <= ended.at <= now
            before = ended.at
            tokens += ended.done.tokens
        job = Job(prompt_tokens=128, output_tokens=output, reserve_tokens=output)
        pool.submit(lane, job, now)
    for ended in pool.advance(now + 10_000):
        assert ended.at >= before
        before = ended.at
        tokens += ended.done.tokens
    assert tokens == sum(output for _, _, output in arrivals)
    assert pool.next_at is None
