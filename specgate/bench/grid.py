"""Tables of the page: the terminal's own, cell by cell, and accept lengths by class of prompts."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from specgate.bench.wording import number
from specgate.core.profile import ArmLevel, Curve

_KINDS = {"green": "win", "red": "lose", "yellow": "tie", "dim": "open"}


class Cell(NamedTuple):
    """Its text, and its CSS classes."""

    text: str
    css: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`note`: what its signs mean; empty where they need no word."""

    title: str
    head: list[Cell]
    rows: list[list[Cell]]
    note: str = ""


def grid_of(table: Table) -> Grid:
    """The terminal's table: the same text, its colours as classes."""
    columns = [
        [_cell(cell, word=column.justify != "right") for cell in column.cells]
        for column in table.columns
    ]
    return Grid(
        title=str(table.title or ""),
        head=[_cell(column.header, word=column.justify != "right") for column in table.columns],
        rows=[list(row) for row in zip(*columns, strict=True)],
    )


def classes(curve: Curve) -> list[Grid]:
    """Accept lengths of each arm that has them by class: a row a class, a column a level."""
    found = []
    for name in sorted({name for level in curve.levels for name in level.arms}):
        at = [(lv.concurrency, lv.arms[name]) for lv in curve.levels if name in lv.arms]
        at = [(c, arm) for c, arm in at if arm.accept_length_by_class]
        rows = [
            [Cell(each, "word"), *(_of_class(arm, each) for _, arm in at)]
            for each in sorted({each for _, arm in at for each in arm.accept_length_by_class})
        ]
        needed = [arm.break_even_accept_length for _, arm in at]
        note = ""
        if any(length is not None for length in needed):
            last = [Cell(number(length), "open") for length in needed]
            rows.append([Cell("needed to break even", "word open"), *last])
            note = (
                "Speculation pays for a class where its length is above the last row's: with a +."
            )
        if at:
            found.append(
                Grid(
                    title=f"Accept length of {name} by class of prompts",
                    head=[Cell("C", "word"), *(Cell(str(c)) for c, _ in at)],
                    rows=rows,
                    note=note,
                )
            )
    return found


def _of_class(arm: ArmLevel, name: str) -> Cell:
    length, needed = arm.accept_length_by_class.get(name), arm.break_even_accept_length
    if length is None or needed is None:
        return Cell(number(length))
    return Cell(f"{number(length)} +", "win") if length > needed else Cell(number(length), "lose")


def _cell(shown: Any, *, word: bool) -> Cell:
    css = "word" if word else ""
    if isinstance(shown, Text):
        return Cell(shown.plain, f"{css} {_KINDS.get(str(shown.style), '')}".strip())
    return Cell(str(shown), css)
