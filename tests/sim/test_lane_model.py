"""Rules of the batching model, as properties and as single cases."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgate.core.lanes import Lane
from specgate.sim.accept import accept_length, p_for_accept_length, scale_p, shift_odds
from specgate.sim.model import CannotFitError, Job, LaneModel, Place, Sequence
from specgate.sim.profiles import LaneShape, load_profile

REFERENCE = load_profile("reference")


def shape_of(lane: Lane, *, cap: int = 4, kv_tokens: int = 1_000) -> LaneShape:
    shape = REFERENCE.lanes[lane]
    return replace(shape, steps_s=shape.steps_s[:cap], kv_tokens=kv_tokens)


def job_of(output_tokens: int = 10, *, prompt_tokens: int = 20, reserve: int | None = None) -> Job:
    return Job(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        reserve_tokens=output_tokens if reserve is None else reserve,
    )


def test_an_idle_lane_has_nothing_to_begin() -> None:
    assert LaneModel(shape_of(Lane.PLAIN)).begin() is None


def test_prefill_comes_first_and_gives_one_token() -> None:
    model = LaneModel(shape_of(Lane.PLAIN))
    first, second = (model.submit(job_of(), 0.0) for _ in range(2))
    assert model.begin() == pytest.approx(0.1)
    late = model.submit(job_of(), 0.05)
    done = model.finish()
    assert done.prefill
    assert (done.batch, done.running_before, done.tokens) == (2, 0, 2)
    assert [s.emitted for s in (first, second, late)] == [1, 1, 0]
    assert model.begin() == pytest.approx(0.05)
    done = model.finish()
    assert done.prefill
    assert done.running_before == 2
    assert late.emitted == 1
    assert model.begin() == pytest.approx(model.shape.step_s(3))
    assert not model.finish().prefill


def test_a_long_prompt_takes_longer_than_the_floor() -> None:
    shape = shape_of(Lane.PLAIN)
    assert shape.prompt_s(1) == shape.prompt_s(128) == 0.05
    assert shape.prompt_s(7_000) == pytest.approx(1.0)


def test_the_head_of_the_queue_blocks_those_behind_it() -> None:
    model = LaneModel(shape_of(Lane.PLAIN, kv_tokens=100))
    model.submit(job_of(40), 0.0)
    model.submit(job_of(50), 0.0)
    small = model.submit(job_of(5), 0.0)
    model.begin()
    model.finish()
    assert (model.running, model.queued) == (1, 2)
    assert small.place is Place.QUEUED


def test_a_sequence_that_never_fits_is_refused() -> None:
    with pytest.raises(CannotFitError, match=r"1020 tokens.*has 1000"):
        LaneModel(shape_of(Lane.PLAIN)).submit(job_of(10, reserve=1_000), 0.0)


def test_an_aborted_sequence_leaves_at_once_and_frees_its_tokens() -> None:
    model = LaneModel(shape_of(Lane.PLAIN))
    running, other = (model.submit(job_of(), 0.0) for _ in range(2))
    model.begin()
    assert model.abort(running)
    assert not model.abort(running)
    assert (model.running, model.kv_reserved) == (1, other.kv_reserved)
    done = model.finish()
    assert [progress.sequence for progress in done.progress] == [other]
    assert running.emitted == 0
    assert running.place is Place.ABORTED


def test_a_queued_sequence_can_be_aborted() -> None:
    model = LaneModel(shape_of(Lane.PLAIN, cap=1))
    sequences = [model.submit(job_of(), 0.0) for _ in range(2)]
    model.begin()
    assert model.abort(sequences[1])
    assert model.queued == 0


def test_a_slower_engine_takes_longer() -> None:
    model = LaneModel(shape_of(Lane.PLAIN))
    model.slow_factor = 3.0
    model.submit(job_of(), 0.0)
    assert model.begin() == pytest.approx(0.15)


def test_acceptance_can_drop_while_sequences_run() -> None:
    model = LaneModel(shape_of(Lane.SPEC, kv_tokens=100_000))
    sequence = model.submit(job_of(3_000), 0.0)
    for _ in range(300):
        model.begin()
        model.finish()
    before = sequence.accept_length
    model.set_accept_factor(0.0001)
    verified, accepted = model.verified, model.accepted
    for _ in range(100):
        model.begin()
        model.finish()
    assert before > 1.9
    assert model.verified == verified + 100
    assert model.accepted == accepted


@given(
    lane=st.sampled_from(Lane),
    seed=st.integers(0, 1_000),
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("submit"), st.integers(1, 40), st.integers(1, 60)),
            st.tuples(st.just("work"), st.integers(1, 6), st.just(0)),
            st.tuples(st.just("abort"), st.integers(0, 30), st.just(0)),
        ),
        max_size=60,
    ),
)
@settings(deadline=None, max_examples=60)
def test_whatever_happens_the_account_is_right(
    lane: Lane, seed: int, actions: list[tuple[str, int, int]]
) -> None:
    shape = shape_of(lane, cap=3, kv_tokens=150)
    model = LaneModel(shape, seed=seed)
    sequences: list[Sequence] = []
    busy = False
    emitted = 0

    def finish() -> None:
        nonlocal emitted
        done = model.finish()
        most = shape.draft_steps + 1
        assert all(0 < progress.tokens <= most for progress in done.progress)
        assert done.tokens == sum(progress.tokens for progress in done.progress)
        emitted += done.tokens

    for action, amount, output in actions:
        if action == "submit":
            sequences.append(model.submit(job_of(output, prompt_tokens=amount), 0.0))
        elif action == "abort" and sequences:
            model.abort(sequences[amount % len(sequences)])
        elif action == "work":
            for _ in range(amount):
                if busy:
                    finish()
                busy = model.begin() is not None
        assert model.running <= shape.cap
        assert model.kv_reserved <= shape.kv_tokens
        assert model.kv_used <= model.kv_reserved
    for _ in range(5_000):
        if busy:
            finish()
        busy = model.begin() is not None
        if not busy:
            break
    assert (model.running, model.queued, model.kv_reserved) == (0, 0, 0)
    assert {s.place for s in sequences} <= {Place.FINISHED, Place.ABORTED}
    assert emitted == model.tokens == sum(s.emitted for s in sequences)
    for sequence in sequences:
        if sequence.place is Place.FINISHED:
            assert sequence.emitted == sequence.job.output_tokens
        assert sum(sequence.accepted_histogram) == sequence.verified_steps


@given(p=st.floats(0.01, 0.99), steps=st.integers(1, 8))
def test_p_and_accept_length_are_inverse(p: float, steps: int) -> None:
    length = accept_length(p, steps)
    assert 1 <= length <= steps + 1
    assert p_for_accept_length(length, steps) == pytest.approx(p, abs=1e-6)


@given(p=st.floats(0.05, 0.95), factor=st.floats(0.05, 3))
def test_a_scaled_accept_length_stays_possible(p: float, factor: float) -> None:
    scaled = accept_length(scale_p(p, 2, factor), 2)
    assert scaled == pytest.approx(min(3, max(1, accept_length(p, 2) * factor)), abs=1e-6)


@given(p=st.floats(0.05, 0.95), base=st.floats(0.05, 0.95), wanted=st.floats(0.05, 0.95))
def test_shifted_odds_keep_their_order(p: float, base: float, wanted: float) -> None:
    assert shift_odds(base, base, wanted) == pytest.approx(wanted)
    assert 0 < shift_odds(p, base, wanted) < 1
    assert (shift_odds(p, base, wanted) >= wanted - 1e-9) == (p >= base - 1e-9)
