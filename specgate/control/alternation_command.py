"""A command that parks or wakes an engine: no shell, a limit of time, and of what it may say."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from specgate.core.config import Command

SAID_MOST = 4096
"""Bytes of its output that are kept: the last."""

SHOWN_MOST = 200

OWN = "SPECGATE_"
"""Variables that no command gets to see: some hold keys."""


class CommandFailedError(Exception):
    """It could not be run, or did not end with status 0; says which, and its last line."""


async def run(command: Command, *, secrets: Sequence[str] = ()) -> None:
    """Run it to its end. Raises CommandFailedError. When it is cancelled, it and all that it
    started are killed.

    secrets: what is masked in what it said. A program that it leaves running must have its output
    elsewhere: the pipe is closed with the command's end.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=_environment(os.environ),
            # A ^C at the gate's terminal is not meant for engines.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise CommandFailedError(f"{command[0]} could not be run: {what}") from error
    assert process.stdout is not None
    said = bytearray()
    told = _read(process.stdout, said)
    reading = asyncio.get_running_loop().create_task(told, name="command-output")
    try:
        status = await _ended(process)
        # What it wrote last may still be on its way; what it left running is not waited for.
        await asyncio.wait((reading,), timeout=LAST_WORDS_S)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Its end is taken note of, or it stays in the system's list for as long as the gate runs.
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await _ended(process)
        raise
    finally:
        reading.cancel()
        # The transport of a process holds its pipe for as long as anyone has the other end.
        process._transport.close()  # type: ignore[attr-defined]
    if status != 0:
        raise CommandFailedError(_told(command[0], status, bytes(said), secrets))


LAST_WORDS_S = 0.2


async def _ended(process: asyncio.subprocess.Process) -> int:
    """Its status. Not `process.wait`, which in some versions waits for its output's end too."""
    while process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return process.returncode


async def _read(stream: asyncio.StreamReader, said: bytearray) -> None:
    while piece := await stream.read(SAID_MOST):
        said += piece
        del said[:-SAID_MOST]


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in own.items() if not name.upper().startswith(OWN)}


def _told(program: str, status: int, said: bytes, secrets: Sequence[str]) -> str:
    how = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
    lines = said.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    for secret in secrets:
        last = last.replace(secret, "***")
    shown = "".join(letter if letter.isprintable() else "?" for letter in last)
    if len(shown) > SHOWN_MOST:
        shown = shown[:SHOWN_MOST] + "..."
    return f"{program} {how}" + (f": {shown}" if shown else "")
