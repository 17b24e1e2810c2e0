"""`python -m tests.chaos`: the chaos for longer, with more clients, with another seed."""

import asyncio
import sys
import tempfile
from pathlib import Path

import click

from tests.chaos.memory import growth
from tests.chaos.run import chaos
from tests.chaos.words import told

GROWTH_MAX_MB = 5.0


@click.command()
@click.option("--seconds", default=600.0, show_default=True, help="How long the load lasts.")
@click.option("--clients", default=200, show_default=True, help="How many at once.")
@click.option("--seed", default=1, show_default=True, help="Of the clients and the lanes' weather.")
@click.option(
    "--memory",
    type=int,
    metavar="REQUESTS",
    help="Compare the gate's memory after so many requests with that after a tenth of them.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for the lanes' journals and the gate's log; they are thrown away without one.",
)
def main(seconds: float, clients: int, seed: int, memory: int | None, keep: Path | None) -> None:
    """Concurrent clients of all manners through a gate, to two lanes that fail in all manners.

    Prints what was seen, and exits with 1 if anything is wrong.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        if memory is not None:
            grown = asyncio.run(
                growth(folder, first=memory // 10, last=memory, clients=clients, seed=seed)
            )
            before, after = grown.memory_mb
            click.echo(
                f"memory after {grown.requests[0]} requests {before:.1f} MiB, after "
                f"{grown.requests[1]} {after:.1f} MiB: {grown.grown_mb:+.1f}"
            )
            for problem in grown.problems:
                click.echo(f"    {problem}")
            sys.exit(bool(grown.problems) or grown.grown_mb > GROWTH_MAX_MB)
        report = asyncio.run(chaos(folder, seconds=seconds, clients=clients, seed=seed))
        for line in told(report):
            click.echo(line)
        sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
