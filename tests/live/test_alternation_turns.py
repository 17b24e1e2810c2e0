"""The lanes in turn, with scripted engines, in time that jumps: every step that may fail, and what
becomes of the lanes and of who waits."""

import asyncio

import pytest

from specgate.control.alternation_hands import Found
from specgate.core.alternation import Step
from specgate.core.config import Placement, PolicyConfig
from specgate.core.errors import QueueTimeout
from specgate.core.events import Alternated
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Reason
from specgate.core.routes import RouteClass
from specgate.upstream.base import Origin
from tests.support.turns import PLAIN, SPEC, Engine, Stage, on_stage


def test_nobody_is_admitted_before_it_is_known_which_lane_is_awake():
    async def scenario(on: Stage) -> None:
        assert not on.gate.ready
        assert not on.queue.straight
        assert await on.request() is PLAIN
        assert on.gate.ready
        assert on.queue.straight
        assert on.gate.lanes[SPEC].asleep

    hands = on_stage(scenario)
    assert hands.calls == ["forget", "check plain"]


def test_the_lanes_change_places_once_the_dwell_is_over_and_who_comes_waits():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        began = asyncio.get_running_loop().time()
        on.gate.set_policy(PolicyConfig(threshold=8.0, placement=Placement.ALTERNATE))
        assert on.gate.side is SPEC
        decision = on.gate.admit(RouteClass.CHAT, 1)
        assert (decision.lane, decision.reason) == (PLAIN, Reason.ASLEEP)
        decision.__exit__(None, None, None)
        await asyncio.sleep(500)
        assert on.alternator.view().awake is PLAIN
        long = asyncio.ensure_future(on.request(lasts_s=110))  # over the dwell's end
        await asyncio.sleep(102)
        late = asyncio.ensure_future(on.request())
        assert await long is PLAIN
        assert await late is SPEC
        assert asyncio.get_running_loop().time() - began > 600
        (fact,) = on.facts.of(Alternated)
        assert (fact.lane, fact.back) == (SPEC, False)
        assert fact.took_s > 8
        assert on.alternator.view().alternations == 1

    hands = on_stage(scenario)
    assert hands.calls[2:] == ["in_hand plain", "park plain", "wake spec", "check spec"]


def test_a_side_that_an_operator_forces_waits_for_no_dwell():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.gate.set_mode(Mode.SPEC)
        await on.awake(SPEC, within_s=2)
        on.gate.set_mode(Mode.PLAIN)
        await on.awake(PLAIN, within_s=2)

    on_stage(scenario)


@pytest.mark.parametrize(
    ("name", "step"),
    [("wake", Step.WAKE), ("check", Step.CHECK), ("accept", Step.ACCEPT)],
)
def test_a_lane_that_does_not_come_up_well_is_parked_again_and_the_other_serves_on(
    name: str, step: Step
):
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[SPEC].fails[name] = 1
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(0.3)
        assert await on.request() is PLAIN
        assert on.failures() == [(step, SPEC)]
        (fact,) = on.facts.of(Alternated)
        assert (fact.lane, fact.back) == (PLAIN, True)
        view = on.alternator.view()
        assert (view.failed, view.why) == (step, "spec: as scripted")
        assert view.retry_s is not None
        assert 0 < view.retry_s <= 30
        # It is tried again, and then it works.
        await on.awake(SPEC, within_s=35)
        assert on.alternator.view().failed is None

    on_stage(scenario)


@pytest.mark.parametrize(("wakes", "back"), [(SPEC, False), (PLAIN, True)])
def test_after_both_failed_the_one_that_comes_up_is_told_as_any_other(wakes: Lane, back: bool):
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        for engine in on.hands.engines.values():
            engine.fails["wake"] = 3
        on.gate.set_mode(Mode.SPEC)
        while len(on.failures()) < 2:
            await asyncio.sleep(0.05)
        assert on.failures() == [(Step.WAKE, SPEC), (Step.WAKE, PLAIN)]
        assert on.alternator.view().failed is Step.WAKE
        on.hands.engines[wakes.other].fails["wake"] = 1000
        await on.awake(wakes)
        (fact,) = on.facts.of(Alternated)
        assert (fact.lane, fact.back) == (wakes, back)
        view = on.alternator.view()
        if back:
            # The one that is wanted failed still.
            assert (view.alternations, view.failed) == (0, Step.WAKE)
        else:
            assert (view.alternations, view.failed, view.why, view.retry_s) == (1, None, None, None)

    on_stage(scenario)


def test_the_pause_doubles_and_an_operator_ends_it():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[SPEC].fails["wake"] = 1000
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(2500)
        # 30, 60, ... 960 seconds apart: at 0, 30, 90, 210, 450, 930 and 1890 s.
        assert on.hands.calls.count("wake spec") == 7
        on.hands.engines[SPEC].fails.clear()
        on.gate.set_mode(Mode.SPEC)
        await on.awake(SPEC, within_s=3)

    on_stage(scenario)


def test_what_does_not_end_in_time_keeps_its_lane_awake():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        long = asyncio.ensure_future(on.request(lasts_s=40))
        await asyncio.sleep(0)
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(1)
        assert await on.request() is PLAIN
        assert on.failures() == [(Step.DRAIN, PLAIN)]
        assert "1 requests did not end within 20 s" in str(on.alternator.view().why)
        assert await long is PLAIN
        await on.awake(SPEC, within_s=60)

    hands = on_stage(scenario)
    assert "park spec" not in hands.calls


def test_an_engine_that_others_keep_busy_is_not_parked():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[PLAIN].has = 2
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(1)
        assert await on.request() is PLAIN
        assert on.failures() == [(Step.IDLE, PLAIN)]
        assert "park plain" not in on.hands.calls

    on_stage(scenario)


def test_a_change_that_is_wanted_no_more_is_called_off_while_nothing_was_done():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        long = asyncio.ensure_future(on.request(lasts_s=10))
        await asyncio.sleep(0)
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(1)
        assert on.queue.fenced
        on.gate.set_mode(Mode.PLAIN)
        await on.awake(PLAIN, within_s=1)
        assert await long is PLAIN
        assert on.failures() == []

    hands = on_stage(scenario)
    assert "park plain" not in hands.calls


def test_an_engine_that_cannot_be_parked_serves_on():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[PLAIN].fails["park"] = 1
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(0.3)
        assert await on.request() is PLAIN
        assert on.failures() == [(Step.PARK, PLAIN)]

    hands = on_stage(scenario)
    assert "wake spec" not in hands.calls


def test_an_engine_that_dies_of_being_parked_leaves_the_other_one():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[PLAIN].dies = True
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(0.3)
        assert await on.request() is SPEC
        assert on.failures() == [(Step.PARK, PLAIN)]

    on_stage(scenario)


def test_a_step_that_takes_too_long_has_failed():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[SPEC].takes_s = 100
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(0.3)
        await on.awake(PLAIN, within_s=130)
        assert on.failures() == [(Step.WAKE, SPEC)]
        assert "not done within 60 s" in str(on.alternator.view().why)

    on_stage(scenario)


def test_where_neither_lane_serves_both_are_tried_in_turn_until_one_does():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[SPEC].fails["wake"] = 7
        on.hands.engines[PLAIN].fails["wake"] = 6
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(0.3)
        with pytest.raises(QueueTimeout):
            await on.request()
        assert not on.gate.ready
        assert on.alternator.view().awake is None
        assert await on.request() is PLAIN
        assert on.gate.ready
        assert on.failures().count((Step.WAKE, SPEC)) == 7

    on_stage(scenario)


def test_at_the_start_of_two_that_are_awake_the_one_that_is_not_wanted_is_parked():
    async def scenario(on: Stage) -> None:
        assert await on.request() is PLAIN
        await asyncio.sleep(12)
        assert on.hands.engines[SPEC].state is Found.ASLEEP

    on_stage(scenario, spec=Engine())


def test_at_the_start_of_two_that_sleep_the_one_that_is_wanted_is_woken():
    async def scenario(on: Stage) -> None:
        assert await on.request() is PLAIN
        assert on.hands.engines[SPEC].state is Found.ASLEEP

    on_stage(scenario, plain=Engine(Found.ASLEEP))


def test_a_lane_that_is_down_is_left_at_once_and_not_tried_again_by_a_drain():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[PLAIN].state = Found.GONE
        for _ in range(2):
            on.gate.saw(on.gate.origin(PLAIN), Sign.UNREACHED, "refused")
        assert on.queue.fenced
        assert await on.request() is SPEC
        # The policy wants plain; it is not up, and nobody is kept waiting for it.
        await asyncio.sleep(1200)
        assert on.alternator.view().failed is Step.WAKE
        assert "park spec" not in on.hands.calls
        assert await on.request() is SPEC

    on_stage(scenario)


def test_one_refused_connection_is_looked_into_while_its_request_waits():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        assert on.gate.doubt(PLAIN)
        assert on.queue.fenced
        assert await on.request() is PLAIN  # it was a restart's last gasp
        on.hands.engines[PLAIN].state = Found.GONE
        assert on.gate.doubt(PLAIN)
        assert await on.request() is SPEC
        assert not on.gate.doubt(PLAIN)

    on_stage(scenario)


def test_draining_the_lane_that_is_awake_wakes_the_other():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        long = asyncio.ensure_future(on.request(lasts_s=5))
        await asyncio.sleep(0)
        on.gate.drain(PLAIN)
        assert on.queue.fenced, "before anyone can be sent there"
        assert await on.request() is SPEC
        assert await long is PLAIN
        on.gate.undrain(PLAIN)
        await asyncio.sleep(700)
        assert on.alternator.view().awake is PLAIN

    on_stage(scenario)


def test_a_draining_lane_is_no_way_back():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.hands.engines[SPEC].fails["wake"] = 3
        on.gate.drain(PLAIN)
        await asyncio.sleep(1)
        assert await on.request() is SPEC
        assert on.hands.calls.count("wake plain") == 0

    on_stage(scenario)


def test_a_lane_that_moves_is_looked_at_anew():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.gate.set_origin(Origin.of(PLAIN, "http://elsewhere"))
        assert on.queue.fenced
        assert await on.request() is PLAIN
        assert on.hands.calls.count("forget") == 2

    on_stage(scenario)


def test_a_new_key_is_used_at_once_and_nobody_waits_for_it():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        for lane in Lane:
            on.gate.set_origin(Origin.of(lane, f"http://{lane}", b"Bearer new"))
        assert on.queue.straight
        await asyncio.sleep(12)
        assert on.hands.key == b"Bearer new"
        assert on.hands.calls.count("forget") == 1

    on_stage(scenario)


def test_an_engine_that_somebody_wakes_is_put_to_sleep_again():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        await asyncio.sleep(1)
        on.hands.engines[SPEC].state = Found.AWAKE
        await asyncio.sleep(12)
        assert on.hands.engines[SPEC].state is Found.ASLEEP
        assert await on.request() is PLAIN

    on_stage(scenario)


def test_a_gate_that_is_about_to_stop_begins_no_change():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.gate.stopping = True
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(5)
        assert on.alternator.view().awake is PLAIN
        assert not on.gate.unsettled

    on_stage(scenario)


@pytest.mark.parametrize("after_s", [0.3, 0.5, 0.7, 0.9])
def test_a_gate_that_stops_in_the_middle_leaves_one_lane_awake(after_s: float):
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        for engine in on.hands.engines.values():
            engine.takes_s = 0.2
        on.gate.set_mode(Mode.SPEC)
        await asyncio.sleep(after_s)
        on.gate.stopping = True
        await on.alternator.settle(5)
        assert not on.gate.unsettled
        states = [engine.state for engine in on.hands.engines.values()]
        assert states.count(Found.AWAKE) == 1

    on_stage(scenario)


def test_what_one_lane_held_is_forgotten_when_it_sleeps():
    async def scenario(on: Stage) -> None:
        await on.awake(PLAIN)
        on.gate.learn(on.gate.origin(PLAIN), "resp_1")
        assert on.gate.holds("resp_1")
        on.gate.set_mode(Mode.SPEC)
        await on.awake(SPEC)
        assert not on.gate.holds("resp_1")

    on_stage(scenario)
