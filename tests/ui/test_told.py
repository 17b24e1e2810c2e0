"""What the dashboard makes of a status that takes a gate hours to come to: its own one, altered."""

from copy import deepcopy
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from specgate.admin.models import Status
from tests.ui.browser import dashboard
from tests.ui.gates import gate

WEIGHING = {
    "pays": [[0.0, 10.0]],
    "regret": 0.4,
    "offered_tok_s": 600.0,
    "spec_top_tok_s": 900.0,
    "switches_last_hour": 2,
    "against_plain": {"low_s": 0.35, "mean_s": 0.412, "high_s": 0.471},
    "against_spec": {"low_s": -0.004, "mean_s": 0.02, "high_s": 0.037},
    "sequences": 1840,
    "prompt_tokens": 9800.0,
    "experiment": {
        "pairs": 12,
        "faster": 1.32,
        "low": 1.21,
        "high": 1.44,
        "expected": 1.35,
        "spent_s": 94.0,
        "running": True,
    },
}


def altered(status: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With values in it replaced, by the path to each; still a status."""
    found = deepcopy(status)
    for path, value in changes.items():
        *way, last = path.split(".")
        place = found
        for name in way:
            place = place[name]
        place[last] = value
    Status.model_validate(found)
    return found


async def shown(
    browser: Browser, changes: dict[str, Any], expected: dict[str, str], shot: str | None = None
) -> None:
    async with gate(threshold=8, band=0.25) as on:
        told = altered(await on.gate.status(), changes)
        async with dashboard(browser, on.url, told=told) as seen:
            for selector, words in expected.items():
                await expect(seen.page.locator(selector)).to_contain_text(words)
            await no_markup(seen.page)
            if shot is not None:
                await seen.shot(shot)


async def no_markup(page: Page) -> None:
    assert await page.locator("main img, main script").count() == 0


async def test_what_is_weighed_gained_and_measured(browser: Browser):
    ahead = {"low": 9.0, "high": 11.0, "away": None, "words": "weighs a switch to plain"}
    accept = {
        "live": 2.1,
        "standard_error": 0.12,
        "bench": 3.0,
        "age_s": 3.2,
        "break_even": 2.4,
        "followed": True,
    }
    changes = {"weighing": WEIGHING, "ahead": ahead, "load": 12.0, "accept_length": accept}
    await shown(
        browser,
        changes,
        {
            "#next": "the gate weighs a switch to plain.",
            "#gauge-load": "load 12.00 sequences",
            "#gauge-edge": "band 9 to 11 sequences",
            "#fact-rule": "600 tok/s; spec gives at most 900 tok/s",
            "#price-words": "Towards a switch to plain: 40 % of its price. At 100 % it is worth "
            "it.",
            "#meter-words": "On the mean over 1,840 sequences, one took 0.412 s less (0.350 s to "
            "0.471 s) than with all on plain, and 0.020 s less (from 0.004 s longer to 0.037 s "
            "less: it may be nothing) than with all on spec. Reckoned by the profile, not "
            "measured.",
            "#experiment-words": "speculation is 1.32 times as fast as plain (90 % interval 1.21 "
            "to 1.44, over 12 pairs of blocks; the profile expects 1.35 times). It has spent 1 min "
            "34 s",
            "#accept-words": "2.10 ± 0.12 tokens a step, 0.30 below the break-even of 2.40: at "
            "this load speculation costs. In the measurement 3.00; learnt 3 s ago.",
        },
        shot="weighed",
    )


@pytest.mark.parametrize(
    ("changes", "drawn"),
    [
        ({"weighing": WEIGHING}, 0.4),
        ({"weighing": {**WEIGHING, "regret": 1.7}, "side": "plain"}, 1.0),
        ({"weighing": WEIGHING, "mode": "spec"}, None),
        ({"weighing": WEIGHING, "placement": "split"}, None),
        ({}, None),
    ],
    ids=["weighed", "more-than-worth-it", "forced", "split", "threshold"],
)
async def test_the_price_of_a_switch_is_drawn_where_it_decides(
    browser: Browser, changes: dict[str, Any], drawn: float | None
):
    async with gate(threshold=8) as on:
        told = altered(await on.gate.status(), changes)
        async with dashboard(browser, on.url, told=told) as seen:
            if drawn is None:
                await expect(seen.page.locator("#price")).to_be_hidden()
                return
            track = await seen.page.locator("#price-track").bounding_box()
            paid = await seen.page.locator("#price-paid").bounding_box()
            assert track is not None
            assert paid is not None
            assert paid["width"] == pytest.approx(drawn * track["width"], abs=2)


async def test_lanes_in_turn(browser: Browser):
    turns = {
        "awake": "plain",
        "wanted": "spec",
        "step": "wake",
        "failed": "check",
        "why": "spec: no answer",
        "retry_s": 75.0,
        "alternations": 3,
    }
    changes = {"placement": "alternate", "turns": turns, "lanes.spec.asleep": True}
    await shown(
        browser,
        changes,
        {
            "#serving": "plain serves, since spec sleeps.",
            "#fact-turns": "plain is awake; spec is wanted; under way: wake; check failed: spec: "
            "no answer; again in 1 min 15 s",
            "[data-health=asleep]": "asleep",
        },
    )


async def test_lanes_of_their_own_gpus(browser: Browser):
    ahead = {
        "low": 8.0,
        "high": 8.0,
        "away": 5.0,
        "words": "fills the spec lane up to 8: room for 5",
    }
    changes = {
        "placement": "split",
        "ahead": ahead,
        "in_flight.spec": 3,
        "in_flight.total": 9,
        "in_flight.plain": 6,
        "load": 9.0,
    }
    await shown(
        browser,
        changes,
        {
            "#serving": "spec serves first; what it has no room for goes to plain.",
            "#gauge-load": "load 3.00 sequences, 5.00 more to switch",
            "#next": "the gate fills the spec lane up to 8: room for 5.",
        },
    )


@pytest.mark.parametrize(
    ("threshold", "side", "zone"), [("never", "plain", "plain"), ("always", "spec", "spec")]
)
async def test_a_gauge_without_an_edge(browser: Browser, threshold: str, side: str, zone: str):
    nowhere = {"low": None, "high": None, "away": None, "words": f"{threshold} speculates"}
    changes = {"threshold": threshold, "side": side, "ahead": nowhere, "load": 3.0}
    async with gate(threshold=8) as on:
        told = altered(await on.gate.status(), changes)
        async with dashboard(browser, on.url, told=told) as seen:
            await expect(seen.page.locator("#gauge-edge")).to_have_text("no edge")
            await expect(seen.page.locator("#gauge-zones > div")).to_have_attribute(
                "data-zone", zone
            )
            await expect(seen.page.locator("#gauge-way")).to_be_hidden()


async def test_what_an_engine_or_an_operator_is_called_is_text_and_no_markup(browser: Browser):
    evil = '<img src="x" onerror="document.title = 1">'
    await shown(
        browser,
        {"lanes.spec.url": evil, "lanes.plain.engine": evil, "why": evil},
        {"#lanes-body": evil, "#why": evil},
    )
