"""`/metrics` in the format that the scraper asks for, made beside the streams.

All of it is read at one moment and written family by family, with a turn of the event loop
between: in one go it took five milliseconds, in which no stream moved.
"""

import asyncio
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_EOF = b"# EOF\n"
"""Ends a page of OpenMetrics, and so each part of one that the library makes."""


async def exposition(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """Content type and text: OpenMetrics where `accept` asks for it, else Prometheus's own."""
    encoder, content_type = choose_encoder(accept)
    parts, end = [], b""
    for family in list(registry.collect()):
        text = encoder(_One(family))
        if text.endswith(_EOF):
            text, end = text.removesuffix(_EOF), _EOF
        parts.append(text)
        await asyncio.sleep(0)
    return content_type, b"".join([*parts, end])


class _One(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        yield self._family


class ProcessFigures(Collector):
    """Memory, processor time and open files of this process. The files are counted one by one, a
    millisecond for each few thousand: `read_ahead` does that in a thread, for one `collect`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._process = ProcessCollector(namespace="specgate", registry=None)
        self._ahead: list[Metric] | None = None
        registry.register(self)

    async def read_ahead(self) -> None:
        self._ahead = await asyncio.to_thread(self._read)

    def collect(self) -> Iterable[Metric]:
        ahead, self._ahead = self._ahead, None
        return self._read() if ahead is None else ahead

    def _read(self) -> list[Metric]:
        return list(self._process.collect())
