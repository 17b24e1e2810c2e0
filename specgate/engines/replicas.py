"""The page in which a balancer tells of the engines behind it: text in, a page of each out.

sglang-router answers its workers' /metrics as one at /engine_metrics (0.3.2): each series has the
label `worker_addr`, and a colon in a name has become an underscore. A worker that it takes to be
down is not on it. Its own /metrics is on another port and says nothing of engines; its /get_loads
asks the workers at a route that SGLang has no more, and so says -1.
"""

import re
from typing import NamedTuple

from specgate.core.accept import Counted, between
from specgate.core.replicas import Together
from specgate.engines.accepting import ACCEPTED, DRAFTS, ENDED, GAUGE, VERIFIED, accepted
from specgate.engines.counters import OUTPUT_TOKENS, counted
from specgate.engines.loads import RUNNING, WAITING, InHand, in_hand

METRICS_PATH = "/engine_metrics"

_BY_ENGINE = (OUTPUT_TOKENS, ENDED, DRAFTS, ACCEPTED, RUNNING, WAITING)
_NAMES = {VERIFIED, GAUGE, *(name for names in _BY_ENGINE for name in names.values())}
_OWN = {spelt: name for name in _NAMES for spelt in (name, name.replace(":", "_"))}
_READ = tuple(name.encode() + b"{" for name in _OWN)
_WORKER = re.compile(r'[{,]worker_addr="([^"]*)"')


def is_read(line: bytes) -> bool:
    """Whether a line of the page has a series that anything here reads: one in some hundred."""
    return line.startswith(_READ)


class Told(NamedTuple):
    """What the page says. tokens, steps: output tokens and decode steps, by worker, of those that
    say so. in_hand: of all of them together; None where none says it."""

    tokens: dict[str, float]
    steps: dict[str, Counted]
    in_hand: InHand | None


def told_of_all(page: str) -> Told | None:
    """None for a page that tells of no worker."""
    found = _by_worker(page)
    tokens: dict[str, float] = {}
    steps: dict[str, Counted] = {}
    loads: list[InHand] = []
    for worker, each in found.items():
        # Whose page it is shows in what it counts.
        for engine, name in OUTPUT_TOKENS.items():
            total = counted(each, name)
            if total is None:
                continue
            tokens[worker] = total
            if (reading := accepted(engine, each)) is not None:
                steps[worker] = reading
            if (load := in_hand(engine, each)) is not None:
                loads.append(load)
    if not found:
        return None
    running, waiting = (sum(load[i] for load in loads) for i in (0, 1))
    return Told(tokens, steps, InHand(running, waiting) if loads else None)


def accept_length_of_all(before: str, after: str) -> float | None:
    """Between two pages, over all workers' steps; None where they do not say."""
    together = Together()
    first, last = (told_of_all(page) for page in (before, after))
    if first is None or last is None:
        return None
    sample = between(together.saw(first.steps), together.saw(last.steps))
    return None if sample is None else sample.length


def _by_worker(page: str) -> dict[str, str]:
    """The lines that are read, by worker, under the engines' own names."""
    found: dict[str, list[str]] = {}
    for line in page.splitlines():
        name, brace, rest = line.partition("{")
        worker = _WORKER.search(brace + rest)
        if worker is not None and name in _OWN:
            found.setdefault(worker[1], []).append(_OWN[name] + brace + rest)
    return {worker: "\n".join(lines) for worker, lines in found.items()}
