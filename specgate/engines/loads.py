"""What each engine says it has in hand, running and waiting, from whomever: text in, counts out.

SGLang tells it freshest at /v1/loads: every 15 decode steps, at each prefill and when it falls
idle; the gauges of its /metrics are refreshed every 40. vLLM and llama.cpp have gauges there.
"""

import json
import re
from typing import NamedTuple

from specgate.core.beyond import MOST
from specgate.engines.base import Engine
from specgate.engines.counters import counted, samples

LOADS_PATH = "/v1/loads"
"""SGLang's; asks for its key where it has one, /metrics does not."""

RUNNING: dict[Engine, str] = {
    Engine.SGLANG: "sglang:num_running_reqs",
    Engine.VLLM: "vllm:num_requests_running",
    Engine.LLAMACPP: "llamacpp:requests_processing",
}
WAITING: dict[Engine, str] = {
    Engine.SGLANG: "sglang:num_queue_reqs",
    Engine.VLLM: "vllm:num_requests_waiting",
    Engine.LLAMACPP: "llamacpp:requests_deferred",
}


class InHand(NamedTuple):
    """Sequences, over all data-parallel ranks."""

    running: int
    waiting: int

    @property
    def total(self) -> int:
        return self.running + self.waiting


def in_hand(engine: Engine, page: str) -> InHand | None:
    """From a /metrics page; None where it does not say what runs."""
    name = RUNNING.get(engine)
    if name is None:
        return None
    running = _summed(page, name)
    waiting = _summed(page, WAITING[engine])
    if waiting is None and next(samples(page, WAITING[engine]), None) is None:
        waiting = 0
    return None if running is None or waiting is None else InHand(running, waiting)


def of_any(page: str) -> InHand | None:
    """The same of whichever engine's page it is."""
    return next((found for engine in RUNNING if (found := in_hand(engine, page))), None)


def told(body: str) -> InHand | None:
    """From the answer of /v1/loads; None for any other text."""
    try:
        ranks = json.loads(body)["loads"]
        running = [_count(rank["num_running_reqs"]) for rank in ranks]
        waiting = [_count(rank["num_waiting_reqs"]) for rank in ranks]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return InHand(sum(running), sum(waiting)) if running else None


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not 0 <= value <= MOST:
        raise ValueError
    return round(value)


def _summed(page: str, name: str) -> int | None:
    total = counted(page, name, _is_of_a_priority)
    return None if total is None or total > MOST else round(total)


def _is_of_a_priority(sample: str) -> bool:
    """SGLang may have a series for each priority beside the one of all."""
    found = _PRIORITY.search(sample)
    return found is not None and found[1] != ""


_PRIORITY = re.compile(r'[{,]priority="([^"]*)"')
