"""What the gate costs as a multiple of what nginx does, measured in the same run.

The ceilings are about twice what was measured (docs/explanation/performance.md): they catch a
change that doubles a cost, and no busy neighbour.
"""

import os
from pathlib import Path

import pytest

from tests.perf.compare import engine, gate, measure, missing_tools, nginx

REQUEST_CEILING = 22.0
CHUNK_CEILING = 3.5
BURST_CEILING = 7.0
"""nginx spends so little on a burst that the clock's ticks are a fifth of it."""

RSS_CEILING_MB = 80


@pytest.mark.slow
def test_costs_beside_nginx(tmp_path: Path) -> None:
    if missing := missing_tools():
        assert os.environ.get("CI") != "true", f"missing: {missing}"
        pytest.skip(f"missing: {missing}")
    with engine():
        base = measure(nginx(tmp_path), tmp_path, seconds=2, chunks=150)
        ours = measure(gate(), tmp_path, seconds=2, chunks=150)
    print(base, ours)
    assert ours.bad == 0
    assert ours.us_request < REQUEST_CEILING * base.us_request, (ours, base)
    assert ours.us_chunk < CHUNK_CEILING * base.us_chunk, (ours, base)
    assert ours.us_burst < BURST_CEILING * base.us_burst, (ours, base)
    assert ours.rss_mb < RSS_CEILING_MB
