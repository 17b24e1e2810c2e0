"""Why requests go where they go, and what the policy weighs."""

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.builders import stat, statetimeline, timeseries

from tests.deploy.grafana import shared
from tests.deploy.grafana.frame import framed, section
from tests.deploy.grafana.parts import (
    BAD,
    PLAIN,
    SPEC,
    WARN,
    Mapped,
    Query,
    chart,
    gate,
    number_now,
    rate,
    states,
)


def decisions() -> builder.Dashboard:
    page = framed(
        "decisions",
        "specgate / Decisions",
        "Why requests go where they go: sides, reasons, switches, and what the policy weighs.",
    )
    page.with_panel(shared.side_over_time((24, 4)))
    page.with_panel(shared.load_and_band((12, 8)))
    page.with_panel(shared.way_to_switch((12, 8)))
    section(page, "Switches", _switches())
    section(page, "Reasons", _reasons())
    section(page, "What is weighed", _weighed())
    section(page, "Operators", _operators())
    return page


def _switches() -> Iterator[timeseries.Panel]:
    yield chart(
        "Switches in an hour",
        "Changes of side within the last hour. Each costs a drain. With a profile the gate stays "
        "plain after SPECGATE_SWITCHES_PER_H of them (12, unless set). Above 10 the alert "
        "SpecgateFlapping is due.",
        (8, 8),
        Query(f"max(increase({gate('specgate_switches_total')}[1h]))", "switches"),
        colours={"^switches": "orange"},
        line=(10, BAD),
    )
    yield chart(
        "Time on the spec side",
        "Share of the last hour that the spec side was on.",
        (8, 8),
        Query(f"avg(avg_over_time({shared.SIDE_SPEC}[1h]))", "of the hour"),
        unit="percentunit",
        ceiling=1,
        colours={"^of": SPEC},
    )
    yield chart(
        "Share of requests to spec",
        "Of generation requests within the last hour, those that the spec lane got.",
        (8, 8),
        Query(shared.share_of_spec("1h"), "to spec"),
        unit="percentunit",
        ceiling=1,
        colours={"^to": SPEC},
    )


def _reasons() -> Iterator[timeseries.Panel]:
    yield chart(
        "Requests by reason",
        "A second, by the reason for their lane. not_generation: calls that decode nothing.",
        (16, 9),
        Query(
            f"sum by (reason) ({rate(gate('specgate_decisions_total'))}) > 0",
            "{{reason}}",
        ),
        unit="reqps",
        stacked=True,
        colours={"^(lane_down|last_resort)$": BAD},
    )
    yield chart(
        "Forced to plain by rules",
        "Share of recent sequences that must go to the plain lane, whatever the side: their "
        "feature is refused or served otherwise under speculation. Above SPECGATE_FORCED_SHARE "
        "(30 %, unless set) the whole side is plain.",
        (8, 9),
        Query(f"max({gate('specgate_forced_share')})", "forced"),
        unit="percentunit",
        ceiling=1,
        colours={"^forced": WARN},
    )


def _weighed() -> Iterator[timeseries.Panel]:
    yield shared.accept_length((8, 8))
    yield chart(
        "How well the accept length is known",
        "Its standard error, in tokens. Large: little was seen lately, and a difference of that "
        "size means nothing.",
        (8, 8),
        Query(f"max({gate('specgate_accept_length_error')})", "standard error"),
        colours={"^standard": SPEC},
    )
    yield chart(
        "Accept length last learnt",
        "Time since something was last learnt of it from the engine. While the spec lane is off "
        "nothing is, and after some minutes the profile's value stands again. Nothing before the "
        "first time.",
        (8, 8),
        Query(f"max({gate('specgate_accept_length_age_seconds')})", "ago"),
        unit="s",
        colours={"^ago": SPEC},
    )
    yield chart(
        "Regret",
        "What staying on this side has cost so far, as a share of what a switch would cost: at "
        "100 % it switches. Only with a profile that has curves.",
        (8, 8),
        Query(f"max({gate('specgate_regret')})", "regret"),
        unit="percentunit",
        colours={"^regret": "orange"},
        line=(1, BAD),
    )
    yield chart(
        "Offered",
        "Output tokens a second that are asked of both lanes together, averaged: the demand, "
        "which moves before the load does. Only with a profile that has curves.",
        (8, 8),
        Query(f"sum({gate('specgate_offered_tokens_per_second')})", "offered"),
        colours={"^offered": "orange"},
    )
    yield chart(
        "Latency gained, with its interval",
        "Seconds of mean latency spared a sequence since the start, against one lane alone, by "
        "the profile's curves; low and high are as far as the measurement's intervals reach.",
        (8, 8),
        Query(
            f"avg by (against, bound) ({gate('specgate_gain_seconds')})",
            "{{against}} alone, {{bound}}",
        ),
        unit="s",
        dashed=("low$", "high$"),
        floor=None,
    )
    yield chart(
        "Speculation by experiment",
        "The plain side's pace over the spec side's at low load, above 1 where speculation is "
        "faster, as switchback blocks measure it, with its 90 % interval; dashed: as the profile "
        "says. Outside the interval: the profile does not hold any more. Nothing while the "
        "experiment is off.",
        (12, 8),
        Query(f"avg by (bound) ({gate('specgate_switchback_ratio')})", "{{bound}}"),
        dashed=("^expected", "^low", "^high"),
        colours={"^middle": SPEC, "^expected": "orange", "^(low|high)": "#808080"},
        floor=None,
        line=(1, BAD),
    )
    yield chart(
        "What the experiment takes",
        "Share of the time in which a block held the side that the policy would not have chosen; "
        "and pairs of blocks an hour. Nothing while the experiment is off.",
        (12, 8),
        Query(f"avg({rate(gate('specgate_switchback_seconds_total'))})", "of the time"),
        Query(f"sum(rate({gate('specgate_switchback_pairs_total')}[1h])) * 3600", "pairs an hour"),
        colours={"^of": "orange", "^pairs": SPEC},
    )


def _operators() -> Iterator[timeseries.Panel | statetimeline.Panel | stat.Panel]:
    yield states(
        "Mode",
        "auto: the policy decides. spec or plain: an operator forced that side.",
        (8, 6),
        Query(
            f"{gate('specgate_mode', mode='spec')} + on (job, instance) 2 * "
            f"{gate('specgate_mode', mode='plain')}",
            "{{instance}}",
        ),
        values={
            0: Mapped("auto", "green"),
            1: Mapped("forced to spec", SPEC),
            2: Mapped("forced to plain", PLAIN),
        },
    )
    yield chart(
        "Reloads of settings",
        "Within the last hour, by result. refused: the file or the environment was wrong, and the "
        "settings before it stay.",
        (8, 6),
        Query(f"sum by (result) (increase({gate('specgate_reloads_total')}[1h]))", "{{result}}"),
        colours={"refused": BAD, "applied": "green"},
    )
    yield number_now(
        "Age of the profile",
        "Since the profile in force was measured. A dash: there is none, or it does not say when. "
        "After 90 days the alert SpecgateProfileOld is due.",
        (8, 6),
        Query(f"time() - min({gate('specgate_profile_measured_timestamp_seconds')})", "the oldest"),
        unit="s",
        steps=((None, "text"), (90 * 86400, WARN)),
    )
