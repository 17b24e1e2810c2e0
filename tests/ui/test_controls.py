"""The dashboard's controls in a real browser: they act with the token, and say why they do not."""

from playwright.async_api import Browser, Page, expect

from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from tests.support.control import TOKEN
from tests.ui.browser import Opened, dashboard
from tests.ui.gates import gate, weighing_gate

OUTCOME = "#control-outcome"


async def give_token(page: Page, token: str = TOKEN) -> None:
    await page.get_by_label("Admin token").fill(token)
    await page.get_by_role("button", name="Use", exact=True).click()


async def press(page: Page, name: str, confirm: str | None = None) -> None:
    await page.get_by_role("button", name=name, exact=True).click()
    if confirm is not None:
        await page.get_by_role("dialog").get_by_role("button", name=confirm, exact=True).click()


async def kept(seen: Opened) -> dict[str, str]:
    """What the browser keeps for the page, in both of its stores."""
    found = await seen.page.evaluate("({ ...sessionStorage, ...localStorage })")
    return dict(found)


async def test_the_mode_is_forced_and_given_back(browser: Browser):
    async with gate(threshold=8, admin_token=TOKEN) as on, dashboard(browser, on.url) as seen:
        page = seen.page
        await give_token(page)
        await press(page, "force plain", confirm="Force plain")
        await expect(page.locator(OUTCOME)).to_have_text("The mode is plain.")
        await expect(page.locator("#serving")).to_contain_text("plain serves new requests.")
        await expect(page.locator("#fact-mode")).to_have_text("an operator: forced to plain")
        await expect(page.locator("[data-mode=plain]")).to_have_attribute("aria-pressed", "true")
        assert on.gate.service.gate.view().mode is Mode.PLAIN
        await seen.shot("forced")
        await press(page, "auto: the policy")
        await expect(page.locator("#serving")).to_contain_text("spec serves new requests.")
        assert on.gate.service.gate.view().mode is Mode.AUTO


async def test_what_is_not_confirmed_does_nothing(browser: Browser):
    async with gate(threshold=8, admin_token=TOKEN) as on, dashboard(browser, on.url) as seen:
        await give_token(seen.page)
        for leave in ("Cancel", None):
            await press(seen.page, "force plain", confirm=leave)
            if leave is None:
                await seen.page.keyboard.press("Escape")
            await expect(seen.page.get_by_role("dialog")).to_be_hidden()
        assert on.gate.service.gate.view().mode is Mode.AUTO
        assert not any(asked.endswith("/mode") for asked in seen.asked)


async def test_a_lane_is_drained_and_undrained(browser: Browser):
    async with gate(threshold=8, admin_token=TOKEN) as on, dashboard(browser, on.url) as seen:
        page = seen.page
        await give_token(page)
        async with on.load(2):
            await press(page, "Drain spec", confirm="Drain spec")
            await expect(page.locator("#drain-words")).to_contain_text(
                "still has 1 request in hand"
            )
            await expect(page.locator("#serving")).to_contain_text("since spec is being drained")
            await expect(page.locator("[data-health=draining]")).to_have_text("healthy, draining")
            assert on.gate.service.gate.view().lanes[Lane.SPEC].draining
        await expect(page.locator("#drain-words")).to_contain_text("its engine may stop")
        await seen.shot("drained")
        await press(page, "Undrain spec")
        await expect(page.locator("#drain-words")).to_have_text("Neither lane is being drained.")
        assert not on.gate.service.gate.view().lanes[Lane.SPEC].draining


async def test_the_gates_refusal_is_shown(browser: Browser):
    """It drains one lane, and not both."""
    async with (
        gate(threshold=8, admin_token=TOKEN) as on,
        dashboard(browser, on.url, complains_of="409") as seen,
    ):
        page = seen.page
        await give_token(page)
        await press(page, "Drain spec", confirm="Drain spec")
        await expect(page.locator(OUTCOME)).to_have_text("spec is being drained.")
        await press(page, "Drain plain", confirm="Drain plain")
        await expect(page.locator(OUTCOME)).to_contain_text("Nothing changed: ")
        await expect(page.locator(OUTCOME)).to_have_attribute("data-error", "true")


async def test_the_threshold_is_set_and_a_wrong_one_is_not_sent(browser: Browser):
    async with gate(threshold=8, admin_token=TOKEN) as on, dashboard(browser, on.url) as seen:
        page = seen.page
        await give_token(page)
        threshold = page.get_by_label("Threshold, in sequences")
        for wrong in ("", "-3", "many"):
            await threshold.fill(wrong)
            await press(page, "Set")
            words = "The threshold is a number of sequences above 0."
            await expect(page.locator(OUTCOME)).to_have_text(words)
        assert not any(asked.endswith("/threshold") for asked in seen.asked)
        await threshold.fill("12.5")
        await threshold.press("Enter")
        await expect(page.locator(OUTCOME)).to_have_text("The threshold is 12.5 sequences.")
        await expect(page.locator("#fact-rule")).to_contain_text("12.5 sequences")
        await press(page, "never speculate")
        await expect(page.locator("#fact-rule")).to_have_text("never speculate")
        assert on.gate.service.gate.view().policy.threshold == 0


async def test_a_reload_ends_what_was_set_by_hand(browser: Browser, tmp_path):
    async with (
        weighing_gate(tmp_path, admin_token=TOKEN) as on,
        dashboard(browser, on.url) as seen,
    ):
        page = seen.page
        await give_token(page)
        await press(page, "always speculate", confirm="Use a threshold")
        await expect(page.locator("#curves-words")).to_contain_text("There is no profile")
        await press(page, "Reload")
        await expect(page.locator(OUTCOME)).to_have_text("Changed: threshold.")
        await expect(page.locator("#curves-words")).to_contain_text("Speculation pays below 38.6")


async def test_a_wrong_token_changes_nothing_and_is_said_to_be_wrong(browser: Browser):
    async with (
        gate(threshold=8, admin_token=TOKEN) as on,
        dashboard(browser, on.url, complains_of="401") as seen,
    ):
        page = seen.page
        await give_token(page, "a-wrong-one")
        await press(page, "force plain", confirm="Force plain")
        words = "Nothing changed: the gate does not take this token. Type it again."
        await expect(page.locator(OUTCOME)).to_have_text(words)
        await expect(page.get_by_label("Admin token")).to_be_focused()
        await expect(page.get_by_label("Admin token")).to_have_attribute("aria-invalid", "true")
        await expect(page.locator("#reload")).to_be_disabled()
        assert on.gate.service.gate.view().mode is Mode.AUTO
        assert await kept(seen) == {}
        await seen.shot("wrong-token")


async def test_the_token_stays_in_the_tab_and_goes_as_a_header_alone(browser: Browser):
    async with gate(threshold=8, admin_token=TOKEN) as on, dashboard(browser, on.url) as seen:
        page = seen.page
        headers: list[dict[str, str]] = []
        page.on("request", lambda request: headers.append(request.headers))
        await give_token(page)
        assert await kept(seen) == {"specgate-admin-token": TOKEN}
        await page.reload()
        await expect(page.locator("#reload")).to_be_enabled()
        await press(page, "Reload")
        await expect(page.locator(OUTCOME)).to_have_text("Nothing changed.")
        sent = [each["authorization"] for each in headers if "authorization" in each]
        assert sent == [f"Bearer {TOKEN}"], "with the change, and with nothing that only reads"
        assert not any(TOKEN in asked for asked in seen.asked)
        assert await page.context.cookies() == []
        assert TOKEN not in await page.content()
        await press(page, "Forget")
        assert await kept(seen) == {}
        await expect(page.locator("#reload")).to_be_disabled()


async def test_a_token_that_no_header_can_carry_is_named(browser: Browser):
    async with gate(threshold=8, admin_token=TOKEN) as on, dashboard(browser, on.url) as seen:
        await give_token(seen.page, "ключ")
        await expect(seen.page.locator(OUTCOME)).to_contain_text("no header can carry")
        await expect(seen.page.locator("#reload")).to_be_disabled()
        assert await kept(seen) == {}


async def test_a_gate_without_a_token_explains_why_nothing_can_be_changed(browser: Browser):
    async with gate(threshold=8) as on, dashboard(browser, on.url) as seen:
        page = seen.page
        await expect(page.locator("#controls-words")).to_contain_text(
            "without SPECGATE_ADMIN_TOKEN"
        )
        await expect(page.locator("#token-form")).to_be_hidden()
        await expect(page.locator("#reload")).to_be_disabled()
