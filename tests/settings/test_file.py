"""The settings file: beneath the environment, and never half believed."""

import pytest

from specgate.bench.shipped import shipped
from specgate.core.config import ALWAYS
from specgate.core.profile import dumps
from specgate.settings import SettingsError, load

LANES = {"SPECGATE_SPEC_URL": "http://a:1", "SPECGATE_PLAIN_URL": "http://b:2"}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "specgate.toml"


def problems(file, environ=None):
    with pytest.raises(SettingsError) as caught:
        load({**(LANES if environ is None else environ), "SPECGATE_CONFIG": str(file)})
    return list(caught.value.problems)


def test_every_setting_can_be_in_the_file(file, tmp_path):
    (tmp_path / "profile.json").write_text(dumps(shipped("reference")))
    text = """
        spec_url = "http://a:1"
        plain_url = "http://b:2/base"
        host = "::"
        port = 80
        threshold = 23.5
        profile = "PROFILE"
        band = 0
        smoothing_s = 0
        burst = 1
        dwell_s = 1.5
        switches_per_h = 6
        adaptive = false
        switchback = 0.02
        pool = "split"
        alternate_dwell_s = 60
        alternate_drain_s = 5
        alternate_step_s = 30
        spec_park = "stop-spec"
        spec_wake = "start-spec"
        plain_park = "auto"
        plain_wake = "auto"
        shadow = "off"
        rules = false
        forced_share = 0.5
        force_lane = "allow"
        engine_admin = "both"
        sticky_s = 60
        max_in_flight = 64
        queue_size = 256
        queue_timeout_s = 10
        hold = 2
        drain_settle_s = 0
        drain_timeout_s = 600
        connect_timeout_s = "2"
        first_byte_timeout_s = 3
        idle_timeout_s = "off"
        send_timeout_s = "off"
        head_timeout_s = "off"
        body_timeout_s = 5
        body_limit = 1000000
        peek_limit = 0
        upstream = "httpx"
        upstream_ca_file = "/etc/ca.pem"
        upstream_cert_file = "/etc/cert.pem"
        upstream_key_file = "/etc/key.pem"
        request_usage = true
        api_keys = ["one", "two"]
        api_keys_file = "KEYS"
        spec_api_key = "engine"
        plain_api_key = "engine"
        tls_cert_file = "/etc/tls.crt"
        tls_key_file = "/etc/tls.key"
        metrics_port = 9400
        metrics_host = "127.0.0.1"
        scrape_interval_s = "off"
        probe_interval_s = 4
        admin_token = "s3cret"
        control_read = "token"
        log_level = "debug"
        log_format = "json"
        log_sample = 0.1
        otel = false
        otel_sample = 0
        expose_headers = false
        accel_buffering = "no"
        """
    (tmp_path / "keys").write_text("three")
    text = text.replace("PROFILE", str(tmp_path / "profile.json"))
    file.write_text(text.replace("KEYS", str(tmp_path / "keys")))
    loaded = load({"SPECGATE_CONFIG": str(file)})
    assert set(loaded.sources.values()) == {"file"}
    assert loaded.warnings == ()
    assert loaded.settings.threshold == 23.5
    assert loaded.settings.connect_timeout_s == 2.0
    assert loaded.settings.send_timeout_s is None
    assert loaded.settings.body_limit == 1_000_000
    assert loaded.settings.peek_limit == 0
    assert loaded.settings.expose_headers is False
    assert loaded.settings.accel_buffering is False


def test_the_environment_wins_and_each_source_is_told(file):
    file.write_text('threshold = 8\nband = 0.1\nspec_url = "http://c:3"')
    loaded = load({**LANES, "SPECGATE_CONFIG": str(file), "SPECGATE_THRESHOLD": "always"})
    assert loaded.settings.threshold == ALWAYS
    assert loaded.settings.band == 0.1
    assert loaded.settings.spec_url == "http://a:1"
    assert loaded.sources["threshold"] == "environment"
    assert loaded.sources["spec_url"] == "environment"
    assert loaded.sources["band"] == "file"
    assert loaded.sources["burst"] == "default"


def test_an_empty_variable_lets_the_file_speak(file):
    file.write_text("threshold = 8")
    loaded = load({**LANES, "SPECGATE_CONFIG": str(file), "SPECGATE_THRESHOLD": ""})
    assert loaded.settings.threshold == 8.0
    assert loaded.sources["threshold"] == "file"


def test_each_load_reads_afresh(file):
    environ = {**LANES, "SPECGATE_CONFIG": str(file)}
    file.write_text("threshold = 8")
    first = load(environ)
    file.write_text("threshold = 9")
    assert load(environ).settings.threshold == 9.0
    assert first.settings.threshold == 8.0


@pytest.mark.parametrize(
    ("line", "shown", "allowed"),
    [
        ("threshold = -1", "threshold=-1", "a positive number, never or always"),
        ("threshold = inf", "threshold=inf", "a positive number, never or always"),
        ("threshold = nan", "threshold=nan", "a positive number, never or always"),
        ("threshold = true", "threshold=true", "a positive number, never or always"),
        ("threshold = [8]", "threshold=[8]", "a positive number, never or always"),
        ("band = '1.5'", "band='1.5'", "a number from 0 to below 1"),
        ("port = 80.5", "port=80.5", "a whole number from 0 to 65535"),
        ("port = 'tcp://a:1'", "port='tcp://a:1'", "a whole number from 0 to 65535"),
        ("host = 7", "host=7", "an IP address or a host name, without scheme, port or brackets"),
        ("idle_timeout_s = false", "idle_timeout_s=false", "a positive number of seconds, or off"),
        ("expose_headers = 1", "expose_headers=1", "true or false"),
        ("log_level = {}", "log_level={}", "debug, info, warning or error"),
        (
            "admin_token = 1234",
            "admin_token=***",
            "one or more visible ASCII characters, no spaces between",
        ),
        (
            "admin_token = ''",
            "admin_token=***",
            "one or more visible ASCII characters, no spaces between",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_file_and_key(file, line, shown, allowed):
    file.write_text(line)
    assert problems(file) == [f"{file}: {shown}: must be {allowed}"]


def test_a_number_beyond_all_numbers_is_refused(file):
    file.write_text("threshold = 1" + "0" * 400)
    (problem,) = problems(file)
    assert problem.endswith("must be a positive number, never or always")
    assert "0" * 200 not in problem


def test_a_list_of_urls_is_refused(file):
    file.write_text('spec_url = ["http://x:hunter2@a", "http://b"]')
    (problem,) = problems(file, {"SPECGATE_PLAIN_URL": "http://b"})
    assert problem.endswith(": a lane is one URL; put a balancer in front of several replicas")
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    ("key", "named", "guess"),
    [
        ("treshold", "treshold", "; did you mean threshold?"),
        ("THRESHOLD", "THRESHOLD", "; did you mean threshold?"),
        ("SPECGATE_BAND", "SPECGATE_BAND", "; did you mean band?"),
        ("xyzzy", "xyzzy", ""),
        ("config", "config", ""),
        ('"a\\nb"', "a\nb", ""),
    ],
)
def test_an_unknown_key_is_refused_without_its_value(file, key, named, guess):
    file.write_text(f'{key} = "s3cret"')
    assert problems(file) == [f"{file}: {named!r} is not a setting{guess}"]


def test_a_table_is_an_unknown_key(file):
    file.write_text("[specgate]\nthreshold = 8")
    assert problems(file) == [f"{file}: 'specgate' is not a setting"]


def test_all_problems_are_told_at_once(file):
    file.write_text("treshold = 8\nburst = 0\nband = 7")
    environ = {"SPECGATE_PORT": "http", "SPECGATE_PLAIN_URL": "http://b"}
    assert problems(file, environ) == [
        f"{file}: 'treshold' is not a setting; did you mean threshold?",
        "SPECGATE_SPEC_URL is not set: must be an http:// or https:// URL with a host, "
        "such as http://10.0.0.5:8000",
        "SPECGATE_PORT='http': must be a whole number from 0 to 65535",
        f"{file}: band=7: must be a number from 0 to below 1",
        f"{file}: burst=0: must be a number, 1 or more",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"threshold = ", "not TOML: "),
        (b"threshold: 8\n", "not TOML: "),
        (b"threshold = 8\nthreshold = 9\n", "not TOML: "),
        (b'spec_url = "http://a', "not TOML: "),
        (b"host = '\xff'", "not TOML: not UTF-8 text"),
        (b"host = " + b"[" * 100_000, "not TOML: "),
        (b"", "holds no settings"),
        (b"# threshold = 8\n", "holds no settings"),
    ],
)
def test_a_half_written_file_is_an_error(file, content, said):
    file.write_bytes(content)
    (problem,) = problems(file)
    assert problem.startswith(f"SPECGATE_CONFIG={str(file)!r}: {said}")
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nowhere/specgate.toml", "no such file"),
        ("/", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("/proc/self/mem", "Input/output error"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(path, said):
    assert problems(path) == [f"SPECGATE_CONFIG={path!r}: {said}"]


def test_an_unreadable_file_hides_no_other_problem_and_invents_none():
    assert problems("/nowhere", {"SPECGATE_BAND": "2"}) == [
        "SPECGATE_CONFIG='/nowhere': no such file",
        "SPECGATE_BAND='2': must be a number from 0 to below 1",
    ]
