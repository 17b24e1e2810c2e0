"""The standard variables for spans: what is refused or warned of, and that no key is shown."""

from pathlib import Path

import pytest

from specgate.settings import SettingsError, load
from specgate.settings.conflicts import EXPORTER, conflicts

LANES = {"SPECGATE_SPEC_URL": "http://a:1", "SPECGATE_PLAIN_URL": "http://b:2"}
OTLP = "OTEL_EXPORTER_OTLP_"


def loaded(otel: str = "true", **variables: str):
    named = {OTLP + name: value for name, value in variables.items()}
    return load({**LANES, "SPECGATE_OTEL": otel, **named})


def refusal(**variables: str) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(**variables)
    return str(caught.value)


@pytest.mark.parametrize("name", ["ENDPOINT", "TRACES_ENDPOINT"])
@pytest.mark.parametrize(
    "endpoint",
    [
        "collector:4318",
        "//collector",
        "grpc://collector",
        "http://",
        "http://u:s3cret@[",
        "http://c:x",
    ],
)
def test_an_endpoint_that_is_no_url_is_refused_unseen(name: str, endpoint: str):
    assert refusal(**{name: endpoint}) == (
        f"{OTLP}{name}: must be a URL that begins with http:// or https://"
    )


@pytest.mark.parametrize("headers", ["s3cret", "=s3cret", "a=1,s3cret", 'a="s3cret"', "a b=s3cret"])
def test_headers_that_are_none_are_refused_unseen(headers: str):
    assert refusal(HEADERS=headers) == (
        f"{OTLP}HEADERS=***: must be name=value pairs, separated by commas"
    )


@pytest.mark.parametrize("name", ["CERTIFICATE", "TRACES_CLIENT_CERTIFICATE", "CLIENT_KEY"])
def test_a_file_that_is_not_there_is_refused(name: str, tmp_path: Path):
    assert refusal(**{name: "/no/ca.pem"}) == f"{OTLP}{name}='/no/ca.pem': there is no such file"
    assert loaded(**{name: str(tmp_path)}).warnings == ()


def test_what_is_right_is_taken():
    right = {
        "ENDPOINT": "https://user:key@collector.example.com:443/otlp?x=1",
        "TRACES_ENDPOINT": "http://[::1]:4318/v1/traces",
        "HEADERS": "api-key=a=b/c, Authorization=Bearer%20x,,x-t = Bearer y ",
        "PROTOCOL": "http/protobuf",
    }
    assert loaded(**right).warnings == ()
    empty = dict.fromkeys(right, "")
    assert loaded(**empty).warnings == ()


def test_the_variable_for_traces_wins():
    wrong = {"ENDPOINT": "collector:4318", "PROTOCOL": "grpc"}
    right = {"TRACES_ENDPOINT": "http://c:4318/v1/traces", "TRACES_PROTOCOL": "http/protobuf"}
    assert loaded(**wrong, **right).warnings == ()


def test_another_protocol_is_warned_of():
    (told,) = loaded(PROTOCOL="grpc").warnings
    assert told == (
        f"{OTLP}PROTOCOL='grpc' is not followed: spans go out as http/protobuf, to a port for that"
    )


def test_while_it_is_off_nobody_looks():
    assert loaded("false", ENDPOINT="nonsense", HEADERS="x", PROTOCOL="grpc").warnings == ()


def test_the_extra_must_be_there():
    settings = loaded().settings
    assert conflicts(settings, installed=lambda package: True) == []
    assert conflicts(settings, installed=lambda package: package != EXPORTER) == [
        "SPECGATE_OTEL=true: needs the extra otel, which is not installed: "
        "pip install 'specgate[otel]', or from a clone: pip install '.[otel]'"
    ]
    assert conflicts(loaded("false").settings, installed=lambda package: False) == []
