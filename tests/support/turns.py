"""Lanes in turn with scripted engines, in time that jumps: `on_stage(scenario)` runs one."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from specgate.control.admission import Admission
from specgate.control.admission_queue import AdmissionQueue
from specgate.control.alternation import Alternator
from specgate.control.alternation_hands import Found, StepFailedError
from specgate.control.gate import Gate
from specgate.core.alternation import Step
from specgate.core.config import AdmissionConfig, AlternationConfig, Placement, PolicyConfig
from specgate.core.events import AlternationFailed
from specgate.core.lanes import Lane
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
