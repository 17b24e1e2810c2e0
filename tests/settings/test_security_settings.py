"""The settings of who may come in: what may be written, and that no key is ever shown."""

import json

import pytest
from click.testing import CliRunner

from specgate.cli.main import main
from specgate.core.keys import KEYS_MAX, KeyHashes
from specgate.core.lanes import Lane
from specgate.settings import SettingsError, load

LANES = {"SPECGATE_SPEC_URL": "http://a:1", "SPECGATE_PLAIN_URL": "http://b:2"}


def loaded(**settings: object):
    return load({**LANES, **{f"SPECGATE_{k.upper()}": str(v) for k, v in settings.items()}})


def in_force(**settings: object):
    return loaded(**settings).settings


def test_keys_are_separated_by_commas():
    for written in ("one,two", " one , two ", "one,two,", "two,one,one"):
        assert in_force(api_keys=written).client_keys == KeyHashes(["one", "two"])
    assert in_force().client_keys is None
    assert in_force(api_keys="").client_keys is None  # as every empty variable


@pytest.mark.parametrize("written", [",", ", ,", "one two", "sécret", "one\ntwo", "a,b\tc"])
def test_what_is_no_key_is_refused_and_not_repeated(written: str):
    with pytest.raises(SettingsError) as raised:
        loaded(api_keys=written)
    assert raised.value.problems == (
        "SPECGATE_API_KEYS=***: must be one or more keys of visible ASCII characters, separated "
        "by commas",
    )


def test_too_many_keys_are_refused():
    assert in_force(api_keys=",".join(map(str, range(KEYS_MAX)))).client_keys is not None
    with pytest.raises(SettingsError, match=f"at most {KEYS_MAX} keys"):
        loaded(api_keys=",".join(map(str, range(KEYS_MAX + 1))))


def test_a_settings_file_may_list_them(tmp_path):
    file = tmp_path / "specgate.toml"
    for written in ('["one", "two"]', '"one,two"'):
        file.write_text(f"api_keys = {written}")
        assert in_force(config=file).client_keys == KeyHashes(["one", "two"])
    for written in ('["one", "secret two"]', "[1]", "[]", "{secret = 1}", "7", "true"):
        file.write_text(f"api_keys = {written}")
        with pytest.raises(SettingsError, match=r"api_keys=\*\*\*: must be") as raised:
            loaded(config=file)
        assert "secret" not in str(raised.value)


def test_a_file_of_keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# ours\n\n  one  \r\ntwo\n#three\n")
    assert in_force(api_keys_file=file).client_keys == KeyHashes(["one", "two"])
    both = in_force(api_keys_file=file, api_keys="three").client_keys
    assert both == KeyHashes(["one", "two", "three"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no keys"),
        (b"# secret\n\n", "holds no keys"),
        (b"one\nsecret two\n", "line 2: must be one key"),
        (b"one,secret\n", "line 1: must be one key"),
        (b"one\n\xff\xfesecret\n", "line 2: must be one key"),
        (b"secret" * 200_000, "larger than"),
        ("\n".join(map(str, range(KEYS_MAX + 1))).encode(), "at most"),
    ],
)
def test_a_file_of_keys_that_does_not_do_is_named_and_not_quoted(content, said, tmp_path):
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=said) as raised:
        loaded(api_keys_file=file)
    (problem,) = raised.value.problems
    assert problem.startswith(f"SPECGATE_API_KEYS_FILE={str(file)!r}: ")
    assert "secret" not in problem.removeprefix(f"SPECGATE_API_KEYS_FILE={str(file)!r}")


def test_a_missing_file_of_keys_stops_the_start(tmp_path):
    with pytest.raises(SettingsError, match="No such file"):
        loaded(api_keys_file=tmp_path / "none")
    with pytest.raises(SettingsError, match="Is a directory"):
        loaded(api_keys_file=tmp_path)


def test_what_a_lane_is_sent():
    spec, plain = Lane
    assert in_force().authorization(spec) is None
    assert in_force(api_keys="k").authorization(spec) == b""
    settings = in_force(spec_api_key="e")
    assert (settings.authorization(spec), settings.authorization(plain)) == (b"Bearer e", None)
    settings = in_force(spec_api_key="e", api_keys="k")
    assert (settings.authorization(spec), settings.authorization(plain)) == (b"Bearer e", b"")
    one = in_force(plain_url="http://a:1", spec_api_key="e", shadow="spec")
    assert [one.authorization(lane) for lane in Lane] == [b"Bearer e"] * 2


def test_what_is_hardly_meant_is_said():
    (warning,) = loaded(spec_api_key="engine-secret").warnings
    assert "SPECGATE_SPEC_API_KEY is set and SPECGATE_API_KEYS is not" in warning
    (warning,) = loaded(api_keys="one,secret", admin_token="secret").warnings
    assert "SPECGATE_ADMIN_TOKEN is one of the clients' keys" in warning
    assert loaded(api_keys="one", spec_api_key="e", admin_token="t").warnings == ()


def test_reading_with_a_token_needs_one():
    with pytest.raises(SettingsError) as raised:
        loaded(control_read="token")
    assert str(raised.value) == (
        "SPECGATE_CONTROL_READ=token: needs SPECGATE_ADMIN_TOKEN, which is not set: nobody could "
        "read"
    )
    assert in_force(control_read="token", admin_token="t").read_token == "t"
    assert in_force(admin_token="t").read_token is None


SECRETS = {
    "SPECGATE_API_KEYS": "s3cret-one,s3cret-two",
    "SPECGATE_SPEC_API_KEY": "s3cret-spec",
    "SPECGATE_PLAIN_API_KEY": "s3cret-plain",
    "SPECGATE_ADMIN_TOKEN": "s3cret-token",
}


@pytest.mark.parametrize("arguments", [["config"], ["config", "--json"]])
def test_the_command_masks_them(arguments: list[str]):
    result = CliRunner().invoke(main, arguments, env={**LANES, **SECRETS})
    assert result.exit_code == 0
    assert "s3cret" not in result.output
    assert result.output.count("***") == len(SECRETS)
    if "--json" in arguments:
        assert json.loads(result.stdout)["settings"]["api_keys"]["value"] == "***"


@pytest.mark.parametrize("name", SECRETS)
def test_an_error_masks_them(name: str):
    with pytest.raises(SettingsError) as raised:
        load({**LANES, **SECRETS, name: "s3cret with a space"})
    (problem,) = raised.value.problems
    assert problem.startswith(f"{name}=***: ")
    assert "s3cret" not in str(raised.value)


def test_a_lanes_url_with_a_password_is_refused_and_not_shown():
    for url in ("http://user:s3cret@a:1", "http://s3cret@a:1", "http://a:1/?key=s3cret"):
        with pytest.raises(SettingsError) as raised:
            load({**LANES, "SPECGATE_SPEC_URL": url})
        assert "s3cret" not in str(raised.value)


def test_the_metrics_port():
    assert in_force().metrics_port is None
    assert in_force(metrics_port="off").metrics_port is None
    assert in_force(metrics_port=0).metrics_port == 0
    assert in_force(metrics_port=9400).metrics_port == 9400
    for wrong in ("-1", "65536", "9400.5", "x"):
        with pytest.raises(SettingsError, match="a whole number from 0 to 65535, or off"):
            loaded(metrics_port=wrong)
