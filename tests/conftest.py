"""What every test may use."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import live

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and (
    threading.current_thread() is threading.main_thread()
):
    # Whoever starts tests in the background may ignore it, and what they start then ignores it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ON_THE_CLOCK = frozenset(
    {
        "bench", "cases", "chaos", "cli", "contract", "deploy", "docs", "doctor", "e2e", "live",
        "perf", "proxy", "sim", "support_tests", "telemetry", "ui",
    }
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One more try for a test of sockets and processes; it is listed as RERUN at the end."""
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in ON_THE_CLOCK:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why a first try failed: a rerun is a defect that is still to be found."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first try of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


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
