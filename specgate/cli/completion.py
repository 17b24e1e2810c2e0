"""`specgate completion`: the script by which a shell completes specgate's command line."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "specgate"
ASKED_BY = "_SPECGATE_COMPLETE"
"""The variable with which the script asks specgate what may follow; click reads it."""

EPILOG = """\b
Examples:
  For this shell, and in ~/.bashrc or ~/.zshrc for each:
    eval "$(specgate completion bash)"
    eval "$(specgate completion zsh)"
\b
  Written once, where the shell looks by itself:
    specgate completion bash > ~/.local/share/bash-completion/completions/specgate
    specgate completion fish > ~/.config/fish/completions/specgate.fish

bash must be 4.4 or newer. Exit status: 0 printed, 2 wrong usage.
"""


Completions = list[CompletionItem]


def named(names: Iterable[str], incomplete: str) -> Completions:
    """Where a name or a file may stand: the names that begin so; files where none does."""
    files = CompletionItem(incomplete, type="file")
    # First: bash forgets what came before it.
    return [files, *beginning(names, incomplete)]


def beginning(names: Iterable[str], incomplete: str) -> Completions:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(epilog=EPILOG, short_help="Print the script that completes specgate in your shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(*, shell: str) -> None:
    """Print the script by which bash, zsh or fish completes specgate's command line.

    It completes commands, options and their values, names of profiles and traces, and files. It
    asks specgate each time, so it is never out of date.
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, PROGRAM, ASKED_BY).source())
