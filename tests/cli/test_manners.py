"""What every command does alike: examples, exit statuses, --json, no colour but on terminals."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from specgate.bench.shipped import shipped
from specgate.cli.main import COMMANDS, main
from specgate.core.profile import dumps
from tests.docs.cli_page import commands

EVERY = dict(commands())
CROSSES = "k26-int4-8xrtxpro6000-vllm-ctx10k"

NO_RESULT = {
    "serve": "it logs, as JSON where no terminal reads it",
    "sim": "it runs until it is ended",
    "profile": "a group",
    "completion": "a script for a shell",
}
"""Commands without --json, and why."""


def told(name: str) -> str:
    done = CliRunner().invoke(main, [*name.split(), "--help"])
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("name", ["", *EVERY])
def test_help_shows_examples_and_says_what_the_exit_statuses_mean(name):
    text = " ".join(told(name).split())
    assert re.search(r"Examples?:", text)
    _, found, statuses = text.partition("Exit status: 0 ")
    assert found
    assert re.search(r", 2 .*(usage|wrong)", statuses)


def test_the_list_of_commands_cuts_no_sentence():
    text = told("")
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "..." not in text.partition("Commands:")[2]


@pytest.mark.parametrize("name", sorted(EVERY.keys() - NO_RESULT.keys()))
def test_what_prints_a_result_prints_it_as_json_too(name):
    assert "--json" in [option for param in EVERY[name].params for option in param.opts]


_EXAMPLE = re.compile(r"^ *(?:[A-Z_]+=\S+ +)*specgate (?P<words>[a-z-].*)$", re.MULTILINE)


def examples() -> Iterator[tuple[str, ...]]:
    """Every example's words after `specgate`; continued lines as one, what sets variables and
    what follows in a pipe or a file left out."""
    for command in (main, *EVERY.values()):
        text = f"{command.help or ''}\n{command.epilog or ''}".replace("\\\n", " ")
        for found in _EXAMPLE.finditer(text):
            words = shlex.split(found["words"])
            ends = [words.index(end) for end in ("|", ">") if end in words]
            yield tuple(words[: min(ends, default=None)])


EXAMPLES = sorted(set(examples()))


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_every_example_is_one_that_the_command_takes(words, tmp_path, monkeypatch):
    """Read as a command line, and not run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench").mkdir()
    names = ("profile.json", "bench/profile.json", "monday.json", "tuesday.json")
    for name in names:
        (tmp_path / name).write_text(dumps(shipped(CROSSES)))
    (tmp_path / "arrivals.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n2,2,3\n"
    )
    command: click.Command = main
    context = click.Context(main)
    rest = [word if word != "..." else "http://10.0.0.5:8000" for word in words]
    while isinstance(command, click.Group):
        name, *rest = rest
        found = command.get_command(context, name)
        assert found is not None, name
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_context(command.name, rest)


def test_there_are_examples_of_every_command():
    shown = {" ".join(words[:2]) for words in EXAMPLES} | {words[0] for words in EXAMPLES}
    assert EVERY.keys() - {"profile"} <= shown


def on_a_terminal(*words: str, **variables: str) -> bytes:
    """What a command writes to a terminal."""
    here, there = pty.openpty()
    inherited = {n: v for n, v in os.environ.items() if n not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "specgate", *words],
        stdin=there,
        stdout=there,
        stderr=there,
        env={**inherited, "TERM": "xterm-256color", "COLUMNS": "120", **variables},
    )
    os.close(there)
    found = b""
    try:
        while piece := os.read(here, 65_536):
            found += piece
    except OSError:  # how Linux tells that the other side of a terminal is closed
        pass
    finally:
        os.close(here)
    assert process.wait(timeout=30) == 0
    return found


SHOWN = ("profile", "show", CROSSES)
COLOURED = re.compile(rb"\x1b\[[\d;]*\b(3[0-7]|38|4[0-7]|48|9[0-7])[\d;]*m")


@pytest.mark.slow
def test_colour_is_for_terminals_alone():
    assert COLOURED.search(on_a_terminal("demo", *DEMO))
    assert not COLOURED.search(on_a_terminal("demo", *DEMO, NO_COLOR="1"))
    done = subprocess.run(
        [sys.executable, "-m", "specgate", *SHOWN], capture_output=True, timeout=30, check=True
    )
    assert b"\x1b" not in done.stdout + done.stderr


DEMO = ("--once", "--port", "0", "--level-seconds", "0.5", "--time-scale", "20")


@pytest.mark.slow
def test_the_demos_figures_to_stdout():
    done = subprocess.run(
        [sys.executable, "-m", "specgate", "demo", *DEMO, "--json", "-"],
        capture_output=True,
        timeout=40,
        check=True,
    )
    assert json.loads(done.stdout)["errors"] == 0
    assert b"0 in flight at the end" in done.stderr


def test_a_reports_page_as_json(tmp_path):
    words = ["report", "reference", "--out", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, words)
    assert json.loads(done.stdout) == {"report": str(tmp_path / "report.html")}
    assert (tmp_path / "report.html").is_file()
