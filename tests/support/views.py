"""A gate's state at one moment, without a gate: what is not named is that of an idle one."""

from dataclasses import replace
from typing import Any

from specgate.core.config import PolicyConfig
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.load import Counts
from specgate.core.policy import Mode, Reason
from specgate.core.view import GateView, LaneView
from specgate.core.weighing import NONE, Weighing

IDLE = GateView(
    mode=Mode.AUTO,
    side=Lane.SPEC,
    reason=Reason.BELOW_THRESHOLD,
    policy=PolicyConfig(threshold=8.0, band=0.25),
    counts=NONE,
    load=0.0,
    smoothed=0.0,
    oldest_s=None,
    switches=0,
    since_switch_s=None,
    lanes={
        lane: LaneView(url=f"http://{lane}", health=Health.HEALTHY, engine="sglang")
        for lane in Lane
    },
    weighed=None,
    gain=None,
    beyond=NONE,
    mixed_s=0.0,
    forced_share=0.0,
    curves=None,
    accept=None,
    queued=0,
)


def a_view(**changed: Any) -> GateView:
    """`in_flight=(2, 1)`: sequences on spec and plain; where curves are weighed, those of the load
    on the side unless named. `curves`: of the policy too."""
    load, curves = changed.get("load", 0.0), changed.get("curves")
    held = round(load) if curves is not None else 0
    on_plain = changed.get("side") is Lane.PLAIN
    spec, plain = changed.pop("in_flight", (0, held) if on_plain else (held, 0))
    changed.setdefault("counts", Counts(spec=spec, plain=plain))
    if curves is not None:
        policy = changed.get("policy", IDLE.policy)
        changed["policy"] = replace(policy, curves=curves)
        standing = curves.standing(max(load, 1.0))
        latest = Weighing(curves, 0.0).latest._replace(standing=standing, load=load)
        changed.setdefault("weighed", latest)
    return replace(IDLE, **changed)
