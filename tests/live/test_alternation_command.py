"""Commands that park and wake: what they get, what is kept of what they say, and how they end."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from specgate.control.alternation_command import SHOWN_MOST, CommandFailedError, run


def script(text: str) -> tuple[str, ...]:
    return sys.executable, "-c", text


async def failure(*command: str, secrets: tuple[str, ...] = ()) -> str:
    with pytest.raises(CommandFailedError) as caught:
        await run(command, secrets=secrets)
    return str(caught.value)


async def test_a_command_that_ends_well_says_nothing():
    await run(script("print('done')"))


async def test_one_that_fails_is_told_with_its_status_and_its_last_line():
    told = await failure(*script("print('first'); print('no such unit\\n'); raise SystemExit(5)"))
    assert told == f"{sys.executable} ended with status 5: no such unit"


async def test_one_that_is_killed_is_told_by_its_signal():
    told = await failure("sh", "-c", "kill -9 $$")
    assert told == "sh was ended by signal 9"


async def test_a_program_that_is_not_there_is_named():
    told = await failure("/no/such/program")
    assert told == "/no/such/program could not be run: No such file or directory"


async def test_no_shell_reads_it():
    await run((*script("import sys; assert sys.argv[1] == '$HOME; exit 3'"), "$HOME; exit 3"))


async def test_the_gate_s_own_variables_are_not_passed_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECGATE_SPEC_API_KEY", "k3y")
    monkeypatch.setenv("ANOTHER", "yes")
    text = "import os; assert 'SPECGATE_SPEC_API_KEY' not in os.environ; os.environ['ANOTHER']"
    await run(script(text))


async def test_keys_are_masked_and_what_is_shown_is_short_and_harmless():
    text = "print('a\\x1b[31m k3y ' + 'y' * 5000, end=''); raise SystemExit(1)"
    told = await failure(*script(text), secrets=("k3y",))
    assert "k3y" not in told
    assert "\x1b" not in told
    assert len(told) < SHOWN_MOST + 200


async def test_much_output_holds_up_nobody_and_is_not_kept():
    text = "import sys; sys.stdout.write('x' * 10_000_000); print(); print('end'); sys.exit(1)"
    assert (await failure(*script(text))).endswith(": end")


async def test_what_it_leaves_running_is_not_waited_for(tmp_path: Path):
    began = time.monotonic()
    pid = tmp_path / "pid"
    await run(("sh", "-c", f"sleep 30 & echo $! > {pid}"))
    assert time.monotonic() - began < 5
    os.kill(int(pid.read_text()), 9)


async def test_one_that_takes_too_long_is_killed_with_all_that_it_started(tmp_path: Path):
    pid = tmp_path / "pid"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await run(("sh", "-c", f"sleep 60 & echo $! > {pid}; wait"))
    child = int(pid.read_text())
    async with asyncio.timeout(5):
        while Path(f"/proc/{child}/exe").exists():
            await asyncio.sleep(0.02)
