"""Whether this machine does other work, which slows an engine on it and shows in no figure.

An engine that waits for a processor is late with each request, and one arm may be later than the
other: on two processors with five other busy processes, a simulated pair's throughput fell by 2 %
in one lane and by 4 % in the other, with no sign of it in the client's own waiting. So a busy
machine is looked for before each cell, while no arm has a request, and where it is, DISTURBED is
added to the interval of ln(spec / plain), where repeats do not make it smaller.
"""

import socket
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

BUSY = 0.75
"""Of all processors: above it an engine here may have to wait for one."""

DISTURBED = 0.05
"""Systematic error of ln(tok/s) on a busy machine: somewhat more than was seen."""

LOOK_S = 0.15

_STAT = Path("/proc/stat")


class Times(NamedTuple):
    """Processor time since the machine's start, in ticks: of all processors."""

    busy: int
    whole: int


def times(stat: Path = _STAT) -> Times | None:
    """None where the system does not tell. What runs niced is not busy: it gives way."""
    try:
        words = stat.read_text().split("\n", 1)[0].split()[1:9]
        user, _, system, _, _, irq, softirq, steal = ticks = [int(word) for word in words]
    except (OSError, ValueError):
        return None
    return Times(busy=user + system + irq + softirq + steal, whole=sum(ticks))


def busy_share(before: Times | None, after: Times | None) -> float | None:
    """Of all processors' time between two readings."""
    if before is None or after is None or after.whole <= before.whole:
        return None
    return (after.busy - before.busy) / (after.whole - before.whole)


def here(urls: Iterable[str]) -> bool:
    """Whether one of these addresses is this machine's, as far as its name tells."""
    hosts = {urlsplit(url).hostname or "" for url in urls}
    return any(
        host in ("localhost", "::1", socket.gethostname()) or host.startswith("127.")
        for host in hosts
    )
