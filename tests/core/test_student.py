"""Quantiles of t, against printed tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgate.core.student import t_quantile


@pytest.mark.parametrize(
    ("p", "df", "value"),
    [
        (0.95, 1, 6.31375),
        (0.975, 5, 2.57058),
        (0.95, 16, 1.74588),
        (0.995, 30, 2.75000),
        (0.95, 1000, 1.64638),
        (0.5, 7, 0.0),
    ],
)
def test_quantiles_are_those_of_the_tables(p, df, value):
    assert t_quantile(p, df) == pytest.approx(value, abs=2e-5)


@settings(deadline=None)
@given(p=st.floats(0.01, 0.99), df=st.floats(0.5, 1e4))
def test_they_are_symmetric_and_rise_with_p(p, df):
    assert t_quantile(1 - p, df) == pytest.approx(-t_quantile(p, df), rel=1e-6, abs=1e-6)
    assert t_quantile(min(0.995, p + 0.004), df) > t_quantile(p, df)


@pytest.mark.parametrize(("p", "df"), [(0.0, 3), (1.0, 3), (0.9, 0), (0.9, -1)])
def test_what_has_no_quantile_is_refused(p, df):
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(p, df)
