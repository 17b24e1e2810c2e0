"""A real Chromium, as readers of the dashboard have it: Debian's, driven by Playwright.

Each page is watched: what it asks for stays with the gate, and the browser has no complaint, unless
a test says which it expects.
"""

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

SHOTS = Path(__file__).parents[2] / ".ci-artifacts" / "ui"
"""What the pages looked like, for a person to look at."""

DESK = (1280, 900)
PHONE = (390, 844)

_SHIFTS = """
window.shifted = [];
new PerformanceObserver((list) => {
  for (const { value, sources } of list.getEntries())
    window.shifted.push([value, ...sources.map(({ node }) => node?.id || node?.nodeName)]);
}).observe({ type: "layout-shift", buffered: true });
"""


def chromium() -> str:
    """Its path. Where it is missing the test is skipped, but fails in CI."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("chromium is missing; tests/check.sh installs it")
    return str(found)


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(),
            # As root Chromium runs without its sandbox or not at all; all it opens is our own.
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        await browser.close()


@dataclass
class Opened:
    """A dashboard that is open. `asked`: the URLs that it asked for; `complaints`: errors on its
    console, and exceptions."""

    page: Page
    url: str
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    async def shot(self, name: str, *, whole: bool = True) -> None:
        await self.page.evaluate("scrollTo(0, 0)")
        await self.page.screenshot(path=SHOTS / f"{name}.png", full_page=whole)

    async def text(self, selector: str) -> str:
        return (await self.page.locator(selector).text_content()) or ""

    async def shifted(self) -> list[tuple[float, list[str]]]:
        """What moved by itself so far: how far, as a share of the window, and what."""
        found = await self.page.evaluate("window.shifted")
        return [(each[0], each[1:]) for each in found]


@asynccontextmanager
async def dashboard(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = DESK,
    scheme: Literal["light", "dark"] = "light",
    complains_of: str | None = None,
    told: Any = None,
    locked: bool = False,
) -> AsyncIterator[Opened]:
    """Open a gate's dashboard and wait for its first state, or (`locked`) until it asks for the
    token. `complains_of`: what each complaint of the browser may hold; None: it has none. `told`: a
    status that takes the place of the gate's."""
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(10_000)
    try:
        await context.add_init_script(_SHIFTS)
        if told is not None:
            stream = f"event: state\ndata: {json.dumps(told)}\n\n"
            await context.route(
                "**/_specgate/events",
                lambda route: route.fulfill(body=stream, content_type="text/event-stream"),
            )
        opened = Opened(await context.new_page(), url)
        opened.watch()
        await opened.page.goto(f"{url}/_specgate/ui")
        first = ("locked",) if locked else ("live", "polled")
        await opened.page.wait_for_selector(", ".join(f"body[data-feed={how}]" for how in first))
        yield opened
    finally:
        await context.close()
    assert all(asked.startswith(url) for asked in opened.asked), opened.asked
    found = [each for each in opened.complaints if not complains_of or complains_of not in each]
    assert not found, found
    assert complains_of is None or opened.complaints, "it complained of nothing"
