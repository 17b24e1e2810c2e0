"""What every test may use."""

import signal
import threading
from collections.abc import Iterator

import pytest

from tests.support import live

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and (
    threading.current_thread() is threading.main_thread()
):
    # Whoever starts tests in the background may ignore it, and what they start then ignores it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
