"""`specgate report`: a profile as a page with figures."""

import json
import os
from pathlib import Path

import click

from specgate.bench.concluding import PROFILE as PROFILE_FILE
from specgate.cli.completion import Completions
from specgate.cli.profile_files import PROFILE
from specgate.core.profile import Profile
from specgate.settings.extras import how_to_install

_EXTRA = ("jinja2", "matplotlib")


class NoReportError(Exception):
    """It could not be written; the message is one line that says why."""


class _Source(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """A profile, and the folder where its report belongs."""

    name = "profile"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Profile, Path]:
        # Here, as they bring the simulator along.
        from specgate.bench.shipped import names

        if not value:
            return self.fail("an empty name: give a profile's name, a file or a folder", param, ctx)
        path = Path(value)
        # A name is a name also where its report stands in a folder of that name.
        # Not Path.is_dir, which raises for a name that is too long.
        if value not in names() and os.path.isdir(value):
            if not (path / PROFILE_FILE).is_file():
                hint = f"`specgate profile import {value}` makes one of what a bench left"
                return self.fail(f"{value}: there is no {PROFILE_FILE} in it; {hint}", param, ctx)
            path /= PROFILE_FILE
        found = PROFILE.convert(str(path), param, ctx)
        return found, Path(value) if value in names() else path.parent

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> Completions:
        return PROFILE.shell_complete(ctx, param, incomplete)


EPILOG = "Exit status: 0 drawn, 1 it could not be written, or the extra is missing, 2 wrong usage."


@click.command(epilog=EPILOG, short_help="Draw a profile: one HTML page, and its figures as SVG.")
@click.argument("source", type=_Source(), metavar="NAME|FILE|DIR")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to; else the profile's own, or a new one of the name that was given.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object with the page's path.")
def report(*, source: tuple[Profile, Path], out: Path | None, as_json: bool) -> None:
    """Draw a profile: one HTML page that needs nothing else, and its figures as SVG files.

    `specgate bench` does so at its end. It writes report.html and figures/*.svg, and needs the
    extra `bench`: pip install 'specgate[bench]', or from a clone pip install '.[bench]'.

    \b
    Examples:
      specgate report bench
      specgate report reference --out reference-report
    """
    profile, folder = source
    try:
        page = written(profile, out or folder)
    except NoReportError as error:
        raise click.ClickException(str(error)) from error
    click.echo(json.dumps({"report": str(page)}) if as_json else f"Report: {page}")


def in_a_line(profile: Profile, folder: Path) -> str:
    """Write the report into the folder; where it is, or why there is none."""
    try:
        return f"Report: {written(profile, folder)}"
    except NoReportError as error:
        return f"No report: {error}"


def written(profile: Profile, folder: Path) -> Path:
    """Write the report into the folder; the page's path. Raises NoReportError."""
    try:
        # Here, as it takes long to import, and its libraries need not be there.
        from specgate.bench.report import write

        return write(profile, folder)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise NoReportError(f"the report needs {how_to_install('bench')}") from error
    except OSError as error:
        raise NoReportError(f"{error.filename or folder}: {error.strerror}") from error
