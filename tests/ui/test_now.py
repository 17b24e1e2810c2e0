"""The dashboard in a real browser: what it shows of the gate, as it changes."""

import asyncio
import re
from collections.abc import Callable

from playwright.async_api import Browser, Page, expect

from specgate.admin.stream import LISTENERS_MAX
from tests.support.control import TOKEN, change
from tests.support.lanes import ScriptedLane
from tests.support.process import serve_process
from tests.ui.browser import Opened, dashboard
from tests.ui.gates import gate, weighing_gate

A_POINT_S = 12_000
"""Milliseconds within which the history has a further point, and the page has asked for it."""


async def becomes(page: Page, selector: str, words: str | re.Pattern[str]) -> None:
    await expect(page.locator(selector)).to_contain_text(words)


async def place(on: Opened, selector: str) -> tuple[float, float]:
    """Its left and right end, in pixels."""
    box = await on.page.locator(selector).bounding_box()
    assert box is not None
    return box["x"], box["x"] + box["width"]


async def test_a_look_tells_which_lane_serves_why_and_how_far_it_is_from_switching(
    browser: Browser,
):
    async with gate(threshold=8, band=0.25) as on, on.load(5), dashboard(browser, on.url) as seen:
        page = seen.page
        await becomes(page, "#serving", "spec serves new requests.")
        await becomes(page, "#why", "the load is below the band: the spec side")
        await becomes(page, "#next", "the gate leaves spec at a load of 8: 3.00 more")
        await becomes(page, "#gauge-load", "load 5.00 sequences, 3.00 more to switch")
        await becomes(page, "#gauge-edge", "band 6 to 8 sequences")
        await becomes(page, "#fact-in-flight", "5 sequences: 5 spec, 0 plain")
        await becomes(page, "#fact-mode", "the policy")
        await becomes(page, "#lanes-body", re.compile("Health ?healthy ?healthy"))
        # And so it is drawn: the marker before the band, the way from it to the band's far end.
        track, marker = await place(seen, "#gauge-track"), await place(seen, "#gauge-marker")
        band, way = await place(seen, "[data-zone=open]"), await place(seen, "#gauge-way")
        assert track[0] < marker[0] < band[0] < band[1] < track[1]
        assert abs(way[0] - sum(marker) / 2) < 4
        assert abs(way[1] - band[1]) < 4
        await seen.shot("threshold")


async def test_values_change_under_load(browser: Browser):
    async with gate(threshold=8) as on, dashboard(browser, on.url) as seen:
        await becomes(seen.page, "#fact-in-flight", "0 sequences")
        await expect(seen.page).to_have_title("spec, 0.0 sequences: specgate")
        before = await place(seen, "#gauge-marker")
        async with on.load(4):
            await becomes(seen.page, "#fact-in-flight", "4 sequences: 4 spec")
            await expect(seen.page).to_have_title("spec, 4.0 sequences: specgate")
            assert (await place(seen, "#gauge-marker"))[0] > before[0] + 50
        await becomes(seen.page, "#fact-in-flight", "0 sequences")


async def test_a_switch_is_shown_told_and_logged(browser: Browser):
    async with gate(threshold=4, band=0.5) as on, dashboard(browser, on.url) as seen:
        page = seen.page
        await becomes(page, "#switches-words", "None since the gate started.")
        await becomes(page, "#told", "spec serves new requests.")
        # The arriving request counts: 3 and 2 are over the threshold.
        async with on.load(3), on.load(2):
            first = page.locator("#switches-list li").first
            await expect(first).to_contain_text("to plain: the load is at the threshold")
            await expect(first).to_contain_text("above_threshold · load 5.00 sequences")
            await expect(first).to_contain_text("band 2 to 4 sequences")
            await becomes(page, "#serving", "plain serves new requests.")
            await becomes(page, "#told", "plain serves new requests.")
            await becomes(page, "#fact-switch", "1 switch since the start")
            await seen.shot("switched")
        await expect(page.locator("#switches-list li")).to_have_count(2)
        await becomes(page, "#switches-list li:first-child", "to spec")


async def test_the_last_hour_is_drawn(browser: Browser):
    async with gate(threshold=8) as on, on.load(3), dashboard(browser, on.url) as seen:
        legend = seen.page.locator("#charts figure:first-child .legend")
        await expect(legend).to_contain_text("load 3.00 sequences", timeout=A_POINT_S)
        await expect(legend).to_contain_text("edge at 8 sequences")
        assert await seen.page.locator("#charts canvas").count() == 5
        first = await seen.page.locator("#charts .plot").first.get_attribute("aria-label")
        assert first is not None
        assert "load 3.00 sequences" in first


async def test_with_a_profile_it_shows_what_is_weighed(browser: Browser, tmp_path):
    async with weighing_gate(tmp_path) as on, on.load(20), dashboard(browser, on.url) as seen:
        page = seen.page
        await becomes(page, "#next", re.compile(r"weighs going to plain at a load above 38\.6"))
        await becomes(page, "#gauge-edge", "edge at 38.6 sequences")
        await becomes(page, "#gauge-load", re.compile(r"\d+\.\d\d below the edge"))
        await becomes(page, "#price-words", "Towards a switch to plain: 0 % of its price")
        await becomes(page, "#fact-rule", "spec gives at most 1,143 tok/s")
        await becomes(page, "#meter-words", "On the mean over 20 sequences, one took")
        await becomes(page, "#meter-words", "not measured")
        now = re.compile(r"At the present load of \d+\.\d\d sequences spec gives")
        await becomes(page, "#curves-words", now)
        await becomes(page, "#curves-words", "Speculation pays below 38.6 sequences.")
        assert await page.locator("#curves-plot canvas").count() == 1
        await seen.shot("profile")


async def test_a_lane_that_is_down_is_shown_and_which_serves_instead(browser: Browser):
    async with gate(threshold=8) as on, dashboard(browser, on.url) as seen:
        await on.spec.stop()
        await becomes(seen.page, "#serving", "plain serves, since spec is ejected.")
        await becomes(seen.page, "[data-health=ejected]", "ejected")
        await on.plain.stop()
        await becomes(seen.page, "#serving", "spec is asked, but no lane is known to serve.")
        await seen.shot("both-down", whole=False)


async def test_shadow_and_mode_are_named(browser: Browser):
    async with (
        gate(threshold=8, shadow="plain", admin_token=TOKEN) as on,
        dashboard(browser, on.url) as seen,
    ):
        words = "plain serves everything, in shadow: the policy would choose spec."
        await becomes(seen.page, "#serving", words)
        await change(on.gate, b"PUT", "mode", {"mode": "plain"})
        await becomes(seen.page, "#fact-mode", "an operator: forced to plain; shadow: all to plain")


async def until(condition: Callable[[], bool], within_s: float = 10) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.05)


async def test_a_gate_that_goes_away_is_seen_at_once_and_one_that_comes_back_is_asked_anew(
    browser: Browser,
):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_THRESHOLD": "8",
            "SPECGATE_ADMIN_TOKEN": TOKEN,
        }
        async with serve_process(environ) as first:
            url = first.url
            async with dashboard(browser, url, complains_of="net::ERR") as seen:
                page = seen.page
                await change(first, b"PUT", "mode", {"mode": "plain"})
                await expect(page.locator("#switches-list li")).to_have_count(1)
                first.process.kill()
                await first.stopped()
                await becomes(page, "#lost", "No connection to the gate. What is shown is")
                await becomes(page, "#lost", re.compile(r"is \d+ s old, of \d\d:\d\d:\d\d"))
                await becomes(page, "#told", "The connection to the gate is lost.")
                await seen.shot("lost", whole=False)
                asked = len(seen.asked)
                port = url.rpartition(":")[2]
                async with serve_process({**environ, "SPECGATE_PORT": port}):
                    await page.wait_for_selector("body[data-feed=live]")
                    await expect(page.locator("#lost")).to_be_hidden()
                    # It is another process: what the first one knew is gone.
                    await becomes(page, "#switches-words", "None since the gate started.")
                    again = {each.rpartition("/")[2] for each in seen.asked[asked:]}
                    assert {"events", "switches", "history", "curves"} <= again


async def test_one_listener_too_many_asks_instead(browser: Browser):
    async with gate(threshold=8) as on:
        feed = on.gate.service.feed
        listeners = [feed.join() for _ in range(LISTENERS_MAX)]
        async with dashboard(browser, on.url, complains_of="503") as seen, on.load(3):
            await becomes(seen.page, "#connection", "every 3 s")
            await becomes(seen.page, "#fact-in-flight", "3 sequences")
            for listener in listeners:
                feed.leave(listener)
            await becomes(seen.page, "#connection", "live")
