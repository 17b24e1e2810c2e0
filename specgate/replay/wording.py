"""A replay in words: one sentence, and what must be known of it."""

from collections.abc import Iterator

from specgate.core.config import Placement
from specgate.core.lanes import Lane
from specgate.replay.comparison import Comparison, Way
from specgate.replay.plan import Plan

NAMES = {
    Way.POLICY: "gate",
    Way.ALL_PLAIN: "all-plain",
    Way.ALL_SPEC: "all-spec",
    Way.INSTANT: "instant",
    Way.CLAIRVOYANT: "clairvoyant",
}

OF_LANE = {Lane.PLAIN: Way.ALL_PLAIN, Lane.SPEC: Way.ALL_SPEC}

ALIKE = 0.0005
"""A share: a smaller difference is not worth a word."""


def sentence(plan: Plan, found: Comparison) -> str:
    """What the gate gained or lost against the better fixed lane."""
    better = NAMES[found.better]
    if found.stayed is not None:
        stayed = found.stayed
        why = plan.said_of_side.get(stayed)
        like = OF_LANE[stayed]
        said = f"The gate stayed on the {stayed} side{f', {why},' if why else ''} and equals "
        if found.better is like:
            return f"{said}{NAMES[like]}, the better fixed lane."
        return (
            f"{said}{NAMES[like]}: on the mean requests took "
            f"{_more(found.over_better, than='than with')} {better}."
        )
    return (
        f"On the mean requests took {_more(found.over_better, than='behind the gate than with')} "
        f"the better fixed lane ({better}), with {switches(found.figures[Way.POLICY].switches)}."
    )


def notes(plan: Plan, found: Comparison) -> Iterator[str]:
    """What a reader of the figures must know."""
    share = found.share_of_win
    if plan.config.placement is Placement.SPLIT:
        yield (
            f"The spec lane took {found.figures[Way.POLICY].spec_share:.0%} of the requests. The "
            "clairvoyant, as all but the gate, sends all that comes at one time to one lane."
        )
    elif share is not None:
        won = 1.0 - found.mean_s(Way.CLAIRVOYANT) / found.mean_s(found.better)
        said = f"of that the gate got {share:.0%}" if share > 0 else "the gate got nothing of that"
        yield f"Perfect foresight would have won {won:.1%} over {NAMES[found.better]}; {said}."
    gate = found.figures[Way.POLICY]
    if gate.held:
        who = "1 request" if gate.held == 1 else f"{gate.held:,} requests"
        yield (
            f"The gate held {who} at its switches, {gate.mean_held_s:.1f} s on the mean, which "
            "their times include."
        )
    if plan.contexts is not None:
        *most, last = (f"{tokens:,}" for tokens, _ in plan.contexts.measured)
        yield (
            f"The profile has curves for prompts of {', '.join(most)} and {last} tokens: the lanes "
            "go by the mean prompt in flight, the gate by the mean of the recent ones that ended."
        )
    top = min(plan.curves.spec.loads[-1], plan.curves.plain.loads[-1])
    peak = gate.peak_load
    if peak > top:
        yield (
            f"Behind the gate up to {peak} were in flight. The profile ends at {top:g}: above it "
            "each lane's total is taken to stay what it was there."
        )
    low = max(plan.curves.spec.loads[0], plan.curves.plain.loads[0])
    if low > 1.0:
        yield (
            f"The profile begins at {low:g}: below it a request is taken to be as fast as there."
        )


def title(plan: Plan, found: Comparison, load: float, contention: float) -> str:
    """What was replayed on what."""
    of = f"{load:g} of {_capacity(plan)}"
    if plan.recorded is None:
        of += " at its highest"
    return (
        f"{plan.traffic} on {plan.profile_name}: {len(found.arrivals):,} requests in "
        f"{duration(found.arrivals[-1].at)}, load {of}, contention {contention:g}"
    )


def sweep_title(plan: Plan) -> str:
    return (
        f"{plan.traffic} on {plan.profile_name}: mean E2E in seconds; load of {_capacity(plan)}, "
        "contention K"
    )


def _capacity(plan: Plan) -> str:
    lane, tok_s = plan.capacity()
    return f"{tok_s:,.0f} tok/s ({lane})"


def switches(count: int) -> str:
    return "no switch" if count == 0 else "1 switch" if count == 1 else f"{count} switches"


def duration(seconds: float) -> str:
    """In two units at most."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def _more(ratio: float, *, than: str) -> str:
    if abs(ratio - 1.0) < ALIKE:
        return f"as long {than.replace('than', 'as')}"
    return f"{abs(ratio - 1.0):.1%} {'more' if ratio > 1.0 else 'less'} time {than}"
