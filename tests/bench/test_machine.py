"""A machine that does other work: how it is noticed, and what its figures then cannot say."""

import math

import pytest

from specgate.bench import machine
from specgate.bench.analyse import analyse
from specgate.bench.concluding import conclude
from specgate.bench.judging import Rules
from specgate.bench.machine import Times, busy_share, here, times
from specgate.bench.merging import merged
from specgate.bench.record import CELLS, NOTES, lines_of
from specgate.core.profile import dumps, loads
from specgate.core.shape import Shape, Standing
from tests.bench.engines import pair
from tests.bench.synthetic import cells
from tests.bench.test_sweep import bench, ran


def test_processor_times_are_read_and_niced_work_is_not_busy(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 50 20 300 5 1 2 3 7 0\ncpu0 1 2 3\n")
    # user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    assert times(stat) == Times(busy=126, whole=481)
    assert times(tmp_path / "nothing") is None
    stat.write_text("cpu 1 2\n")
    assert times(stat) is None


def test_the_share_is_of_the_time_between_two_readings():
    assert busy_share(Times(100, 1000), Times(160, 1080)) == 0.75
    assert busy_share(Times(100, 1000), Times(100, 1000)) is None
    assert busy_share(None, Times(1, 2)) is None


@pytest.mark.parametrize(
    ("urls", "is_here"),
    [
        (["http://127.0.0.1:30000"], True),
        (["http://10.0.0.5:8000", "http://localhost:8001"], True),
        (["http://[::1]:8000"], True),
        (["http://10.0.0.5:8000", "https://engine.example:443/v1"], False),
    ],
)
def test_an_engine_here_is_known_by_its_address(urls, is_here):
    assert here(urls) is is_here


@pytest.mark.parametrize(("share", "error"), [(0.7, 0.0), (0.9, machine.DISTURBED)])
async def test_a_busy_machine_is_told_and_widens_every_interval(
    tmp_path, monkeypatch, share, error
):
    ticks = iter(range(0, 10_000, 100))
    readings = (Times(busy=round(at * share), whole=at) for at in ticks)
    monkeypatch.setattr(machine, "times", lambda: next(readings))
    async with pair() as sims:
        outcome, listener = await ran(bench(sims, tmp_path, levels=(2,), max_tokens=16))
    assert [cell.error for cell in outcome.cells] == [error] * 4
    told = f"this machine is {share:.0%} busy with other work"
    assert [told in warning for warning in listener.warnings] == [True] * bool(error)
    assert [line["text"] for line in lines_of(tmp_path / NOTES)] == listener.warnings
    assert {line["seen"]["other_work"] for line in lines_of(tmp_path / CELLS)} == {share}
    profile = conclude(tmp_path, 0.03)
    assert profile is not None
    assert {run.error for run in profile.levels[0].arms["spec"].runs} == {error}
    assert any("did other work while 2" in alarm for alarm in profile.alarms) is bool(error)


CURVES = {"spec": {1: 104.0, 2: 92.0, 8: 100.0}, "plain": {1: 100.0, 2: 100.0, 8: 300.0}}


def test_a_small_win_is_open_on_a_busy_machine_and_a_large_loss_is_not():
    quiet, busy = (
        analyse(cells(CURVES, sd=0.001, repeats=5, error=e), rules=Rules(margin=0.01, draws=400))
        for e in (0.0, machine.DISTURBED)
    )
    assert quiet.verdict.shape is Shape.CROSSES
    assert busy.verdict.shape is Shape.INCONCLUSIVE
    assert [level.standing for level in busy.levels] == [
        *(Standing.OPEN, Standing.LOSE, Standing.LOSE)
    ]
    assert busy.verdict.undecided == (1,)
    # What is in the file is what is judged, again and in other company.
    assert loads(dumps(busy)) == busy
    again = merged([busy, busy], rules=Rules(margin=0.01, draws=400))
    assert again.verdict.shape is Shape.INCONCLUSIVE
    assert math.isclose(again.levels[0].ratio or 0, busy.levels[0].ratio or 1, rel_tol=1e-6)
