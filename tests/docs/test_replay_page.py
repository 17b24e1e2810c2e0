"""The commands of docs/how-to/replay.md do what the page says."""

import click
import pytest
from click.testing import CliRunner

from specgate.cli.main import main
from tests.docs.replay_page import PAGE, commands

SHOWN = [words for words in commands() if "bench/profile.json" not in words]


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_each_command_that_needs_no_file_runs(words):
    done = CliRunner().invoke(main, [*words, "--requests", "300"])
    assert done.exit_code == 0, done.output


def test_every_option_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    command = main.get_command(click.Context(main), "replay")
    assert command is not None
    for param in command.params:
        assert f"`{param.opts[0]}" in text or f" {param.opts[0]} " in text, param.opts[0]
