"""schemathesis against the control surface of a real gate: whatever is sent to it, it answers as
its OpenAPI document says, and with no error of its own but those that are documented."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.client import get
from tests.support.control import TOKEN
from tests.support.lanes import ScriptedLane
from tests.support.process import GateProcess, serve_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EXAMPLES = 15
"""Requests that are made up for each operation and phase."""

UNLIKE_OURS = "unsupported_method"
"""It wants 405 where a path is known and its method is not; the gate has 404 for all it does not
know below its own paths."""

ENDLESS = "/_specgate/events"
"""A stream without an end; its tests are in `tests/live/test_event_stream.py`."""


@asynccontextmanager
async def gate() -> AsyncIterator[GateProcess]:
    """With a token, and two lanes that are well."""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_THRESHOLD": "8",
            "SPECGATE_ADMIN_TOKEN": TOKEN,
        }
        async with serve_process(environ) as process:
            await process.logged("lane_health", count=2)
            yield process


async def schemathesis(url: str, folder: Path, *more: str) -> str:
    """Its report; fails the test with it if anything does not conform."""
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/_specgate/openapi.json"),
        *("--exclude-path", ENDLESS, "--max-examples", str(EXAMPLES), "--seed", "1"),
        *("--checks", "all", "--exclude-checks", UNLIKE_OURS, "--no-color", "--warnings", "off"),
        *more,
    ]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("with_token", [True, False])
async def test_it_answers_as_its_document_says(tmp_path, with_token):
    async with gate() as process:
        headers = ("-H", f"Authorization: Bearer {TOKEN}") if with_token else ()
        report = await schemathesis(process.url, tmp_path, *headers)
        assert "Operations" in report
        assert (await get(process.url + "/livez")).status == 200
        errors = [entry for entry in process.log if entry.get("level") in ("error", "critical")]
        assert errors == []
