"""Programs that check the files of deploy/, and where those files are."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from specgate.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

DRAIN_S: float = sum(
    Settings.model_fields[name].default for name in ("drain_settle_s", "drain_timeout_s")
)
"""How long a gate that was told to stop goes on, at most, with the defaults."""

COMPOSE_ENV = {"MODEL": "some/model", "DRAFT_MODEL": "some/draft"}
"""What a user must set for the pair on GPUs."""


def need(program: str, package: str) -> str:
    """The program's path, from the environment of these tests or from PATH.

    Where it is missing the test is skipped, but fails in CI, which must have it.
    """
    found = shutil.which(program, path=os.path.dirname(sys.executable)) or shutil.which(program)
    if found is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"{program} is not installed ({package})")
    assert found is not None
    return found


def run(*command: str | Path, **environ: str) -> str:
    """What the program printed; an assertion error with all it said if it failed."""
    done = subprocess.run(
        [str(part) for part in command],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environ},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


async def exit_code_of(*command: str, **environ: str) -> int:
    child = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environ}, stderr=subprocess.DEVNULL
    )
    return await child.wait()


def read_yaml(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text())
    assert isinstance(content, dict)
    return content
