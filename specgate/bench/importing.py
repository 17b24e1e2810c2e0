"""Results that users already have, as a profile.

    table       CSV or Markdown with the columns concurrency, spec, plain (tok/s); a further column
                is a further arm. Rows of one concurrency are repeats.
    results     of the engines' own tools (`bench.results`), a file (or several) an arm

Nothing tells whether the arms were measured in turns, so they are analysed unpaired.
"""

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Literal

from specgate.bench.judging import Rules, judged, profile_of
from specgate.core.profile import (
    PLAIN,
    ArmLevel,
    Engine,
    Fingerprint,
    Level,
    Profile,
    Run,
    Times,
)

Format = Literal["auto", "csv", "markdown", "sglang", "vllm"]
FORMATS: tuple[Format, ...] = ("auto", "csv", "markdown", "sglang", "vllm")

_CONCURRENCY = ("concurrency", "c", "max_concurrency", "batch", "batch size", "in flight")
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)


class ImportRefusedError(ValueError):
    """The text is not what it should be; says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement of one arm at one level. doubt: what makes it doubtful, in a line; engine,
    model: what served it, where the file says so."""

    arm: str
    concurrency: int
    tok_s: float
    ttft_s: Times | None = None
    tpot_s: Times | None = None
    e2e_s: Times | None = None
    slo_goodput: float | None = None
    accept_length: float | None = None
    requests: int = 0
    doubt: str | None = None
    engine: Engine | None = None
    model: str | None = None


def profile_from(
    rows: Iterable[Row], *, rules: Rules | None = None, fingerprint: Fingerprint | None = None
) -> Profile:
    """What the rows say of engines and model is added to the fingerprint.

    Raises ImportRefusedError where no level has what to compare, or one arm served another model.
    """
    rows = list(rows)
    by_level: dict[int, dict[str, list[Row]]] = {}
    for row in rows:
        by_level.setdefault(row.concurrency, {}).setdefault(row.arm, []).append(row)
    arms = {arm for level in by_level.values() for arm in level}
    if PLAIN not in arms or len(arms) < 2:
        raise ImportRefusedError(
            f"there must be an arm named plain and another one, not {', '.join(sorted(arms)) or 0}"
        )
    levels = [
        Level(
            concurrency=concurrency,
            arms={arm: _arm(found) for arm, found in by_level[concurrency].items()},
        )
        for concurrency in sorted(by_level)
    ]
    told = _told(rows, fingerprint or Fingerprint())
    curve = judged(
        levels,
        paired=False,
        rules=rules or Rules(),
        engines=told.engines,
        alarms=[row.doubt for row in rows if row.doubt is not None],
    )
    return profile_of([curve], told)


def _told(rows: Sequence[Row], given: Fingerprint) -> Fingerprint:
    models = sorted({row.model for row in rows if row.model is not None})
    if given.model is None and len(models) > 1:
        raise ImportRefusedError(
            f"the results name different models: {', '.join(models)}; give --model if it is one"
        )
    engines = {row.arm: row.engine for row in rows if row.engine is not None}
    return replace(
        given,
        model=given.model or (models[0] if models else None),
        engines={**engines, **given.engines},
    )


def rows_of_table(text: str) -> list[Row]:
    """Of CSV or Markdown. Raises ImportRefusedError."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    markdown = bool(lines) and lines[0].lstrip().startswith("|")
    if markdown:
        cells = [_split(line) for line in lines]
    else:
        # Spreadsheets write semicolons where the comma is for decimals, and tabs when copied.
        delimiter = max(",;\t", key=lines[0].count) if lines else ","
        cells = list(csv.reader(lines, delimiter=delimiter))
    if markdown:
        cells = [row for row in cells if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    if len(cells) < 2:
        raise ImportRefusedError("no table: a line of names and lines of figures were expected")
    names = [cell.strip().lower() for cell in cells[0]]
    at = next((i for i, name in enumerate(names) if name in _CONCURRENCY), None)
    arms = {i: name for i, cell in enumerate(names) if (name := _arm_of(cell)) is not None}
    if at is None or PLAIN not in arms.values() or len(arms) < 2:
        raise ImportRefusedError(
            "the columns concurrency, spec and plain were expected, not " + ", ".join(cells[0])
        )
    found = []
    for number, row in enumerate(cells[1:], start=2):
        concurrency = _whole(row, at, number)
        for column, arm in arms.items():
            if column < len(row) and row[column].strip() not in ("", "-", "–"):  # noqa: RUF001
                tok_s = figure(row[column], f"row {number}, {arm}")
                found.append(Row(arm=arm, concurrency=concurrency, tok_s=tok_s))
    return found


def figure(value: object, where: str) -> float:
    """A number above 0. Raises ImportRefusedError."""
    text = str(value).strip()
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if isinstance(value, bool) or not _NUMBER.fullmatch(text) or not float(text) > 0.0:
        raise ImportRefusedError(f"{where}: must be a number above 0, not {value!r}")
    return float(text)


def guessed(text: str, name: str) -> Format:
    """The format, from a file's text, else its name."""
    start = text.lstrip()
    if start.startswith("|"):
        return "markdown"
    if start.startswith("{"):
        try:
            first = json.loads(start.splitlines()[0])
        except (ValueError, RecursionError):
            return "vllm"
        return "sglang" if name.endswith(".jsonl") or "mean_e2e_latency_ms" in first else "vllm"
    return "csv"


def _arm(rows: Sequence[Row]) -> ArmLevel:
    tok_s = [row.tok_s for row in rows]
    lengths = [row.accept_length for row in rows if row.accept_length is not None]
    goodputs = [row.slo_goodput for row in rows if row.slo_goodput is not None]
    return ArmLevel(
        tok_s=fmean(tok_s),
        tok_s_spread=stdev(tok_s) / fmean(tok_s) if len(tok_s) > 1 else None,
        runs=tuple(Run(repeat=i, tok_s=x, value=x) for i, x in enumerate(tok_s)),
        requests=sum(row.requests for row in rows),
        ttft_s=_only([row.ttft_s for row in rows]),
        tpot_s=_only([row.tpot_s for row in rows]),
        e2e_s=_only([row.e2e_s for row in rows]),
        slo_goodput=fmean(goodputs) if goodputs else None,
        accept_length=fmean(lengths) if lengths else None,
    )


def _only(times: Sequence[Times | None]) -> Times | None:
    """Of one measurement; of several, their means, as percentiles of different runs do not add."""
    known = [one for one in times if one is not None]
    if len(known) < 2:
        return known[0] if known else None
    return Times(mean=fmean(one.mean for one in known))


def _arm_of(cell: str) -> str | None:
    """An arm's name from a column's: `spec`, `spec tok/s`, `spec_tok_s`; None for other figures."""
    found = re.fullmatch(r"([a-z][\w.-]*?)([ _](output )?tok(ens)?([/_ ])s(ec)?)?", cell)
    return found[1] if found and found[1] not in (*_CONCURRENCY, "ratio", "speedup") else None


def _split(line: str) -> list[str]:
    return [cell.strip().strip("*`") for cell in line.strip().strip("|").split("|")]


def _whole(row: Sequence[str], at: int, number: int) -> int:
    cell = row[at].strip() if at < len(row) else ""
    if not cell.isdecimal() or int(cell) < 1:
        raise ImportRefusedError(f"row {number}: concurrency must be a whole number, not {cell!r}")
    return int(cell)
