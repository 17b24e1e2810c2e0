"""`specgate export`: the engine's own table, from a profile."""

import json

import click

from specgate.bench.export import TARGETS, ExportError, InconclusiveError, exported
from specgate.bench.not_held import Target
from specgate.cli.profile_files import INCONCLUSIVE, PROFILE
from specgate.core.profile import Profile

EPILOG = """Exit status: 0 written, 2 wrong usage, or what the format cannot hold, 3 the profile
does not decide.
"""


@click.command(epilog=EPILOG)
@click.argument("profile", type=PROFILE, metavar="NAME|FILE")
@click.option(
    "--to", type=click.Choice(TARGETS), required=True, help="The engine whose table to write."
)
@click.option(
    "--steps",
    multiple=True,
    metavar="ARM=N",
    help="How many steps an arm drafts, where the profile does not say.",
)
@click.option(
    "--context",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="Of a profile with several prompt lengths, which one; without it the most cautious.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object: the text, and what it cannot hold."
)
def export(
    *, profile: Profile, to: Target, steps: tuple[str, ...], context: int | None, as_json: bool
) -> None:
    """Write the engine's own table of draft lengths by batch size.

    What its format cannot hold is a comment in the table, or stands on stderr where it takes none.
    What of this measurement is lost in it, a draft tree for one, stands on stderr in any case.

    \b
    Examples:
      specgate export profile.json --to vllm
      specgate export profile.json --to sglang > adaptive.json
      specgate export profile.json --to trtllm --steps spec=3
      specgate export profile.json --to vllm --context 8000
    """
    try:
        table = exported(profile, to, dict(map(_steps, steps)), context)
    except InconclusiveError as error:
        click.echo(f"Error: {error}", err=True)
        click.get_current_context().exit(INCONCLUSIVE)
    except ExportError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        told = {"text": table.text, "notes": list(table.notes), "lost": list(table.lost)}
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(table.text, nl=False)
    for note in table.notes if to == "vllm" else table.lost:
        word = "lost" if note in table.lost else "note"
        click.echo(f"{word}: {note}", err=True)


def _steps(written: str) -> tuple[str, int]:
    arm, _, steps = written.rpartition("=")
    if not arm or not steps.removeprefix("-").isdecimal():
        raise click.UsageError(f"--steps {written}: an arm and a whole number, as in spec=3")
    return arm, int(steps)
