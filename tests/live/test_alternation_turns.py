"""The lanes in turn, with scripted engines, in time that jumps: every step that may fail, and what
becomes of the lanes and of who waits."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from specgate.control.admission import Admission
from specgate.control.admission_queue import AdmissionQueue
from specgate.control.alternation import Alternator
from specgate.control.alternation_hands import Found, StepFailedError
from specgate.control.gate import Gate
from specgate.core.alternation import Step
from specgate.core.config import AdmissionConfig, AlternationConfig, Placement, PolicyConfig
from specgate.core.errors import QueueTimeout
from specgate.core.events import Alternated, AlternationFailed
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Reason
from specgate.core.routes import RouteClass
from specgate.ledger.local import LocalLedger
from specgate.upstream.base import Origin
from tests.support.clocks import run_in_jumping_time
from tests.support.observer import Recorder

SPEC, PLAIN = Lane.SPEC, Lane.PLAIN


@dataclass
class Engine:
    """state: what it is. has: sequences in hand of others. fails: the next calls of a name fail, so
    often. takes_s: each call. dies: the next release ends it."""

    state: Found = Found.AWAKE
    has: int = 0
    fails: dict[str, int] = field(default_factory=dict)
    takes_s: float = 0.1
    dies: bool = False


class ScriptedHands:
    """Keeps count of how many are awake: a pool that holds one has room for one."""

    def __init__(self, spec: Engine, plain: Engine) -> None:
        self.engines = {SPEC: spec, PLAIN: plain}
        self.calls: list[str] = []
        self.most_awake = 0
        self.key: bytes | None = None

    def forget(self) -> None:
        self.calls.append("forget")

    async def look(self, origin: Origin) -> Found:
        self.key = origin.authorization
        return self.engines[origin.lane].state

    async def in_hand(self, origin: Origin) -> int:
        await self._call("in_hand", origin, Step.IDLE)
        return self.engines[origin.lane].has

    async def park(self, origin: Origin, *, waking: bool = False) -> None:
        engine = self.engines[origin.lane]
        if engine.state in (Found.ASLEEP, Found.GONE):
            return
        if engine.dies:
            engine.state = Found.GONE
            raise StepFailedError(Step.PARK, "it broke off")
        await self._call("park", origin, Step.PARK)
        engine.state = Found.ASLEEP

    async def wake(self, origin: Origin) -> None:
        engine = self.engines[origin.lane]
        if engine.state is Found.AWAKE:
            return
        if engine.state is not Found.ASLEEP:
            raise StepFailedError(Step.WAKE, "it takes no connection")
        await self._call("wake", origin, Step.WAKE)
        engine.state = Found.AWAKE
        awake = sum(each.state is Found.AWAKE for each in self.engines.values())
        self.most_awake = max(self.most_awake, awake)

    async def check(self, origin: Origin) -> None:
        await self._call("check", origin, Step.CHECK)
        await self._call("accept", origin, Step.ACCEPT)

    async def _call(self, name: str, origin: Origin, step: Step) -> None:
        engine = self.engines[origin.lane]
        if name != "accept":
            self.calls.append(f"{name} {origin.lane}")
        await asyncio.sleep(engine.takes_s)
        if engine.fails.get(name, 0) > 0:
            engine.fails[name] -= 1
            raise StepFailedError(step, "as scripted")


class Stage:
    """A gate, and its alternator, whose loop runs until the stage is left."""

    def __init__(self, hands: ScriptedHands, **changed: Any) -> None:
        self.hands = hands
        self.facts = Recorder()
        loop = asyncio.get_running_loop()
        config: dict[str, Any] = {"dwell_s": 600.0, "drain_s": 20.0, "step_s": 60.0, **changed}
        self.gate = Gate(
            policy=PolicyConfig(threshold=0.0, placement=Placement.ALTERNATE),
            origins={lane: Origin.of(lane, f"http://{lane}") for lane in Lane},
            ledger=LocalLedger(),
            observe=self.facts,
            clock=loop.time,
        )
        limits = AdmissionConfig(queue_size=100, queue_timeout_s=45.0)
        self.queue = AdmissionQueue(self.gate, limits)
        self.alternator = Alternator(
            gate=self.gate,
            queue=self.queue,
            hands=hands,
            config=AlternationConfig(**config),
            observe=self.facts,
            clock=loop.time,
        )
        self.loop = loop.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self.alternator.turn()
            await asyncio.sleep(0.25)

    async def stop(self) -> None:
        self.loop.cancel()
        await asyncio.wait((self.loop,))
        if not self.loop.cancelled() and (error := self.loop.exception()) is not None:
            raise error

    async def admitted(self) -> Admission:
        """A request as the data path has it admitted."""

        def admit() -> Admission:
            return self.gate.admit(RouteClass.CHAT, 1)

        waiter = None if self.queue.straight else self.queue.place(1)
        return admit() if waiter is None else await waiter.admission(admit)

    async def request(self, lasts_s: float = 1.0) -> Lane:
        """One, from its beginning to its end, and where it was."""
        with await self.admitted() as admission:
            engine = self.hands.engines[admission.lane]
            assert engine.state is Found.AWAKE, f"{admission.lane} was {engine.state}"
            await asyncio.sleep(lasts_s)
            assert engine.state is Found.AWAKE, f"{admission.lane} became {engine.state}"
            return admission.lane

    async def awake(self, lane: Lane | None, within_s: float = 100.0) -> None:
        async with asyncio.timeout(within_s):
            while self.alternator.view().awake is not lane or self.queue.fenced != (lane is None):
                await asyncio.sleep(0.05)

    def failures(self) -> list[tuple[Step, Lane]]:
        return [(fact.step, fact.lane) for fact in self.facts.of(AlternationFailed)]


def on_stage(
    scenario: Callable[[Stage], Coroutine[Any, Any, None]],
    spec: Engine | None = None,
    plain: Engine | None = None,
    **changed: Any,
) -> ScriptedHands:
    """Run a scenario; the spec lane sleeps at first, the plain one is awake, unless it is said."""
    hands = ScriptedHands(spec or Engine(Found.ASLEEP), plain or Engine())

    async def run() -> None:
        stage = Stage(hands, **changed)
        try:
            await scenario(stage)
        finally:
            await stage.stop()
        assert stage.gate.carried == 0
        assert stage.gate.in_flight == 0

    run_in_jumping_time(run())
    assert hands.most_awake <= 1
    return hands


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


@pytest.mark.parametrize("seed", range(8))
def test_whatever_fails_nobody_meets_an_engine_that_sleeps_and_nothing_is_stuck(seed: int):
    random = Random(seed)

    async def client(on: Stage, over: asyncio.Event) -> int:
        served = 0
        while not over.is_set():
            await asyncio.sleep(random.random() * 3)
            try:
                await on.request(lasts_s=random.random() * 15)
            except QueueTimeout:
                continue
            served += 1
        return served

    async def scenario(on: Stage) -> None:
        over = asyncio.Event()
        clients = [asyncio.ensure_future(client(on, over)) for _ in range(5)]
        for _ in range(60):
            await asyncio.sleep(random.random() * 60)
            what = random.randrange(4)
            lane = random.choice(tuple(Lane))
            if what == 0:
                on.gate.set_mode(Mode(lane.value))
            elif what == 1:
                name = random.choice(("park", "wake", "check", "accept", "in_hand"))
                on.hands.engines[lane].fails[name] = random.randrange(1, 4)
            elif what == 2:
                on.hands.engines[lane].takes_s = random.choice((0.1, 5.0, 70.0))
            elif on.gate.lanes[lane.other].draining:
                on.gate.undrain(lane.other)
            else:
                on.gate.drain(lane)
        for lane, engine in on.hands.engines.items():
            on.gate.undrain(lane)
            engine.fails.clear()
            engine.takes_s = 0.1
        over.set()
        assert sum(await asyncio.gather(*clients)) > 20
        # Once all is well the gate is where it is wanted.
        await on.awake(on.gate.wanted, within_s=4000)
        assert await on.request() is on.gate.wanted

    on_stage(scenario, dwell_s=30.0)
