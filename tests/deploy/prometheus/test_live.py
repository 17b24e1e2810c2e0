"""A real Prometheus scrapes gates and a simulated pair under load and in trouble, with the
configuration and the rules that are shipped, and answers every query, rule and alert.

The same for five minutes and at the shipped pace: `python -m tests.deploy.prometheus.five_minutes`.
"""

import asyncio
import time
from pathlib import Path

import pytest

from tests.deploy.prometheus import survey as asking
from tests.deploy.prometheus.stage import pulses, staged, trouble
from tests.deploy.tools import need

SCRAPE_S = 0.5


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_every_query_rule_and_alert_has_data_or_a_reason(tmp_path: Path):
    program = need("prometheus", "Debian's package prometheus")
    async with staged(tmp_path, program, scrape_s=SCRAPE_S, time_scale=20) as stage:
        begin = time.time()
        answered = await pulses(stage, 7, wide_s=0.8, rest_s=0.8)
        await trouble(stage, after=answered, quiet_s=2.5)
        # The last of it is scraped and evaluated, too.
        await asyncio.sleep(2 + SCRAPE_S)
        end = time.time()
        answers = await asking.survey(stage.api, begin, end, rate_interval="3s", step_s=SCRAPE_S)
        assert asking.wrongly_empty(answers) == set()
        assert asking.wrongly_listed(answers) == set()
        assert asking.legends_without_their_label(answers) == set()
        for name in asking.EMPTY.keys() & {a.name for a in answers if a.kind == "alert"}:
            if name not in asking.NOTHING_TO_COMPARE:
                assert await asking.compared(stage.api, name, begin, end, SCRAPE_S), name
        rules = await stage.api.rules()
    assert {rule["health"] for rule in rules} == {"ok"}, [r["lastError"] for r in rules]
    states = {rule["name"]: rule["state"] for rule in rules if rule["type"] == "alerting"}
    assert states["SpecgateBothLanesDown"] == "pending"
    assert states["SpecgateReloadRefused"] == "firing"

    found = {answer.name: answer.series for answer in answers}
    assert set(found["overview / Side now / {{side}}"]) == {"spec", "plain"}
    reasons = found["decisions / Requests by reason / {{reason}}"]
    assert {"below_threshold", "above_threshold", "pays", "shadow", "forced"} <= set(reasons)
    for name in (
        "overview / Output tokens a second / {{lane}}",
        "overview / Time per output token / {{lane}} p95",
    ):
        assert set(found[name]) == {"spec", "plain"}, name
        assert all(max(series) > 0 for series in found[name].values()), name
    assert max(found["overview / Way to the next switch / gone"][""]) == 1
    assert max(map(max, found["decisions / Switches in an hour / switches"].values())) > 10
