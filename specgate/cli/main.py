"""The command `specgate`: its group, and the exit codes that all its commands share.

0 done, 1 failed, 2 wrong usage or settings, 3 inconclusive, 4 void or no answer, 130 interrupted.
"""

import errno
import importlib
import importlib.util
import signal
import sys
import threading
from typing import Any

import click

from specgate import __version__

COMMANDS = {
    "serve": "specgate.cli.serve:serve",
    "config": "specgate.cli.config:config",
    "sim": "specgate.cli.sim:sim",
    "demo": "specgate.cli.demo:demo",
    "profile": "specgate.cli.profile:profile",
    "verdict": "specgate.cli.verdict:verdict",
    "export": "specgate.cli.export:export",
    "bench": "specgate.cli.bench:bench",
    "doctor": "specgate.cli.doctor:doctor",
    "report": "specgate.cli.report:report",
    "replay": "specgate.cli.replay:replay",
    "status": "specgate.cli.status:status",
    "completion": "specgate.cli.completion:completion",
}

EXAMPLES = """\b
Examples:
  specgate demo
      two simulated engines and a gate: nothing else is needed
  SPECGATE_SPEC_URL=http://10.0.0.5:8000 SPECGATE_PLAIN_URL=http://10.0.0.5:8001 \\
  SPECGATE_THRESHOLD=24 specgate serve
      a gate between two engines, on 127.0.0.1:8400
  specgate config
      the settings that serve would use, and where each came from

Exit status: 0 done or decided, 1 failed, 2 wrong usage or settings, 3 inconclusive, 4 void or no
answer, 130 interrupted. Each command's --help says which of them it has, and for what.

Colour is for terminals alone, and for none where NO_COLOR is set.
"""


class Refused(click.ClickException):
    """Wrong settings: the lines as they are, exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(self.message, file=file or sys.stderr)


class LazyGroup(click.Group):
    """Imports a command's module when the command is asked for: each pays for its own alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, attribute = COMMANDS.get(cmd_name, "").partition(":")
        # Looked for, not tried: an ImportError inside a command's module must be seen.
        if not module or importlib.util.find_spec(module) is None:
            return None
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # What is left takes no time, and one more ^C while Python ends would be a traceback.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            # Click would say "Aborted!" and exit with 1, which means failed.
            ctx.exit(130)
        except ValueError as error:
            # Here, as pydantic takes longer to import than `specgate --version` does to answer.
            from specgate.settings import SettingsError

            if not isinstance(error, SettingsError):
                raise
            warnings = [f"warning: {warning}" for warning in error.warnings]
            raise Refused("\n".join([*error.problems, *warnings])) from error
        except OSError as error:
            # A file that cannot be read or written, or a full disk, is no bug: one line.
            if error.filename is None and error.errno != errno.ENOSPC:
                raise
            raise click.ClickException(_file_trouble(error)) from error


def _file_trouble(error: OSError) -> str:
    why = error.strerror or str(error)
    if error.filename is None:
        return why
    return f"{click.format_filename(error.filename)}: {why}"


@click.group(
    cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="specgate")
def main() -> None:
    """A load-aware gate between a speculative and a plain LLM engine.

    It sends requests to the lane that speculates while that pays, and to the plain one when load
    is too high for it. Settings are SPECGATE_* variables, or a file that SPECGATE_CONFIG names.
    """
