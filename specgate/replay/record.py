"""A replay as JSON: for each way its figures, and what was replayed."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

from specgate import __version__
from specgate.core.config import PolicyConfig
from specgate.core.hold import Hold
from specgate.replay.comparison import Comparison
from specgate.replay.metered import metered
from specgate.replay.plan import Plan
from specgate.replay.run import World
from specgate.replay.wording import sentence


class Replay(NamedTuple):
    """One load and one world, and what came of it."""

    load: float
    world: World
    found: Comparison


def replay_object(plan: Plan, replayed: Replay) -> dict[str, object]:
    """What --json writes of one replay."""
    return {"replayed": {**_plan_object(plan), **_inputs(replayed)}, **_outcome(plan, replayed)}


def sweep_object(plan: Plan, replays: Sequence[Replay]) -> dict[str, object]:
    """What --json writes of several."""
    return {
        "replayed": _plan_object(plan),
        "replays": [{**_inputs(replayed), **_outcome(plan, replayed)} for replayed in replays],
    }


def _outcome(plan: Plan, replayed: Replay) -> dict[str, object]:
    found = replayed.found
    return {
        **{str(way): asdict(figures) for way, figures in found.figures.items()},
        "better": str(found.better),
        "over_better": found.over_better,
        "share_of_win": found.share_of_win,
        "meter": _meter(found),
        "switched": [
            {"at_s": switch.at, "side": str(switch.side), "reason": str(switch.reason)}
            for switch in found.switched
        ],
        "said": sentence(plan, found),
    }


def _meter(found: Comparison) -> dict[str, object] | None:
    """Seconds of mean E2E gained over each lane; null where the gate has nothing to estimate by."""
    said: dict[str, object] = {
        str(each.over): {
            "estimated_s": each.estimated_s,
            "low_s": each.low_s,
            "high_s": each.high_s,
            "measured_s": each.measured_s,
        }
        for each in metered(found)
    }
    return said or None


def _inputs(replayed: Replay) -> dict[str, object]:
    world, arrivals = replayed.world, replayed.found.arrivals
    tokens = sum(each.output_tokens for each in arrivals)
    return {
        "load": replayed.load,
        "contention": world.contention,
        "cached": world.cached,
        "gap_s": world.gap_s,
        "prefill_tok_s": world.prefill_tok_s,
        "accept": [list(change) for change in world.changes],
        "requests": len(arrivals),
        "output_tokens": tokens,
        "span_s": arrivals[-1].at,
        "offered_tok_s": tokens / arrivals[-1].at,
    }


def _plan_object(plan: Plan) -> dict[str, object]:
    lane, tok_s = plan.capacity()
    return {
        "specgate": __version__,
        "profile": plan.profile_name,
        "trace": plan.traffic,
        "seed": plan.seed,
        "capacity_tok_s": tok_s,
        "capacity_lane": str(lane),
        "contexts": plan.contexts and [tokens for tokens, _ in plan.contexts.measured],
        "rule": _rule(plan.config, plan.hold),
    }


def _rule(config: PolicyConfig, hold: Hold | None) -> dict[str, object]:
    """What the gate went by."""
    pool = str(config.placement)
    if config.curves is not None:
        return {
            "by": "profile",
            "pool": pool,
            "adaptive": config.adaptive,
            "burst": config.burst,
            "switches_per_h": config.switches_per_h,
            "hold": None if hold is None else hold.drained,
        }
    threshold: float | str | None = config.threshold
    if threshold is not None and math.isinf(config.threshold or 0.0):
        threshold = "always"
    return {
        "by": "threshold",
        "pool": pool,
        "threshold": threshold,
        "band": config.band,
        "smoothing_s": config.smoothing_s,
        "burst": config.burst,
        "dwell_s": config.dwell_s,
    }
