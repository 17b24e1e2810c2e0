"""Patterns and scaling offer what was asked for."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.replay.traffic import (
    PATTERNS,
    TrafficError,
    pattern,
    rotated,
    scaled,
)
from tests.replay.lanes import at_random, requests


@given(st.floats(0.1, 1e5), st.integers(0, 99))
def test_scaled_it_offers_so_many_tokens_a_second(tok_s, seed):
    arrivals = at_random(50, 2.0, 80, seed=seed)
    found = scaled(arrivals, tok_s)
    assert sum(each.output_tokens for each in found) / found[-1].at == pytest.approx(tok_s)
    assert found[0].at == 0.0
    gaps = [b.at - a.at for a, b in pairwise(arrivals)]
    stretched = [b.at - a.at for a, b in pairwise(found)]
    factor = sum(stretched) / sum(gaps)
    assert stretched == pytest.approx([gap * factor for gap in gaps], abs=1e-6 * factor)


def test_one_moment_cannot_be_scaled():
    with pytest.raises(TrafficError, match="all arrivals are at one time"):
        scaled(requests((0.0, 5), (0.0, 5)), 100.0)


@given(st.integers(0, 50))
def test_rotated_it_is_the_same_hour_begun_elsewhere(seed):
    arrivals = scaled(at_random(50, 2.0, 80, seed=1), 100.0)
    found = rotated(arrivals, seed)
    assert found[0].at == 0.0
    assert found[-1].at == pytest.approx(arrivals[-1].at, rel=0.2)
    assert sorted(each[1:] for each in found) == sorted(each[1:] for each in arrivals)
    assert all(a.at <= b.at for a, b in pairwise(found))
    assert seed or found == arrivals


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_offers_its_rate_at_its_highest(name):
    tok_s = 5_000.0
    found = pattern(name, tok_s, seed=5, most=10**9)
    assert found == pattern(name, tok_s, seed=5, most=10**9)
    assert found != pattern(name, tok_s, seed=6, most=10**9)
    shape, bins = PATTERNS[name][1], 60
    tokens = [0] * bins
    for each in found:
        tokens[int(each.at / 3600 * bins)] += each.output_tokens
    for i in range(bins):
        share = sum(shape((i + (k + 0.5) / 50) / bins) for k in range(50)) / 50
        assert tokens[i] / (3600 / bins) / tok_s == pytest.approx(share, abs=0.2)


def test_a_pattern_is_squeezed_into_so_many_requests():
    found = pattern("square", 10_000.0, seed=1, most=2000)
    assert len(found) == pytest.approx(2000, rel=0.1)
    low = sum(1 for each in found if each.at < found[-1].at / 6)
    high = sum(1 for each in found if found[-1].at / 6 <= each.at < found[-1].at / 3)
    assert high == pytest.approx(4 * low, rel=0.4)
