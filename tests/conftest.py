"""What every test may use."""

from collections.abc import Iterator

import pytest

from tests.support import live


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The gate is an asyncio program; async tests run on nothing else."""
    return "asyncio"


@pytest.fixture(params=["own", "portable"])
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    """The gate's two forms: on connections of our own, and through ASGI on uvicorn's."""
    live.PORTABLE = request.param == "portable"
    yield request.param
    live.PORTABLE = False
