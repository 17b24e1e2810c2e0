"""SPECGATE_PROFILE: threshold and band from a measurement."""

import re

import pytest

from specgate.bench.analyse import analyse
from specgate.bench.judging import Rules
from specgate.bench.shipped import shipped
from specgate.core.config import NEVER
from specgate.core.profile import dumps
from specgate.settings import SettingsError, load
from specgate.settings.loading import Loaded
from specgate.settings.measured import PROFILE_MOST
from specgate.settings.model import Settings
from tests.bench.synthetic import cells
from tests.support.profiles import with_accept_length

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


OLD = {
    "SPECGATE_BAND": "0.1",
    "SPECGATE_SMOOTHING_S": "30",
    "SPECGATE_BURST": "3",
    "SPECGATE_DWELL_S": "5",
}


def test_what_is_set_and_does_nothing_while_a_profile_is_weighed_is_known(file, tmp_path):
    file.write_text(dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")))
    assert loaded(file).unused == ()
    assert names_of(loaded(file, **OLD)) == [tuple(OLD)]
    below = tmp_path / "settings.toml"
    below.write_text("burst = 3\n")
    found = loaded(file, SPECGATE_CONFIG=str(below), SPECGATE_BAND="0.1")
    assert names_of(found) == [("SPECGATE_BAND", "SPECGATE_BURST")]
    assert loaded(file, **OLD, SPECGATE_THRESHOLD="7").unused == (), "then nothing is weighed"
    assert load({**LANES, **OLD}).unused == ()
    file.write_text(dumps(shipped("reference")))
    assert loaded(file, **OLD).unused == (), "where speculation never pays nothing is weighed"


OF_A_SWITCH = {
    "SPECGATE_SWITCHES_PER_H": "4",
    "SPECGATE_SWITCHBACK": "0.02",
    "SPECGATE_HOLD": "2",
}
FORCED = {"SPECGATE_FORCED_SHARE": "0.5"}
SPLIT = {"SPECGATE_POOL": "split"}
TURNS = {"SPECGATE_POOL": "alternate", "SPECGATE_QUEUE_SIZE": "10"}
STEP = {"SPECGATE_ALTERNATE_STEP_S": "60", "SPECGATE_SPEC_PARK": "true"}


def test_what_does_nothing_on_split_lanes_is_known_with_a_profile_or_without(file):
    every = {**OLD, **OF_A_SWITCH, **FORCED}
    file.write_text(dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")))
    for found in (
        loaded(file, **every, **SPLIT),
        load({**LANES, **every, **SPLIT, "SPECGATE_THRESHOLD": "8"}),
    ):
        [(names, why)] = found.unused
        assert names == tuple(every)
        assert "SPECGATE_POOL=split" in why
    assert load({**LANES, **SPLIT, "SPECGATE_THRESHOLD": "8"}).unused == ()
    shared = load({**LANES, **OLD, **FORCED, "SPECGATE_THRESHOLD": "8"})
    assert shared.unused == ()


def test_what_needs_curves_or_turns_and_has_none_is_known(file):
    threshold = load({**LANES, **OF_A_SWITCH, **STEP, "SPECGATE_THRESHOLD": "8"})
    assert names_of(threshold) == [tuple(OF_A_SWITCH), tuple(STEP)]
    file.write_text(dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")))
    assert loaded(file, **OF_A_SWITCH).unused == ()
    in_turn = loaded(file, **OF_A_SWITCH, **STEP, **TURNS)
    assert names_of(in_turn) == [("SPECGATE_HOLD",)]


def names_of(found: Loaded) -> list[tuple[str, ...]]:
    return [each.names for each in found.unused]


def test_their_descriptions_say_so_and_no_others_do():
    said = {
        name
        for name, field in Settings.model_fields.items()
        if re.search(r"nothing while a profile is weighed", field.description or "")
    }
    assert said == {name.removeprefix("SPECGATE_").lower() for name in OLD}
    assert "with it none is weighed" in (Settings.model_fields["threshold"].description or "")


WITH_LENGTH = {**LANES, "SPECGATE_ADAPTIVE": "true"}


def test_what_always_paid_is_weighed_where_the_accept_length_is_followed(file):
    file.write_text(dumps(with_accept_length("k25-mxfp4-mi355x-eagle3-bf16", 2.5)))
    assert loaded(file).settings.policy.curves is None
    found = loaded(file, SPECGATE_ADAPTIVE="true")
    curves = found.settings.policy.curves
    assert curves is not None
    assert curves.paying == ((0.0, float("inf")),)
    assert curves.scaled(0.4).paying == ()
    assert found.settings.policy.adaptive
    assert [w for w in found.warnings if "changes nothing" in w] == []
    assert "nothing is known above 64" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "variables", "why"),
    [
        (None, {"SPECGATE_THRESHOLD": "8"}, "it needs the curves of a profile"),
        ("reference", {}, "speculation never pays here"),
        ("k26-int4-8xrtxpro6000-vllm-ctx10k", {}, "does not say which accept length"),
        (
            "k26-int4-8xrtxpro6000-vllm-ctx10k",
            {"SPECGATE_THRESHOLD": "8"},
            "a threshold that is set stands by itself",
        ),
        (2.5, {"SPECGATE_SCRAPE_INTERVAL_S": "off"}, "SPECGATE_SCRAPE_INTERVAL_S is off"),
    ],
)
def test_where_the_accept_length_moves_nothing_a_warning_says_why(file, text, variables, why):
    environ = {**WITH_LENGTH, **variables}
    if text is not None:
        named = isinstance(text, str)
        name = text if named else "k26-int4-8xrtxpro6000-vllm-ctx10k"
        file.write_text(dumps(with_accept_length(name, None if named else text)))
        environ["SPECGATE_PROFILE"] = str(file)
    (warning,) = (w for w in load(environ).warnings if "SPECGATE_ADAPTIVE" in w)
    assert warning.startswith("SPECGATE_ADAPTIVE changes nothing: ")
    assert why in warning


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


def test_a_file_that_is_too_large_is_not_decoded(file):
    """It would hold up a gate that serves, on a reload."""
    file.write_text(dumps(shipped("reference")) + " " * PROFILE_MOST)
    with pytest.raises(SettingsError, match=f"larger than {PROFILE_MOST} bytes"):
        loaded(file)


def test_a_file_that_cannot_be_read_stops_the_start(file):
    with pytest.raises(SettingsError, match="No such file"):
        loaded(file)
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="not UTF-8"):
        loaded(file)
