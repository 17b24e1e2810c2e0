"""The experiment on a gate: its blocks hold a side, and the rest of the policy has its say."""

from typing import Any

import pytest

from specgate.bench.shipped import shipped
from specgate.control.trials import Trials
from specgate.core.config import PolicyConfig
from specgate.core.events import Outcome, RequestEnded, Switched
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Reason
from specgate.core.profile import dumps
from specgate.core.routes import RouteClass
from specgate.core.threshold import measured_curves
from tests.support.scripted import manual_gate
from tests.support.stage import stage

PROFILE = "k26-int4-8xrtxpro6000-vllm-ctx10k"


class Site:
    """A gate on a clock of its own, asked a little, whose lanes have known paces."""

    def __init__(self, pace: dict[Lane, float], **policy: Any) -> None:
        curves = measured_curves(shipped(PROFILE))
        self.gate, self.clock, self.facts = manual_gate(PolicyConfig(curves=curves, **policy))
        self.trials = Trials(self.gate, 0.1, self.clock, seed=3)
        self.pace = pace
        self.reasons: set[Reason] = set()

    def run(self, seconds: float, tokens: int = 100) -> None:
        """One request after the other."""
        until = self.clock() + seconds
        while self.clock() < until:
            with self.gate.admit(RouteClass.CHAT, 1) as admission:
                self.reasons.add(admission.reason)
                took_s = self.pace[admission.lane] * tokens
                left = took_s
                while left > 0:
                    self.clock.advance(min(0.25, left))
                    left -= 0.25
                    self.gate.tick()
                    self.trials.turn()
            self.trials(
                RequestEnded(
                    request_id="r",
                    method="POST",
                    path="/",
                    route=RouteClass.CHAT,
                    sequences=1,
                    lane=admission.lane,
                    outcome=Outcome.COMPLETED,
                    duration_s=took_s,
                    output_tokens=tokens,
                )
            )


def test_blocks_hold_both_sides_and_find_the_ratio():
    site = Site({Lane.SPEC: 0.01, Lane.PLAIN: 0.02})
    site.run(3_000)
    found = site.gate.view().experiment
    assert found is not None
    assert found.pairs >= 3
    assert found.faster == pytest.approx(2.0, rel=0.01)
    assert found.low is not None
    assert found.expected is not None
    assert Reason.SWITCHBACK in site.reasons
    assert Reason.SWITCHBACK in {fact.reason for fact in site.facts.of(Switched)}
    assert found.spent_s <= 0.1 * 3_000


def test_an_operators_word_ends_a_block():
    site = Site({Lane.SPEC: 0.01, Lane.PLAIN: 0.02})
    site.run(1_000)
    site.gate.set_mode(Mode.PLAIN)
    site.reasons.clear()
    site.run(1_000)
    assert site.reasons == {Reason.FORCED}
    experiment = site.gate.view().experiment
    assert experiment is not None
    assert not experiment.running


def test_in_shadow_nothing_is_tried():
    site = Site({Lane.SPEC: 0.01, Lane.PLAIN: 0.02}, shadow=Lane.PLAIN)
    site.run(1_500)
    assert site.reasons == {Reason.SHADOW}
    experiment = site.gate.view().experiment
    assert experiment is not None
    assert experiment.pairs == 0


async def test_the_setting_turns_it_on_and_without_a_profile_it_waits(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(dumps(shipped(PROFILE)))
    async with stage(threshold="", profile=path, switchback=0.05) as on:
        status = await on.gate.status()
        assert status["weighing"]["experiment"] == {
            "pairs": 0,
            "faster": None,
            "low": None,
            "high": None,
            "expected": None,
            "spent_s": 0.0,
            "running": False,
        }
        assert await on.sample("specgate_switchback_pairs_total") == 0
    async with stage(switchback=0.05) as on:
        assert (await on.gate.status())["weighing"] is None
