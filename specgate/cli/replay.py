"""`specgate replay`: the gate on recorded or made traffic, in virtual time."""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import click

from specgate import __version__
from specgate.cli.bench_values import DURATION
from specgate.cli.profile_files import PROFILE
from specgate.cli.replay_values import (
    CHANGES,
    CONTENTIONS,
    LOADS,
    THRESHOLD,
    TRAFFIC,
    Finite,
    Traffic,
)
from specgate.core.config import ALWAYS, NEVER
from specgate.core.profile import Profile
from specgate.replay.comparison import Comparison
from specgate.replay.plan import NoCurvesError, Plan, plan
from specgate.replay.pool import LEFT_OUT
from specgate.replay.run import Change, World
from specgate.replay.shipped import TRACES
from specgate.replay.traffic import PATTERNS, TrafficError
from specgate.replay.wording import notes, sentence

LOAD, CONTENTION = (0.9,), (0.0,)
SWEEP_LOADS, SWEEP_CONTENTIONS = (0.3, 0.6, 0.9, 1.1), (0.0, 0.2, 0.4)
_EXTRA = "matplotlib"


def _lines(heading: str, items: Iterator[str]) -> str:
    return "\b\n" + "\n".join([heading, *items])


def _named(names: dict[str, str]) -> Iterator[str]:
    for name, said in names.items():
        yield f"  {name:<13} {said}"


def _folded(texts: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        words, line = text.split(), "  -"
        for word in words:
            if len(line) + len(word) > 76:
                yield line
                line = "   "
            line += f" {word}"
        yield line


EPILOG = "\n\n".join(
    [
        _lines("Patterns, each with arrivals at random (Poisson):", _named(
            {name: said for name, (said, _) in PATTERNS.items()}
        )),
        _lines("Traces that come with specgate:", _named(
            {name: f"{t.what}," for name, t in TRACES.items()}
        )),
        _lines("What the model leaves out:", _folded(LEFT_OUT)),
        """\b
Examples:
  specgate replay --profile k26-int4-8xrtxpro6000-vllm-ctx10k --load 0.6
  specgate replay --profile bench/profile.json --trace arrivals.csv --sweep
  specgate replay --profile bench/profile.json --trace diurnal --threshold 24 --json -""",
    ]
)
