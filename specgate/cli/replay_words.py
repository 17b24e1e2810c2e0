"""What `specgate replay` says: the end of its help, and what it prints, writes and draws."""

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from specgate.replay.plan import Plan
from specgate.replay.pool import LEFT_OUT
from specgate.replay.record import Replay
from specgate.replay.shipped import TRACES
from specgate.replay.traffic import PATTERNS
from specgate.replay.wording import notes, sentence, sweep_title, title
from specgate.settings.extras import how_to_install


def _names(heading: str, said: Mapping[str, str]) -> str:
    width = max(map(len, said)) + 2
    lines = [
        line
        for name, text in said.items()
        for line in _folded(text, f"  {name:<{width}}", " " * (width + 2))
    ]
    return "\n".join(["\b", heading, *lines])


def _folded(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, 78, initial_indent=first, subsequent_indent=rest)


EPILOG = "\n\n".join(
    [
        _names(
            "Patterns, of arrivals at random (Poisson):",
            {name: said for name, (said, _) in PATTERNS.items()},
        ),
        _names(
            "Traces that come with specgate:", {name: said for name, (_, said) in TRACES.items()}
        ),
        "\n".join(
            ["\b", "What the model leaves out:"]
            + [line for text in LEFT_OUT for line in _folded(text, "  - ", "    ")]
        ),
        """\b
Examples:
  specgate replay --profile k26-int4-8xrtxpro6000-vllm-ctx10k --load 0.6
  specgate replay --profile bench/profile.json --trace arrivals.csv --sweep
  specgate replay --profile bench/profile.json --trace diurnal --threshold 24 --json -""",
        "Exit status: 0 done, 1 a file could not be written, 2 wrong usage, 130 interrupted.",
    ]
)


def show(made: Plan, replays: Sequence[Replay]) -> None:
    """The table to stdout, and what it says; of several loads or contentions the table alone."""
    # Here, as it takes longer to import than --help takes.
    from rich.console import Console

    from specgate.replay.metered import metered
    from specgate.replay.table import meter_table, sweep_table, table

    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    if len(replays) > 1:
        console.print(sweep_title(made), markup=False, end="\n\n")
        console.print(sweep_table(replays))
        return
    load, world, found = replays[0]
    console.print(title(made, found, load, world.contention), markup=False, end="\n\n")
    console.print(table(replays[0]))
    console.print()
    if said := metered(found):
        console.print(meter_table(said))
        console.print()
    for line in (sentence(made, found), *notes(made, found)):
        console.print(line, markup=False)


def write(file: Path, found: object) -> None:
    """The figures as JSON; `-` is stdout. Raises ClickException."""
    text = json.dumps(found, indent=2) + "\n"
    if str(file) == "-":
        click.echo(text, nl=False)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error


def draw(made: Plan, one: Replay, folder: Path) -> str:
    """Draws the picture: where it is, or why there is none. Raises ClickException."""
    try:
        # Here, as it takes long to import, and its libraries need not be there.
        from specgate.replay import picture

        return f"Picture: {picture.write(made, one, folder)}"
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        return f"No picture: it needs {how_to_install('bench')}"
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror}") from error
