"""`specgate completion`: the script works in a shell, and what it offers is right."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from specgate.cli.completion import ASKED_BY, SHELLS
from specgate.cli.main import COMMANDS, main


def offered(line: str) -> list[str]:
    """What may stand in the place of the line's last word."""
    words = line.split(" ")
    asked = {ASKED_BY: "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    found = CliRunner().invoke(main, prog_name="specgate", env=asked)
    return found.output.split()


@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("specgate ", [f"plain,{name}" for name in COMMANDS]),
        ("specgate profile ", ["plain,show", "plain,import", "plain,merge"]),
        ("specgate bench --conc", ["plain,--concurrency"]),
        ("specgate completion ", [f"plain,{shell}" for shell in SHELLS]),
        ("specgate verdict ref", ["file,ref", "plain,reference"]),
        ("specgate report ref", ["plain,reference"]),
        ("specgate doctor --profile k26", ["plain,k26-int4-8xrtxpro6000-vllm-ctx10k"]),
        ("specgate replay --profile ref", ["plain,reference"]),
        ("specgate replay --trace d", ["plain,diurnal"]),
        ("specgate sim --profile ref", ["plain,reference"]),
        ("specgate demo --profile ref", ["plain,reference"]),
        ("specgate export reference --to v", ["plain,vllm"]),
    ],
)
def test_it_offers(line, among):
    assert set(among) <= set(offered(line))


def test_what_does_not_begin_so_is_not_offered():
    assert offered("specgate be") == ["plain,bench"]
    assert "plain,reference" not in offered("specgate verdict k26")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_names_the_program(shell):
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"{ASKED_BY}={shell}_complete" in done.stdout
    assert "specgate" in done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_one_of_that_shell(shell, tmp_path):
    if shutil.which(shell) is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"there is no {shell} here")
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(main, ["completion", shell]).stdout)
    subprocess.run([shell, "-n", script], check=True, timeout=20)


def test_in_a_real_bash():
    script = (
        'eval "$(specgate completion bash)"; complete -p specgate; '
        "COMP_WORDS=(specgate verd); COMP_CWORD=1; _specgate_completion specgate; "
        'echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert done.stdout.splitlines() == [
        "complete -o nosort -F _specgate_completion specgate",
        "verdict",
    ], done.stderr
