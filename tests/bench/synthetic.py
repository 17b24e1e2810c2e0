"""Cells whose truth is known: curves, a drift that a block shares, and each arm's own noise."""

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random

from specgate.core.cells import Cell, Spread
from specgate.core.ratios import Runs

LEVELS = (1, 2, 5, 10, 30, 70, 100, 250)


def falling(per_octave: float, crossing: float) -> Callable[[int], float]:
    """ln(spec / plain), linear in log2 of the concurrency, zero at the crossing."""
    return lambda concurrency: -per_octave * math.log2(concurrency / crossing)


def through(concurrency: Sequence[int], ratios: Sequence[float]) -> Callable[[int], float]:
    """ln(spec / plain) of a table, at its own levels."""
    table = dict(zip(concurrency, ratios, strict=True))
    return lambda c: math.log(table[c])


def runs(
    truth: Callable[[int], float],
    *,
    levels: Sequence[int] = LEVELS,
    sd: float,
    repeats: int,
    seed: int | str,
    paired: bool = True,
    drift: float = 0.0,
) -> list[Runs]:
    """`sd` is of ln(spec / plain) within a block; `drift` of a block as a whole.

    Unpaired, the arms are measured in different blocks, so that each has a drift of its own.
    """
    rng = Random(seed)
    found = []
    for level in levels:
        spec, plain = {}, {}
        for repeat in range(repeats):
            block = rng.gauss(0.0, drift)
            other = block if paired else rng.gauss(0.0, drift)
            spec[repeat] = math.exp(truth(level) + block + rng.gauss(0.0, sd / math.sqrt(2)))
            plain[repeat] = math.exp(other + rng.gauss(0.0, sd / math.sqrt(2)))
        found.append(Runs(concurrency=level, spec=spec, plain=plain))
    return found


def cell(arm: str, concurrency: int, tok_s: float, **changes: object) -> Cell:
    """A cell that obeys Little's law, of 512 output tokens."""
    e2e = concurrency * 512 / tok_s
    fields: dict[str, object] = {
        "arm": arm,
        "concurrency": concurrency,
        "context": None,
        "max_tokens": 512,
        "repeat": 0,
        "order": 0,
        "paired": True,
        "requests": 40,
        "window_s": 60.0,
        "tok_s": tok_s,
        "tok_s_per_request": 512 / e2e,
        "ttft_s": Spread(mean=0.1, p50=0.1, p90=0.12, p99=0.2),
        "tpot_s": Spread(mean=e2e / 511, p50=e2e / 511, p90=e2e / 500, p99=e2e / 450),
        "e2e_s": Spread(mean=e2e, p50=e2e, p90=e2e * 1.1, p99=e2e * 1.2),
        "slo_goodput": None,
        "accept_length": None,
        "by_class": {},
        "void": None,
    }
    return Cell(**{**fields, **changes})  # type: ignore[arg-type]


def cells(
    curves: Mapping[str, Mapping[int, float]],
    *,
    sd: float = 0.025,
    drift: float = 0.03,
    repeats: int = 3,
    seed: int = 0,
    paired: bool = True,
    **changes: object,
) -> list[Cell]:
    """Of each arm's tok/s by level; each arm has noise `sd`, the arms of a block share a drift."""
    rng = Random(seed)
    found = []
    for repeat in range(repeats):
        for concurrency in sorted({c for curve in curves.values() for c in curve}):
            block = rng.gauss(0.0, drift)
            for order, (arm, curve) in enumerate(curves.items()):
                if concurrency in curve:
                    tok_s = curve[concurrency] * math.exp(block + rng.gauss(0.0, sd))
                    place = {"repeat": repeat, "order": order, "paired": paired}
                    found.append(cell(arm, concurrency, tok_s, **{**place, **changes}))
    return found
