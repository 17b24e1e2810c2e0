"""What is replayed: arrivals, recorded (`replay.traces`) or made from a pattern, and scaled to what
the lanes can give.

Patterns: arrivals at random (Poisson) whose rate follows a curve over an hour.
"""

import math
import random
from collections.abc import Callable
from typing import NamedTuple

HOUR_S = 3600.0
MEAN_OUTPUT = 211
"""Output tokens of a pattern's request on the mean: those of the Azure conversation trace."""

MEAN_PROMPT = 1155


class TrafficError(ValueError):
    """Not a trace; the text says what is wrong where."""


class Arrival(NamedTuple):
    """`at`: seconds from the start."""

    at: float
    prompt_tokens: int
    output_tokens: int


PATTERNS: dict[str, tuple[str, Callable[[float], float]]] = {
    "constant": ("the same rate for an hour", lambda x: 1.0),
    "ramp": ("from a tenth to the whole", lambda x: 0.1 + 0.9 * x),
    "square": (
        "ten minutes low (a quarter), ten minutes high",
        lambda x: 0.25 if int(x * 6) % 2 == 0 else 1.0,
    ),
    "slow-square": (
        "half an hour low (a quarter), half an hour high",
        lambda x: 0.25 if x < 0.5 else 1.0,
    ),
    "spike": (
        "low (three tenths), and five minutes high",
        lambda x: 1.0 if 0.4 < x < 0.4 + 1 / 12 else 0.3,
    ),
    "diurnal": ("a day's wave in an hour", lambda x: 0.55 - 0.45 * math.cos(2 * math.pi * x)),
}
"""By name: in words, and the rate as a share of the highest, over the share of the hour."""


def pattern(name: str, tok_s: float, *, seed: int, most: int = 40_000) -> list[Arrival]:
    """Arrivals whose highest rate offers `tok_s` output tokens a second, for an hour or until
    `most`; lengths are exponential. The pattern is squeezed into the time that is left then."""
    shape = PATTERNS[name][1]
    draw = random.Random(seed)  # noqa: S311 - a simulation
    mean_share = sum(shape((i + 0.5) / 1000) for i in range(1000)) / 1000
    span_s = min(HOUR_S, most * MEAN_OUTPUT / (tok_s * mean_share))
    found: list[Arrival] = []
    now = 0.0
    while True:
        now += draw.expovariate(tok_s / MEAN_OUTPUT)
        if now >= span_s:
            return found
        if draw.random() < shape(now / span_s):
            output = max(1, round(draw.expovariate(1 / MEAN_OUTPUT)))
            prompt = max(1, round(draw.expovariate(1 / MEAN_PROMPT)))
            found.append(Arrival(now, prompt, output))


def scaled(arrivals: list[Arrival], tok_s: float) -> list[Arrival]:
    """The same with its time axis stretched, so that it offers `tok_s` tokens a second on the
    mean."""
    span = arrivals[-1].at - arrivals[0].at
    if span <= 0.0:
        raise TrafficError("all arrivals are at one time, so there is no rate to scale")
    factor = sum(each.output_tokens for each in arrivals) / span / tok_s
    first = arrivals[0].at
    return [each._replace(at=(each.at - first) * factor) for each in arrivals]


def rotated(arrivals: list[Arrival], seed: int) -> list[Arrival]:
    """The same begun at another moment, and what was before it at the end; seed 0 leaves it as it
    is. `arrivals`: from 0 s on."""
    if seed == 0:
        return arrivals
    start = random.Random(seed).randrange(len(arrivals))  # noqa: S311 - a simulation
    first, span = arrivals[start].at, arrivals[-1].at
    later = [each._replace(at=each.at - first) for each in arrivals[start:]]
    again = [each._replace(at=each.at - first + span) for each in arrivals[:start]]
    return later + again
