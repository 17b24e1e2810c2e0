"""Settings as the rooms below see them, and as code makes them."""

import pytest
from pydantic import ValidationError

from specgate.core.config import (
    NEVER,
    AdmissionConfig,
    AlternationConfig,
    PolicyConfig,
    ProxyConfig,
    TimeoutConfig,
)
from specgate.core.lanes import Lane
from specgate.settings import Settings, env_name, load, reloadable_names

LANES = {"spec_url": "http://a:1", "plain_url": "http://b:2"}


def made(**others):
    return Settings(spec_url=LANES["spec_url"], plain_url=LANES["plain_url"], **others)


def test_the_defaults_are_those_of_core():
    settings = made()
    assert settings.policy == PolicyConfig()
    assert settings.timeouts == TimeoutConfig()
    assert settings.admission == AdmissionConfig()
    assert settings.alternation is None
    assert made(pool="alternate").alternation == AlternationConfig()
    assert settings.proxy == ProxyConfig()


def test_each_setting_reaches_its_place():
    settings = made(
        threshold="never",
        band=0.1,
        smoothing_s=1,
        burst=3,
        dwell_s=4,
        adaptive=True,
        connect_timeout_s=5.5,
        first_byte_timeout_s=6,
        idle_timeout_s=7,
        send_timeout_s=None,
        expose_headers=False,
        accel_buffering=False,
    )
    timeouts = TimeoutConfig(connect_s=5.5, first_byte_s=6.0, idle_s=7.0, send_s=None)
    assert settings.policy == PolicyConfig(
        threshold=NEVER, band=0.1, smoothing_s=1.0, burst=3.0, dwell_s=4.0, adaptive=True
    )
    assert settings.timeouts == timeouts
    assert settings.proxy == ProxyConfig(
        timeouts=timeouts, expose_headers=False, accel_buffering=False
    )


def test_commands_reach_their_lanes_as_words():
    commands = {"spec_park": "stop 'a b'", "plain_wake": "start"}
    assert made(pool="alternate", alternate_step_s=9, **commands).alternation == AlternationConfig(
        step_s=9.0, park={Lane.SPEC: ("stop", "a b")}, wake={Lane.PLAIN: ("start",)}
    )


def test_settings_do_not_change():
    with pytest.raises(ValidationError):
        made().threshold = 8.0


def test_settings_made_by_code_ask_nobody_else(monkeypatch):
    monkeypatch.setenv("SPECGATE_BAND", "0.5")
    assert made().band == 0.2


def test_the_process_environment_is_read_unless_another_is_given(monkeypatch):
    for name, value in LANES.items():
        monkeypatch.setenv(env_name(name), value)
    monkeypatch.setenv("SPECGATE_BAND", "0.5")
    assert load().settings.band == 0.5
    given = {env_name(name): value for name, value in LANES.items()}
    assert load(given).settings.band == 0.2


def test_what_a_reload_changes():
    assert reloadable_names() == {
        "spec_url", "plain_url", "threshold", "profile", "band", "smoothing_s", "burst", "dwell_s",
        "switches_per_h", "adaptive", "pool", "shadow",
        "max_in_flight", "queue_size", "queue_timeout_s", "hold",
        "api_keys", "api_keys_file", "spec_api_key", "plain_api_key",
    }  # fmt: skip
