"""Reads recorded traffic: CSV in the columns of the Azure LLM inference traces (TIMESTAMP,
ContextTokens, GeneratedTokens) or of BurstGPT (Timestamp, Request tokens, Response tokens), or JSON
Lines with `timestamp`, `prompt_tokens`, `output_tokens`; each may be packed with gzip. Times are
seconds or ISO 8601, which is UTC where it names no zone.
"""

import csv
import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from specgate.replay.traffic import Arrival, TrafficError

MOST_TOKENS = 10_000_000
"""Of one request: more is a mistake."""


def read_trace(path: Path) -> list[Arrival]:
    """Ascending, from 0 s on, without requests that have no output. Raises TrafficError, which
    names the line and the column, or OSError."""
    try:
        with _opened(path) as lines:
            first = next(iter(lines), "")
            if not first.strip():
                raise TrafficError("empty, or its first line is")
            if first.lstrip().startswith("{"):
                found = list(_from_jsonl(_again(first, lines)))
            else:
                found = list(_from_csv(_again(first, lines)))
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TrafficError("neither text nor gzip") from error
    if len(found) < 2:
        raise TrafficError("fewer than two requests with output")
    found.sort()
    start = found[0].at
    return [each._replace(at=each.at - start) for each in found]


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _again(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


_COLUMNS = {
    "at": ("timestamp",),
    "prompt": ("contexttokens", "requesttokens", "prompttokens"),
    "output": ("generatedtokens", "responsetokens", "outputtokens"),
}


def _from_csv(lines: Iterable[str]) -> Iterator[Arrival]:
    rows = csv.reader(lines)
    try:
        names = next(rows, [])
        head = [name.strip().lower().replace(" ", "").replace("_", "") for name in names]
        places = []
        for known in _COLUMNS.values():
            place = next((head.index(name) for name in known if name in head), None)
            if place is None:
                raise TrafficError(f"line 1: no column {' or '.join(known)}, only {_shown(names)}")
            places.append(place)
        columns = [names[place].strip() for place in places]
        for row in rows:
            if not row:
                continue
            if len(row) <= max(places):
                raise TrafficError(f"line {rows.line_num}: too few columns")
            cells = [row[place] for place in places]
            yield from _arrival(rows.line_num, columns, cells)
    except csv.Error as error:
        raise TrafficError(f"line {rows.line_num}: {error}") from error


_KEYS = ("timestamp", "prompt_tokens", "output_tokens")


def _from_jsonl(lines: Iterable[str]) -> Iterator[Arrival]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            cells = [row[key] for key in _KEYS]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise TrafficError(
                f"line {number}: must be an object with {', '.join(_KEYS)}"
            ) from error
        yield from _arrival(number, _KEYS, cells)


def _arrival(line: int, columns: Iterable[str], cells: Iterable[object]) -> Iterator[Arrival]:
    """One, or none for a request without output."""
    (at, prompt, output) = zip(columns, cells, strict=True)
    tokens = _tokens(line, *output)
    if tokens:
        yield Arrival(_seconds(line, *at), _tokens(line, *prompt), tokens)


def _tokens(line: int, column: str, cell: object) -> int:
    text = str(cell).strip()
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    # Tables that had gaps write whole numbers as 374.0.
    if not number.is_integer() or not 0 <= number <= MOST_TOKENS:
        raise TrafficError(f"line {line}: {column}: {_shown([text])} is no number of tokens")
    return int(number)


def _seconds(line: int, column: str, cell: object) -> float:
    text = str(cell).strip()
    try:
        number = float(text)
    except ValueError:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            when = None
        if when is None:
            raise TrafficError(f"line {line}: {column}: {_shown([text])} is no time") from None
        # Where no zone is named, one without summer time.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(number):
        raise TrafficError(f"line {line}: {column}: {_shown([text])} is no time")
    return number


def _shown(texts: Iterable[str]) -> str:
    """On one line, and short."""
    text = repr(", ".join(texts))
    return text if len(text) <= 80 else f"{text[:77]}..."
