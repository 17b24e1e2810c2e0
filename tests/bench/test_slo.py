"""SLO goodput: how limits are written, which requests keep them, and what follows."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from specgate.bench.concluding import conclude
from specgate.bench.faults import Misused
from specgate.bench.objectives import value_of
from specgate.bench.samples import Sample
from specgate.bench.slo import Slo, slo
from specgate.bench.table import table
from specgate.bench.wording import headline
from specgate.cli.main import main
from specgate.core.lanes import Lane
from specgate.core.profile import Objective
from specgate.core.shape import Shape
from specgate.sim.faults import Faults
from tests.bench.engines import pair
from tests.bench.synthetic import cell
from tests.bench.test_sweep import bench, ran


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("ttft=2s,tpot=50ms,e2e=30s", Slo(ttft_s=2.0, tpot_s=0.05, e2e_s=30.0)),
        ("tpot=50ms", Slo(tpot_s=0.05)),
        ("e2e=0.5m", Slo(e2e_s=30.0)),
        ("ttft:2000 tpot:50 e2el:30000", Slo(ttft_s=2.0, tpot_s=0.05, e2e_s=30.0)),
        ("ttft:2s", Slo(ttft_s=2.0)),
    ],
)
def test_limits_have_units_or_are_vllms_milliseconds(text, limits):
    assert slo(text) == limits
    assert slo(str(limits)) == limits


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no limit"),
        ("ttft=2", "'ttft=2' has no unit"),
        ("ttft=2h", "has no unit that is known: ms, s or m"),
        ("itl=2ms", "'itl=2ms' is no limit"),
        ("ttft", "'ttft' is no limit"),
        ("ttft=0s", "can be met by no request"),
        ("e2e=2s,e2el:9", "a second limit on the same time"),
    ],
)
def test_limits_that_are_none_are_told(text, why):
    with pytest.raises(ValueError, match=why):
        slo(text)


def sample(ttft: float | None, e2e: float, tokens: int = 11) -> Sample:
    return Sample(
        index=0,
        prompt_class="x",
        sent_at=10.0,
        first_output_at=None if ttft is None else 10.0 + ttft,
        ended_at=10.0 + e2e,
        tokens=tokens,
    )


def test_a_request_counts_that_keeps_all_limits():
    limits = slo("ttft=500ms,tpot=100ms,e2e=2s")
    kept, late, slow, long = sample(0.5, 1.5), sample(0.6, 1.0), sample(0.1, 1.2), sample(0.1, 2.1)
    assert [limits.met_by(s) for s in (kept, late, slow, long)] == [True, False, False, False]
    assert limits.goodput([kept, kept, late, slow], 4.0) == 0.5
    assert slo("tpot=1ms").met_by(sample(0.1, 0.1, tokens=1)), "there is no second token"


def test_goodput_is_compared_even_where_no_request_kept_the_limits():
    assert value_of(cell("spec", 1, 100.0, slo_goodput=2.0), Objective.GOODPUT) == 2.0
    assert value_of(cell("spec", 1, 100.0, slo_goodput=0.0, window_s=50), Objective.GOODPUT) == 0.01
    with pytest.raises(ValueError, match="spec at 1 has no goodput"):
        value_of(cell("spec", 1, 100.0), Objective.GOODPUT)


async def test_goodput_reaches_record_profile_and_verdict(tmp_path):
    """Under a limit that no request of the slowed lane keeps, and the other's do with ease."""
    async with pair(time_scale=10) as sims:
        sims[Lane.SPEC].engine.set_faults(Faults(slow_factor=25))
        asked = bench(
            sims,
            tmp_path,
            levels=(2,),
            max_tokens=8,
            slo=slo("e2e=250ms"),
            objective=Objective.GOODPUT,
        )
        asked = replace(asked, plan=replace(asked.plan, requests=4))
        outcome, _ = await ran(asked)
        with pytest.raises(Misused, match="holds a bench with slo 'e2e=250ms', not 'e2e=5s'"):
            await ran(replace(asked, slo=slo("e2e=5s"), resume=True))
    goodput = {(c.arm, c.slo_goodput == 0.0) for c in outcome.cells}
    assert goodput == {("spec", True), ("plain", False)}
    profile = conclude(tmp_path, 0.03, Objective.GOODPUT)
    assert profile is not None
    assert profile.verdict.objective is Objective.GOODPUT
    assert profile.verdict.shape is Shape.NEVER
    assert profile.levels[0].arms["spec"].slo_goodput == 0.0
    assert profile.levels[0].arms["plain"].slo_goodput
    assert profile.fingerprint.settings["slo"] == "e2e=250ms"
    assert "Compared by SLO goodput." in headline(profile)
    columns = [column.header for column in table(profile).columns]
    assert {"spec SLO req/s", "plain SLO req/s", "spec/plain by SLO goodput"} <= set(columns)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--objective", "goodput"), "--objective goodput needs --slo"),
        (("--objective", "tpot", "--no-stream"), "--objective tpot needs a stream"),
        (("--objective", "tpot", "--max-tokens", "1"), "--max-tokens above 1"),
        (("--slo", "ttft=1s", "--no-stream"), "--slo: ttft and tpot need a stream"),
        (("--slo", "ttft=1"), "Invalid value for '--slo'"),
        (("--objective", "speed"), "--objective"),
    ],
)
def test_what_could_not_be_compared_is_refused_at_once(words, told):
    found = CliRunner().invoke(main, ["bench", "--plain-url", "http://127.0.0.1:9", *words])
    assert found.exit_code == 2, found.output
    assert told in found.output
