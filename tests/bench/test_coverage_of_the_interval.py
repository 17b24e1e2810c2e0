"""The interval covers what it promises: a shortened form of the script behind trust.md."""

import pytest

from tests.bench.coverage_of_the_interval import TRUTHS, coverage, main


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("name", TRUTHS)
def test_the_interval_covers_the_truth_about_nine_times_in_ten(name, paired):
    truth, crossing = TRUTHS[name]
    found = coverage(truth, crossing, sd=0.03, repeats=3, paired=paired, trials=120, draws=250)
    # 120 trials: two standard errors are 5.5 %.
    assert 0.84 <= found.covered <= 0.97
    assert found.wrong <= 0.02


def test_the_script_prints_the_table(capsys):
    main(["--trials", "2", "--draws", "20"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("| truth | noise |")
    assert len(printed) == 2 + 2 * 2 * 2 * 3
