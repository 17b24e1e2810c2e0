"""The dashboard for everyone: without a mouse, on a phone, in the dark, read aloud."""

import asyncio
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from tests.support.control import TOKEN
from tests.ui.browser import DESK, PHONE, Opened, dashboard
from tests.ui.gates import gate, weighing_gate

Scheme = Literal["light", "dark"]
SCHEMES = ("light", "dark")

MOVING = {"gauge-marker", "gauge-way", "gauge-load"}
"""What moves with the load, as it should."""


async def faults(seen: Opened) -> list[dict[str, Any]]:
    """What axe finds, whatever its weight."""
    found = (await Axe().run(seen.page)).response["violations"]
    return [{key: each[key] for key in ("id", "impact", "help")} for each in found]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_axe_finds_nothing(
    browser: Browser, tmp_path: Path, scheme: Scheme, size: tuple[int, int]
):
    async with (
        weighing_gate(tmp_path, admin_token=TOKEN) as on,
        on.load(12),
        dashboard(browser, on.url, size=size, scheme=scheme) as seen,
    ):
        await expect(seen.page.locator("#curves-words")).to_contain_text("Speculation pays")
        assert await faults(seen) == []
        await seen.page.get_by_label("Admin token").fill(TOKEN)
        await seen.page.get_by_label("Admin token").press("Enter")
        await seen.page.get_by_role("button", name="Drain spec").click()
        await expect(seen.page.get_by_role("dialog")).to_be_visible()
        assert await faults(seen) == []


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_axe_finds_nothing_where_little_is_known(browser: Browser, scheme: Scheme):
    async with gate() as on, dashboard(browser, on.url, scheme=scheme) as seen:
        await expect(seen.page.locator("#fact-rule")).to_have_text("none: nothing was measured")
        await on.spec.stop()
        await expect(seen.page.locator("[data-health=ejected]")).to_be_visible()
        assert await faults(seen) == []


@pytest.mark.parametrize("width", [390, 320])
async def test_a_phone_scrolls_one_way_only(browser: Browser, tmp_path: Path, width: int):
    async with (
        weighing_gate(tmp_path, admin_token=TOKEN) as on,
        on.load(4),
        dashboard(browser, on.url, size=(width, 844)) as seen,
    ):
        await expect(seen.page.locator("#curves-words")).to_contain_text("Speculation pays")
        # The longest line of the gauge.
        edge = re.compile(r"3[45]\.\d\d below the edge")
        await expect(seen.page.locator("#gauge-load")).to_contain_text(edge)
        await expect(seen.page.locator("#price-words")).to_contain_text("switch to plain: 0 %")
        wide = await seen.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        # Nor is anything cut off at the side, where no scroll bar would tell.
        beyond = await seen.page.evaluate(
            """[...document.querySelectorAll("main *")]
            .filter((node) => node.checkVisibility() && !node.closest(".plot"))
            .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
            .map((node) => node.id || node.className || node.tagName)"""
        )
        assert beyond == []
        await seen.shot(f"phone-{width}")
        await seen.shot(f"phone-{width}-first", whole=False)


async def test_the_keyboard_reaches_all_of_it_in_order_and_shows_where_it_is(browser: Browser):
    async with gate(threshold=8, admin_token=TOKEN) as on, dashboard(browser, on.url) as seen:
        page = seen.page
        reached: list[str] = []
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        assert await page.locator(".skip").evaluate("it => it.getBoundingClientRect().left >= 0")
        for _ in range(40):
            where, seen_ring = await page.evaluate(
                """[document.activeElement.textContent.trim() || document.activeElement.id,
                    getComputedStyle(document.activeElement).outlineStyle !== "none"]"""
            )
            assert seen_ring, where
            reached.append(where)
            if where == "token":
                break
            await page.keyboard.press("Tab")
        assert reached[1:5] == ["Last hour", "Switches", "Profile", "Controls"]
        assert reached[5].startswith("Theme")
        await page.keyboard.type(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.locator("#reload")).to_be_enabled()
        # On to the buttons: Use, Forget, auto, force spec, force plain.
        for _ in range(5):
            await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.dataset.mode") == "plain"
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Force plain", exact=True)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#control-outcome")).to_have_text("The mode is plain.")
        assert await page.evaluate("document.activeElement.dataset.mode") == "plain"


async def test_the_theme_follows_the_system_until_it_is_chosen(browser: Browser):
    async with gate(threshold=8) as on, dashboard(browser, on.url, scheme="dark") as seen:
        page = seen.page

        async def paper() -> str:
            return str(await page.evaluate("getComputedStyle(document.body).backgroundColor"))

        dark = await paper()
        await page.emulate_media(color_scheme="light")
        light = await paper()
        assert light != dark
        await page.get_by_role("button", name="Theme: auto").click()
        await page.emulate_media(color_scheme="dark")
        assert await paper() == light
        await page.reload()
        await expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
        assert await paper() == light
        await page.get_by_role("button", name="Theme: light").click()
        assert await paper() == dark


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_nothing_jumps_as_numbers_come(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
):
    async with weighing_gate(tmp_path) as on, dashboard(browser, on.url, size=size) as seen:
        await expect(seen.page.locator("#curves-words")).to_contain_text("Speculation pays")
        async with on.load(12):
            await expect(seen.page.locator("#fact-in-flight")).to_contain_text("12 sequences")
            await asyncio.sleep(2)
        shifts = [each for each in await seen.shifted() if not set(each[1]) <= MOVING]
        assert sum(far for far, _ in shifts) < 0.01, shifts


async def test_axe_would_find_a_fault(browser: Browser):
    """What the tests above rest on."""
    async with gate() as on, dashboard(browser, on.url) as seen:
        await seen.page.evaluate(
            """document.querySelector("main").append(document.createElement("input"))"""
        )
        assert [each["id"] for each in await faults(seen)] == ["label"]
