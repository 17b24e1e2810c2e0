"""The cells that the policy is judged by: `python -m tests.policy.cells [--seed N] [--json F]`.

Each reference profile whose levels begin at 1 or 2, times the conversation trace at 30, 60, 90 and
110 % of what the better lane gives and the patterns, times a contention of 0, 0.2 and 0.4. Prints,
for each cell that misses something, the gate's mean latency over the better fixed lane's.
"""

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean

from specgate.bench.shipped import names, shipped
from specgate.core.config import PolicyConfig
from specgate.core.profile import Profile
from specgate.core.shape import Shape
from specgate.core.threshold import curves_of, measured_curves, threshold_and_band
from specgate.replay.comparison import Way, compare
from specgate.replay.run import World
from specgate.replay.traffic import PATTERNS, Arrival, pattern, rotated, scaled

TRACE_LOADS = (0.3, 0.6, 0.9, 1.1)
CONTENTION = (0.0, 0.2, 0.4)
CHANGING = tuple(name for name in PATTERNS if name != "constant")


@dataclass(frozen=True)
class Cell:
    profile: str
    traffic: str
    load: float
    contention: float


@dataclass(frozen=True)
class Row:
    """Mean E2E in seconds; switches an hour."""

    cell: Cell
    shape: str
    policy: float
    all_plain: float
    all_spec: float
    instant: float
    clairvoyant: float
    switches_per_h: float
    share_of_win: float | None

    @property
    def over_better(self) -> float:
        return self.policy / min(self.all_plain, self.all_spec)

    @property
    def instant_over_better(self) -> float:
        return self.instant / min(self.all_plain, self.all_spec)


def all_cells() -> Iterator[Cell]:
    for name in names():
        if shipped(name).levels[0].concurrency > 2:
            continue
        for contention in CONTENTION:
            for load in TRACE_LOADS:
                yield Cell(name, "trace", load, contention)
            for traffic in PATTERNS:
                yield Cell(name, traffic, 0.85, contention)


@cache
def _trace() -> list[Arrival]:
    from specgate.replay.shipped import trace

    return trace()


@cache
def profile_of(name: str) -> Profile:
    return shipped(name)


@cache
def arrivals_of(name: str, traffic: str, load: float, seed: int) -> list[Arrival]:
    curves = measured_curves(profile_of(name))
    assert curves is not None
    most = max(curves.spec.top, curves.plain.top)
    if traffic == "trace":
        return scaled(rotated(_trace(), seed), load * most)
    return pattern(traffic, load * most, seed=seed, most=20_000)


def measure(cell: Cell, seed: int) -> Row:
    profile = profile_of(cell.profile)
    curves = measured_curves(profile)
    assert curves is not None
    derived = threshold_and_band(profile)
    config = PolicyConfig(threshold=derived.threshold, band=derived.band, curves=curves_of(profile))
    arrivals = arrivals_of(cell.profile, cell.traffic, cell.load, seed)
    found = compare(curves, config, arrivals, World(contention=cell.contention))
    return Row(
        cell=cell,
        shape=profile.verdict.shape.value,
        policy=found.mean_s(Way.POLICY),
        all_plain=found.mean_s(Way.ALL_PLAIN),
        all_spec=found.mean_s(Way.ALL_SPEC),
        instant=found.mean_s(Way.INSTANT),
        clairvoyant=found.mean_s(Way.CLAIRVOYANT),
        switches_per_h=found.outcomes[Way.POLICY].switches / arrivals[-1].at * 3600,
        share_of_win=found.share_of_win,
    )


def summary(rows: Sequence[Row]) -> str:
    over = sorted(row.over_better for row in rows)
    wins = [row.share_of_win for row in rows if row.cell.traffic in CHANGING]
    shares = [each for each in wins if each is not None]
    never = [row for row in rows if row.shape == Shape.NEVER]
    fast = [row for row in rows if row.cell.traffic not in ("square", "slow-square")]
    lines = [
        f"{len(rows)} cells",
        f"at most 1.05 x the better lane: {share_of(x <= 1.05 for x in over):.1%}; "
        f"at most 1.15 x: {share_of(x <= 1.15 for x in over):.1%}; worst {over[-1]:.2f}",
        f"geometric mean over the better lane {math.exp(fmean(map(math.log, over))):.4f}",
        f"never cells equal to plain: {share_of(r.policy == r.all_plain for r in never):.1%}",
        f"instant: at most 1.05 x {share_of(r.instant_over_better <= 1.05 for r in rows):.1%}, "
        f"worst {max(r.instant_over_better for r in rows):.2f}",
        f"most switches an hour outside square waves {max(r.switches_per_h for r in fast):.1f}",
    ]
    if shares:
        lines.append(
            f"where the side changes and a clairvoyant wins 3 % or more ({len(shares)} cells): "
            f"median share of its win {sorted(shares)[len(shares) // 2]:.0%}, "
            f"60 % or more in {share_of(x >= 0.6 for x in shares):.0%}"
        )
    return "\n".join(lines)


def share_of(found: Iterable[bool]) -> float:
    values = list(found)
    return sum(values) / max(1, len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7, help="unseen by the search: 3 and above")
    parser.add_argument("--contention", help="only this one")
    parser.add_argument("--weighed", action="store_true", help="only profiles with a crossing")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = [
        cell
        for cell in all_cells()
        if options.contention in (None, str(cell.contention))
        and not (options.weighed and curves_of(profile_of(cell.profile)) is None)
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        rows = list(pool.map(partial(measure, seed=options.seed), chosen, chunksize=2))
    for row in sorted(rows, key=lambda row: -row.over_better):
        share = row.share_of_win
        missed = row.over_better > 1.05 or row.switches_per_h > 12
        if missed or (share is not None and share < 0.6 and row.cell.traffic in CHANGING):
            cell = row.cell
            print(
                f"{row.over_better:.3f} {cell.profile} {cell.traffic} {cell.load:g} contention "
                f"{cell.contention:g}: gate {row.policy:.1f}, plain {row.all_plain:.1f}, spec "
                f"{row.all_spec:.1f}, instant {row.instant:.1f}, clairvoyant "
                f"{row.clairvoyant:.1f} s; {row.switches_per_h:.1f} switches an hour"
            )
    print(summary(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
