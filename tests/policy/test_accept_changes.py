"""The accept length halves, then doubles, in mid-run: the gate's own code in virtual time."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest

from specgate.core.config import PolicyConfig
from specgate.core.curves import Curve, Curves
from specgate.core.lanes import Lane
from specgate.replay.deciders import Policy
from specgate.replay.run import Change, World, run
from specgate.replay.traffic import Arrival, pattern

LOADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
PLAIN = (85.0, 141.0, 219.0, 318.0, 429.0, 700.0, 1018.0, 1398.0)
LEADS = (3.2, 3.0, 2.7, 2.3, 1.8, 1.35, 0.95, 0.65)
CURVES = Curves(
    spec=Curve(LOADS, tuple(a * b for a, b in zip(LEADS, PLAIN, strict=True))),
    plain=Curve(LOADS, PLAIN),
    accept_length=2.5,
    steps=7,
    output_tokens=256.0,
)
pytestmark = pytest.mark.slow

CONFIG = PolicyConfig(curves=CURVES)
ADAPTIVE = replace(CONFIG, adaptive=True)
OFTEN = 30


def edge(curves: Curves | None) -> float:
    assert curves is not None
    return curves.paying[-1][1]


class Told(Policy):
    """The same policy, told each change at once."""

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__(CONFIG)
        self._changes = list(changes)

    def tick(self, now: float) -> None:
        while self._changes and self._changes[0].at <= now:
            factor = self._changes.pop(0).factor
            self.gate.set_policy(replace(CONFIG, curves=CURVES.scaled(factor)))
        super().tick(now)


class Watched(Policy):
    """Notes the edge at the first reading after thirty requests of the spec lane have ended since
    each change."""

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__(ADAPTIVE)
        self._changes = list(changes)
        self._ended: int | None = None
        self.edges: list[float] = []

    def accepted(self, now: float, tokens: int, accept_length: float) -> None:
        super().accepted(now, tokens, accept_length)
        if self._changes and self._changes[0].at <= now:
            self._changes.pop(0)
            self._ended = 0
        if self._ended is not None:
            self._ended += 1

    def tick(self, now: float) -> None:
        super().tick(now)
        if self._ended is not None and self._ended >= OFTEN and now >= self._read_at - 0.25:
            self.edges.append(edge(self.gate.view().curves))
            self._ended = None


def arrivals_of(load: float, seed: int) -> tuple[list[Arrival], tuple[Change, ...]]:
    arrivals = pattern("constant", load * CURVES.plain.top, seed=seed)
    span_s = arrivals[-1].at
    return arrivals, (Change(span_s / 3, 0.5), Change(span_s * 2 / 3, 1.0))


def mean_e2e_s(policy: Policy, arrivals: list[Arrival], world: World) -> float:
    return fmean(run(CURVES, arrivals, policy, world).e2e_s)


@pytest.mark.parametrize(("spread", "within"), [(0.0, 0.08), (0.1, 0.25)])
def test_the_edge_is_right_after_thirty_requests_of_the_spec_lane(spread, within):
    arrivals, changes = arrivals_of(0.2, seed=1)
    watched = Watched(changes)
    run(CURVES, arrivals, watched, World(changes=changes, accept_spread=spread))
    true = [edge(CURVES.scaled(change.factor)) for change in changes]
    assert watched.edges == pytest.approx(true, rel=within)
    assert true[0] < 0.3 * true[1]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_while_the_lane_is_seen_it_is_as_good_as_being_told(seed):
    arrivals, changes = arrivals_of(0.2, seed)
    world = World(changes=changes)
    live = mean_e2e_s(Policy(ADAPTIVE), arrivals, world)
    assert live <= 1.05 * mean_e2e_s(Told(changes), arrivals, world)


def test_where_the_change_turns_the_lane_off_it_looks_again_and_costs_little():
    """At this load the halved accept length does not pay, so that its return is not seen."""
    over_told, over_blind = [], []
    for seed in (1, 2):
        arrivals, changes = arrivals_of(0.3, seed)
        world = World(changes=changes)
        policy = Policy(ADAPTIVE)
        live = mean_e2e_s(policy, arrivals, world)
        over_told.append(live / mean_e2e_s(Told(changes), arrivals, world))
        over_blind.append(live / mean_e2e_s(Policy(CONFIG), arrivals, world))
        off = [at.at for at in policy.switched if at.side is Lane.PLAIN]
        assert changes[0].at < off[0] < changes[0].at + 60
        assert policy.side is Lane.SPEC
    assert fmean(over_told) < 1.15
    assert fmean(over_blind) < 1.0
