"""Results that users already have, as a profile.

    table       CSV or Markdown with the columns concurrency, spec, plain (tok/s); a further column
                is a further arm. Rows of one concurrency are repeats.
    sglang      JSON Lines of `sglang.bench_serving`, a file (or several) an arm
    vllm        JSON of `vllm bench serve --save-result`, a file a level and an arm

Nothing tells whether the arms were measured in turns, so they are analysed unpaired. A line of the
engines' tools with failed requests, or without a concurrency, is refused: it measured something
else.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Literal

from specgate.bench.judging import Rules, judged, profile_of
from specgate.core.profile import PLAIN, ArmLevel, Fingerprint, Level, Profile, Run, Times

Format = Literal["auto", "csv", "markdown", "sglang", "vllm"]
FORMATS: tuple[Format, ...] = ("auto", "csv", "markdown", "sglang", "vllm")

_CONCURRENCY = ("concurrency", "c", "max_concurrency", "batch", "batch size", "in flight")
_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)


class ImportRefusedError(ValueError):
    """The text is not what it should be; says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement of one arm at one level."""

    arm: str
    concurrency: int
    tok_s: float
    ttft_s: Times | None = None
    tpot_s: Times | None = None
    e2e_s: Times | None = None
    accept_length: float | None = None
    requests: int = 0


def profile_from(
    rows: Iterable[Row], *, rules: Rules | None = None, fingerprint: Fingerprint | None = None
) -> Profile:
    """Raises ImportRefusedError where no level has what to compare."""
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
    curve = judged(levels, paired=False, rules=rules or Rules())
    return profile_of([curve], fingerprint or Fingerprint())


def rows_of_table(text: str) -> list[Row]:
    """Of CSV or Markdown. Raises ImportRefusedError."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    markdown = bool(lines) and lines[0].lstrip().startswith("|")
    cells = [_split(line) for line in lines] if markdown else list(csv.reader(lines))
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
                tok_s = _figure(row[column], f"row {number}, {arm}")
                found.append(Row(arm=arm, concurrency=concurrency, tok_s=tok_s))
    return found


def rows_of_results(arm: str, text: str, kind: Format) -> list[Row]:
    """Of one arm's file, in the form of SGLang's or vLLM's tool. Raises ImportRefusedError."""
    try:
        lines = text.splitlines() if kind == "sglang" else [text]
        results = [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise ImportRefusedError(f"{arm}: not JSON: {error}") from error
    return [_row_of_result(arm, result, i) for i, result in enumerate(results, start=1)]


def guessed(text: str, name: str) -> Format:
    """The format, from a file's text, else its name."""
    start = text.lstrip()
    if start.startswith("|"):
        return "markdown"
    if start.startswith("{"):
        try:
            first = json.loads(start.splitlines()[0])
        except ValueError:
            return "vllm"
        return "sglang" if name.endswith(".jsonl") or "mean_e2e_latency_ms" in first else "vllm"
    return "csv"


def _arm(rows: Sequence[Row]) -> ArmLevel:
    tok_s = [row.tok_s for row in rows]
    lengths = [row.accept_length for row in rows if row.accept_length is not None]
    return ArmLevel(
        tok_s=fmean(tok_s),
        tok_s_spread=stdev(tok_s) / fmean(tok_s) if len(tok_s) > 1 else None,
        runs=tuple(Run(repeat=i, tok_s=x, value=x) for i, x in enumerate(tok_s)),
        requests=sum(row.requests for row in rows),
        ttft_s=_only([row.ttft_s for row in rows]),
        tpot_s=_only([row.tpot_s for row in rows]),
        e2e_s=_only([row.e2e_s for row in rows]),
        accept_length=fmean(lengths) if lengths else None,
    )


def _only(times: Sequence[Times | None]) -> Times | None:
    """Of one measurement; of several, their means, as percentiles of different runs do not add."""
    known = [one for one in times if one is not None]
    if len(known) < 2:
        return known[0] if known else None
    return Times(mean=fmean(one.mean for one in known))


def _row_of_result(arm: str, result: object, number: int) -> Row:
    where = f"{arm}, result {number}"
    if not isinstance(result, dict):
        raise ImportRefusedError(f"{where}: an object was expected")
    level = result.get("max_concurrency")
    if isinstance(level, bool) or not isinstance(level, int) or level < 1:
        raise ImportRefusedError(
            f"{where}: max_concurrency is {level!r}: without one nothing says at which load it was"
        )
    if result.get("failed"):
        raise ImportRefusedError(f"{where}: {result['failed']} requests failed")
    length = result.get("accept_length", result.get("spec_decode_acceptance_length"))
    completed = result.get("completed", 0)
    return Row(
        arm=arm,
        concurrency=level,
        tok_s=_figure(result.get("output_throughput"), f"{where}: output_throughput"),
        ttft_s=_times(result, "ttft"),
        tpot_s=_times(result, "tpot"),
        e2e_s=_times(result, "e2e_latency") or _times(result, "e2el"),
        accept_length=float(length) if isinstance(length, int | float) and length >= 1 else None,
        requests=completed if isinstance(completed, int) else 0,
    )


def _times(result: Mapping[str, Any], name: str) -> Times | None:
    """Both tools write milliseconds, and a median for the 50th percentile."""

    def of(prefix: str) -> float | None:
        value = result.get(f"{prefix}_{name}_ms")
        return value / 1000.0 if isinstance(value, int | float) and value > 0 else None

    mean = of("mean")
    return (
        None if mean is None else Times(mean=mean, p50=of("median"), p90=of("p90"), p99=of("p99"))
    )


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


def _figure(value: object, where: str) -> float:
    text = str(value).strip().replace(",", "")
    if isinstance(value, bool) or not _NUMBER.fullmatch(text) or not float(text) > 0.0:
        raise ImportRefusedError(f"{where}: must be a number above 0, not {value!r}")
    return float(text)
