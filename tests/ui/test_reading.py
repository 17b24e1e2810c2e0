"""The dashboard of a gate that tells nothing without its token (SPECGATE_CONTROL_READ=token)."""

import asyncio

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from specgate.admin.stream import LISTENERS_MAX, RETRY_MS
from tests.support.control import TOKEN, change
from tests.support.lanes import ScriptedLane
from tests.support.process import serve_process
from tests.ui.browser import DESK, PHONE, dashboard
from tests.ui.gates import gate
from tests.ui.test_controls import OUTCOME, give_token, kept, press

CLOSED = {"threshold": 8, "admin_token": TOKEN, "control_read": "token"}


async def test_it_asks_for_the_token_and_then_shows_all_and_follows(browser: Browser):
    async with (
        gate(**CLOSED) as on,
        dashboard(browser, on.url, locked=True, complains_of="401") as seen,
    ):
        page = seen.page
        await expect(page.locator("#connection")).to_contain_text("admin token is needed")
        await expect(page.get_by_label("Admin token")).to_be_focused()
        await expect(page.locator("#now")).to_be_hidden()
        await expect(page.locator("#changing")).to_be_hidden()
        below = [each.partition("/_specgate/")[2] for each in seen.asked]
        assert all(each.startswith("ui") for each in below), "it asks for what it may not have"
        await seen.shot("locked")

        await give_token(page, "a-wrong-one")
        words = "The gate does not take this token. Type it again."
        await expect(page.locator(OUTCOME)).to_have_text(words)
        await expect(page.get_by_label("Admin token")).to_be_focused()
        await expect(page.locator("#now")).to_be_hidden()
        assert await kept(seen) == {}

        await give_token(page)
        await page.wait_for_selector("body[data-feed=live]")
        await expect(page.locator("#serving")).to_contain_text("spec serves new requests.")
        async with on.load(5):
            await expect(page.locator("#fact-in-flight")).to_contain_text("5 sequences")
        await change(on.gate, b"PUT", "mode", {"mode": "plain"})
        await expect(page.locator("#switches-list li")).to_have_count(1)
        await expect(page.locator("#hour .plot canvas").first).to_be_visible()
        await press(page, "auto: the policy")
        await expect(page.locator(OUTCOME)).to_have_text("The policy decides again.")
        await seen.shot("unlocked")

        await press(page, "Forget")
        await page.wait_for_selector("body[data-feed=locked]")
        await expect(page.locator("#now")).to_be_hidden()
        assert await kept(seen) == {}
        assert not any(TOKEN in asked for asked in seen.asked)


async def test_a_tab_that_has_the_token_is_not_asked_again(browser: Browser):
    async with gate(**CLOSED) as on, dashboard(browser, on.url, locked=True) as seen:
        await give_token(seen.page)
        await seen.page.wait_for_selector("body[data-feed=live]")
        await seen.page.reload()
        await seen.page.wait_for_selector("body[data-feed=live]")
        await expect(seen.page.locator("#now")).to_be_visible()


async def test_a_stream_that_breaks_is_asked_for_again_with_the_token(browser: Browser):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_ADMIN_TOKEN": TOKEN,
            "SPECGATE_CONTROL_READ": "token",
        }
        async with serve_process(environ) as first:
            url = first.url
            async with dashboard(browser, url, locked=True, complains_of="net::ERR") as seen:
                await give_token(seen.page)
                await seen.page.wait_for_selector("body[data-feed=live]")
                first.process.kill()
                await first.stopped()
                await seen.page.wait_for_selector("body[data-feed=lost]")
                port = url.rpartition(":")[2]
                async with serve_process({**environ, "SPECGATE_PORT": port}):
                    await seen.page.wait_for_selector("body[data-feed=live]")
                    await expect(seen.page.locator("#lost")).to_be_hidden()


async def test_a_token_that_is_good_no_more_locks_the_page(browser: Browser):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_ADMIN_TOKEN": TOKEN,
            "SPECGATE_CONTROL_READ": "token",
        }
        refused = "Failed to load resource"
        async with serve_process(environ) as first:
            url = first.url
            async with dashboard(browser, url, locked=True, complains_of=refused) as seen:
                await give_token(seen.page)
                await seen.page.wait_for_selector("body[data-feed=live]")
                first.process.kill()
                await first.stopped()
                changed = {"SPECGATE_PORT": url.rpartition(":")[2], "SPECGATE_ADMIN_TOKEN": "new"}
                async with serve_process({**environ, **changed}):
                    await seen.page.wait_for_selector("body[data-feed=locked]")
                    await expect(seen.page.locator("#now")).to_be_hidden()
                    await expect(seen.page.locator(OUTCOME)).to_contain_text("does not take this")
                    await give_token(seen.page, "new")
                    await seen.page.wait_for_selector("body[data-feed=live]")


async def test_one_listener_too_many_asks_instead_with_the_token(browser: Browser):
    async with gate(**CLOSED) as on:
        feed = on.gate.service.feed
        listeners = [feed.join() for _ in range(LISTENERS_MAX)]
        async with dashboard(browser, on.url, locked=True, complains_of="503") as seen:
            await give_token(seen.page)
            await seen.page.wait_for_selector("body[data-feed=polled]")
            for listener in listeners:
                feed.leave(listener)
            await seen.page.wait_for_selector("body[data-feed=live]")


async def test_a_stream_that_ends_is_asked_for_again_after_the_time_that_it_said(browser: Browser):
    """As an EventSource does."""
    async with gate(threshold=8) as on, dashboard(browser, on.url) as seen:
        (before,) = [asked for asked in seen.asked if asked.endswith("/events")]
        loop = asyncio.get_running_loop()
        async with seen.page.expect_request("**/_specgate/events") as again:
            ended = loop.time()
            for listener in list(on.gate.service.feed._listeners):
                listener.end()
            assert (await again.value).url == before
        assert loop.time() - ended >= RETRY_MS / 1000 - 0.1
        await seen.page.wait_for_selector("body[data-feed=live]")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_axe_finds_nothing_on_a_locked_page(browser: Browser, size: tuple[int, int]):
    async with gate(**CLOSED) as on, dashboard(browser, on.url, size=size, locked=True) as seen:
        assert (await Axe().run(seen.page)).response["violations"] == []
        wide = await seen.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= size[0]
