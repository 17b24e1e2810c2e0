"""The command's group: help, unknown commands, exit codes."""

import signal

import click
import pytest
from click.testing import CliRunner

from specgate import __version__
from specgate.cli import main as module
from specgate.cli.main import main
from specgate.settings import SettingsError


@pytest.fixture
def command(monkeypatch):
    """A group with a command `broken`, whose body is the function that is given."""

    def run(body):
        broken = click.Command("broken", callback=body)
        monkeypatch.setattr(module.LazyGroup, "get_command", lambda *_: broken)
        # Of this process, in which other tests run.
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        return CliRunner().invoke(main, ["broken"])

    return run


def refuse():
    raise SettingsError(["SPECGATE_BAND='2': must be less"], ("a warning",))


def interrupt():
    raise KeyboardInterrupt


def stumble():
    raise ValueError("a bug")


def test_version():
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert __version__ in result.output


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_commands_and_shows_examples(option):
    result = CliRunner().invoke(main, [option])
    assert result.exit_code == 0
    assert "config" in result.output
    assert "SPECGATE_THRESHOLD=24 specgate serve" in result.output


def test_a_module_that_is_not_there_is_left_out(monkeypatch):
    monkeypatch.setitem(module.COMMANDS, "later", "specgate.cli.not_written_yet:later")
    assert "later" not in CliRunner().invoke(main, ["--help"]).output
    result = CliRunner().invoke(main, ["later"])
    assert result.exit_code == 2
    assert "No such command 'later'" in result.output


def test_an_import_that_fails_inside_a_module_is_seen(monkeypatch, tmp_path):
    (tmp_path / "specgate_test_command.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(module.COMMANDS, "later", "specgate_test_command:later")
    result = CliRunner().invoke(main, ["later"])
    assert isinstance(result.exception, ModuleNotFoundError)


@pytest.mark.parametrize("arguments", [["nonsense"], ["config", "--nonsense"], ["config", "extra"]])
def test_wrong_usage_is_code_2(arguments):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_wrong_settings_are_code_2_in_any_command(command):
    result = command(refuse)
    assert result.exit_code == 2
    assert result.stderr == "SPECGATE_BAND='2': must be less\nwarning: a warning\n"


def test_an_interrupt_is_code_130_and_silent(command):
    result = command(interrupt)
    assert result.exit_code == 130
    assert result.output == ""


def test_other_errors_keep_their_traceback(command):
    result = command(stumble)
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)
