"""Cases K: what /metrics says, and how much of it."""

import random
import re
import string
from dataclasses import replace
from typing import Any

import pytest
import structlog.testing
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

from specgate.core.events import Outcome, RequestEnded
from specgate.telemetry.exposition import ProcessFigures, exposition
from specgate.telemetry.logs import Logs
from specgate.telemetry.metrics import status_class
from specgate.telemetry.tally import Spread, Tally
from tests.support.client import CHAT, JSON, chat, connect, get
from tests.support.figures import figures, total
from tests.support.lanes import (
    DONE,
    LAST_CHUNK,
    Pause,
    Send,
    chunk,
    delta,
    frame,
    json_response,
    response,
    sse_head,
    usage,
)
from tests.support.stage import stage


async def test_k01_model_label_from_client():
    """Each model name that a client made up became a series for ever. (1,000 live requests.)"""
    seeded = random.Random(1)

    def word() -> str:
        return "".join(seeded.choices(string.printable + "äß漢\U0001f600", k=12))

    def token() -> bytes:
        return "".join(seeded.choices(string.ascii_letters, k=10)).encode()

    odd = [
        (b"POST", b"/v1/completions"),
        (b"POST", b"/" + token()),
        (b"GET", b"/v1/models/" + token()),
        (token().upper()[:3], b"/" + token()),
    ]

    async def answer(request: Any, connection: Any) -> None:
        await connection.send(response(int(request.value(b"x-status"))).data)

    async with stage(threshold=8) as on:
        on.spec.answer("*", answer)
        on.plain.answer("*", answer)
        async with connect(on.url) as client:
            for method, path in [(b"POST", CHAT), *odd[:3]]:
                for status in (200, 302, 404, 503):
                    headers = [JSON, (b"X-Status", b"%d" % status)]
                    await client.request(method, path, headers, chat())
            before = figures(await on.gate.metrics()).keys()
            for turn in range(1000):
                method, path = (b"POST", CHAT) if turn % 4 else odd[turn // 4 % 3]
                if path not in (CHAT, b"/v1/completions"):
                    path += b"/" + token()
                status = seeded.choice([200, 201, 206, 300, 307, 400, 429, 500, 504])
                headers = [JSON, (b"X-Request-Id", token()), (b"User-Agent", token())]
                headers.append((b"X-Status", b"%d" % status))
                body = chat(model=word(), user=word())
                assert (await client.request(method, path, headers, body)).status == status
        scrape = await on.gate.metrics()
        after = figures(scrape)
        assert after.keys() == before
        assert total(scrape, "specgate_requests_total") == 1016
        assert len(after) < 1000


@pytest.mark.parametrize("whole_s", [1.2])
async def test_k04_wrong_histogram_for_streams(whole_s: float):
    """A stream's duration was taken at its headers, its first token at the role chunk."""
    first_s = whole_s / 2
    role = frame({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    async with stage() as on:
        on.spec.answer_next(
            [
                Send(sse_head() + chunk(b": waiting\n\n") + chunk(role)),
                Pause(first_s),
                Send(chunk(delta("a"))),
                Pause(whole_s - first_s),
                Send(chunk(usage(3, 7)) + chunk(DONE) + LAST_CHUNK),
            ]
        )
        assert (await on.ask()).body.clean
        await on.ended()
        scrape = await on.gate.metrics()
        duration = "specgate_request_duration_seconds"
        assert total(scrape, f"{duration}_count", lane="spec") == 1
        assert whole_s <= total(scrape, f"{duration}_sum", lane="spec") < whole_s + 0.3
        assert total(scrape, f"{duration}_count", lane="plain") == 0
        assert total(scrape, "specgate_ttft_seconds_count", lane="spec") == 1
        assert first_s <= total(scrape, "specgate_ttft_seconds_sum", lane="spec") < first_s + 0.3
        assert total(scrape, "specgate_output_tokens_total", lane="spec") == 7
        for name in (duration, "specgate_ttft_seconds"):
            edges = [
                float(dict(labels)["le"])
                for series, labels in figures(scrape)
                if series == f"{name}_bucket" and dict(labels)["lane"] == "spec"
            ]
            assert 600 in edges
        assert total(scrape, f"{duration}_bucket", lane="spec", le="1800.0") == 1
        assert total(scrape, f"{duration}_bucket", lane="spec", le="1.0") == 0


async def test_k04_a_whole_answer_has_a_duration_and_no_first_token():
    """Only a stream shows when its first token came."""
    async with stage() as on:
        on.spec.answer_next([Pause(0.1), json_response(200, {"usage": {"completion_tokens": 4}})])
        async with connect(on.url) as client:
            assert (await client.request(b"POST", CHAT, [JSON], chat(stream=False))).status == 200
        await on.ended()
        scrape = await on.gate.metrics()
        assert total(scrape, "specgate_request_duration_seconds_sum", lane="spec") >= 0.1
        assert total(scrape, "specgate_ttft_seconds_count", lane="spec") == 0
        assert total(scrape, "specgate_output_tokens_total", lane="spec") == 4


async def test_k04_a_request_that_failed_in_the_gate_is_no_client_that_left():
    """With no status sent, an error of the gate's own looked like a disconnect."""
    async with stage() as on:
        await on.ask()
        ended = await on.ended()
    failed = replace(ended, status=None, outcome=Outcome.GATE_ERROR)
    gone = replace(ended, status=None, outcome=Outcome.CLIENT_GONE)
    assert (status_class(failed), status_class(gone), status_class(ended)) == ("5xx", "gone", "2xx")
    with structlog.testing.capture_logs() as lines:
        for fact in (failed, gone, replace(gone, status=200), ended):
            Logs()(fact)
    assert [line["status"] for line in lines] == [500, 499, 499, 200]


async def test_k05_name_clash():
    """The gate's series had the engine's prefix and added up with the engine's."""
    async with stage() as on:
        assert (await on.ask()).status == 200
        await on.ended()
        families = list(text_string_to_metric_families(await on.gate.metrics()))
        assert families
        for family in families:
            assert re.fullmatch(r"specgate_[a-z][a-z0-9_]*", family.name)
            assert family.documentation
            for sample in family.samples:
                assert sample.name.startswith("specgate_")
                if family.type == "counter":
                    assert sample.name.endswith("_total")
                for label, value in sample.labels.items():
                    assert label in {
                        *("lane", "reason", "route", "status", "kind", "phase", "result"),
                        *("side", "mode", "state", "le", "version", "why", "step"),
                    }
                    assert value


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
async def test_a_page_written_family_by_family_is_the_library_s_own(accept: str):
    """The end of OpenMetrics stands once, at the end, and no family is lost or doubled."""
    registry = CollectorRegistry()
    Tally("specgate_a_total", "Text.", ["lane"], registry=registry).add(("spec",), 2)
    Spread("specgate_b_seconds", "Text.", bounds=[1, 2], registry=registry).observe(1.5)
    ProcessFigures(registry)
    encoder, content_type = choose_encoder(accept)
    said, text = await exposition(registry, accept)
    assert said == content_type
    whole = encoder(registry).decode().splitlines()
    # The process has gone on meanwhile.
    ours = [line.partition(" ")[0] for line in text.decode().splitlines()]
    assert ours == [line.partition(" ")[0] for line in whole]
    assert 'specgate_a_total{lane="spec"} 2.0' in text.decode()
    assert text.endswith(b"\n# EOF\n") == bool(accept)
    async with stage() as on:
        reply = await get(on.url + "/metrics", [(b"Accept", accept.encode())])
        assert reply.values(b"content-type") == [content_type.encode()]
        assert reply.body.data.count(b"# EOF") == bool(accept)


async def test_k06_self_scrape_counted():
    """The gate's own scrapes and probes were requests in its statistics, and load."""
    async with stage() as on:
        before = figures(await on.gate.metrics())
        for _ in range(100):
            for path in ("/metrics", "/livez", "/readyz", "/health", "/_specgate/status"):
                assert (await get(on.url + path)).status == 200
        scrape = await on.gate.metrics()
        assert total(scrape, "specgate_requests_total") == 0
        assert total(scrape, "specgate_decisions_total") == 0
        assert total(scrape, "specgate_in_flight") == 0
        assert total(scrape, "specgate_request_duration_seconds_count") == 0
        assert total(scrape, "specgate_overhead_seconds_count") == 0
        assert figures(scrape).keys() == before.keys()
        assert on.gate.facts.of(RequestEnded) == []
        assert on.spec.requests == on.plain.requests == []
