"""The gate's whole state at one moment, for those who show it: status, metrics, dashboards."""

from dataclasses import dataclass

from specgate.core.alternation import AlternationView
from specgate.core.config import PolicyConfig
from specgate.core.curves import Curves
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.load import Counts
from specgate.core.meter import Gain
from specgate.core.policy import Mode, Reason
from specgate.core.switchback import Experiment
from specgate.core.weighing import Weighed


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """A lane now. `engine`: the server software as far as it is known. `draining`: it gets nothing
    new. `carried`: exchanges that it has in hand, those that are no load included. `asleep`: the
    pool holds the other lane now, and this one gets nothing."""

    url: str
    health: Health
    engine: str
    draining: bool = False
    carried: int = 0
    asleep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCounters:
    """What the engine at `url` has counted; `at`: when it was read, monotonic seconds."""

    url: str
    output_tokens: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptView:
    """The spec lane's accept length, in tokens a decode step of a sequence.

    live: of recent requests and the bench's value; standard_error: of it. bench: the profile's.
    age_s: since something was last learnt, None: never, `live` is then the bench's. break_even: at
    which speculation would just pay at the present load.
    """

    live: float
    standard_error: float
    bench: float
    age_s: float | None
    break_even: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """All at one moment. `load` is what the policy compares: `smoothed`, or with a smoothing of 0
    the bare count. In sequences; `oldest_s`: age of the oldest entry; `since_switch_s`: seconds;
    both None before there is one; `weighed`, `gain`: with a profile's curves, else None. `beyond`:
    what engines have in hand besides `counts`, which the load includes. `curves`: those that the
    gate weighs by now. `accept`: with a profile that has the bench's accept length. `mixed_s`:
    seconds in which both lanes had sequences, as ticks found them. `forced_share`: of recent
    sequences, those that must go to the plain lane by rules. `queued`: requests that wait for room,
    in no count. `prompt_tokens`: of recent prompts on the mean, where the profile has several
    lengths and engines tell theirs. `experiment`: what switchback blocks found, where they are on.
    `alternation`: on a pool that holds one lane at a time."""

    mode: Mode
    side: Lane
    reason: Reason
    policy: PolicyConfig
    counts: Counts
    load: float
    smoothed: float
    oldest_s: float | None
    switches: int
    since_switch_s: float | None
    lanes: dict[Lane, LaneView]
    weighed: Weighed | None
    gain: Gain | None
    beyond: Counts
    mixed_s: float
    forced_share: float
    curves: Curves | None
    accept: AcceptView | None
    queued: int
    experiment: Experiment | None = None
    prompt_tokens: float | None = None
    alternation: AlternationView | None = None
