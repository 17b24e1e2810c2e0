"""What clients wait for, and what the gate adds to it."""

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.builders import timeseries

from tests.deploy.grafana import shared
from tests.deploy.grafana.frame import framed, section
from tests.deploy.grafana.parts import BAD, Query, chart, gate, heat, rate

SHARES = (0.5, 0.9, 0.99)
READ = "p50: half are faster; p99: 99 in a hundred."


def latency() -> builder.Dashboard:
    page = framed(
        "latency",
        "specgate / Latency",
        "What clients wait for, lane by lane, and what the gate itself adds.",
    )
    page.with_row(builder.Row("The first token"))
    page.with_panel(
        shared.quantiles(
            "Time to first token",
            f"From a streamed request's arrival to its first output, queue included. {READ}",
            (12, 9),
            "specgate_ttft_seconds",
            *SHARES,
            log=True,
        )
    )
    page.with_panel(
        heat(
            "Time to first token, all of them",
            "How many streams took how long, both lanes. Two bands: two kinds of requests, or "
            "some that wait in a queue.",
            (12, 9),
            "specgate_ttft_seconds",
        )
    )
    page.with_row(builder.Row("The tokens after it"))
    page.with_panel(
        shared.quantiles(
            "Time per output token",
            "Of a stream after its first token, where its token count is known. This figure, not "
            f"the time between chunks, compares the lanes: a chunk of spec holds several. {READ}",
            (12, 9),
            "specgate_tpot_seconds",
            *SHARES,
            log=True,
        )
    )
    page.with_panel(
        chart(
            "Spec against plain",
            "Time per output token of the spec lane over that of the plain lane, on the mean. "
            "Below 1 spec is faster. Nothing unless both served in that time; and they served at "
            "different loads, so it is a hint and no measurement.",
            (12, 9),
            Query(_spec_over_plain("$__rate_interval"), "now"),
            Query(_spec_over_plain("1h"), "over the last hour"),
            colours={"^now": "#808080", "^over": "orange"},
            line=(1, BAD),
        )
    )
    page.with_row(builder.Row("The whole answer"))
    page.with_panel(
        shared.quantiles(
            "Duration",
            f"From a generation request's arrival to its last byte. {READ}",
            (12, 9),
            "specgate_request_duration_seconds",
            *SHARES,
            log=True,
        )
    )
    page.with_panel(
        heat(
            "Duration, all of them",
            "How many generation requests took how long, both lanes.",
            (12, 9),
            "specgate_request_duration_seconds",
        )
    )
    section(page, "What the gate adds", (shared.overhead((8, 8)), *_process()))
    return page


def _spec_over_plain(window: str) -> str:
    spec, plain = (_mean(lane, window) for lane in ("spec", "plain"))
    return f"({spec}) / ({plain})"


def _mean(lane: str, window: str) -> str:
    total, count = (
        f"sum(rate({gate(f'specgate_tpot_seconds_{part}', lane=lane)}[{window}]))"
        for part in ("sum", "count")
    )
    return f"{total} / ({count} > 0)"


def _process() -> Iterator[timeseries.Panel]:
    yield chart(
        "Processor",
        "Of the gate's process, in cores. One process uses at most one; near it every stream is "
        "slowed. Then run more gates, each in front of lanes of its own.",
        (8, 8),
        Query(f"max({rate(gate('specgate_process_cpu_seconds_total'))})", "cores"),
        colours={"^cores": "orange"},
        line=(0.85, BAD),
    )
    yield chart(
        "Memory",
        "Resident, of the gate's process. 60 MiB at rest and some 10 KiB a stream; what only "
        "grows is a leak.",
        (8, 8),
        Query(f"max({gate('specgate_process_resident_memory_bytes')})", "resident"),
        unit="bytes",
        colours={"^resident": "orange"},
    )
    yield chart(
        "Open files",
        "Share of the files that the process may open. Every stream has two sockets; at 100 % no "
        "client gets in.",
        (8, 8),
        Query(
            f"max({gate('specgate_process_open_fds')} / {gate('specgate_process_max_fds')})",
            "of the limit",
        ),
        unit="percentunit",
        colours={"^of": "orange"},
        line=(0.8, BAD),
    )
    yield chart(
        "Overhead on the mean",
        "Seconds that the gate adds to a request, on the mean.",
        (8, 8),
        Query(
            f"sum({rate(gate('specgate_overhead_seconds_sum'))}) / "
            f"(sum({rate(gate('specgate_overhead_seconds_count'))}) > 0)",
            "on the mean",
        ),
        unit="s",
        colours={"^on": "orange"},
    )
    yield chart(
        "Failed turns of loops",
        "Turns of probes, scrapes or the policy's tick that raised, within the last hour. The "
        "loops go on; each is a line loop_failed in the log.",
        (8, 8),
        Query(f"sum(increase({gate('specgate_loop_failures_total')}[1h]))", "failed"),
        colours={"^failed": BAD},
    )
