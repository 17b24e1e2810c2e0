"""The gate on one stream of requests, and what it is held against on the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specgate.core.config import PolicyConfig
from specgate.core.curves import Curves
from specgate.core.hold import Hold
from specgate.core.label import Label
from specgate.core.lanes import Lane
from specgate.core.meter import Gain
from specgate.replay.deciders import Fixed, Instant, Policy, Switch
from specgate.replay.figures import Figures, figures_of
from specgate.replay.hindsight import clairvoyant
from specgate.replay.run import Outcome, World, run
from specgate.replay.traffic import Arrival


class Way(Label):
    """Who decided: the gate, a lane for everything, the bare count, or one who knew it all."""

    POLICY = "policy"
    ALL_PLAIN = "all_plain"
    ALL_SPEC = "all_spec"
    INSTANT = "instant"
    CLAIRVOYANT = "clairvoyant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`switched`: the gate's switches. `gain`: what its meter says at the end; None without one."""

    arrivals: Sequence[Arrival]
    outcomes: Mapping[Way, Outcome]
    figures: Mapping[Way, Figures]
    switched: Sequence[Switch]
    gain: Gain | None = None

    def mean_s(self, way: Way) -> float:
        """Mean E2E."""
        return self.figures[way].mean_e2e_s

    @property
    def better(self) -> Way:
        """The better lane for everything; plain if they are alike."""
        return min((Way.ALL_PLAIN, Way.ALL_SPEC), key=self.mean_s)

    @property
    def over_better(self) -> float:
        """The gate's mean E2E over the better lane's: below 1 the gate has won."""
        return self.mean_s(Way.POLICY) / self.mean_s(self.better)

    @property
    def share_of_win(self) -> float | None:
        """Of what the clairvoyant wins over the better lane; None where that is below 3 %, as it
        is then hardly more than chance."""
        better, best = self.mean_s(self.better), self.mean_s(Way.CLAIRVOYANT)
        if best > 0.97 * better:
            return None
        return (better - self.mean_s(Way.POLICY)) / (better - best)

    @property
    def stayed(self) -> Lane | None:
        """The lane that served all that came to the gate, if it was but one."""
        lanes = set(self.outcomes[Way.POLICY].lanes)
        return lanes.pop() if len(lanes) == 1 else None


def compare(
    curves: Curves,
    config: PolicyConfig,
    arrivals: Sequence[Arrival],
    world: World,
    *,
    seed: int = 0,
    hold: Hold | None = None,
    fixed: Mapping[Lane, Outcome] | None = None,
) -> Comparison:
    """`curves`: how the lanes behave; `config`, `hold`: what the gate goes by. `fixed`: each lane
    alone on the same, where that is known. At least one arrival."""
    gate = Policy(config, hold=hold)
    fixed = fixed or alone(curves, arrivals, world, seed=seed)
    outcomes = {
        Way.POLICY: run(curves, arrivals, gate, world, seed=seed),
        Way.ALL_PLAIN: fixed[Lane.PLAIN],
        Way.ALL_SPEC: fixed[Lane.SPEC],
        Way.INSTANT: run(curves, arrivals, Instant(curves), world, seed=seed),
        Way.CLAIRVOYANT: clairvoyant(curves, arrivals, world, fixed, seed=seed),
    }
    best = outcomes[Way.CLAIRVOYANT].sides
    figures = {way: figures_of(found, arrivals, best) for way, found in outcomes.items()}
    return Comparison(
        arrivals=arrivals,
        outcomes=outcomes,
        figures=figures,
        switched=tuple(gate.switched),
        gain=gate.gate.view().gain,
    )


def alone(
    curves: Curves, arrivals: Sequence[Arrival], world: World, *, seed: int = 0
) -> Mapping[Lane, Outcome]:
    """Each lane for everything; the contention makes no difference to it."""
    return {lane: run(curves, arrivals, Fixed(lane), world, seed=seed) for lane in Lane}
