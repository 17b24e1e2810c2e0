"""What each setting takes, what it refuses, in which words, and how it prints back."""

import math

import pytest

from specgate.core.config import ALWAYS, NEVER, Placement
from specgate.core.lanes import Lane
from specgate.settings import Settings, SettingsError, env_name, kind_of, load

LANES = {"SPECGATE_SPEC_URL": "http://a:1", "SPECGATE_PLAIN_URL": "http://b:2"}
SECONDS = "a positive number of seconds"
SECONDS_OR_OFF = "a positive number of seconds, or off"
SECONDS_OR_0 = "a number of seconds, 0 or more"
THRESHOLD = "a positive number, never or always"
SHARE = "a number from 0 to below 1"
PORT = "a whole number from 0 to 65535"
HOST = "an IP address or a host name, without scheme, port or brackets"
NOT_NUMBERS = ["abc", "nan", "inf", "-inf", "infinity", "1e999", "1_0", "٣", "1,5", "0x10", "5s"]


def value(name, text):
    return getattr(load({**LANES, env_name(name): text}).settings, name)


def refusal(name, text):
    with pytest.raises(SettingsError) as caught:
        load({**LANES, env_name(name): text})
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "meant", "printed"),
    [
        ("host", "0.0.0.0", "0.0.0.0", "0.0.0.0"),
        ("host", "::", "::", "::"),
        ("host", "gate-1.example.com", "gate-1.example.com", "gate-1.example.com"),
        ("port", "0", 0, 0),
        ("port", "65535", 65535, 65535),
        ("port", " 80 ", 80, 80),
        ("threshold", "24", 24.0, 24),
        ("threshold", "23.75", 23.75, 23.75),
        ("threshold", "1e2", 100.0, 100),
        ("threshold", ".5", 0.5, 0.5),
        ("threshold", "0", NEVER, "never"),
        ("threshold", "-0.0", NEVER, "never"),
        ("threshold", "never", NEVER, "never"),
        ("threshold", "Always", ALWAYS, "always"),
        ("band", "0", 0.0, 0),
        ("band", "0.999", 0.999, 0.999),
        ("smoothing_s", "0", 0.0, 0),
        ("smoothing_s", "0.1", 0.1, 0.1),
        ("burst", "1", 1.0, 1),
        ("dwell_s", "0", 0.0, 0),
        ("switches_per_h", "0", 0, 0),
        ("adaptive", "true", True, True),
        ("switchback", "0.02", 0.02, 0.02),
        ("switchback", "off", None, "off"),
        ("pool", "Split", Placement.SPLIT, "split"),
        ("alternate_dwell_s", "0", 0.0, 0),
        ("alternate_drain_s", "90", 90.0, 90),
        ("alternate_step_s", "300", 300.0, 300),
        ("spec_park", "Auto", None, "auto"),
        ("plain_wake", "systemctl start 'a b'", "systemctl start 'a b'", "systemctl start 'a b'"),
        ("shadow", "spec", Lane.SPEC, "spec"),
        ("shadow", "off", None, "off"),
        ("rules", "off", False, False),
        ("forced_share", "1", 1.0, 1),
        ("forced_share", "off", None, "off"),
        ("force_lane", "Allow", "allow", "allow"),
        ("engine_admin", "both", "both", "both"),
        ("control_read", "Open", "open", "open"),
        ("sticky_s", "300", 300.0, 300),
        ("sticky_s", "off", None, "off"),
        ("max_in_flight", "64", 64, 64),
        ("max_in_flight", "off", None, "off"),
        ("queue_size", "0", 0, 0),
        ("queue_timeout_s", "2.5", 2.5, 2.5),
        ("hold", "0", 0, 0),
        ("hold", "off", None, "off"),
        ("drain_settle_s", "0", 0.0, 0),
        ("drain_timeout_s", "900", 900.0, 900),
        ("connect_timeout_s", "0.25", 0.25, 0.25),
        ("first_byte_timeout_s", "600", 600.0, 600),
        ("idle_timeout_s", "OFF", None, "off"),
        ("send_timeout_s", "off", None, "off"),
        ("probe_interval_s", "10", 10.0, 10),
        ("log_level", "WARNING", "warning", "warning"),
        ("log_format", "text", "text", "text"),
        ("log_sample", "0", 0.0, 0),
        ("log_sample", "0.01", 0.01, 0.01),
        ("otel", "true", True, True),
        ("otel_sample", "1", 1.0, 1),
        ("expose_headers", "off", False, False),
        ("expose_headers", "1", True, True),
        ("accel_buffering", "False", False, False),
    ],
)
def test_reads_what_is_allowed_and_prints_it_back(name, text, meant, printed):
    read = value(name, text)
    assert read == meant
    assert type(read) is type(meant)
    assert not isinstance(read, float) or math.copysign(1, read) == 1
    assert kind_of(name).write(read) == printed


def test_a_printed_value_reads_as_itself():
    settings = load(LANES).settings
    for name in Settings.model_fields:
        printed = kind_of(name).write(getattr(settings, name))
        if printed is not None:
            assert value(name, str(printed)) == getattr(settings, name)


@pytest.mark.parametrize(
    ("name", "texts", "allowed"),
    [
        (
            "host",
            ["http://a", "a:80", "[::1]", "a b", "a/b", "1.2.3", "300.1.1.1", "-a", "é"],
            HOST,
        ),
        ("port", [*NOT_NUMBERS, "-1", "65536", "80.5", "tcp:80"], PORT),
        ("threshold", [*NOT_NUMBERS, "-1", "off", "true"], THRESHOLD),
        ("band", [*NOT_NUMBERS, "1", "1.5", "-0.1"], SHARE),
        ("smoothing_s", [*NOT_NUMBERS, "-1", "off"], SECONDS_OR_0),
        ("burst", [*NOT_NUMBERS, "0.99", "-2"], "a number, 1 or more"),
        ("dwell_s", [*NOT_NUMBERS, "-1"], SECONDS_OR_0),
        ("switches_per_h", [*NOT_NUMBERS, "-1", "1.5"], "a whole number, 0 or more"),
        ("adaptive", ["2", "maybe"], "true or false"),
        (
            "switchback",
            [*NOT_NUMBERS, "0", "0.2", "-1"],
            "a number above 0 and up to 0.1, or off",
        ),
        ("pool", ["both", "2"], "shared, split or alternate"),
        ("alternate_dwell_s", [*NOT_NUMBERS, "-1", "off"], SECONDS_OR_0),
        ("alternate_drain_s", [*NOT_NUMBERS, "-1", "off"], SECONDS_OR_0),
        ("alternate_step_s", [*NOT_NUMBERS, "0", "-1", "off"], SECONDS),
        ("shadow", ["both", "auto"], "spec, plain or off"),
        ("rules", ["2", "maybe"], "true or false"),
        ("forced_share", [*NOT_NUMBERS, "0", "1.1", "-1"], "a number above 0 and up to 1, or off"),
        ("force_lane", ["true", "spec"], "allow or deny"),
        ("engine_admin", ["allow", "plain"], "refuse or both"),
        ("control_read", ["closed", "true", "s3cret"], "open or token"),
        ("sticky_s", [*NOT_NUMBERS, "0", "-1"], SECONDS_OR_OFF),
        ("connect_timeout_s", [*NOT_NUMBERS, "0", "-1", "off"], SECONDS),
        ("first_byte_timeout_s", [*NOT_NUMBERS, "0", "-1", "never"], SECONDS_OR_OFF),
        ("idle_timeout_s", [*NOT_NUMBERS, "0", "-1", "none"], SECONDS_OR_OFF),
        ("send_timeout_s", [*NOT_NUMBERS, "0", "-1"], SECONDS_OR_OFF),
        ("max_in_flight", [*NOT_NUMBERS, "0", "-1", "1.5"], "a whole number above 0, or off"),
        ("queue_size", [*NOT_NUMBERS, "-1", "1.5", "off"], "a whole number, 0 or more"),
        ("queue_timeout_s", [*NOT_NUMBERS, "0", "-1", "off"], SECONDS),
        ("hold", [*NOT_NUMBERS, "-1", "1.5"], "a whole number, 0 or more, or off"),
        ("drain_settle_s", [*NOT_NUMBERS, "-1", "off"], SECONDS_OR_0),
        ("drain_timeout_s", [*NOT_NUMBERS, "-1", "off"], SECONDS_OR_0),
        ("metrics_port", [*NOT_NUMBERS, "-1", "65536", "80.5"], f"{PORT}, or off"),
        ("metrics_host", ["http://a", "a:80", "a b"], HOST),
        ("probe_interval_s", [*NOT_NUMBERS, "0", "-1", "off"], SECONDS),
        ("log_level", ["verbose", "10"], "debug, info, warning or error"),
        ("log_format", ["xml"], "auto, json or text"),
        ("log_sample", [*NOT_NUMBERS, "-0.1", "1.1", "off"], "a number from 0 to 1"),
        ("otel", ["http://collector:4318", "2"], "true or false"),
        ("otel_sample", [*NOT_NUMBERS, "-0.1", "1.1", "off"], "a number from 0 to 1"),
        ("expose_headers", ["2", "maybe"], "true or false"),
        ("accel_buffering", ["2", "null"], "true or false"),
    ],
)
def test_refuses_the_rest_by_name_value_and_what_is_allowed(name, texts, allowed):
    for text in texts:
        assert refusal(name, text) == f"{env_name(name)}={text!r}: must be {allowed}"


def test_defaults():
    settings = load(LANES).settings
    assert settings.model_dump() == {
        "spec_url": "http://a:1",
        "plain_url": "http://b:2",
        "host": "127.0.0.1",
        "port": 8400,
        "threshold": None,
        "profile": None,
        "band": 0.2,
        "smoothing_s": 60.0,
        "burst": 2.0,
        "dwell_s": 60.0,
        "switches_per_h": 12,
        "adaptive": False,
        "switchback": None,
        "pool": "shared",
        "shadow": None,
        "rules": True,
        "forced_share": 0.3,
        "force_lane": "deny",
        "engine_admin": "refuse",
        "sticky_s": None,
        "max_in_flight": None,
        "queue_size": 0,
        "queue_timeout_s": 30.0,
        "hold": None,
        "alternate_dwell_s": 600.0,
        "alternate_drain_s": 20.0,
        "alternate_step_s": 120.0,
        "spec_park": None,
        "spec_wake": None,
        "plain_park": None,
        "plain_wake": None,
        "drain_settle_s": 5.0,
        "drain_timeout_s": 120.0,
        "connect_timeout_s": 5.0,
        "first_byte_timeout_s": None,
        "idle_timeout_s": None,
        "send_timeout_s": 300.0,
        "head_timeout_s": 30.0,
        "body_timeout_s": 60.0,
        "body_limit": None,
        "peek_limit": 262_144,
        "upstream": "pooled",
        "upstream_ca_file": None,
        "upstream_cert_file": None,
        "upstream_key_file": None,
        "request_usage": False,
        "api_keys": None,
        "api_keys_file": None,
        "spec_api_key": None,
        "plain_api_key": None,
        "tls_cert_file": None,
        "tls_key_file": None,
        "metrics_port": None,
        "metrics_host": None,
        "scrape_interval_s": 5.0,
        "probe_interval_s": 2.0,
        "admin_token": None,
        "control_read": "open",
        "log_level": "info",
        "log_format": "auto",
        "log_sample": 1.0,
        "otel": False,
        "otel_sample": 1.0,
        "expose_headers": True,
        "accel_buffering": True,
    }


def test_a_token_is_never_shown():
    settings = load({**LANES, "SPECGATE_ADMIN_TOKEN": "s3cret\n"}).settings
    assert settings.admin_token is not None
    # The line's end of a mounted secret is no part of it.
    assert settings.admin_token.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(settings)
    assert kind_of("admin_token").write(settings.admin_token) == "***"


@pytest.mark.parametrize("token", ["two words", "schlüssel", "a\x00b", " "])
def test_a_token_that_no_header_can_carry_is_refused_unseen(token):
    assert refusal("admin_token", token) == (
        "SPECGATE_ADMIN_TOKEN=***: must be one or more visible ASCII characters, no spaces between"
    )


@pytest.mark.parametrize("line", ["curl 'k3y", "''", "a\nb k3y"])
def test_a_command_that_is_none_is_refused_unseen(line):
    assert refusal("spec_park", line) == (
        "SPECGATE_SPEC_PARK=***: must be auto, or a program and its arguments, quoted as for a "
        "shell, which reads none of it"
    )


def test_lanes_that_take_turns_need_a_queue_and_two_engines():
    assert refusal("pool", "alternate") == (
        "SPECGATE_QUEUE_SIZE=0: must be above 0 with SPECGATE_POOL=alternate: requests wait in "
        "the queue while the lanes take turns"
    )
    same = {"SPECGATE_SPEC_URL": "http://a:1", "SPECGATE_PLAIN_URL": "http://a:1"}
    turns = {"SPECGATE_POOL": "alternate", "SPECGATE_QUEUE_SIZE": "9"}
    with pytest.raises(SettingsError, match="must be two engines"):
        load({**same, **turns})
    assert load({**LANES, **turns}).warnings == ()


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("queue_timeout_s", "20", "SPECGATE_QUEUE_TIMEOUT_S"),
        ("spec_park", "stop-it", "SPECGATE_SPEC_WAKE"),
        ("switchback", "0.1", "SPECGATE_SWITCHBACK"),
    ],
)
def test_what_is_hardly_meant_with_turns_is_told(name, text, named):
    turns = {"SPECGATE_POOL": "alternate", "SPECGATE_QUEUE_SIZE": "9"}
    warnings = load({**LANES, **turns, env_name(name): text}).warnings
    assert any(named in warning for warning in warnings)


def test_what_is_shown_is_escaped_and_cut():
    shown = refusal("log_level", "x\n\x1b[31m" + "y" * 5_000)
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert len(shown) < 300
