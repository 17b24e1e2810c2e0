"""The threat model names tests that exist, and bounds that hold."""

import re
from pathlib import Path

from specgate.admin.stream import LISTENERS_MAX
from specgate.control import scraper
from specgate.core import rules
from specgate.proxy import exchange, head, protocol
from specgate.telemetry import history, lines, switches, tracing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "threat-model.md").read_text()
ROOMS = "live|core|properties|settings|contract|cases|docs|e2e|telemetry"


def test_each_defence_names_a_test_that_exists():
    section = PAGE[PAGE.index("## What is defended") : PAGE.index("## What is bounded")]
    rows = [row for row in section.splitlines() if row.startswith("| ") and "threat" not in row]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(rf"`((?:{ROOMS})/[\w/]*)`", row)
        assert named, row
        for name in named:
            where = ROOT if name.startswith("docs/") else ROOT / "tests"
            found = list((where / name).parent.glob(Path(name).name + "*"))
            assert found, f"{name} of {row}"


def test_the_bounds_are_those_of_the_code():
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE))
    kept = "ids of stored responses and sessions"
    assert f"{rules.HELD_MOST:,}, for {rules.HELD_S / 3600:g} hours" in rows[kept]
    assert f"{rules.CONVERSATIONS_MOST:,}" in rows["hashes of conversations, with `STICKY_S`"]
    waiting = rows["requests that wait on one connection"]
    assert f"{protocol.PIPELINE_MAX}, and {protocol.PIPELINE_LIMIT:,}" in waiting
    assert rows["a request's head"] == f"{head.HEAD_LIMIT // 1024} KiB"
    in_memory = rows["of a request's body, in memory"]
    assert f"{exchange.BODY_HIGH // 1024} KiB" in in_memory
    assert rows["log lines that wait"] == f"{lines.PENDING_MAX >> 20} MiB"
    assert rows["spans that wait"].startswith(f"{tracing.WAITING_MAX:,}, ")
    assert rows["a page of a lane's metrics"] == f"{scraper.PAGE_LIMIT >> 20} MiB"
    several = f"{scraper.LINES_LIMIT >> 20} MiB of {scraper.PAGES_LIMIT >> 20} MiB"
    assert rows["a balancer's page of all its engines, read line by line"] == several
    assert history.KEPT * history.EVERY_S == 3600
    last = rows["points of the history, switches, listeners of events"]
    assert last == f"an hour, {switches.KEPT}, {LISTENERS_MAX}"
