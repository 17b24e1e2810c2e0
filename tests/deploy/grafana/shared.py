"""Measures, and panels that more than one dashboard shows."""

from grafana_foundation_sdk.builders import statetimeline, timeseries

from tests.deploy.grafana.parts import (
    BAD,
    GOOD,
    PLAIN,
    SPEC,
    WARN,
    Mapped,
    Query,
    chart,
    gate,
    quantile,
    rate,
    states,
)

SIDE_SPEC, SIDE_PLAIN = (gate("specgate_side", side=side) for side in ("spec", "plain"))
ON_SPEC, ON_PLAIN = (f"on (job, instance) ({side} == 1)" for side in (SIDE_SPEC, SIDE_PLAIN))
WEIGHED = f"on (job, instance) {gate('specgate_regret')}"
"""Gates that weigh with a profile: the edges of a threshold say nothing of them."""

LEAVE, BACK = (
    f"({gate(name)} > 0 < Inf)" for name in ("specgate_plain_above", "specgate_speculate_below")
)
"""The edges, where they are numbers: `never` has 0, `always` infinity."""

LOAD = gate("specgate_load")
GENERATED = gate("specgate_decisions_total").replace("}", ', reason!="not_generation"}')


def pressure() -> str:
    """How much of the way to the next switch is gone, 0 to 1; of the gate that is closest."""
    edges = f"{LOAD} / {LEAVE} and {ON_SPEC} or {BACK} / {LOAD} and {ON_PLAIN}"
    return f"max(clamp({gate('specgate_regret')} or ({edges}) unless {WEIGHED}, 0, 1))"


def failed() -> str:
    """The share of requests that were answered with 5xx."""
    every = f"sum({rate(gate('specgate_requests_total'))}) > 0"
    return f"sum({rate(gate('specgate_requests_total', status='5xx'))}) / ({every})"


def share_of_spec(window: str) -> str:
    """Of generation requests, those that the spec lane got."""
    of_spec = GENERATED.replace("}", ', lane="spec"}')
    return f"sum(rate({of_spec}[{window}])) / (sum(rate({GENERATED}[{window}])) > 0)"


def load_and_band(size: tuple[int, int]) -> timeseries.Panel:
    return chart(
        "Load against the band",
        "With a threshold the gate leaves the spec side when the load reaches the upper edge, and "
        "comes back below the lower one. With a profile the edges are where the better lane "
        "changes, those nearest to the load; beyond them it weighs a switch. No edges: nothing is "
        "measured, or one side is always right.",
        size,
        Query(f"max({LOAD})", "load"),
        Query(f"max({gate('specgate_edge_high')})", "upper edge"),
        Query(f"max({gate('specgate_edge_low')})", "lower edge"),
        colours={"^load": "orange", "^upper": PLAIN, "^lower": SPEC},
        dashed=("^upper", "^lower"),
    )


def way_to_switch(size: tuple[int, int]) -> timeseries.Panel:
    return chart(
        "Way to the next switch",
        "100 % is a switch. With a threshold: on the spec side the load as a share of plain_above, "
        "on the plain side speculate_below as a share of the load; there the dwell since the last "
        "switch may hold it back, and a burst goes to plain at once. With a profile: the regret. "
        "Nothing while no threshold is set.",
        size,
        Query(pressure(), "gone of the way"),
        unit="percentunit",
        ceiling=1,
        colours={"^gone": "orange"},
        line=(1, BAD),
    )


def side_over_time(size: tuple[int, int]) -> statetimeline.Panel:
    return states(
        "Side",
        "The lane for new requests, each gate, over time.",
        size,
        Query(SIDE_SPEC, "{{instance}}"),
        values={1: Mapped("spec", SPEC), 0: Mapped("plain", PLAIN)},
    )


def health_over_time(size: tuple[int, int]) -> statetimeline.Panel:
    found = (
        f"2 * {gate('specgate_lane_health', state='healthy')} + ignoring (state) "
        f"{gate('specgate_lane_health', state='probing')}"
    )
    return states(
        "Lane health",
        "Ejected: probes or traffic found it down, and requests go to the other lane. Probing: "
        "not known yet.",
        size,
        Query(f"min by (lane) ({found})", "{{lane}}"),
        values={2: Mapped("healthy", GOOD), 1: Mapped("probing", WARN), 0: Mapped("ejected", BAD)},
    )


def accept_length(size: tuple[int, int]) -> timeseries.Panel:
    return chart(
        "Accept length against break-even",
        "Tokens that a step of the spec lane yields a sequence, of recent requests, against what "
        "it takes to pay at the load of the moment. Below break-even plain would be faster. Only "
        "with a profile that has an accept length.",
        size,
        Query(f"min({gate('specgate_accept_length')})", "now"),
        Query(f"max({gate('specgate_accept_length_break_even')})", "break-even at this load"),
        Query(f"max({gate('specgate_accept_length_bench')})", "when it was measured"),
        colours={"^now": SPEC, "^break-even": BAD, "^when": "text"},
        dashed=("^break-even", "^when"),
        floor=1,
    )


def upstream_errors(size: tuple[int, int]) -> timeseries.Panel:
    return chart(
        "Upstream errors",
        "Failures of a lane that requests met, a minute, by kind. A reroute may have saved the "
        "request. Nothing while there are none.",
        size,
        Query(
            f"sum by (lane, kind) ({rate(gate('specgate_upstream_errors_total'))}) * 60 > 0",
            "{{lane}} {{kind}}",
        ),
        Query(
            f"sum by (lane) ({rate(gate('specgate_reroutes_total'))}) * 60 > 0",
            "rerouted to {{lane}}",
        ),
    )


def overhead(size: tuple[int, int]) -> timeseries.Panel:
    return chart(
        "The gate's own overhead",
        "Time that the gate itself adds to a request: deciding, and starting the answer. Below a "
        "millisecond is usual.",
        size,
        *(
            Query(quantile(share, "specgate_overhead_seconds", by=""), name)
            for share, name in ((0.5, "half below"), (0.99, "99 % below"))
        ),
        unit="s",
        line=(0.01, BAD),
    )


def quantiles(
    title: str,
    text: str,
    size: tuple[int, int],
    histogram: str,
    *shares: float,
    log: bool = False,
) -> timeseries.Panel:
    """By lane."""
    return chart(
        title,
        text,
        size,
        *(Query(quantile(share, histogram), f"{{{{lane}}}} p{share * 100:g}") for share in shares),
        unit="s",
        dashed=tuple(f"p{share * 100:g}$" for share in shares[1:]),
        log=log,
    )


def tokens(size: tuple[int, int]) -> timeseries.Panel:
    return chart(
        "Output tokens a second",
        "By the engines' own counts. A stream states its count only if its client asks for it "
        "(stream_options.include_usage) or SPECGATE_REQUEST_USAGE does.",
        size,
        Query(f"sum by (lane) ({rate(gate('specgate_output_tokens_total'))})", "{{lane}}"),
    )
