"""A lane's URL: what it may be, and that no secret in it is repeated."""

import pytest

from specgate.core.lanes import Lane
from specgate.settings import SettingsError, load
from specgate.upstream.base import Origin

ALLOWED = "must be an http:// or https:// URL with a host, such as http://10.0.0.5:8000"
ONE_URL = "a lane is one URL; put a balancer in front of several replicas"


def with_spec(url):
    return load({"SPECGATE_SPEC_URL": url, "SPECGATE_PLAIN_URL": "http://plain:1"})


def refusal(url):
    with pytest.raises(SettingsError) as caught:
        with_spec(url)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000"),
        ("https://spec.example.com", "https://spec.example.com"),
        ("http://spec_1:8000/", "http://spec_1:8000"),
        ("http://[::1]:8000/base/", "http://[::1]:8000/base"),
        ("http://h/a/b//", "http://h/a/b"),
        (" http://h \n", "http://h"),
        ("HTTP://h", "HTTP://h"),
    ],
)
def test_one_url_and_a_prefix_without_its_last_slash(written, meant):
    assert with_spec(written).settings.spec_url == meant


def test_a_prefix_joins_once():
    origin = Origin.of(Lane.SPEC, with_spec("http://h/base/").settings.spec_url)
    assert origin.base + b"/v1/models" == b"/base/v1/models"


@pytest.mark.parametrize(
    "url",
    [
        "h:8000", "10.0.0.5:8000", "ftp://h", "unix:/tmp/s", "http://", "http:///path", "http:h",
        "http://:8000", "http://h:", "http://h:0", "http://h:65536", "http://h:80:81", "http://h:x",
        "http://::1:8000", "http://[::1", "http://[h]/", "http://1.2.3", "http://a b", "http://h\\x",
        "http://ä.example", "http://h%41", "http://-h", "http://h\t.x", "tcp://10.0.0.1:8400",
    ],
)  # fmt: skip
def test_refuses_what_is_no_http_url(url):
    assert refusal(url) == f"SPECGATE_SPEC_URL={url!r}: {ALLOWED}"


@pytest.mark.parametrize(
    "urls",
    ["http://a,http://b", "http://a:1, http://b:2", "a:1,b:2", "http://a http://b", "http://a;b"],
)
def test_refuses_several_urls(urls):
    assert refusal(urls) == f"SPECGATE_SPEC_URL={urls!r}: {ONE_URL}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:hunter2@h:1", "http://***@h:1"),
        ("http://hunter2@h", "http://***@h"),
        ("http://user:hunt@er2@h", "http://***@h"),
        ("http://user:hunter2/x@h", "http://***@h"),
        ("http://user:hunter2?x@h", "http://***@h"),
    ],
)
def test_refuses_a_user_and_hides_it(url, shown):
    said = refusal(url)
    assert said.startswith(f"SPECGATE_SPEC_URL={shown!r}: must not hold a user name or password")
    assert "er2" not in said


@pytest.mark.parametrize("end", ["?api_key=hunter2", "?", "#hunter2", "/p?hunter2#x"])
def test_refuses_a_query_and_hides_it(end):
    said = refusal("http://h" + end)
    assert "must not hold a query or fragment" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "url",
    ["user:hunter2@h", "http://a:hunter2@h,http://b:hunter2@h", "ftp://x:hunter2@[h", "é?hunter2"],
)
def test_hides_what_may_be_a_secret_whatever_else_is_wrong(url):
    assert "hunter2" not in refusal(url)


def test_warns_of_a_path_that_clients_will_repeat():
    (warning,) = with_spec("http://h/v1/").warnings
    assert warning.startswith("SPECGATE_SPEC_URL ends in /v1")


def test_warns_of_lanes_that_are_the_same():
    (warning,) = with_spec("http://plain:1/").warnings
    assert "same URL" in warning
