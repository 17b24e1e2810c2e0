"""The hold: after a switch new requests wait until the lane that was left has drained."""

import asyncio

import pytest

from specgate.bench.shipped import shipped
from specgate.control.admission_queue import AdmissionQueue
from specgate.core.config import AdmissionConfig, PolicyConfig
from specgate.core.errors import QueueTimeout
from specgate.core.hold import Hold
from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from specgate.core.routes import RouteClass
from specgate.core.threshold import measured_curves
from tests.support.scripted import manual_gate

PROFILE = "k26-int4-8xrtxpro6000-vllm-ctx10k"


class Site:
    """A gate on a clock of its own, that has just left the spec side with requests on it."""

    def __init__(self, *, queue_timeout_s: float = 60.0) -> None:
        policy = PolicyConfig(curves=measured_curves(shipped(PROFILE)))
        self.gate, self.clock, self.facts = manual_gate(policy)
        config = AdmissionConfig(hold=Hold(1), queue_timeout_s=queue_timeout_s)
        self.queue = AdmissionQueue(self.gate, config)
        self.old = []
        for _ in range(8):  # idle since its start, it goes to the spec side
            self.clock.advance(0.25)
            self.gate.tick()
        assert self.gate.side is Lane.SPEC
        while self.gate.side is Lane.SPEC:
            self.old.append(self.gate.admit(RouteClass.CHAT, 1))
            self.clock.advance(0.01)
            self.gate.tick()
            assert len(self.old) < 500, "a burst leaves the spec side"
        self.old = [admission for admission in self.old if admission.lane is Lane.SPEC]

    @property
    def duration_s(self):
        """For how long it holds at most: a mean duration."""
        weighed = self.gate.view().weighed
        assert weighed is not None
        return weighed.duration_s

    async def ask(self):
        """An arriving request: its lane, once it is admitted."""
        waiter = self.queue.place(1)

        def admit():
            return self.gate.admit(RouteClass.CHAT, 1)

        admission = admit() if waiter is None else await waiter.admission(admit)
        return admission.lane


async def test_what_comes_after_a_switch_waits_for_the_drain():
    site = Site()
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(site.ask()) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert site.gate.view().queued == 3
        for admission in site.old[:-2]:
            admission.__exit__(None, None, None)
        assert site.gate.view().queued == 3
        site.old[-2].__exit__(None, None, None)
    assert [task.result() for task in waiting] == [Lane.PLAIN] * 3
    # It is over, and does not begin anew while the last one ends.
    assert site.queue.place(1) is None


async def test_it_ends_after_a_mean_duration_whatever_still_drains():
    site = Site()
    duration_s = site.duration_s
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(site.ask())
        await asyncio.sleep(0)
        site.clock.advance(0.9 * duration_s)
        site.gate.tick()
        await asyncio.sleep(0)
        assert not waiting.done()
        site.clock.advance(0.2 * duration_s)
        site.gate.tick()
    assert waiting.result() is Lane.PLAIN


async def test_nobody_is_refused_for_it():
    site = Site(queue_timeout_s=0.05)
    assert await site.ask() is Lane.PLAIN, "its time in the queue is over, and there is room"


async def test_between_its_end_and_the_next_tick_nobody_is_refused():
    """A hold ends by time, which nobody tells the queue: it finds out when it is asked."""
    site = Site()
    async with asyncio.TaskGroup() as tasks:
        waited = tasks.create_task(site.ask())
        await asyncio.sleep(0)
        site.clock.advance(1.1 * site.duration_s)
        # By now there is room, and a queue of no places takes nobody.
        assert site.queue.place(1) is None
    assert waited.result() is Lane.PLAIN


async def test_whose_time_is_over_just_as_it_ends_is_admitted():
    site = Site(queue_timeout_s=0.05)
    async with asyncio.TaskGroup() as tasks:
        waited = tasks.create_task(site.ask())
        await asyncio.sleep(0)
        site.clock.advance(1.1 * site.duration_s)
    assert waited.result() is Lane.PLAIN


async def test_a_limit_still_refuses_while_it_holds():
    site = Site()
    limit = AdmissionConfig(hold=Hold(1), max_in_flight=1, queue_size=5, queue_timeout_s=0.05)
    site.queue.use(limit)
    with pytest.raises(QueueTimeout):
        await site.ask()


async def test_a_forced_mode_ends_it():
    site = Site()
    site.gate.set_mode(Mode.PLAIN)
    assert site.queue.place(1) is None


async def test_what_is_no_load_does_not_wait():
    assert Site().queue.place(0) is None


async def test_without_it_nobody_waits():
    site = Site()
    site.queue.use(AdmissionConfig())
    assert site.queue.place(1) is None
    assert site.queue.straight
