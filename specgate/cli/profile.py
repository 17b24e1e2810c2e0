"""`specgate profile`: look at measurements, bring in those of other tools, put them together."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from specgate.bench.concluding import concluded
from specgate.bench.faults import Misused
from specgate.bench.importing import (
    FORMATS,
    Format,
    ImportRefusedError,
    Row,
    guessed,
    profile_from,
    rows_of_table,
)
from specgate.bench.judging import Rules
from specgate.bench.merging import MergeRefusedError, merged
from specgate.bench.rate_table import doubts, rate_tables
from specgate.bench.results import rows_of_results
from specgate.bench.table import tables
from specgate.bench.wording import headline
from specgate.cli.profile_files import PROFILE, exit_code_of
from specgate.cli.values import NAME, Finite
from specgate.core.crossover import MARGIN
from specgate.core.profile import Fingerprint, Objective, Profile, dumps

_MARGIN = click.option(
    "--margin",
    type=Finite(0, 1, max_open=True),
    default=MARGIN,
    show_default=True,
    help="Differences below this share are worth nothing.",
)
_OUT = click.option(
    "--out", type=click.File("w", lazy=True), help="Where to write the profile; else to stdout."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="The profile itself, not a table.")


GROUP_EPILOG = """\b
Examples:
  specgate profile show bench/profile.json
  specgate profile import table.csv --out profile.json
  specgate profile merge monday.json tuesday.json --out both.json

Exit status: 0 done, 1 it could not be written, 2 wrong usage, or a file that is no profile,
3 what was made does not decide.
"""
SHOW_EPILOG = "Exit status: 0 printed, 2 wrong usage, or a file that is no profile."
MADE_EPILOG = """Exit status: 0 decided, 1 it could not be written, 2 wrong usage, or files that do
not do, 3 not decided.
"""


@click.group(epilog=GROUP_EPILOG)
def profile() -> None:
    """Look at profiles, import them, put them together.

    A profile is a file that holds what was measured: `specgate bench` writes one, `import` makes
    one from results that you have. Profiles that come with specgate are taken by name.
    """


@profile.command(epilog=SHOW_EPILOG)
@click.argument("profile", type=PROFILE, metavar="NAME|FILE")
@_JSON
def show(*, profile: Profile, as_json: bool) -> None:
    """Print a profile as a table, and what it says.

    \b
    Example:
      specgate profile show reference
    """
    if as_json:
        click.echo(dumps(profile), nl=False)
    else:
        print_tables(profile)


@profile.command("import", epilog=MADE_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="[ARM=]FILE...")
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="Of the files: a table, or the results of SGLang's or vLLM's own tool.",
)
@_MARGIN
@click.option(
    "--objective",
    type=click.Choice([str(objective) for objective in Objective]),
    default=str(Objective.THROUGHPUT),
    show_default=True,
    help="Of a bench's folder, what its arms are compared by; all else is compared by throughput.",
)
@click.option(
    "--model", type=NAME, metavar="NAME", help="The model that was measured, for the record."
)
@_OUT
@_JSON
def import_(
    *,
    files: tuple[str, ...],
    kind: Format,
    margin: float,
    objective: str,
    model: str | None,
    out: TextIO | None,
    as_json: bool,
) -> None:
    """Make a profile from results that you have.

    A table in CSV or Markdown has the columns concurrency, spec and plain, in tok/s. Results of
    `sglang.bench_serving` (JSON Lines) and of `vllm bench serve --save-result` (JSON) are files of
    one arm each, with --max-concurrency. Rows of one concurrency count as repeats. A folder that
    `specgate bench` has begun to fill is judged as it is: no more is known, and the shape says so.

    \b
    Examples:
      specgate profile import bench --out bench/profile.json
      specgate profile import table.csv --out profile.json
      specgate profile import spec=spec.jsonl plain=plain.jsonl --out profile.json
      specgate profile import spec=s1.json spec=s8.json plain=p1.json plain=p8.json
    """
    rules = Rules(margin=margin, objective=Objective(objective))
    if "" in files:
        raise click.UsageError("an empty name: give a file or a bench's folder")
    try:
        folders = [name for name in files if os.path.isdir(name)]
        if folders:
            made = _of_a_bench(folders, files, rules)
            if model is not None:
                made = replace(made, fingerprint=replace(made.fingerprint, model=model))
        elif rules.objective is not Objective.THROUGHPUT:
            raise ImportRefusedError("--objective is for a bench's folder")
        else:
            rows = [row for name in files for row in _rows(name, kind)]
            made = profile_from(rows, rules=rules, fingerprint=Fingerprint(model=model))
    except (ImportRefusedError, Misused) as error:
        raise click.UsageError(str(error)) from error
    _write(made, out, as_json=as_json)


@profile.command(epilog=MADE_EPILOG)
@click.argument("files", nargs=-1, required=True, type=PROFILE, metavar="FILE...")
@_MARGIN
@_OUT
@_JSON
def merge(*, files: tuple[Profile, ...], margin: float, out: TextIO | None, as_json: bool) -> None:
    """Put profiles together: more repeats, levels, arms or lengths.

    Of one length of prompts and outputs, repeats are put together and judged again. Other lengths
    stand side by side.

    \b
    Example:
      specgate profile merge monday.json tuesday.json --out both.json
    """
    try:
        made = merged(files, rules=Rules(margin=margin))
    except MergeRefusedError as error:
        raise click.UsageError(str(error)) from error
    _write(made, out, as_json=as_json)


def print_tables(shown: Profile) -> None:
    """On stdout: a table for each curve, what it says, and what makes it doubtful."""
    # Here, as it takes longer to import than --help takes.
    from rich.console import Console

    # A pipe has no width: nothing is cut or wrapped there.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    for table, curve in zip(tables(shown), (shown, *shown.also), strict=True):
        if curve.levels:
            console.print(table)
        console.print(f"\n{headline(curve)}", markup=False)
        for alarm in curve.alarms:
            console.print(f"alarm: {alarm}", markup=False)
        console.print()
    for table in rate_tables(shown):
        console.print(table)
        console.print()
    for line in doubts(shown):
        console.print(line, markup=False)


def _of_a_bench(folders: Sequence[str], files: Sequence[str], rules: Rules) -> Profile:
    if len(files) > 1:
        raise ImportRefusedError(f"{folders[0]}: a bench's folder goes alone")
    try:
        made = concluded(Path(folders[0]), rules.margin, rules.objective)
    except Misused:
        raise
    except OSError as error:
        raise ImportRefusedError(f"{error.filename or folders[0]}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ImportRefusedError(f"{folders[0]}: not what a bench writes: {error}") from error
    if made is None:
        raise ImportRefusedError(f"{folders[0]}: no bench has measured anything there that counts")
    return made


def _rows(name: str, kind: Format) -> Iterable[Row]:
    arm, equals, path = name.rpartition("=")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ImportRefusedError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ImportRefusedError(f"{path}: not UTF-8 text") from error
    found = guessed(text, path) if kind == "auto" else kind
    try:
        if found in ("csv", "markdown"):
            return rows_of_table(text)
        if not equals:
            raise ImportRefusedError("say whose results these are, as in spec=FILE plain=FILE")
        return rows_of_results(arm, text)
    except ImportRefusedError as error:
        raise ImportRefusedError(f"{path}: {error}") from error


def _write(made: Profile, out: TextIO | None, *, as_json: bool) -> None:
    """To the file, and a table; or to stdout alone, with what it says on stderr."""
    if out is not None:
        out.write(dumps(made))
    if out is None or as_json:
        click.echo(dumps(made), nl=False)
        click.echo(headline(made), err=True)
    else:
        print_tables(made)
    click.get_current_context().exit(exit_code_of(made))
