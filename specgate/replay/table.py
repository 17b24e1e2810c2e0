"""A replay as a table for a terminal."""

from collections.abc import Iterable

from rich.table import Table

from specgate.bench.wording import number
from specgate.replay.comparison import Way
from specgate.replay.metered import Metered
from specgate.replay.record import Replay
from specgate.replay.wording import NAMES

REAL = tuple(way for way in Way if way is not Way.CLAIRVOYANT)
"""Those that can be had: nobody is clairvoyant."""


def table(replayed: Replay) -> Table:
    """A row for each way; the best of those that can be had is marked."""
    found = replayed.found
    made = Table(box=None, pad_edge=False)
    made.add_column("", no_wrap=True)
    for name in ("mean E2E s", "p95", "p99", "mean TTFT s", "tok/s"):
        made.add_column(name, justify="right")
    made.add_column("switches", justify="right", no_wrap=True)
    for name in ("wrong side", "both lanes"):
        made.add_column(name, justify="right")
    best = min(found.mean_s(way) for way in REAL)
    for way, of in found.figures.items():
        marked = way in REAL and of.mean_e2e_s == best
        made.add_row(
            f"{'->' if marked else '  '} {NAMES[way]}",
            *map(number, (of.mean_e2e_s, of.p95_e2e_s, of.p99_e2e_s, of.mean_ttft_s)),
            number(of.tok_s, 4),
            str(of.switches),
            _share(of.wrong_side_share),
            _share(of.mixed_share),
            style="bold green" if marked else "dim" if way not in REAL else None,
        )
    return made


def meter_table(said: Iterable[Metered]) -> Table:
    """A row for each lane: the seconds of mean E2E gained over it, as estimated and as found."""
    made = Table(box=None, pad_edge=False)
    made.add_column("gained over, s of mean E2E", no_wrap=True)
    for name in ("by the meter", "interval", "measured"):
        made.add_column(name, justify="right", no_wrap=True)
    for each in said:
        made.add_row(
            f"   {NAMES[each.over]}",
            number(each.estimated_s),
            "none" if each.low_s is None else f"{number(each.low_s)} to {number(each.high_s)}",
            number(each.measured_s),
        )
    return made


def sweep_table(replays: Iterable[Replay]) -> Table:
    """A row each: mean E2E of each way in seconds; the best that can be had is marked."""
    made = Table(box=None, pad_edge=False)
    for name in ("load", "K", *(NAMES[way] for way in Way)):
        made.add_column(name, justify="right", overflow="fold")
    for name in ("over better", "of the win", "switches", "an hour"):
        made.add_column(name, justify="right", overflow="fold")
    for load, world, found in replays:
        best = min(found.mean_s(way) for way in REAL)
        times = [_time(found.mean_s(w), marked=w in REAL and found.mean_s(w) == best) for w in Way]
        ratio = found.over_better
        style = "red" if ratio > 1.05 else "green" if ratio < 0.995 else ""
        count, hours = found.figures[Way.POLICY].switches, found.arrivals[-1].at / 3600
        share = found.share_of_win
        made.add_row(
            f"{load:g}",
            f"{world.contention:g}",
            *times,
            f"[{style}]{ratio:.3f}[/{style}]" if style else f"{ratio:.3f}",
            "-" if share is None else f"{share:.0%}",
            str(count),
            number(count / hours, 2) if hours else "-",
        )
    return made


def _time(seconds: float, *, marked: bool) -> str:
    return f"[bold]->{number(seconds)}[/bold]" if marked else number(seconds)


def _share(share: float) -> str:
    return "0" if share == 0.0 else f"{share:.1%}"
