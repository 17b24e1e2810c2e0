"""A collector of spans on a real socket: OTLP over HTTP, decoded with OpenTelemetry's own protocol.

async with Collector() as collector:
    ... a gate with OTEL_EXPORTER_OTLP_ENDPOINT=collector.url ...
    span = await collector.saw("POST chat")
"""

import asyncio
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan


@dataclass(frozen=True)
class Span:
    """As it arrived. Ids are hexadecimal, empty for none."""

    wire: WireSpan
    resource: dict[str, Any]
    scope: str

    @property
    def trace_id(self) -> str:
        return self.wire.trace_id.hex()

    @property
    def span_id(self) -> str:
        return self.wire.span_id.hex()

    @property
    def parent(self) -> str:
        return self.wire.parent_span_id.hex()

    @property
    def attributes(self) -> dict[str, Any]:
        return _values(self.wire.attributes)


class Collector:
    """`heads`: of the calls, as they came. `status`: of the answers to come. `answers` unset: none
    comes."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.answers = asyncio.Event()
        self.answers.set()
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.spans: list[Span] = []
        self._heard = asyncio.Condition()
        self._calls: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def saw(self, count: int = 1, within_s: float = 10) -> list[Span]:
        """The spans so far, once there are so many."""
        async with self._heard:
            try:
                async with asyncio.timeout(within_s):
                    await self._heard.wait_for(lambda: len(self.spans) >= count)
            except TimeoutError:
                raise AssertionError(f"{len(self.spans)} spans, not {count}") from None
        return self.spans

    async def called(self, count: int = 1, within_s: float = 10) -> None:
        """So many calls came, whatever became of them."""
        async with self._heard, asyncio.timeout(within_s):
            await self._heard.wait_for(lambda: len(self.heads) >= count)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            while True:
                await self._call(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._calls.discard(task)
            writer.close()

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        body = await reader.readexactly(int(fields[b"content-length"]))
        async with self._heard:
            self.heads.append(head)
            self._heard.notify_all()
        await self.answers.wait()
        if self.status == 200:
            assert fields[b"content-type"] == b"application/x-protobuf"
            packed = fields.get(b"content-encoding") == b"gzip"
            await self._take(gzip.decompress(body) if packed else body)
        answer = ExportTraceServiceResponse().SerializeToString()
        writer.write(
            b"HTTP/1.1 %d -\r\ncontent-type: application/x-protobuf\r\ncontent-length: %d\r\n\r\n%b"
            % (self.status, len(answer), answer)
        )
        await writer.drain()

    async def _take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        async with self._heard:
            self.bodies.append(body)
            self.spans += [
                Span(span, _values(of.resource.attributes), scoped.scope.name)
                for of in request.resource_spans
                for scoped in of.scope_spans
                for span in scoped.spans
            ]
            self._heard.notify_all()


def _values(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    assert kind is not None
    return getattr(value, kind)
