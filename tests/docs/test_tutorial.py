"""The tutorials' blocks, run as a reader would run them, in their order, on free ports.

A comment before a block of shell says what to do with it: `run` waits for its end, `run, or exit N`
takes that exit status too; `start until: X` leaves it running once it has said X. `expect: X` after
a block: X is in what the block printed.

What the second tutorial's bench finds depends on what else the machine does meanwhile. Where it
finds no crossing, the steps after it go on with the profile that the page's own run wrote.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from specgate.core.profile import loads
from specgate.core.shape import Shape
from tests.docs.generate import ROOT

TUTORIALS = ROOT / "tutorials"
MEASURED = ROOT.parent / "tests" / "docs" / "measured.json"
"""The profile of the run that the second tutorial shows."""

GATE_PORT = "8400"
PORTS = ("30000", "30001", GATE_PORT)
STARTS_WITHIN_S = 30
ENDS_WITHIN_S = 60
SHORTER = {"--requests-per-level 8 --budget 3m\n": "--requests-per-level 4 --budget 20s\n"}
"""What a reader has time for, and what a test has."""

_STEP = re.compile(
    r"^<!-- (?P<how>run(?:, or exit (?P<code>\d+))?|start until: (?P<until>.+?)) -->\n"
    r"```sh\n(?P<script>.*?)^```\n"
    r"(?P<expects>(?:<!-- expect: .+? -->\n)*)",
    re.MULTILINE | re.DOTALL,
)
_EXPECT = re.compile(r"<!-- expect: (.+?) -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`until`: what a block that stays running says when it is up; None: it ends by itself, with
    one of `codes`."""

    script: str
    until: str | None
    codes: tuple[int, ...]
    expects: tuple[str, ...]


def steps_of(text: str) -> list[Step]:
    return [
        Step(
            script=found["script"],
            until=found["until"],
            codes=(0, int(found["code"])) if found["code"] else (0,),
            expects=tuple(_EXPECT.findall(found["expects"])),
        )
        for found in _STEP.finditer(text)
    ]


def free_ports() -> dict[str, str]:
    """For each port of the page one that is free now."""
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        free = [str(listener.getsockname()[1]) for listener in listeners]
    return dict(zip(PORTS, free, strict=True))


class Terminal:
    """A directory and an environment in which blocks run; ends what it started."""

    def __init__(self, directory: Path, gate_port: str) -> None:
        self._directory = directory
        inherited = {name: v for name, v in os.environ.items() if not name.startswith("SPECGATE_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{inherited['PATH']}"
        ours = {"PATH": path, "SPECGATE_PORT": gate_port, "COLUMNS": "100"}
        self._environ = {**inherited, "PYTHONUNBUFFERED": "1", **ours}
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, step: Step) -> str:
        """What the block printed: to its end, or until it said that it is up."""
        log = self._directory / f"{len(list(self._directory.iterdir()))}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-e", "-o", "pipefail", "-c", step.script],
                cwd=self._directory,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        if step.until is None:
            code = process.wait(timeout=ENDS_WITHIN_S)
            assert code in step.codes, f"{step.script}\n{log.read_text()}"
            return log.read_text()
        deadline = time.monotonic() + STARTS_WITHIN_S
        while step.until not in (said := log.read_text()):
            assert process.poll() is None, f"{step.script}\n{said}"
            assert time.monotonic() < deadline, f"{step.script}\n{said}"
            time.sleep(0.05)
        return said

    def close(self) -> None:
        for process in reversed(self._started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(timeout=10)


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", ["first-gate.md", "measure.md"])
def test_every_block_does_what_the_tutorial_says(name, tmp_path):
    ports = free_ports()
    text = (TUTORIALS / name).read_text(encoding="utf-8")
    for port, free in ports.items():
        text = re.sub(rf"\b{port}\b", free, text)
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    here = f"specgate status --url http://127.0.0.1:{ports[GATE_PORT]}"
    text = text.replace("specgate status", here)  # which else looks at the gate's own port
    steps = steps_of(text)
    assert len(steps) == text.count("<!-- run") + text.count("<!-- start until:")
    assert sum(len(step.expects) for step in steps) == text.count("<!-- expect:")
    profile = tmp_path / "bench" / "profile.json"
    with contextlib.closing(Terminal(tmp_path, ports[GATE_PORT])) as terminal:
        for step in steps:
            said = terminal.run(step)
            for expected in step.expects:
                assert expected in said, f"{step.script}\n{said}"
            if profile.exists() and loads(profile.read_text()).verdict.shape != Shape.CROSSES:
                profile.write_bytes(MEASURED.read_bytes())


def test_every_tutorial_is_run():
    assert {page.name for page in TUTORIALS.glob("*.md")} == {"first-gate.md", "measure.md"}
