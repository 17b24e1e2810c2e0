"""What a bench leaves in its folder, line by line, so that an end in mid-run loses nothing.

    plan.json            what all runs into this folder share: prompts, seed, salt, manner
    environment.json     a list of runs: versions, engines, flags (`bench.environment`)
    requests.jsonl       a line a request, as it ends
    cells.jsonl          a line a cell, once whole: `core.cells.Cell`, and what was seen beside
    rates.jsonl          the same of an open loop: `core.cells.RateCell`
    notes.jsonl          a line a warning

Lines are appended and flushed one by one; a last line that was cut off is passed over by readers
and closed by the next writer. A cell that was measured again counts by its last line.
"""

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from specgate.bench.asking import Manner
from specgate.bench.faults import Misused
from specgate.bench.plan import Block, Group
from specgate.bench.rates import RateBlock
from specgate.bench.samples import Sample
from specgate.bench.slo import Slo
from specgate.core.cells import Cell, RateCell, Spread

SCHEMA = 1
CELLS, RATES = "cells.jsonl", "rates.jsonl"
REQUESTS, NOTES = "requests.jsonl", "notes.jsonl"
PLAN, ENVIRONMENT = "plan.json", "environment.json"


class Record:
    """An open folder. `run`: which run into it this is, from 0."""

    def __init__(self, folder: Path, run: int) -> None:
        self.folder = folder
        self.run = run
        self._files = {name: _appendable(folder / name) for name in (CELLS, RATES, REQUESTS, NOTES)}

    def request(
        self, arm: str, block: Block | RateBlock, order: int, sample: Sample, began: float
    ) -> None:
        """`began`: when the cell did; times in the line are seconds since then."""
        line = {
            "run": self.run,
            "arm": arm,
            **block.place,
            "order": order,
            "index": sample.index,
            "class": sample.prompt_class,
            "sent_s": sample.sent_at - began,
            "ttft_s": sample.ttft_s,
            "tpot_s": sample.tpot_s,
            "e2e_s": sample.e2e_s,
            "tokens": sample.tokens,
            "prompt_tokens": sample.prompt_tokens,
            "cached_tokens": sample.cached_tokens,
            "steps": sample.steps,
            "finish": sample.finish,
            "error": sample.error,
        }
        self._write(REQUESTS, line)

    def cell(self, cell: Cell | RateCell, **seen: Any) -> None:
        """`seen`: what was noticed beside; readers of cells pass over it."""
        name = CELLS if isinstance(cell, Cell) else RATES
        self._write(name, {"run": self.run, **asdict(cell), "seen": seen})
        os.fsync(self._files[name])

    def note(self, text: str) -> None:
        self._write(NOTES, {"run": self.run, "text": text})

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)

    def _write(self, name: str, line: dict[str, Any]) -> None:
        # One write of a whole line: what was written is written, and ^C falls between lines.
        os.write(self._files[name], json.dumps(_rounded(line)).encode() + b"\n")


def read_cells(folder: Path) -> list[Cell]:
    """Every cell by its last line, in the order in which they were first measured."""
    found: dict[tuple[Any, ...], Cell] = {}
    for line in lines_of(folder / CELLS):
        cell = Cell(**_values(line, Cell))
        found[key_of(cell)] = cell
    return list(found.values())


def read_rate_cells(folder: Path) -> list[RateCell]:
    """The same of open loops."""
    found: dict[tuple[Any, ...], RateCell] = {}
    for line in lines_of(folder / RATES):
        values = _values(line, RateCell)
        cell = RateCell(**{**values, "in_flight_thirds": tuple(values["in_flight_thirds"])})
        found[rate_key_of(cell)] = cell
    return list(found.values())


def _values(line: dict[str, Any], kind: type) -> dict[str, Any]:
    """What a line says of a cell of this kind."""
    known = {field.name for field in fields(kind)}
    return {
        name: Spread(**value) if isinstance(value, dict) and name.endswith("_s") else value
        for name, value in line.items()
        if name in known
    }


def key_of(cell: Cell) -> tuple[str, Block]:
    """What the cell measured: there is one that counts of each."""
    group = Group(context=cell.context, max_tokens=cell.max_tokens)
    return cell.arm, Block(group=group, concurrency=cell.concurrency, repeat=cell.repeat)


def rate_key_of(cell: RateCell) -> tuple[str, RateBlock]:
    """The same of an open loop."""
    group = Group(context=cell.context, max_tokens=cell.max_tokens)
    return cell.arm, RateBlock(group=group, rate=cell.rate, repeat=cell.repeat)


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file; none of a file that is not there."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def settle(
    folder: Path,
    *,
    prompts: str,
    digest: str,
    seed: int,
    manner: Manner,
    slo: Slo | None = None,
) -> str:
    """Make the folder this bench's own, or find it so; its salt.

    Raises Misused if it holds a bench of something else: what is in it could not be compared.
    """
    wanted = {
        "schema": SCHEMA,
        "prompts": prompts,
        "prompts_digest": digest,
        "seed": seed,
        **asdict(manner),
        "slo": None if slo is None else str(slo),
    }
    path = folder / PLAN
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        salt = secrets.token_hex(8)
        _replace(path, {**wanted, "salt": salt})
        return salt
    found = _object(path)
    salt = str(found.pop("salt", ""))
    for name, value in wanted.items():
        if name != "prompts" and found.get(name) != value:
            raise Misused(
                f"{folder} holds a bench with {name} {found.get(name)!r}, not {value!r}: "
                "measure into another --out, or ask for the same"
            )
    return salt


def _replace(path: Path, value: Any) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def write_environment(folder: Path, run: dict[str, Any]) -> int:
    """Append a run's environment to the folder's; which run it is, from 0."""
    path = folder / ENVIRONMENT
    runs: list[Any] = []
    if path.exists():
        runs = _object(path).get("runs", [])
    _replace(path, {"schema": SCHEMA, "runs": [*runs, {"run": len(runs), **run}]})
    return len(runs)


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Misused(f"{path} is not what a bench wrote: {error}") from error
    if not isinstance(found, dict):
        raise Misused(f"{path} is not what a bench wrote")
    return found


def _appendable(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
    return file


def _rounded(value: Any) -> Any:
    """Microseconds are more than any clock here tells."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
