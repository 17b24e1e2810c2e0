"""`specgate doctor`: look at one or two engines before they are measured or served from."""

import asyncio
import json
import ssl
import sys
from collections.abc import Sequence

import click
import uvloop

from specgate.bench.plan import LEVELS
from specgate.cli.doctor_words import as_json, page
from specgate.cli.profile_files import PROFILE
from specgate.cli.values import ENGINE_URL, KEY
from specgate.core.config import Placement
from specgate.core.lanes import Lane
from specgate.core.profile import Profile
from specgate.doctor.asking import ask
from specgate.doctor.faults import DoctorFault
from specgate.doctor.judging import assigned, judge
from specgate.doctor.reading import Asked, facts_of

WRONG, INTERRUPTED = 1, 130

EPILOG = """\b
Examples:
  Both lanes:
    specgate doctor --spec-url http://10.0.0.5:8000 --plain-url http://10.0.0.5:8001
\b
  One engine, or two of which one speculates:
    specgate doctor http://10.0.0.5:8000
\b
  Are these still the engines that were measured?
    specgate doctor http://10.0.0.5:8000 http://10.0.0.5:8001 --profile bench/profile.json

It takes 5 to 30 s, and sends each engine one request of 48 tokens.

Exit status: 0 nothing wrong (notes at most), 1 warnings or errors, 2 wrong usage, key or address,
4 an engine that does not answer, 130 interrupted.
"""


@click.command(
    epilog=EPILOG, short_help="Say what would spoil a measurement of these engines, or a gate."
)
@click.argument("urls", nargs=-1, type=ENGINE_URL, metavar="[URL]...")
@click.option("--spec-url", type=ENGINE_URL, metavar="URL", help="The engine that speculates.")
@click.option("--plain-url", type=ENGINE_URL, metavar="URL", help="The engine that does not.")
@click.option(
    "--profile",
    type=PROFILE,
    metavar="NAME|FILE",
    help="What was measured: its levels, its threshold, its break-even accept lengths.",
)
@click.option(
    "--api-key", type=KEY, metavar="KEY", envvar="OPENAI_API_KEY", help="Also OPENAI_API_KEY."
)
@click.option(
    "--pool",
    type=click.Choice([each.value for each in Placement]),
    default=Placement.SHARED.value,
    envvar="SPECGATE_POOL",
    help="What the lanes run on: with alternate, can each give its memory back? Also "
    "SPECGATE_POOL.",
)
@click.option("--json", "wants_json", is_flag=True, help="One JSON object instead of a page.")
def doctor(
    *,
    urls: Sequence[str],
    spec_url: str | None,
    plain_url: str | None,
    profile: Profile | None,
    api_key: str | None,
    pool: str,
    wants_json: bool,
) -> None:
    """Look at one or two engines, and say what would spoil a measurement or a gate.

    Each finding says what was read where, and what to change. What could not be found out is listed
    as not known, and is never guessed. No gate has to run.
    """
    named = {Lane.SPEC: spec_url, Lane.PLAIN: plain_url}
    lanes = [(lane.value, url) for lane, url in named.items() if url is not None]
    if urls and lanes:
        raise click.UsageError("give addresses, or --spec-url and --plain-url, and not both")
    if not urls and not lanes:
        raise click.UsageError("no engine: give one or two addresses")
    if len(urls) > 2:
        raise click.UsageError(f"two engines at most, not {len(urls)}")
    labels = ("engine",) if len(urls) == 1 else ("engine 1", "engine 2")
    given = lanes or list(zip(labels, urls, strict=True))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            answers = runner.run(_ask(given, api_key))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    faults = [each for each in answers if isinstance(each, DoctorFault)]
    facts = [facts_of(each) for each in answers if isinstance(each, Asked)]
    engines = [(each, Lane(each.label)) for each in facts] if lanes else assigned(facts)
    report = judge(engines, profile, LEVELS[-1], Placement(pool))
    lines = [str(fault) for fault in faults]
    if wants_json:
        click.echo(json.dumps(as_json(engines, report, lines), indent=2))
    elif facts:
        click.echo(page([each for each, _ in engines], report), nl=False)
    for line in lines:
        click.echo(f"Error: {line}", err=True)
    code = max((fault.exit_code for fault in faults), default=WRONG if report.wrong else 0)
    sys.exit(code)


async def _ask(given: Sequence[tuple[str, str]], key: str | None) -> list[Asked | DoctorFault]:
    """Both at once; a fault stands in the place of what an engine would have said."""
    tls = ssl.create_default_context()

    async def one(label: str, url: str) -> Asked | DoctorFault:
        try:
            return await ask(label, url, key, tls)
        except DoctorFault as fault:
            return fault

    return list(await asyncio.gather(*(one(label, url) for label, url in given)))
