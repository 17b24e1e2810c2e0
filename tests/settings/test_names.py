"""SPECGATE_* variables that are no settings: Kubernetes' own, and slips of the pen."""

import pytest

from specgate.settings import SettingsError, load

LANES = {"SPECGATE_SPEC_URL": "http://a:1", "SPECGATE_PLAIN_URL": "http://b:2"}

SERVICE = {
    "SPECGATE_PORT": "tcp://10.0.0.1:8400",
    "SPECGATE_SERVICE_HOST": "10.0.0.1",
    "SPECGATE_SERVICE_PORT": "8400",
    "SPECGATE_SERVICE_PORT_HTTP": "8400",
    "SPECGATE_PORT_8400_TCP": "tcp://10.0.0.1:8400",
    "SPECGATE_PORT_8400_TCP_PROTO": "tcp",
    "SPECGATE_PORT_8400_TCP_PORT": "8400",
    "SPECGATE_PORT_8400_TCP_ADDR": "10.0.0.1",
}
"""What Kubernetes sets for a service named specgate."""

LANE_SERVICE = {
    name.replace("SPECGATE_", "SPECGATE_SPEC_", 1): value for name, value in SERVICE.items()
}
"""... and for one named specgate-spec."""


@pytest.mark.parametrize("service", [SERVICE, LANE_SERVICE, SERVICE | LANE_SERVICE])
def test_kubernetes_variables_do_no_harm_and_are_named_in_one_warning(service):
    loaded = load({**LANES, **service})
    assert loaded.settings == load(LANES).settings
    assert loaded.sources["port"] == "default"
    (warning,) = loaded.warnings
    assert "enableServiceLinks: false" in warning
    for name in service:
        assert name in warning


@pytest.mark.parametrize("link", ["udp://10.0.0.1:53", "sctp://10.0.0.1:9", "tcp://[fd00::1]:80"])
def test_a_port_that_is_a_service_link_is_told_by_its_value(link):
    loaded = load({**LANES, "SPECGATE_PORT": link})
    assert loaded.settings.port == 8400
    assert "SPECGATE_PORT" in loaded.warnings[0]


def test_a_port_of_ones_own_holds_beside_service_links():
    loaded = load({**LANES, **SERVICE, "SPECGATE_PORT": "9000"})
    assert loaded.settings.port == 9000
    assert "SPECGATE_PORT," not in loaded.warnings[0]


def test_a_service_link_does_not_hide_the_port_of_the_file(tmp_path):
    file = tmp_path / "specgate.toml"
    file.write_text("port = 9000")
    loaded = load({**LANES, **SERVICE, "SPECGATE_CONFIG": str(file)})
    assert loaded.settings.port == 9000
    assert loaded.sources["port"] == "file"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SPECGATE_TRESHOLD", "SPECGATE_THRESHOLD"),
        ("SPECGATE_SPECURL", "SPECGATE_SPEC_URL"),
        ("SPECGATE_DWELL", "SPECGATE_DWELL_S"),
        ("SPECGATE_TOKEN", "SPECGATE_ADMIN_TOKEN"),
        ("SPECGATE_CONFIG_FILE", "SPECGATE_CONFIG"),
        ("specgate_threshold", "SPECGATE_THRESHOLD"),
        ("Specgate_Port", "SPECGATE_PORT"),
    ],
)
def test_an_unknown_name_is_ignored_with_a_guess(name, meant):
    loaded = load({**LANES, name: "s3cret"})
    assert loaded.warnings == (f"{name} is not a setting; did you mean {meant}?",)
    assert loaded.settings == load(LANES).settings


def test_an_unknown_name_like_no_other_is_ignored_without_a_guess():
    assert load({**LANES, "SPECGATE_XYZZY": "1"}).warnings == ("SPECGATE_XYZZY is not a setting",)


def test_a_wrong_name_is_told_of_when_its_setting_is_missing():
    with pytest.raises(SettingsError) as caught:
        load({"SPECGATE_SPEC_ULR": "http://a", "SPECGATE_PLAIN_URL": "http://b"})
    assert caught.value.problems[0].startswith("SPECGATE_SPEC_URL is not set: ")
    assert caught.value.warnings == (
        "SPECGATE_SPEC_ULR is not a setting; did you mean SPECGATE_SPEC_URL?",
    )


def test_the_variables_of_others_are_nobodys_business():
    others = {"THRESHOLD": "x", "SPEC_URL": "x", "SPECGATEWAY_PORT": "x", "MY_SPECGATE_PORT": "x"}
    assert load({**LANES, **others}) == load(LANES)


def test_an_empty_variable_counts_as_not_set():
    empty = {"SPECGATE_THRESHOLD": "", "SPECGATE_PORT": "", "SPECGATE_CONFIG": "", "SPECGATE_X": ""}
    assert load({**LANES, **empty}) == load(LANES)
