"""`specgate config`, as a user meets it."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from specgate.cli.main import main

LANES = {"SPECGATE_SPEC_URL": "http://a:1", "SPECGATE_PLAIN_URL": "http://b:2/"}


@pytest.fixture
def specgate(monkeypatch):
    """Runs the command in this process, with these SPECGATE_* variables and no others."""
    for name in [name for name in os.environ if name.startswith("SPECGATE_")]:
        monkeypatch.delenv(name)

    def run(*arguments, **variables):
        return CliRunner().invoke(main, arguments, env=variables)

    return run


def process(*command, **variables):
    inherited = {name: value for name, value in os.environ.items() if "SPECGATE" not in name}
    return subprocess.run(
        command, env={**inherited, **variables}, capture_output=True, text=True, timeout=50
    )


def rows(output):
    return [line.split() for line in output.splitlines()]


def test_prints_each_setting_its_value_and_its_source(specgate, tmp_path):
    file = tmp_path / "specgate.toml"
    file.write_text("band = 0.1\nexpose_headers = false")
    result = specgate("config", **LANES, SPECGATE_CONFIG=str(file), SPECGATE_THRESHOLD="always")
    assert result.exit_code == 0
    assert result.stderr == ""
    printed = rows(result.stdout)
    assert printed[0] == ["name", "value", "source"]
    assert ["plain_url", "http://b:2", "environment"] in printed
    assert ["threshold", "always", "environment"] in printed
    assert ["band", "0.1", "file"] in printed
    assert ["expose_headers", "false", "file"] in printed
    assert ["idle_timeout_s", "off", "default"] in printed
    assert ["smoothing_s", "60", "default"] in printed
    assert ["admin_token", "(unset)", "default"] in printed


@pytest.mark.parametrize("arguments", [["config"], ["config", "--json"]])
def test_masks_the_token(specgate, arguments):
    result = specgate(*arguments, **LANES, SPECGATE_ADMIN_TOKEN="s3cret")
    assert "***" in result.stdout
    assert "s3cret" not in result.output


def test_json_is_for_machines(specgate):
    result = specgate("config", "--json", **LANES, SPECGATE_THRESHOLD="24", SPECGATE_TRESHOLD="8")
    printed = json.loads(result.stdout)
    settings = printed["settings"]
    assert settings["threshold"] == {"value": 24, "source": "environment"}
    assert settings["band"] == {"value": 0.2, "source": "default"}
    assert settings["idle_timeout_s"] == {"value": "off", "source": "default"}
    assert settings["admin_token"] == {"value": None, "source": "default"}
    assert settings["expose_headers"] == {"value": True, "source": "default"}
    assert printed["warnings"] == [
        "SPECGATE_TRESHOLD is not a setting; did you mean SPECGATE_THRESHOLD?"
    ]


def test_json_of_a_threshold_without_number_is_still_json(specgate):
    for word in ("never", "always"):
        result = specgate("config", "--json", **LANES, SPECGATE_THRESHOLD=word)
        assert json.loads(result.stdout)["settings"]["threshold"]["value"] == word


def test_warnings_go_to_stderr(specgate):
    result = specgate("config", **LANES, SPECGATE_TRESHOLD="8")
    assert result.exit_code == 0
    assert "warning" not in result.stdout
    assert result.stderr == (
        "warning: SPECGATE_TRESHOLD is not a setting; did you mean SPECGATE_THRESHOLD?\n"
    )


def test_nothing_set_names_both_lanes():
    result = process(sys.executable, "-m", "specgate", "config")
    assert result.returncode == 2
    assert result.stdout == ""
    first, second = result.stderr.splitlines()
    assert first.startswith("SPECGATE_SPEC_URL is not set: must be an http:// or https:// URL")
    assert second.startswith("SPECGATE_PLAIN_URL is not set: must be an http:// or https:// URL")


def test_wrong_settings_are_lines_and_code_2():
    result = process(
        sys.executable, "-m", "specgate", "config", "--json",
        SPECGATE_SPEC_ULR="http://a", SPECGATE_PLAIN_URL="http://b", SPECGATE_BAND="1.5",
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "SPECGATE_SPEC_URL is not set: must be an http:// or https:// URL with a host, "
        "such as http://10.0.0.5:8000",
        "SPECGATE_BAND='1.5': must be a number from 0 to below 1",
        "warning: SPECGATE_SPEC_ULR is not a setting; did you mean SPECGATE_SPEC_URL?",
    ]


def test_a_command_imports_no_more_than_it_needs():
    code = (
        "import sys\n"
        "from specgate.cli.main import main\n"
        "main(['config'], standalone_mode=False)\n"
        "print(sorted({'fastapi', 'starlette', 'uvicorn', 'httpx2'} & set(sys.modules)))\n"
    )
    result = process(sys.executable, "-c", code, **LANES)
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "[]"
