"""`specgate bench`: from which load on speculation stops paying, measured, with an interval."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click
import uvloop
from click.core import ParameterSource
from rich.console import Console

from specgate.bench.asking import Api, Arm, Manner
from specgate.bench.faults import BenchFault
from specgate.bench.load import Unreachable
from specgate.bench.plan import LEVELS, REPEATS, Plan
from specgate.bench.progress import OnConsole
from specgate.bench.rate_sweep import RateOutcome, run_rates
from specgate.bench.rates import RatePlan
from specgate.bench.slo import Slo
from specgate.bench.stage import Bench, paced
from specgate.bench.sweep import Outcome, run
from specgate.cli.bench_values import ARM, DURATION, LIMITS, NUMBERS, RATES
from specgate.cli.bench_words import broken_off, conclusion, intended, intention
from specgate.cli.values import ENGINE_URL, KEY, NAME, Finite
from specgate.core.lanes import Lane
from specgate.core.profile import Objective

BUDGET_S = 900.0
INTERRUPTED, INCONCLUSIVE, VOID = 130, 3, 4

EPILOG = """\b
Examples:
  Both lanes, a quarter of an hour:
    specgate bench --spec-url http://10.0.0.5:8000 --plain-url http://10.0.0.5:8001
\b
  Engines that cannot be up together, one after the other into the same folder:
    specgate bench --arm spec=http://10.0.0.5:8000 --out crossover
    specgate bench --arm plain=http://10.0.0.5:8000 --out crossover
\b
  What users would wait at rates of arrival, and which rates an engine cannot carry:
    specgate bench --spec-url ... --plain-url ... --open-loop 0.5,1,2 --slo ttft=2s
\b
  What it would do, and for how long:
    specgate bench --spec-url ... --plain-url ... --budget 2h --dry-run

Exit status: 0 decided, 1 a file could not be written, 2 wrong usage, 3 inconclusive, 4 void,
130 interrupted: what was measured is kept, and the commands that go on, or make a profile of it as
it is, are printed.
"""


@click.command(epilog=EPILOG, short_help="Measure from which load on speculation stops paying.")
@click.option(
    "--spec-url",
    type=ENGINE_URL,
    metavar="URL",
    help="The speculating engine: short for --arm spec=URL.",
)
@click.option(
    "--plain-url",
    type=ENGINE_URL,
    metavar="URL",
    help="The plain engine: short for --arm plain=URL.",
)
@click.option(
    "--arm",
    "arms",
    type=ARM,
    multiple=True,
    help="An engine under a name; repeat it for more. `plain` is what the others are held against.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench"),
    show_default=True,
    help="Folder for the record; arms measured one by one share it.",
)
@click.option(
    "--concurrency",
    type=NUMBERS,
    default=",".join(map(str, LEVELS)),
    show_default=True,
    help="Levels: requests held in flight.",
)
@click.option(
    "--open-loop",
    type=RATES,
    metavar="RATE,...",
    help="Poisson arrivals at so many requests a second, in place of --concurrency: latencies and "
    "queues, and no crossover.",
)
@click.option(
    "--max-tokens", type=NUMBERS, default="256", show_default=True, help="Output tokens a request."
)
@click.option("--context", type=NUMBERS, help="Prompt lengths to aim at; without it, as they are.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 50),
    help=f"Of each level, exactly so many; without it {REPEATS}, and more where the budget allows.",
)
@click.option(
    "--budget",
    type=DURATION,
    help="Time to spend where the verdict is open: 40m, 2h; 15m if no --repeats is given.",
)
@click.option(
    "--requests-per-level",
    type=click.IntRange(1),
    help="Requests that count; without it 5 for each in flight, and 40 at least; of an open loop "
    "100, or a minute's.",
)
@click.option(
    "--warmup",
    type=click.IntRange(1),
    help="Requests before those that count, in each cell; one for each in flight at least.",
)
@click.option(
    "--prompts",
    metavar="builtin|fixed|FILE",
    default="builtin",
    show_default=True,
    help="Ours in six classes, one favourable prompt, or JSON lines (OpenAI, ShareGPT).",
)
@click.option(
    "--ignore-eos/--natural-stop",
    default=True,
    show_default=True,
    help="Always --max-tokens tokens, or (`--natural-stop`) as many as the model likes.",
)
@click.option("--temperature", type=Finite(0, 2), default=0.0, show_default=True, help="Sampling.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of order and sampling.")
@click.option(
    "--api",
    type=click.Choice(get_args(Api)),
    default="chat",
    show_default=True,
    help="/v1/chat/completions, /v1/completions, or the /generate of SGLang.",
)
@click.option(
    "--stream/--no-stream", default=True, show_default=True, help="Without it no TTFT, no TPOT."
)
@click.option(
    "--model", type=NAME, metavar="NAME", help="Without it, what each engine says it serves."
)
@click.option(
    "--api-key",
    type=KEY,
    metavar="KEY",
    envvar="OPENAI_API_KEY",
    help="Also OPENAI_API_KEY; never recorded.",
)
@click.option(
    "--extra-body", metavar="JSON", default="{}", help="Members to add to each request's body."
)
@click.option(
    "--margin",
    type=Finite(0, 1),
    default=0.03,
    show_default=True,
    help="Differences within it are ties.",
)
@click.option(
    "--objective",
    type=click.Choice([str(objective) for objective in Objective]),
    callback=lambda _ctx, _param, value: Objective(value),
    default=str(Objective.THROUGHPUT),
    show_default=True,
    help="What the arms are compared by; `goodput` is requests a second that met --slo.",
)
@click.option(
    "--slo",
    type=LIMITS,
    metavar="ttft=2s,tpot=50ms,e2e=30s",
    help="Limits that a request must meet to count as SLO goodput: any of the three.",
)
@click.option("--resume", is_flag=True, help="Go on with what --out holds.")
@click.option("--dry-run", is_flag=True, help="Print the plan and its expected time, and stop.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="The profile itself instead of tables; with --dry-run the plan as one JSON object.",
)
def bench(
    *,
    spec_url: str | None,
    plain_url: str | None,
    arms: Sequence[tuple[str, str]],
    concurrency: tuple[int, ...],
    open_loop: tuple[float, ...] | None,
    max_tokens: tuple[int, ...],
    context: tuple[int, ...] | None,
    repeats: int | None,
    budget: float | None,
    requests_per_level: int | None,
    warmup: int | None,
    ignore_eos: bool,
    temperature: float,
    api: Api,
    stream: bool,
    api_key: str | None,
    extra_body: str,
    objective: Objective,
    slo: Slo | None,
    dry_run: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Measure from which load on speculation stops paying, on your engines, with your prompts.

    It holds each level of concurrency against each arm in turn, records every request in --out,
    and tells the crossover with its interval. Nothing else may use the engines meanwhile.
    """
    levels = click.get_current_context().get_parameter_source("concurrency")
    if open_loop is not None and levels is not ParameterSource.DEFAULT:
        raise click.UsageError("--open-loop and --concurrency are two runs: give one of them")
    named = _arms(spec_url, plain_url, arms, api_key)
    _comparable(objective, slo, max_tokens, stream=stream)
    plan = Plan(
        arms=tuple(arm.name for arm in named),
        levels=tuple(sorted(set(concurrency))),
        contexts=context or (None,),
        max_tokens=max_tokens,
        repeats=repeats or REPEATS,
        requests=requests_per_level,
        warm_up=warmup,
    )
    manner = Manner(
        api=api,
        ignore_eos=ignore_eos,
        temperature=temperature,
        stream=stream,
        extra=_members(extra_body),
    )
    asked = Bench(
        arms=named,
        plan=plan,
        manner=manner,
        objective=objective,
        slo=slo,
        rates=RatePlan(plan=plan, rates=open_loop) if open_loop is not None else None,
        budget_s=budget if budget is not None or repeats is not None else BUDGET_S,
        argv=tuple(sys.argv[1:]),
        **rest,
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if dry_run:
                pace = runner.run(paced(asked))
                if as_json:
                    click.echo(json.dumps(intended(asked, pace), indent=2))
                else:
                    intention(asked, pace)
                return
            code = _measured(asked, runner, as_json=as_json)
    except BenchFault as fault:
        click.echo(f"Error: {fault}", err=True)
        if isinstance(fault, Unreachable) and asked.out.exists():
            for line in broken_off(asked):
                click.echo(line, err=True)
        code = fault.exit_code
    sys.exit(code)


def _measured(asked: Bench, runner: asyncio.Runner, *, as_json: bool) -> int:
    """The exit code."""
    try:
        with OnConsole(Console(stderr=True)) as teller:
            outcome: Outcome | RateOutcome
            if asked.rates is None:
                outcome = runner.run(run(asked, teller))
            else:
                outcome = runner.run(run_rates(asked, asked.rates, teller))
        return _concluded(asked, outcome, as_json=as_json)
    except KeyboardInterrupt:
        first, *others = broken_off(asked)
        click.echo(f"\ninterrupted: {first}", err=True)
        for line in others:
            click.echo(line, err=True)
        return INTERRUPTED


def _concluded(asked: Bench, outcome: Outcome | RateOutcome, *, as_json: bool) -> int:
    """The exit code."""
    if outcome.spent:
        click.echo("the budget is spent: --resume with a new --budget goes on", err=True)
    decided = conclusion(asked.out, asked.margin, asked.objective, as_json=as_json)
    for void in outcome.voids:
        click.echo(f"void: {void}", err=True)
    if outcome.voids:
        return VOID
    # An open loop is asked for latencies: it has done what it should when all were measured.
    done = decided if asked.rates is None else not outcome.spent
    return 0 if done else INCONCLUSIVE


def _arms(
    spec: str | None, plain: str | None, others: Sequence[tuple[str, str]], key: str | None
) -> tuple[Arm, ...]:
    given = [(lane.value, url) for lane, url in ((Lane.SPEC, spec), (Lane.PLAIN, plain)) if url]
    given += others
    if not given:
        raise click.UsageError("no arm: give --spec-url and --plain-url, or --arm NAME=URL")
    names = [name for name, _ in given]
    if len(set(names)) != len(names):
        raise click.UsageError(f"an arm has a name of its own; these are {', '.join(names)}")
    return tuple(Arm(name=name, url=url, api_key=key) for name, url in given)


def _comparable(
    objective: Objective, slo: Slo | None, max_tokens: Sequence[int], *, stream: bool
) -> None:
    """Refuse now what would have no figures at the end."""
    if objective is Objective.GOODPUT and slo is None:
        raise click.UsageError("--objective goodput needs --slo, such as --slo ttft=2s,tpot=50ms")
    if objective is Objective.TPOT and not stream:
        raise click.UsageError("--objective tpot needs a stream: leave out --no-stream")
    if objective is Objective.TPOT and 1 in max_tokens:
        raise click.UsageError("--objective tpot needs --max-tokens above 1")
    if slo is not None and slo.needs_stream and not stream:
        raise click.UsageError("--slo: ttft and tpot need a stream: leave out --no-stream")


def _members(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="--extra-body") from error
    if not isinstance(found, dict):
        raise click.BadParameter("it is no JSON object", param_hint="--extra-body")
    return found
