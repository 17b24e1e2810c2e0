"""Prompts that speculation likes, on sockets: a crossing between two levels, of small gains.

The truth is the simulator's own, in virtual time. What the bench finds must hold it, or say that it
does not know: other work on this machine may leave it open, and must not make it wrong.
"""

import math
from statistics import fmean

from specgate.bench import sweep
from specgate.bench.analyse import analyse
from specgate.bench.asking import Manner
from specgate.bench.judging import Rules
from specgate.bench.record import REQUESTS, lines_of
from specgate.core.lanes import Lane
from specgate.core.shape import Shape
from specgate.sim.profiles import load_profile
from specgate.sim.prompts import PromptClass
from specgate.sim.virtual import closed_loop
from tests.bench.engines import pair
from tests.bench.test_sweep import Listener, bench

MAX_TOKENS = 128
LEVELS = (1, 2)


def virtual_crossing(prompt_tokens: int) -> float:
    """Where ln(spec / plain), linear in log2 of the concurrency, is zero."""
    reference = load_profile("reference")

    def tok_s(lane: Lane, concurrency: int) -> float:
        results = [
            closed_loop(
                reference,
                {lane: concurrency},
                requests=200,
                max_tokens=MAX_TOKENS,
                prompt_tokens=prompt_tokens,
                accept_p=0.906,
                seed=seed,
            )
            for seed in range(3)
        ]
        return fmean(result[lane].tok_s for result in results)

    first, second = (math.log(tok_s(Lane.SPEC, c) / tok_s(Lane.PLAIN, c)) for c in LEVELS)
    assert first > 0 > second
    return float(2.0 ** (first / (first - second)))


async def test_its_interval_holds_the_simulators_own_crossing(tmp_path):
    async with pair(time_scale=6) as sims:
        asked = bench(
            sims,
            tmp_path,
            levels=LEVELS,
            max_tokens=MAX_TOKENS,
            manner=Manner(extra={"x-sim-class": PromptClass.FAVOURABLE}),
        )
        outcome = await sweep.run(asked, Listener())
    assert outcome.voids == ()
    told = [line["prompt_tokens"] for line in lines_of(tmp_path / REQUESTS)]
    truth = virtual_crossing(round(fmean(told)))
    # At 99 %, so that an unlucky draw of prompts fails it once in a hundred runs and not in ten.
    profile = analyse(outcome.cells, rules=Rules(margin=0.01, confidence=0.99))
    assert profile.verdict.shape in (Shape.CROSSES, Shape.INCONCLUSIVE)
    low, high = profile.verdict.interval or (0.0, None)
    assert (low or 0.0) <= truth <= (math.inf if high is None else high)
    spec, plain = (
        fmean(cell.tok_s for cell in outcome.cells if (cell.arm, cell.concurrency) == (lane, 1))
        for lane in Lane
    )
    assert spec / plain > 0.95, "speculation is not behind at one request"
