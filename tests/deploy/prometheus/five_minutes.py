"""Every query, rule and alert against a real Prometheus, for five minutes and at the shipped pace:
`python -m tests.deploy.prometheus.five_minutes [seconds]`.

Scrapes every 5 s, as deploy/prometheus/prometheus.yml has it, and asks with the rate window that
Grafana takes then. Prints a line for each; status 1 if one has no data and no reason for that.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.deploy.prometheus import survey as asking
from tests.deploy.prometheus.stage import pulses, staged, trouble
from tests.deploy.tools import need

PULSE_S = 20.0
RATE_INTERVAL, STEP_S = "20s", 5.0
"""Grafana's window is four times the scrape interval."""


async def run(seconds: float) -> int:
    program = need("prometheus", "Debian's package prometheus")
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder), program, scrape_s=None, time_scale=8) as stage:
            begin = time.time()
            count = max(6, round(seconds / PULSE_S))
            answered = await pulses(stage, count, wide_s=PULSE_S / 2, rest_s=PULSE_S / 2)
            await trouble(stage, after=answered, quiet_s=4 * STEP_S)
            await asyncio.sleep(3 * STEP_S)
            end = time.time()
            answers = await asking.survey(
                stage.api, begin, end, rate_interval=RATE_INTERVAL, step_s=STEP_S
            )
            rules = await stage.api.rules()
    for answer in answers:
        points = sum(map(len, answer.series.values()))
        why = asking.EMPTY.get(answer.name) or asking.EITHER.get(answer.name, "NO DATA")
        data = f"{len(answer.series)} series, {points} points" if points else f"none: {why}"
        print(f"{answer.kind:6} {answer.name}: {data}")
    for rule in rules:
        if rule["type"] == "alerting" and rule["state"] != "inactive":
            print(f"{rule['state']:8} {rule['name']}")
    empty = asking.wrongly_empty(answers)
    broken = [rule["name"] for rule in rules if rule["health"] != "ok"]
    print(f"\n{end - begin:.0f} s, {len(answers)} expressions, {len(empty)} without data or reason")
    for name in [*sorted(empty), *broken]:
        print(f"  {name}")
    return 1 if empty or broken else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(run(float(sys.argv[1]) if len(sys.argv) > 1 else 300.0)))
