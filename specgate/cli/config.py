"""`specgate config`: the settings in force, and where each came from."""

import json

import click

from specgate.settings import Loaded, kind_of, load
from specgate.settings.kinds import Written

EPILOG = """\b
Examples:
  specgate config
      what this shell's environment gives
  SPECGATE_CONFIG=specgate.toml specgate config
      the same with a file beneath it: is it right, before a reload?
  specgate config --json | jq -r .settings.threshold.source
      for scripts

Exit status: 0 printed, 2 a setting is wrong or missing, or wrong usage.
"""


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def config(*, as_json: bool) -> None:
    """Print the settings in force and where each came from.

    Secrets are masked. Warnings go to stderr, and so does a line for each problem if a setting is
    wrong or missing.
    """
    loaded = load()
    if as_json:
        click.echo(json.dumps(as_object(loaded), indent=2))
    else:
        click.echo(as_table(loaded))
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)


def as_object(loaded: Loaded) -> dict[str, object]:
    """What --json prints: null is a setting that is not set and has no word for that."""
    return {
        "settings": {
            name: {"value": _value(loaded, name), "source": source}
            for name, source in loaded.sources.items()
        },
        "warnings": list(loaded.warnings),
    }


def as_table(loaded: Loaded) -> str:
    rows = [("name", "value", "source")]
    rows += [
        (name, as_text(_value(loaded, name)), source) for name, source in loaded.sources.items()
    ]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:{first}}  {value:{second}}  {source}" for name, value, source in rows)


def as_text(value: Written) -> str:
    """As it would be written in a variable."""
    if value is None:
        return "(unset)"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(loaded: Loaded, name: str) -> Written:
    return kind_of(name).write(getattr(loaded.settings, name))
