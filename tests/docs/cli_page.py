"""docs/reference/cli.md, from the commands themselves."""

import inspect
import textwrap
from collections.abc import Iterator
from string import Template

import click

from specgate.cli.main import COMMANDS, main
from tests.docs.markdown import code, table, written_from

PAGE = Template("""\
$origin

# Commands

$about

Every command has `--help`. `specgate --version` prints the version.

Exit status: 0 done or decided, 1 failed, 2 wrong usage or settings, 3 inconclusive, 4 void or no
answer, 130 interrupted; each command says below which of them it has, and for what.

What prints a result prints it as JSON too, with `--json`. Colour is for terminals alone, and for
none where `NO_COLOR` is set. `specgate completion` makes your shell complete all of this.

$commands
""")


def cli_page() -> str:
    return PAGE.substitute(
        origin=written_from("specgate/cli"),
        about=_text(main.help),
        commands="\n\n".join(_command(name, command) for name, command in commands()),
    )


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its whole name, groups before what is in them."""
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", it) for inner, it in command.commands.items())


def _command(name: str, command: click.Command) -> str:
    arguments = [p.make_metavar(click.Context(command)) for p in command.params if _is_argument(p)]
    parts = [f"## specgate {name}", _text(command.help)]
    if arguments:
        parts.insert(1, f"`specgate {' '.join([name, *arguments])}`")
    rows = [_option(param) for param in command.params if not _is_argument(param)]
    if rows:
        parts.append(table(("option", "value", "default", "meaning"), rows))
    if command.epilog:
        parts.append(_text(command.epilog))
    return "\n\n".join(parts)


def _is_argument(param: click.Parameter) -> bool:
    return isinstance(param, click.Argument)


def _option(param: click.Parameter) -> tuple[str, ...]:
    assert isinstance(param, click.Option)
    value = "" if param.is_flag else (param.metavar or _kind(param))
    default = f"`{param.default}`" if param.show_default else ""
    return code(*param.opts), value, default, param.help or ""


def _kind(option: click.Option) -> str:
    kind = option.type
    if isinstance(kind, click.Choice):
        return " or ".join(f"`{choice}`" for choice in kind.choices)
    if isinstance(kind, click.IntRange | click.FloatRange):
        low = "" if kind.min is None else f"{'above' if kind.min_open else 'from'} {kind.min:g}"
        high = "" if kind.max is None else f"to {kind.max:g}"
        return " ".join(("a number", low, high)).strip()
    return {"integer": "a whole number", "text": "text", "file": "a file"}.get(kind.name, kind.name)


def _text(written: str | None) -> str:
    """Click's help as Markdown: what it keeps as it is (after a \\b) becomes a block of code."""
    paragraphs = inspect.cleandoc(written or "").split("\n\n")
    return "\n\n".join(_paragraph(paragraph) for paragraph in paragraphs)


def _paragraph(text: str) -> str:
    if not text.startswith("\b\n"):
        return " ".join(line.strip() for line in text.split("\n"))
    heading, rest = text.removeprefix("\b\n").replace("\n\b\n", "\n\n").split("\n", 1)
    return f"{heading}\n\n```text\n{textwrap.dedent(rest).rstrip()}\n```"
