"""What is to be replayed: a profile, traffic, and what the gate goes by."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean

from specgate.core.config import ALWAYS, NEVER, Placement, PolicyConfig
from specgate.core.contexts import Contexts
from specgate.core.curves import Curves
from specgate.core.hold import Hold
from specgate.core.lanes import Lane
from specgate.core.prefixes import Prefixes
from specgate.core.profile import Profile
from specgate.core.threshold import (
    contexts_of,
    curves_of,
    measured_curves,
    threshold_and_band,
)
from specgate.replay.comparison import Comparison, compare
from specgate.replay.run import World
from specgate.replay.traffic import (
    MEAN_PROMPT,
    PATTERNS,
    Arrival,
    TrafficError,
    pattern,
    rotated,
    scaled,
)


class NoCurvesError(ValueError):
    """The profile does not hold what a replay needs; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One profile and one stream of traffic, to be replayed at any load.

    profile_name, traffic: as people call them. recorded: None for a pattern. requests: at most so
    many. seed: where in recorded traffic it begins (0: as recorded), or a pattern's draw.
    curves: the lanes' at the traffic's mean prompt; contexts: by prompt length, where the profile
    has several. hold: after a switch.
    """

    profile_name: str
    curves: Curves
    config: PolicyConfig
    traffic: str
    recorded: list[Arrival] | None
    seed: int = 0
    requests: int = 20_000
    said_of_side: Mapping[Lane, str] = field(default_factory=dict)
    """Why the gate would stay on a side, where the profile says so."""
    contexts: Contexts | None = None
    hold: Hold | None = None

    def capacity(self) -> tuple[Lane, float]:
        """The lane that gives more at its best, and how many tokens a second that is."""
        curves = self.curves
        lane = Lane.SPEC if curves.spec.top > curves.plain.top else Lane.PLAIN
        return lane, curves.of(lane).top

    def arrivals(self, load: float) -> list[Arrival]:
        """At least two. `load`: of the capacity; on the mean, or at a pattern's highest. Raises
        TrafficError."""
        tok_s = load * self.capacity()[1]
        if self.recorded is None:
            found = pattern(self.traffic, tok_s, seed=self.seed, most=self.requests)
            if len(found) < 2:
                raise TrafficError(f"at a load of {load:g} hardly anything arrives within an hour")
            return found
        return scaled(rotated(self.recorded, self.seed)[: self.requests], tok_s)

    def replayed(self, load: float, world: World) -> Comparison:
        """What a lost prefix costs, which the world's `cached` says, the gate is told too."""
        arrivals = self.arrivals(load)
        config, curves = self.config, self.config.curves
        contexts = self.contexts
        if curves is not None and world.cached:
            mean = fmean(each.prompt_tokens for each in arrivals)
            lost = Prefixes(world.cached * mean, world.gap_s, world.prefill_tok_s)
            contexts = None if contexts is None else contexts.losing(lost)
            config = replace(config, curves=replace(curves, prefixes=lost), contexts=contexts)
        world = replace(world, contexts=contexts)
        return compare(self.curves, config, arrivals, world, seed=self.seed, hold=self.hold)


def plan(
    profile: Profile,
    profile_name: str,
    traffic: str,
    recorded: list[Arrival] | None,
    *,
    by_hand: Mapping[str, float] | None = None,
    adaptive: bool = False,
    placement: Placement = Placement.SHARED,
    hold: Hold | None = None,
    seed: int = 0,
    requests: int = 20_000,
) -> Plan:
    """`by_hand`: knobs of PolicyConfig; a threshold among them takes the place of all that the
    profile says, as it does in the gate's settings. adaptive: the gate follows the live accept
    length. hold: with a profile that is weighed. Raises NoCurvesError."""
    assert recorded is not None or traffic in PATTERNS
    knobs = dict(by_hand or {})
    said = {}
    contexts = None
    if "threshold" in knobs:
        config = PolicyConfig(**knobs, placement=placement)  # type: ignore[arg-type]
        if config.threshold in (NEVER, ALWAYS):
            side = Lane.PLAIN if config.threshold == NEVER else Lane.SPEC
            said = {side: "as the threshold says"}
    else:
        derived = threshold_and_band(profile)
        contexts = contexts_of(profile)
        curves = curves_of(profile) if contexts is None else contexts.main
        config = PolicyConfig(
            threshold=derived.threshold,
            band=derived.band,
            curves=curves,
            contexts=contexts,
            adaptive=adaptive,
            placement=placement,
            **knobs,  # type: ignore[arg-type]
        )
        if adaptive and (curves is None or curves.accept_length is None):
            missing = "accept length" if curves else "loads at which the better lane changes"
            raise NoCurvesError(f"it has no {missing}, so there is nothing to adapt")
        if curves is None:
            side = Lane.SPEC if derived.threshold == ALWAYS else Lane.PLAIN
            said = {side: f"as the profile says `{profile.verdict.shape}`"}
    return Plan(
        profile_name=profile_name,
        curves=lanes_of(profile) if contexts is None else contexts.at(_prompt(recorded)),
        config=config,
        traffic=traffic,
        recorded=recorded,
        seed=seed,
        requests=requests,
        said_of_side=said,
        contexts=contexts,
        hold=hold,
    )


def _prompt(recorded: list[Arrival] | None) -> float:
    """Mean tokens."""
    return fmean(each.prompt_tokens for each in recorded) if recorded else MEAN_PROMPT


def lanes_of(profile: Profile) -> Curves:
    """Both lanes' curves. Raises NoCurvesError."""
    curves = measured_curves(profile)
    if curves is not None:
        return curves
    arms = {name for level in profile.levels for name in level.arms}
    if not profile.levels:
        raise NoCurvesError("it has no levels of concurrency")
    if "plain" not in arms:
        raise NoCurvesError("it has no arm called plain")
    if profile.verdict.arm is None:
        raise NoCurvesError("it has no arm that speculates")
    raise NoCurvesError(
        f"it has fewer than two levels at which both {profile.verdict.arm} and plain were measured"
    )
