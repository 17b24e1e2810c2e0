"""A profile as a table for a terminal: one row a level, like the reference measurement's, with
intervals."""

from collections.abc import Callable

from rich.table import Table
from rich.text import Text

from specgate.bench.wording import OBJECTIVES, bounds, number
from specgate.core.profile import PLAIN, ArmLevel, Curve, Level, Profile
from specgate.core.shape import Standing

STYLES = {
    Standing.WIN: "green",
    Standing.LOSE: "red",
    Standing.TIE: "yellow",
    Standing.OPEN: "dim",
}


def tables(profile: Profile) -> list[Table]:
    """One for each curve; the profile's own first."""
    return [table(curve) for curve in (profile, *profile.also)]


def table(curve: Curve) -> Table:
    """Columns that no level has figures for are left out."""
    arms = _arms(curve)
    verdict = curve.verdict
    found = Table(title=_title(curve), title_justify="left", box=None, pad_edge=False)
    found.add_column("C", justify="right")
    for arm in arms:
        found.add_column(f"{arm} tok/s", justify="right")
    compared = OBJECTIVES[verdict.objective]
    ratio = f"{verdict.arm or '?'}/{PLAIN}"
    found.add_column(ratio if compared == "tok/s" else f"{ratio} by {compared}", justify="right")
    found.add_column("stands")
    extras = _extras(curve)
    for name, _ in extras:
        found.add_column(name, justify="right")
    for i, level in enumerate(curve.levels):
        found.add_row(
            str(level.concurrency),
            *(_tok_s(level.arms.get(arm)) for arm in arms),
            _ratio(level),
            _stands(level, several=len(arms) > 2),
            *(cells[i] for _, cells in extras),
        )
    return found


def _arms(curve: Curve) -> list[str]:
    names = {name for level in curve.levels for name in level.arms}
    first = [curve.verdict.arm] if curve.verdict.arm in names else []
    return [*first, *sorted(names - {PLAIN, *first}), *({PLAIN} & names)]


def _extras(curve: Curve) -> list[tuple[str, list[str]]]:
    """Columns on the verdict's arm, as name and cells; a cell is empty where nothing is known."""
    name = curve.verdict.arm or "?"
    columns: list[tuple[str, str, Callable[[ArmLevel], float | None]]] = [
        (f"{name} tok/s a request", name, lambda arm: arm.tok_s_per_request),
        (f"{name} E2E s", name, lambda arm: arm.e2e_s.mean if arm.e2e_s else None),
        (f"{PLAIN} E2E s", PLAIN, lambda arm: arm.e2e_s.mean if arm.e2e_s else None),
        (f"{name} SLO req/s", name, lambda arm: arm.slo_goodput),
        (f"{PLAIN} SLO req/s", PLAIN, lambda arm: arm.slo_goodput),
        ("accept length", name, lambda arm: arm.accept_length),
        ("break-even", name, lambda arm: arm.break_even_accept_length),
    ]
    found = []
    for title, of, get in columns:
        arms = [level.arms.get(of) for level in curve.levels]
        values = [None if arm is None else get(arm) for arm in arms]
        if any(value is not None for value in values):
            found.append((title, ["" if value is None else number(value) for value in values]))
    return found


def _tok_s(arm: ArmLevel | None) -> str:
    if arm is None:
        return "-"
    shown = number(arm.tok_s, 4)
    return f"{shown}  ({bounds(arm.tok_s_interval)})" if arm.tok_s_interval else shown


def _ratio(level: Level) -> str:
    shown = number(level.ratio)
    return f"{shown}  ({bounds(level.ratio_interval)})" if level.ratio_interval else shown


def _stands(level: Level, *, several: bool) -> Text:
    if level.standing is None:
        return Text("-")
    best = f", best: {level.best}" if several and level.best else ""
    return Text(f"{level.standing}{best}", style=STYLES[level.standing])


def _title(curve: Curve) -> str:
    lengths = []
    if curve.context is not None:
        lengths.append(f"{curve.context} prompt tokens")
    if curve.max_tokens is not None:
        lengths.append(f"{curve.max_tokens} output tokens")
    return ", ".join(lengths) or "requests as they are"
