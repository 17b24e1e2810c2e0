"""The lanes in turn under load, with simulated engines on a pool that holds one of them: each trap
of SGLang's switched on, and no request fails that a lane could serve."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from specgate.core.alternation import Step
from specgate.core.events import Alternated, AlternationFailed
from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running
from specgate.upstream.base import Origin
from tests.support.client import CHAT, JSON, chat, connect, request_bytes
from tests.support.control import TOKEN, change, said
from tests.support.figures import total
from tests.support.invariants import assert_at_rest
from tests.support.live import BARE, LiveGate, running_gate

SPEC, PLAIN = Lane.SPEC, Lane.PLAIN


@dataclass
class Stage:
    """statuses: of the clients' requests, in the order of their ends; wrong: what was not whole."""

    gate: LiveGate
    sims: dict[Lane, RunningLane]
    statuses: list[int] = field(default_factory=list)
    wrong: list[bytes] = field(default_factory=list)

    @property
    def awake(self) -> list[Lane]:
        return [lane for lane, sim in self.sims.items() if not sim.engine.memory.released]

    async def until_awake(self, lane: Lane, within_s: float = 10) -> None:
        async with asyncio.timeout(within_s):
            while (await self.gate.status())["turns"]["awake"] != lane:
                await asyncio.sleep(0.02)

    async def force(self, mode: Mode) -> None:
        await change(self.gate, b"PUT", "mode", {"mode": mode})

    async def failed(self, step: Step, lane: Lane, within_s: float = 10) -> AlternationFailed:
        fact = await self.gate.facts.wait_for(AlternationFailed, within_s)
        assert (fact.step, fact.lane) == (step, lane), fact
        return fact

    async def back(self, lane: Lane, within_s: float = 10) -> None:
        fact = await self.gate.facts.wait_for(Alternated, within_s)
        assert (fact.lane, fact.back) == (lane, True)

    @asynccontextmanager
    async def load(self, clients: int = 8, **body: Any) -> AsyncIterator[None]:
        """So many clients, one request after the other each, while the block runs."""
        over = asyncio.Event()

        async def client() -> None:
            while not over.is_set():
                await connection()

        async def connection() -> None:
            """Until it ends with a stream that its lane broke off."""
            async with connect(self.gate.url) as wire:
                while not over.is_set():
                    await wire.send(request_bytes(b"POST", CHAT, [JSON], a_chat(**body)))
                    await wire.read_head()
                    read = await wire.read_body()
                    self.statuses.append(wire.status)
                    if not read.clean or not read.data.endswith(b"[DONE]\n\n") or b"!" in read.data:
                        self.wrong.append(read.data[-200:])
                    if not read.clean:
                        return

        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(client())
            await asyncio.sleep(0.2)
            try:
                yield
                await asyncio.sleep(0.2)
            finally:
                over.set()

    def all_well(self) -> None:
        assert len(self.statuses) > 8
        assert set(self.statuses) == {200}, self.statuses
        assert self.wrong == []


def a_chat(**body: Any) -> bytes:
    return chat(**{"max_tokens": 24, "ignore_eos": True, **body})


@asynccontextmanager
async def taking_turns(
    *,
    asleep: tuple[Lane, ...] = (SPEC,),
    holds: int = 1,
    spec: Faults | None = None,
    plain: Faults | None = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A gate that serves on the plain lane at first, as it has no threshold."""
    lanes = [
        SimLane(lane=lane, asleep=lane in asleep, faults=faults or Faults())
        for lane, faults in ((SPEC, spec), (PLAIN, plain))
    ]
    own = {
        "pool": "alternate",
        "queue_size": 500,
        "queue_timeout_s": 20,
        "alternate_drain_s": 3,
        "alternate_step_s": 2,
        "alternate_dwell_s": 600,
        "scrape_interval_s": 0.2,
        "admin_token": TOKEN,
    }
    async with running(
        lanes, profile=load_profile("reference"), time_scale=20, holds=holds
    ) as sims:
        urls = (sims[SPEC].url, sims[PLAIN].url)
        async with running_gate(*urls, ready=False, **{**BARE, **own, **settings}) as gate:
            on = Stage(gate, dict(sims))
            yield on
            await assert_at_rest(gate.url)
            assert gate.service.gate.carried == 0


async def test_both_ways_under_load_no_request_fails_and_one_is_awake_at_a_time():
    async with taking_turns() as on:
        await on.until_awake(PLAIN)
        async with on.load():
            for mode in (Mode.SPEC, Mode.PLAIN, Mode.SPEC):
                await on.force(mode)
                await on.until_awake(Lane(mode.value))
                await asyncio.sleep(0.1)
        on.all_well()
        status = await on.gate.status()
        assert status["turns"]["alternations"] == 3
        assert status["lanes"]["plain"]["asleep"] is True
        assert on.awake == [SPEC]
        page = await on.gate.metrics()
        assert total(page, "specgate_alternations_total", lane="spec") == 2
        assert total(page, "specgate_lane_asleep", lane="plain") == 1
        assert not any(sim.engine.crashed for sim in on.sims.values())


async def test_an_engine_that_others_keep_busy_is_not_released_and_lives():
    faults = Faults(busy_release_kills=True)
    async with taking_turns(plain=faults, alternate_drain_s=0.5) as on:
        await on.until_awake(PLAIN)
        async with connect(on.sims[PLAIN].url) as other:
            # Past the gate, and longer than the drain.
            await other.send(request_bytes(b"POST", CHAT, [JSON], a_chat(max_tokens=4000)))
            await other.read_head()
            async with on.load():
                await on.force(Mode.SPEC)
                await on.failed(Step.IDLE, PLAIN)
                await on.until_awake(PLAIN)
            assert not on.sims[PLAIN].engine.crashed
        async with on.load():
            await on.force(Mode.SPEC)
            await on.until_awake(SPEC)
        on.all_well()


@pytest.mark.parametrize("no_pause", [False, True])
async def test_nothing_reaches_an_engine_that_sleeps(no_pause: bool):
    """Which fences nothing itself: a request would end it."""
    faults = Faults(asleep_request_kills=True, busy_release_kills=True, no_pause=no_pause)
    async with taking_turns(spec=faults, plain=faults, asleep=()) as on:
        await on.until_awake(PLAIN)
        async with on.load():
            async with asyncio.timeout(15):
                while on.awake != [PLAIN]:
                    await asyncio.sleep(0.02)
            for mode in (Mode.SPEC, Mode.PLAIN):
                await on.force(mode)
                await on.until_awake(Lane(mode.value))
                async with connect(on.gate.url) as client:
                    assert (await client.request(b"GET", b"/v1/models")).status == 200
        on.all_well()
        assert not any(sim.engine.crashed for sim in on.sims.values())


@pytest.mark.parametrize(
    ("faults", "step"),
    [
        (Faults(weights_lost=True), Step.CHECK),
        (Faults(draft_lost=True), Step.ACCEPT),
        (Faults(resume_fails=True), Step.WAKE),
        (Faults(resume_s=4.0), Step.WAKE),
    ],
    ids=["weights lost", "draft lost", "resume fails", "resume takes too long"],
)
async def test_a_lane_that_does_not_come_back_well_is_not_used(faults: Faults, step: Step):
    async with taking_turns(spec=faults) as on:
        await on.until_awake(PLAIN)
        async with on.load():
            await on.force(Mode.SPEC)
            await on.failed(step, SPEC)
            await on.back(PLAIN, within_s=15)
            await on.until_awake(PLAIN)
        on.all_well()
        assert on.awake == [PLAIN]
        assert not any(sim.engine.crashed for sim in on.sims.values())
        turns = (await on.gate.status())["turns"]
        assert turns["failed"] == step
        assert turns["retry_s"] > 0


async def test_a_resume_that_takes_long_is_waited_for():
    async with taking_turns(spec=Faults(resume_s=1.0)) as on:
        await on.until_awake(PLAIN)
        async with on.load():
            await on.force(Mode.SPEC)
            await on.until_awake(SPEC)
        on.all_well()
        fact = await on.gate.facts.wait_for(Alternated)
        assert fact.took_s > 1.0


async def test_an_engine_that_refuses_to_release_serves_on():
    async with taking_turns(plain=Faults(release_fails=True)) as on:
        await on.until_awake(PLAIN)
        async with on.load():
            await on.force(Mode.SPEC)
            await on.failed(Step.PARK, PLAIN)
            await on.back(PLAIN)
        on.all_well()
        assert on.awake == [PLAIN]
        assert not on.sims[PLAIN].engine.memory.paused


async def test_one_that_does_not_say_whether_it_is_idle_is_not_released():
    async with taking_turns(plain=Faults(unread=True)) as on:
        await on.until_awake(PLAIN)
        async with on.load():
            await on.force(Mode.SPEC)
            fact = await on.failed(Step.IDLE, PLAIN)
        assert "/v1/loads" in fact.why
        on.all_well()
        assert on.awake == [PLAIN]


async def test_where_neither_lane_wakes_requests_are_told_and_the_first_that_can_serves():
    async with taking_turns(
        asleep=(SPEC, PLAIN),
        spec=Faults(resume_fails=True),
        plain=Faults(resume_fails=True),
        queue_timeout_s=0.5,
    ) as on:
        async with connect(on.gate.url) as client:
            reply = await client.request(b"POST", CHAT, [JSON], a_chat())
        assert reply.status == 503
        assert json.loads(reply.body.data)["error"]["code"] == "queue_timeout"
        async with connect(on.gate.url) as client:
            assert (await client.request(b"GET", b"/readyz")).status == 503
        on.sims[SPEC].engine.set_faults(Faults())
        await on.until_awake(SPEC, within_s=15)
        async with on.load():
            pass
        on.all_well()


async def test_an_engine_that_dies_under_load_is_replaced_and_who_comes_waits():
    async with taking_turns() as on:
        await on.until_awake(PLAIN)
        async with on.load():
            on.sims[PLAIN].engine.crash()
            died_at = len(on.statuses)
            await on.until_awake(SPEC)
            await asyncio.sleep(0.3)
        # What was on its way there is lost, one request a client at the most; the rest is well.
        later = on.statuses[died_at + 8 :]
        assert later
        assert set(later) == {200}
        assert len(on.wrong) <= 8


async def test_draining_the_lane_that_is_awake_brings_up_the_other():
    async with taking_turns() as on:
        await on.until_awake(PLAIN)
        async with on.load():
            told = said(await change(on.gate, b"POST", "lanes/plain/drain?wait_s=10"))
            assert told["drained"] is True
            await on.until_awake(SPEC)
            # Its engine may now be upgraded.
            on.sims[PLAIN].engine.crash()
            await asyncio.sleep(0.3)
        on.all_well()
        assert on.awake == [SPEC]


async def test_calls_that_are_no_load_wait_too_and_aborts_do_not():
    async with taking_turns(spec=Faults(resume_s=0.6), alternate_drain_s=5) as on:
        await on.until_awake(PLAIN)
        async with connect(on.gate.url) as stream, connect(on.gate.url) as call:
            await stream.send(
                request_bytes(b"POST", CHAT, [JSON], a_chat(max_tokens=4000, rid="mine"))
            )
            await stream.read_head()
            await on.force(Mode.SPEC)
            async with asyncio.timeout(5):
                while (await on.gate.status())["turns"]["step"] != Step.DRAIN:
                    await asyncio.sleep(0.02)
                await call.send(request_bytes(b"GET", b"/v1/models"))
                while (await on.gate.status())["queued"] != 1:
                    await asyncio.sleep(0.02)
            # The drain waits for that stream; its client has it ended.
            async with connect(on.gate.url) as other:
                body = json.dumps({"rid": "mine"}).encode()
                reply = await other.request(b"POST", b"/abort_request", [JSON], body)
            assert reply.status == 200
            assert (await stream.read_body()).clean
            await call.read_head()
            assert call.status == 200
            assert b"sim" in (await call.read_body()).data
        await on.until_awake(SPEC)


async def test_calls_that_change_an_engine_are_refused_whatever_the_setting():
    async with taking_turns(engine_admin="both") as on:
        await on.until_awake(PLAIN)
        async with connect(on.gate.url) as client:
            reply = await client.request(b"POST", b"/release_memory_occupation", [JSON], b"{}")
        assert reply.status == 403
        assert b"ENGINE_ADMIN" not in reply.body.data


async def test_a_lane_with_a_new_url_is_looked_at_anew():
    profile = load_profile("reference")
    # It ends after the gate, which would else see it go.
    async with (
        running([SimLane(lane=PLAIN)], profile=profile, time_scale=20) as others,
        taking_turns() as on,
    ):
        await on.until_awake(PLAIN)
        async with on.load():
            on.gate.service.gate.set_origin(Origin.of(PLAIN, others[PLAIN].url))
            await asyncio.sleep(0.5)
            await on.until_awake(PLAIN)
        on.all_well()
        assert others[PLAIN].engine.meters.served > 0


@pytest.mark.parametrize("after_s", [0.05, 0.3, 0.7])
async def test_a_gate_that_ends_in_the_middle_leaves_one_lane_awake(after_s: float):
    lanes = [
        SimLane(lane=SPEC, asleep=True, faults=Faults(resume_s=0.5)),
        SimLane(lane=PLAIN),
    ]
    async with running(lanes, profile=load_profile("reference"), time_scale=20, holds=1) as sims:
        settings = {"pool": "alternate", "queue_size": 10, "admin_token": TOKEN}
        async with running_gate(sims[SPEC].url, sims[PLAIN].url, ready=False, **settings) as gate:
            on = Stage(gate, dict(sims))
            await on.until_awake(PLAIN)
            await on.force(Mode.SPEC)
            await asyncio.sleep(after_s)
        assert len(on.awake) == 1
        assert not any(sim.engine.crashed for sim in sims.values())
        engine = sims[on.awake[0]].engine
        assert not engine.memory.paused
