"""Each lane by itself, and both together."""

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.builders import timeseries

from tests.deploy.grafana import shared
from tests.deploy.grafana.frame import framed, section
from tests.deploy.grafana.parts import BAD, PLAIN, SPEC, WARN, Query, chart, gate, quantile, rate


def lanes() -> builder.Dashboard:
    page = framed(
        "lanes",
        "specgate / Lanes",
        "Each lane: what it has in hand, what it answers, how it fails, and how healthy it is.",
    )
    page.with_panel(shared.health_over_time((12, 5)))
    page.with_panel(shared.side_over_time((12, 5)))
    section(page, "What they have in hand", _in_hand())
    section(page, "At the gate's door", _door())
    section(page, "What they answer", _answers())
    section(page, "How they fail", _failures())
    return page


def _in_hand() -> Iterator[timeseries.Panel]:
    yield chart(
        "In flight",
        "Sequences in flight, from the gate's ledger: from the decision to the response's last "
        "byte. Both lanes at once should not last on a shared pool: one is draining.",
        (8, 8),
        Query(f"sum by (lane) ({gate('specgate_in_flight')})", "{{lane}}"),
        stacked=True,
    )
    yield chart(
        "Engines' load beyond the gate's",
        "Sequences that an engine has in hand and the gate did not send: another gate, a batch "
        "job, a request whose client has left. They count as load.",
        (8, 8),
        Query(f"sum by (lane) ({gate('specgate_engine_load_beyond')})", "{{lane}}"),
    )
    yield chart(
        "Both lanes at once",
        "Share of the time in which both lanes had sequences in flight. On a shared pool each is "
        "slow then; a few per cent are drains after switches. With lanes on GPUs of their own it "
        "is as it should be.",
        (8, 8),
        Query(f"avg({rate(gate('specgate_mixed_seconds_total'))})", "of the time"),
        unit="percentunit",
        ceiling=1,
        colours={"^of": "orange"},
    )


def _door() -> Iterator[timeseries.Panel]:
    yield chart(
        "Queue at the gate",
        "Requests that wait for room, in no other count: as many sequences are in flight as "
        "SPECGATE_MAX_IN_FLIGHT allows. Always 0 where that is not set.",
        (8, 8),
        Query(f"sum({gate('specgate_queued')})", "waiting"),
        colours={"^waiting": "orange"},
    )
    yield chart(
        "Wait in the queue",
        "Of requests that waited there, however it ended. Nothing while none did.",
        (8, 8),
        *(
            Query(quantile(share, "specgate_queue_wait_seconds", by=""), name)
            for share, name in ((0.5, "half below"), (0.95, "95 % below"))
        ),
        unit="s",
    )
    yield chart(
        "Turned away",
        "Requests that the gate did not let in, a minute, by why. gate_stopping: it was about to "
        "stop.",
        (8, 8),
        Query(f"sum by (why) ({rate(gate('specgate_turned_away_total'))}) * 60", "{{why}}"),
        colours={"^queue": BAD, "^gate": WARN},
    )


def _answers() -> Iterator[timeseries.Panel]:
    yield chart(
        "Requests by lane and status",
        "Requests that end, a second. Lane none: ended before a decision, mostly refused by the "
        "gate. gone: the client left before a status was sent.",
        (8, 8),
        Query(
            f"sum by (lane, status) ({rate(gate('specgate_requests_total'))}) > 0",
            "{{lane}} {{status}}",
        ),
        unit="reqps",
        stacked=True,
        colours={"5xx": BAD, "4xx": WARN},
    )
    yield shared.tokens((8, 8))
    yield chart(
        "Answers without a token count",
        "Share of whole generation answers that did not say how many tokens they hold: streams "
        "whose client did not ask (stream_options.include_usage). Token figures miss them.",
        (8, 8),
        Query(
            f"sum by (lane) ({rate(gate('specgate_responses_without_usage_total'))}) / (sum by "
            f"(lane) ({rate(gate('specgate_request_duration_seconds_count'))}) > 0)",
            "{{lane}}",
        ),
        unit="percentunit",
        ceiling=1,
    )
    yield chart(
        "Output tokens by the engines' counters",
        "What each engine counts itself, a second: streams that state no count are in it, and "
        "requests that did not come by the gate. No series for an engine without metrics.",
        (8, 8),
        Query(f"sum by (lane) ({rate(gate('specgate_engine_output_tokens_total'))})", "{{lane}}"),
    )
    yield chart(
        "Engines last read",
        "Time since the gate last read an engine's counters. It grows while an engine does not "
        "answer /metrics; what is older than three intervals is not used.",
        (8, 8),
        Query(f"max by (lane) ({gate('specgate_engine_read_age_seconds')})", "{{lane}}"),
        unit="s",
    )
    yield chart(
        "Share of requests to spec",
        "Of generation requests, those that the spec lane got.",
        (8, 8),
        Query(shared.share_of_spec("$__rate_interval"), "to spec"),
        unit="percentunit",
        ceiling=1,
        colours={"^to": SPEC},
    )


def _failures() -> Iterator[timeseries.Panel]:
    yield shared.upstream_errors((8, 8))
    yield chart(
        "Probes by result",
        "Active health checks, a minute. not_ready: an answer of 5xx; unreached: no connection; "
        "slow: no answer in time, which is no verdict.",
        (8, 8),
        Query(
            f"sum by (lane, result) ({rate(gate('specgate_probes_total'))}) * 60 > 0",
            "{{lane}} {{result}}",
        ),
        colours={"not_ready|unreached": BAD, "slow": WARN},
    )
    yield chart(
        "Clients that left",
        "A minute, by how far their response had come; and those that were cut off because they "
        "did not read it. Many in prefill: the first token takes too long for them.",
        (8, 8),
        Query(
            f"sum by (phase) ({rate(gate('specgate_client_disconnects_total'))}) * 60",
            "left in {{phase}}",
        ),
        Query(f"sum({rate(gate('specgate_client_stalls_total'))}) * 60", "did not read"),
        colours={"prefill": PLAIN, "stream": SPEC, "upload": WARN, "read": BAD},
    )
