"""The unit for systemd: what systemd says of it, and a gate under some of what it forbids."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import pytest

from specgate.settings import load
from tests.deploy.tools import DEPLOY, DRAIN_S, need, run
from tests.support.client import get
from tests.support.lanes import ScriptedLane

UNIT = DEPLOY / "systemd" / "specgate.service"
PROGRAM = "/opt/specgate/bin/specgate"

CONFINED = Path(__file__).parent / "confined.py"


@pytest.fixture
def analyze() -> str:
    return need("systemd-analyze", "Debian's package systemd")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there, as systemd looks for it."""
    text = UNIT.read_text()
    assert text.count(PROGRAM) == 1
    file = tmp_path / UNIT.name
    file.write_text(text.replace(PROGRAM, str(Path(sys.executable).with_name("specgate"))))
    return file


def said(key: str) -> str:
    """What the unit says of a key that stands there once."""
    (value,) = re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value)


def test_systemd_takes_it_without_a_word(analyze: str, unit: Path):
    assert run(analyze, "verify", "--man=no", unit) == ""


def test_systemd_rates_its_exposure_as_the_how_to_says(analyze: str, unit: Path):
    # Exits with an error above the threshold, which is in tenths.
    rating = run(analyze, "security", "--no-pager", "--offline=true", "--threshold=15", unit)
    (level,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", rating)
    page = (DEPLOY.parent / "docs" / "how-to" / "systemd.md").read_text()
    assert f"rates that {level} of 10" in " ".join(page.split())


def test_streams_are_given_the_time_that_the_gate_gives_them():
    assert float(said("TimeoutStopSec")) >= DRAIN_S + 15


def test_the_settings_that_come_with_it_are_settings(tmp_path: Path):
    environ = dict([said("Environment").split("=", 1)])
    assert environ == {"SPECGATE_CONFIG": "/etc/specgate/specgate.toml"}
    shipped = DEPLOY / "systemd" / "specgate.toml"
    assert load({"SPECGATE_CONFIG": str(shipped)}).warnings == ()
    # And so are those that it shows, but for the profile, which is read.
    shown = re.sub(r"^#(\w+ = )(?!.*/profile)", r"\1", shipped.read_text(), flags=re.MULTILINE)
    file = tmp_path / "specgate.toml"
    file.write_text(shown)
    assert load({"SPECGATE_CONFIG": str(file)}).settings.threshold is not None


async def test_wrong_settings_end_with_the_status_that_is_not_started_again(tmp_path: Path):
    file = tmp_path / "specgate.toml"
    file.write_text('spec_url = "nowhere"\n')
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgate", "serve"),
        env={"SPECGATE_CONFIG": str(file)},
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert str(await child.wait()) == said("RestartPreventExitStatus")


async def test_a_gate_serves_with_what_the_unit_allows(analyze: str):
    """Whatever else it asks of the kernel ends it: its system calls, memory that is written and
    executed, any privilege."""
    async with ScriptedLane("spec") as spec:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(CONFINED), *sorted(allowed_calls(analyze))),
            env={
                "SPECGATE_SPEC_URL": spec.url.replace("127.0.0.1", "localhost"),
                "SPECGATE_PLAIN_URL": spec.url,
                "SPECGATE_PORT": "0",
                "SPECGATE_DRAIN_SETTLE_S": "0",
                "SPECGATE_LOG_FORMAT": "json",
            },
            stderr=asyncio.subprocess.PIPE,
        )
        assert child.stderr is not None
        try:
            async with asyncio.timeout(20):
                url = await listening_at(child.stderr)
            if not url and await child.wait() == 77:
                pytest.skip("this kernel has no seccomp, or no PR_SET_MDWE")
            assert url, f"it ended with {child.returncode}"
            assert (await get(f"{url}/v1/models")).status == 200
            assert (await get(f"{url}/metrics")).status == 200
            child.send_signal(signal.SIGHUP)
            assert (await get(f"{url}/livez")).status == 200
        finally:
            if child.returncode is None:
                child.terminate()
            await child.communicate()
    assert child.returncode == 0


async def listening_at(log: asyncio.StreamReader) -> str:
    """Where it says that it listens; empty if it ends before."""
    async for line in log:
        if found := re.search(rb'"listening".*"url": ?"(http://[^"]+)"', line):
            return found[1].decode()
    return ""


def allowed_calls(analyze: str) -> set[str]:
    """What the unit's SystemCallFilter lets through, as systemd itself knows its groups."""
    calls: set[str] = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.MULTILINE):
        named = {call for group in line.lstrip("~").split() for call in calls_of(analyze, group)}
        calls = calls - named if line.startswith("~") else calls | named
    return calls | calls_of(analyze, "@default")


def calls_of(analyze: str, group: str) -> set[str]:
    """Those of the group, and of the groups in it."""
    _, *lines = run(analyze, "syscall-filter", "--no-pager", group).splitlines()
    members = {line.strip() for line in lines if not line.strip().startswith("#")} - {""}
    inner = {member for member in members if member.startswith("@")}
    return (members - inner).union(*(calls_of(analyze, group) for group in inner))
