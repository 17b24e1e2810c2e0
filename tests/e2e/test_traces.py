"""Spans of a gate in a process of its own, as a collector gets them, over real sockets."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from specgate import __version__
from tests.support.client import CHAT, JSON, Response, chat, connect
from tests.support.collector import Collector, Span
from tests.support.lanes import Pause, ScriptedLane, Send, refuses, sse_head, usage
from tests.support.live import BARE, environment
from tests.support.process import GateProcess, serve_process
from tests.support.steps import DONE, chunk, delta, error_response

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def parent(flags: str = "01") -> tuple[bytes, bytes]:
    return b"traceparent", f"00-{TRACE}-{SPAN}-{flags}".encode()


@dataclass
class Scene:
    """A gate that sends its spans to a collector, between two lanes."""

    gate: GateProcess
    spec: ScriptedLane
    plain: ScriptedLane

    async def ask(
        self, *headers: tuple[bytes, bytes], target: bytes = CHAT, body: bytes | None = None
    ) -> Response:
        async with connect(self.gate.url) as client:
            return await client.request(b"POST", target, [JSON, *headers], body or chat())

    async def spans_of(self, result: str) -> int:
        async with connect(self.gate.url) as client:
            page = (await client.request(b"GET", b"/metrics", ())).body.data.decode()
        name = f'specgate_spans_total{{result="{result}"}} '
        (value,) = [line.removeprefix(name) for line in page.splitlines() if line.startswith(name)]
        return int(float(value))


@asynccontextmanager
async def scene(
    endpoint: str, *, variables: dict[str, str] | None = None, **settings: object
) -> AsyncIterator[Scene]:
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        told = {"threshold": "always", "otel": "true", "drain_settle_s": 0, **BARE, **settings}
        environ = environment(spec_url=spec.url, plain_url=plain.url, **told)
        environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "NO_PROXY": "*", **(variables or {})}
        async with serve_process(environ) as gate:
            # Both lanes are healthy, and stay so until a request finds otherwise.
            await gate.logged("lane_health", within_s=10, count=2)
            yield Scene(gate, spec, plain)


PROTOBUF = "google/_upb"
"""The library that the extra brings."""


def maps(gate: GateProcess) -> str:
    """The libraries that a process has loaded."""
    return Path(f"/proc/{gate.pid}/maps").read_text()


async def only(collector: Collector) -> Span:
    (span,) = await collector.saw()
    return span


async def test_a_request_is_one_span_below_its_clients():
    async with Collector() as collector, scene(collector.url) as on:
        stream = [delta(""), delta("Hi"), delta("!"), usage(3, 20)]
        pieces = [chunk(event) for event in stream]
        first, rest = pieces[:2], [*pieces[2:], chunk(DONE), b"0\r\n\r\n"]
        on.spec.answer_next(
            [Send(sse_head()), Pause(0.2), *map(Send, first), Pause(0.2), *map(Send, rest)]
        )
        began = time.time_ns()
        reply = await on.ask(
            parent(), (b"tracestate", b"a=1"), (b"Authorization", b"Bearer s3cret")
        )
        assert reply.status == 200
        span = await only(collector)
        ended = time.time_ns()
        (request,) = on.spec.requests
        line = await on.gate.logged("request")
        assert PROTOBUF in maps(on.gate)

    assert (span.trace_id, span.parent) == (TRACE, SPAN)
    assert span.span_id not in ("", SPAN, "0" * 16)
    assert (span.wire.name, span.wire.kind) == ("POST chat", WireSpan.SPAN_KIND_SERVER)
    assert span.wire.status.code == Status.STATUS_CODE_UNSET
    assert span.scope == "specgate"
    assert span.resource["service.name"] == "specgate"
    assert span.resource["service.version"] == __version__

    # The header goes on as it came: the engine's own span is a child of the client's, too.
    assert request.values(b"traceparent") == [parent()[1]]
    assert request.values(b"tracestate") == [b"a=1"]

    start, end = span.wire.start_time_unix_nano, span.wire.end_time_unix_nano
    assert began < start < end < ended
    assert (end - start) / 1e9 == pytest.approx(line["duration_s"], abs=2e-6)
    assert end - start >= 0.4e9

    found = span.attributes
    assert found["http.request.method"] == "POST"
    assert found["url.path"] == CHAT.decode()
    assert found["url.scheme"] == "http"
    assert found["http.response.status_code"] == 200
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.usage.output_tokens"] == line["output_tokens"] == 20
    assert found["gen_ai.usage.input_tokens"] == line["prompt_tokens"] == 3
    assert found["gen_ai.response.time_to_first_chunk"] == pytest.approx(line["ttft_s"], abs=2e-6)
    assert found["specgate.tpot_s"] == pytest.approx(line["tpot_s"], abs=2e-6)
    for name in ("request_id", "lane", "reason", "route", "outcome", "sequences", "rerouted"):
        assert found[f"specgate.{name}"] == line[name]
    assert "specgate.queued_s" not in found


async def test_no_prompt_no_key_and_no_query_is_in_what_is_sent():
    variables = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=t0ken"}
    async with Collector() as collector, scene(collector.url, variables=variables) as on:
        key = (b"Authorization", b"Bearer s3cret-key")
        body = chat(messages=[{"role": "user", "content": "s3cret prompt"}], user="s3cret user")
        await on.ask(key, (b"Cookie", b"s3cret"), target=CHAT + b"?key=s3cret", body=body)
        await only(collector)
        assert b"api-key: t0ken" in collector.heads[0]
        log = str(list(on.gate.log))
    assert b"s3cret" not in b"".join(collector.heads + collector.bodies)
    assert CHAT in b"".join(collector.bodies)
    assert "s3cret" not in log
    assert "t0ken" not in log


async def test_the_client_says_whether_its_request_is_traced_and_else_the_share():
    async with Collector() as collector, scene(collector.url, otel_sample=0) as on:
        await on.ask()
        await on.ask(parent("00"))
        await on.ask(parent("01"))
        await on.ask((b"traceparent", b"00-nonsense"))
        on.gate.process.terminate()
        assert await on.gate.stopped() == 0
        assert (await only(collector)).parent == SPAN
        # Not sampled, they go to the engine all the same.
        seen = [request.values(b"traceparent") for request in on.spec.requests]
        assert seen == [[], [parent("00")[1]], [parent("01")[1]], [b"00-nonsense"]]


async def test_requests_without_a_trace_begin_one_each():
    async with Collector() as collector, scene(collector.url) as on:
        for _ in range(3):
            await on.ask()
        spans = await collector.saw(3)
    assert {span.parent for span in spans} == {""}
    assert len({span.trace_id for span in spans}) == len({span.span_id for span in spans}) == 3


async def test_reroutes_and_errors_are_told():
    async with Collector() as collector, scene(collector.url, probe_interval_s=3600) as on:
        await on.ask()
        await on.spec.stop()
        await on.ask()
        on.plain.answer_next(error_response(500, "out of memory"))
        await on.ask()
        straight, rerouted, failed = await collector.saw(3)
    assert straight.attributes["specgate.rerouted"] is False
    assert rerouted.attributes["specgate.rerouted"] is True
    assert rerouted.attributes["specgate.lane"] == "plain"
    assert rerouted.wire.status.code == Status.STATUS_CODE_UNSET
    assert failed.wire.status.code == Status.STATUS_CODE_ERROR
    assert failed.attributes["error.type"] == "500"


async def test_what_is_left_is_sent_when_the_gate_is_told_to_stop():
    async with Collector() as collector, scene(collector.url) as on:
        await asyncio.gather(*(on.ask() for _ in range(20)))
        on.gate.process.terminate()
        assert await on.gate.stopped() == 0
        assert len(collector.spans) == 20


async def test_a_collector_that_takes_nothing_costs_no_request_and_is_told_of_once():
    async with Collector() as collector, scene(collector.url) as on:
        collector.status = 401
        for count in range(1, 4):
            assert (await on.ask()).status == 200
            await collector.called(count)
        told = await on.gate.logged("spans_not_exported")
        assert (told["level"], told["why"]) == ("warning", "401 -")
        assert told["endpoint"] == f"{collector.url}/v1/traces"
        collector.status = 200
        assert (await on.ask()).status == 200
        await only(collector)
        assert (await on.gate.logged("spans_exported_again"))["lost"] == 3
        assert (await on.spans_of("failed"), await on.spans_of("exported")) == (3, 1)
        told_of = [entry for entry in on.gate.log if "export" in str(entry)]
        assert [entry["event"] for entry in told_of] == [told["event"], "spans_exported_again"]


async def test_a_collector_that_never_answers_holds_up_nothing():
    async with Collector() as collector, scene(collector.url) as on:
        collector.answers.clear()
        await on.ask()
        await collector.called()
        began = time.monotonic()
        for reply in await asyncio.gather(*(on.ask() for _ in range(50))):
            assert reply.status == 200
        assert time.monotonic() - began < 5, "as long as a collector may take"
        on.gate.process.terminate()
        assert await on.gate.stopped() == 0


async def test_no_collector_at_all():
    variables = {"OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with refuses() as nowhere:
        with_password = nowhere.replace("//", "//user:s3cret@") + "/base"
        async with scene(with_password, variables=variables) as on:
            assert (await on.gate.logged("tracing"))["endpoint"] == f"{nowhere}/base/v1/traces"
            assert (await on.ask()).status == 200
            told = await on.gate.logged("spans_not_exported", within_s=15)
            # Some releases of the exporter give no word for it.
            assert told["why"] in ("ConnectionError", "unknown")
            assert "s3cret" not in str(list(on.gate.log))


async def test_off_nothing_is_sent_and_no_module_of_the_extra_is_loaded():
    async with Collector() as collector, scene(collector.url, otel="false") as on:
        assert (await on.ask(parent())).status == 200
        assert PROTOBUF not in maps(on.gate)
        on.gate.process.terminate()
        assert await on.gate.stopped() == 0
        assert collector.heads == []


async def test_another_protocol_is_warned_of():
    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    async with Collector() as collector, scene(collector.url, variables=variables) as on:
        message = (await on.gate.logged("settings"))["message"]
        assert "OTEL_EXPORTER_OTLP_PROTOCOL='grpc'" in message
        assert "http/protobuf" in message


async def test_names_and_attributes_of_the_resource_are_the_standard_variables():
    variables = {
        "OTEL_SERVICE_NAME": "gate-of-tenant-1",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.version=9",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    async with Collector() as collector, scene(collector.url, variables=variables) as on:
        await on.ask()
        resource = (await only(collector)).resource
    assert resource["service.name"] == "gate-of-tenant-1"
    assert resource["deployment.environment.name"] == "test"


NOT_INSTALLED = """
from importlib import metadata
real = metadata.distribution
def distribution(name):
    if name.startswith("opentelemetry-exporter"):
        raise metadata.PackageNotFoundError(name)
    return real(name)
metadata.distribution = distribution
from specgate.cli.main import main
main(["serve"])
"""


async def test_without_the_extra_the_start_says_so():
    """A process whose Python says that the exporter is not installed."""
    urls = {"spec_url": "http://127.0.0.1:9", "plain_url": "http://127.0.0.1:9"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", NOT_INSTALLED),
        env={**os.environ, **environment(otel="true", **urls)},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode() == (
        "SPECGATE_OTEL=true: needs the extra otel, which is not installed: "
        "pip install 'specgate[otel]', or from a clone: pip install '.[otel]'\n"
    )
