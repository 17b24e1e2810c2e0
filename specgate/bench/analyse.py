"""From measured cells to a profile. Pure: the same cells and rules give the same profile.

    profile = analyse(cells, fingerprint=..., rules=Rules(margin=0.03))

Void cells are left out, and told. Cells of one prompt and output length make one curve. They are
analysed in blocks (paired) if all of them were measured so, else arm by arm, with the wider
interval that this costs.

What is compared is in `bench.objectives`.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import fmean, stdev

from specgate.bench.alarms import disturbed, little, void_cells
from specgate.bench.judging import Rules, judged, profile_of
from specgate.bench.objectives import value_of
from specgate.core.cells import Cell, Spread
from specgate.core.profile import (
    ArmLevel,
    Curve,
    Fingerprint,
    Level,
    Objective,
    Profile,
    Run,
    Times,
)


class NoCellsError(ValueError):
    """There is nothing to analyse: no cell, or none that counts."""


def analyse(
    cells: Iterable[Cell],
    *,
    fingerprint: Fingerprint | None = None,
    rules: Rules | None = None,
) -> Profile:
    """Raises NoCellsError, and ValueError where a cell lacks what the objective compares."""
    rules = rules or Rules()
    fingerprint = fingerprint or Fingerprint()
    ordered = sorted(_latest(cells), key=_workload)
    curves = []
    for (context, max_tokens), group in groupby(ordered, key=_workload):
        measured = list(group)
        if all(cell.void is not None for cell in measured):
            continue
        curves.append(
            _curve(measured, rules, fingerprint, None if context < 0 else context, max_tokens)
        )
    if not curves:
        voids = void_cells(ordered)
        raise NoCellsError("\n".join(["no cell counts", *voids]) if voids else "no cells")
    return profile_of(curves, fingerprint)


def _curve(
    cells: Sequence[Cell],
    rules: Rules,
    fingerprint: Fingerprint,
    context: int | None,
    max_tokens: int,
) -> Curve:
    counted = [cell for cell in cells if cell.void is None]
    levels = tuple(
        Level(
            concurrency=concurrency,
            arms={
                arm: _arm([c for c in group if c.arm == arm], rules.objective)
                for arm in sorted({c.arm for c in group})
            },
        )
        for concurrency, group in (
            (concurrency, [c for c in counted if c.concurrency == concurrency])
            for concurrency in sorted({c.concurrency for c in counted})
        )
    )
    return judged(
        levels,
        paired=all(cell.paired for cell in counted),
        rules=rules,
        context=context,
        max_tokens=max_tokens,
        engines=fingerprint.engines,
        alarms=[*void_cells(cells), *little(counted), *disturbed(counted)],
    )


def _arm(cells: Sequence[Cell], objective: Objective) -> ArmLevel:
    cells = sorted(cells, key=lambda cell: cell.repeat)
    tok_s = [cell.tok_s for cell in cells]
    lengths = [cell.accept_length for cell in cells if cell.accept_length is not None]
    goodputs = [cell.slo_goodput for cell in cells if cell.slo_goodput is not None]
    classes = sorted({name for cell in cells for name in cell.by_class})
    return ArmLevel(
        tok_s=fmean(tok_s),
        tok_s_spread=stdev(tok_s) / fmean(tok_s) if len(tok_s) > 1 else None,
        runs=tuple(
            Run(
                repeat=cell.repeat,
                tok_s=cell.tok_s,
                value=value_of(cell, objective),
                error=cell.error,
            )
            for cell in cells
        ),
        requests=sum(cell.requests for cell in cells),
        tok_s_per_request=fmean(cell.tok_s_per_request for cell in cells),
        ttft_s=_times([(cell.ttft_s, cell.requests) for cell in cells]),
        tpot_s=_times([(cell.tpot_s, cell.requests) for cell in cells]),
        e2e_s=_times([(cell.e2e_s, cell.requests) for cell in cells]),
        slo_goodput=fmean(goodputs) if goodputs else None,
        accept_length=fmean(lengths) if lengths else None,
        accept_length_by_class={
            name: fmean(cell.by_class[name] for cell in cells if name in cell.by_class)
            for name in classes
        },
    )


def _times(spreads: Sequence[tuple[Spread | None, int]]) -> Times | None:
    """Over repeats, by their requests. Percentiles are averaged too: a summary, no exact one."""
    known = [(spread, requests) for spread, requests in spreads if spread is not None]
    total = sum(requests for _, requests in known)
    if not known or total == 0:
        return None

    def over(name: str) -> float:
        return float(sum(getattr(spread, name) * n for spread, n in known) / total)

    return Times(mean=over("mean"), p50=over("p50"), p90=over("p90"), p99=over("p99"))


def _workload(cell: Cell) -> tuple[int, int]:
    return (-1 if cell.context is None else cell.context), cell.max_tokens


def _latest(cells: Iterable[Cell]) -> list[Cell]:
    """One for each arm, level and repeat: a cell that was measured again replaces the first."""
    return list({(*_workload(c), c.arm, c.concurrency, c.repeat): c for c in cells}.values())
