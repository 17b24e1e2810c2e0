"""What every test may use."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The gate is an asyncio program; async tests run on nothing else."""
    return "asyncio"
