"""SPECGATE_PROFILE: threshold and band from a measurement."""

import pytest

from specgate.bench.analyse import analyse
from specgate.bench.judging import Rules
from specgate.bench.shipped import shipped
from specgate.core.config import NEVER
from specgate.core.profile import dumps
from specgate.settings import SettingsError, load
from tests.bench.synthetic import cells

LANES = {"SPECGATE_SPEC_URL": "http://a:1", "SPECGATE_PLAIN_URL": "http://b:2"}
CURVES = {"spec": {1: 100.0, 8: 300.0, 32: 500.0}, "plain": {1: 70.0, 8: 290.0, 32: 800.0}}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "profile.json"


def loaded(file, **variables):
    return load({**LANES, "SPECGATE_PROFILE": str(file), **variables})


def test_threshold_and_band_come_from_it(file):
    profile = analyse(cells(CURVES, sd=0.08), rules=Rules(draws=200))
    file.write_text(dumps(profile))
    found = loaded(file)
    assert found.settings.threshold == profile.verdict.crossover
    assert profile.verdict.interval is not None
    low = profile.verdict.interval[0]
    assert found.settings.threshold is not None
    assert found.settings.policy.band == pytest.approx(max(0.2, 1 - low / found.settings.threshold))
    assert found.sources["threshold"] == found.sources["band"] == "profile"
    assert found.sources["profile"] == "environment"
    assert found.warnings == ()


def test_a_band_that_is_set_wins(file):
    file.write_text(dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")))
    found = loaded(file, SPECGATE_BAND="0.1")
    assert found.settings.band == 0.1
    assert found.settings.threshold == pytest.approx(38.587, abs=0.001)
    assert found.sources["band"] == "environment"
    curves = found.settings.policy.curves
    assert curves is not None
    assert curves.paying == ((0.0, pytest.approx(38.587, abs=0.001)),)
    assert not found.warnings


def test_a_threshold_that_is_set_wins_and_takes_no_band_with_it(file):
    file.write_text(dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")))
    found = loaded(file, SPECGATE_THRESHOLD="7")
    assert found.settings.threshold == 7.0
    assert found.settings.band == 0.2
    assert found.sources["band"] == "default"
    assert found.warnings == ()


def test_never_is_never(file):
    file.write_text(dumps(shipped("reference")))
    assert loaded(file).settings.threshold == NEVER


def test_what_changed_in_the_file_is_there_on_the_next_load(file):
    file.write_text(dumps(shipped("reference")))
    assert loaded(file).settings.threshold == NEVER
    file.write_text(dumps(shipped("k25-mxfp4-mi355x-eagle3-bf16")))
    again = loaded(file)
    assert again.settings.threshold == float("inf")
    assert "nothing is known above 64" in again.warnings[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("{}", "schema: is missing"),
        ('{"schema": "specgate-profile/1", "verdict": {}}', "verdict.shape: is missing"),
    ],
)
@pytest.mark.parametrize("variables", [{}, {"SPECGATE_THRESHOLD": "7"}])
def test_a_bad_file_stops_the_start_with_a_line_that_names_the_field(
    file, text, problem, variables
):
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        loaded(file, **variables)
    (line,) = caught.value.problems
    assert line.startswith(f"SPECGATE_PROFILE={str(file)!r}: {problem}")


def test_a_file_that_cannot_be_read_stops_the_start(file):
    with pytest.raises(SettingsError, match="No such file"):
        loaded(file)
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="not UTF-8"):
        loaded(file)
