"""One browser for the tests of a module."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.ui.browser import launched


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser
