"""The forms of an upstream that the contract holds for, each on the event loops that it runs on."""

import asyncio
import gc
import ssl
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from specgate.upstream.base import Upstream
from specgate.upstream.httpx import HttpxUpstream
from specgate.upstream.pool import PooledUpstream
from tests.support.stage import no_errors_logged


@dataclass(frozen=True)
class Form:
    name: str
    uvloop: bool

    def build(
        self, *, connect_timeout_s: float = 20, tls: ssl.SSLContext | None = None
    ) -> Upstream:
        build = HttpxUpstream if self.name == "httpx" else PooledUpstream
        return build(connect_timeout_s=connect_timeout_s, tls=tls)

    def connections(self, requests: int) -> int:
        """How many a number of requests take, one after the other: httpx keeps none."""
        return requests if self.name == "httpx" else 1


@pytest.fixture(scope="session", params=["pooled", "pooled-uvloop", "httpx"])
def form(request: pytest.FixtureRequest) -> Form:
    name, _, loop = request.param.partition("-")
    return Form(name, loop == "uvloop")


@pytest.fixture(scope="session")
def anyio_backend(form: Form) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": form.uvloop}


@pytest.fixture(scope="session", autouse=True)
def cheap_collections() -> Iterator[None]:
    """What was there before the tests is no garbage, and needs no looking at after each. What an
    earlier test left, one that failed say, is no error of the first one here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """No library logs an error, neither now nor when what is left is collected."""
    with no_errors_logged():
        yield
        gc.collect()


@pytest.fixture
async def upstream(form: Form) -> AsyncIterator[Upstream]:
    """The upstream under test; what it left behind is collected while its loop still runs."""
    built = form.build()
    yield built
    await built.aclose()
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.sleep(0)


POOLED = pytest.mark.parametrize(
    "form", ["pooled", "pooled-uvloop"], indirect=True, scope="session"
)
"""For what the httpx form cannot, or what is no part of the contract."""
