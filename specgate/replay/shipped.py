"""The traces that come with specgate, by name."""

from importlib import resources
from pathlib import Path

from specgate.replay.traces import read_trace
from specgate.replay.traffic import Arrival

TRACES: dict[str, tuple[str, str]] = {
    "azure-conversation": (
        "azure_llm_2023_conv.csv.gz",
        "an hour of a production chat service on 2023-11-16, 19,366 requests; from the Azure "
        "Public Dataset (Microsoft), licence CC BY 4.0",
    )
}
"""By name: the file, and where it is from."""


def trace(name: str = "azure-conversation") -> list[Arrival]:
    """Raises KeyError for a name that is not in TRACES."""
    file = resources.files("specgate.replay") / "data" / TRACES[name][0]
    with resources.as_file(file) as path:
        return read_trace(Path(path))
