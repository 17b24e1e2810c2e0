"""A minute of the chaos, and the gate's memory over some thousand requests. For longer runs, and
what each means: `python -m tests.chaos --help`, docs/explanation/reliability.md."""

import pytest

from specgate.engines.declining import declined, declined_in_stream
from tests.chaos.fates import DECLINES, Fate, refusal
from tests.chaos.memory import growth
from tests.chaos.reading import Seen
from tests.chaos.run import chaos
from tests.chaos.words import told

pytestmark = pytest.mark.slow

GROWTH_MAX_MB = 5.0


@pytest.mark.timeout(300)
async def test_a_minute_of_everything_that_can_go_wrong(tmp_path):
    report = await chaos(tmp_path, seconds=60, clients=50, seed=1)
    print(*told(report), sep="\n")
    assert report.problems == []

    # It was chaos, and not a quiet minute.
    verdict = report.verdict
    assert len(set(verdict.fates)) > len(Fate) / 2
    assert verdict.seen[Seen.WHOLE] > 100
    assert verdict.seen[Seen.BROKEN] > 0
    assert verdict.told > 0
    assert verdict.rerouted > 0
    assert report.switches > 0
    in_flight = [sum(sample.gate.sequences.values()) for sample in report.samples]
    assert len(in_flight) >= 5
    assert max(in_flight) > 10


@pytest.mark.timeout(300)
async def test_memory_does_not_grow_with_requests(tmp_path):
    grown = await growth(tmp_path, first=1500, last=9000, clients=40, seed=1)
    print(grown)
    assert grown.problems == []
    assert grown.grown_mb < GROWTH_MAX_MB


def test_declines_are_what_the_gate_takes_for_such():
    """Else no request of the chaos would be given to the other lane for one."""

    for fate in DECLINES:
        status, _, body = refusal(fate, "r1-0badcafe")
        read = declined_in_stream if status == 200 else declined
        assert read(body) is not None, fate
    assert declined(refusal(Fate.ERROR, "r1-0badcafe")[2]) is None
