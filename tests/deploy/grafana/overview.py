"""The first dashboard: which side, why, how far from switching; and whether all is well."""

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.builders import stat, timeseries

from tests.deploy.grafana import shared
from tests.deploy.grafana.frame import framed
from tests.deploy.grafana.parts import (
    BAD,
    GOOD,
    WARN,
    Query,
    chart,
    gate,
    named_now,
    number_now,
    rate,
)
from tests.deploy.grafana.words import HEALTH, MODES, REASONS, SIDES


def overview() -> builder.Dashboard:
    page = framed(
        "overview",
        "specgate / Overview",
        "Which side the gate is on, why, and how far it is from switching; what clients get; and "
        "whether something is wrong.",
    )
    for now in (side(), why(), way(), to_go(), lanes(), *small()):
        page.with_panel(now)
    page.with_row(builder.Row("When will it switch?"))
    page.with_panel(shared.load_and_band((12, 9)))
    page.with_panel(shared.way_to_switch((12, 9)))
    page.with_panel(shared.side_over_time((24, 4)))
    page.with_row(builder.Row("What do clients get?"))
    page.with_panel(
        shared.quantiles(
            "Time to first token",
            "From a streamed request's arrival to its first output, the engine's queue included. "
            "p95: 95 in a hundred are faster. Nothing without streams.",
            (8, 8),
            "specgate_ttft_seconds",
            0.5,
            0.95,
        )
    )
    page.with_panel(
        shared.quantiles(
            "Time per output token",
            "Of a stream after its first token: how fast the text comes. Only streams whose token "
            "count is known (stream_options.include_usage).",
            (8, 8),
            "specgate_tpot_seconds",
            0.5,
            0.95,
        )
    )
    page.with_panel(shared.tokens((8, 8)))
    page.with_row(builder.Row("Does speculation pay?"))
    page.with_panel(shared.accept_length((12, 8)))
    page.with_panel(gained((12, 8)))
    page.with_row(builder.Row("Is something wrong?"))
    page.with_panel(shared.health_over_time((8, 8)))
    page.with_panel(shared.upstream_errors((8, 8)))
    page.with_panel(shared.overhead((8, 8)))
    return page


def side() -> stat.Panel:
    return named_now(
        "Side now",
        "The lane that new requests go to. Both names: several gates that do not agree.",
        (4, 5),
        Query(f"max by (side) ({gate('specgate_side')}) == 1", "{{side}}"),
        names=SIDES,
        empty="no gate",
    )


def why() -> stat.Panel:
    return named_now(
        "Why",
        "The reason for the side, as of the last decision; between requests the gate decides four "
        "times a second. Purple speaks for spec, blue for plain, yellow waits, red is trouble.",
        (7, 5),
        Query(f"max by (reason) ({gate('specgate_reason')}) == 1", "{{reason}}"),
        names=REASONS,
        empty="no gate",
    )


def way() -> stat.Panel:
    return number_now(
        "Way to the next switch",
        "How much of it is gone: at 100 % the gate changes side. The chart below says how it is "
        "reckoned. A dash: no threshold is set, so it stays plain.",
        (4, 5),
        Query(shared.pressure(), "gone"),
        unit="percentunit",
        decimals=0,
        steps=((None, GOOD), (0.75, WARN), (0.95, "orange")),
    )


def to_go() -> stat.Panel:
    distance = gate("specgate_edge_distance")
    return number_now(
        "Sequences to go",
        "By how many sequences the load has to rise or to fall before the side may change: with a "
        "threshold it does then, with a profile it begins to weigh. A dash: no change of the load "
        "would do, or it has, and the gate waits for something else (see Why).",
        (4, 5),
        Query(f"min({distance} >= 0)", "to rise by"),
        Query(f"-max({distance} < 0)", "to fall by"),
        decimals=1,
    )


def lanes() -> stat.Panel:
    return named_now(
        "Lanes",
        "What probes and traffic say of each lane. An ejected one gets no new requests while the "
        "other is there.",
        (5, 5),
        Query(f"max by (lane, state) ({gate('specgate_lane_health')}) == 1", "{{lane}} {{state}}"),
        names=HEALTH,
        empty="no gate",
    )


def small() -> tuple[stat.Panel, ...]:
    """The second line, six of a kind."""
    size = (4, 4)
    return (
        named_now(
            "Who decides",
            "The policy, as it should be; an operator who forced a side; or nobody, in shadow: "
            "everything goes to one lane, and the side is what the gate would have done.",
            size,
            Query(
                f"max by (mode) ({gate('specgate_mode')} == 1 unless on (job, instance) "
                f"({gate('specgate_shadow')} == 1))",
                "{{mode}}",
            ),
            Query(f"max by (lane) ({gate('specgate_shadow')}) == 1", "shadow {{lane}}"),
            names=MODES,
            empty="no gate",
        ),
        number_now(
            "Load",
            "What the policy compares, in sequences: both lanes together, smoothed. With several "
            "gates chosen, the highest.",
            size,
            Query(f"max({shared.LOAD})", "load"),
            decimals=1,
        ),
        number_now(
            "In flight",
            "Sequences in flight now, each lane, from the ledger.",
            size,
            Query(f"sum by (lane) ({gate('specgate_in_flight')})", "{{lane}}"),
            Query(f"sum({gate('specgate_in_flight')})", "both"),
        ),
        number_now(
            "Requests",
            "Requests that end, a second, all routes.",
            size,
            Query(f"sum({rate(gate('specgate_requests_total'))})", "requests"),
            unit="reqps",
            decimals=1,
        ),
        number_now(
            "Answered with 5xx",
            "Share of requests answered with 5xx, by an engine or by the gate. A stream that "
            "breaks off later is not in it: see Upstream errors. A dash: no requests.",
            size,
            Query(shared.failed(), "5xx"),
            unit="percentunit",
            decimals=1,
            steps=((None, GOOD), (0.01, WARN), (0.05, BAD)),
        ),
        number_now(
            "Oldest in flight",
            "Age of the oldest request in flight. One that only grows, past any answer of yours, "
            "is a stream that nobody ends.",
            size,
            Query(f"max({gate('specgate_oldest_in_flight_seconds')})", "oldest"),
            unit="s",
            steps=((None, "text"), (1800, WARN), (3600, BAD)),
        ),
    )


def gained(size: tuple[int, int]) -> timeseries.Panel:
    return chart(
        "Latency gained",
        "Seconds of mean latency that the gate has spared a sequence since it started, against "
        "serving everything from one lane: a reckoning by the profile's curves. Below zero: that "
        "lane alone would have been better. Only with a profile that has curves.",
        size,
        Query(
            f"avg by (against) ({gate('specgate_gain_seconds', bound='middle')})",
            "against {{against}} alone",
        ),
        unit="s",
        colours={"spec": "purple", "plain": "blue"},
        floor=None,
        line=(0, BAD),
    )
