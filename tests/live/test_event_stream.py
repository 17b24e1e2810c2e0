"""/_specgate/events over a real socket: what is told, to how many, and how it ends."""

import asyncio
import signal
from contextlib import AsyncExitStack

from specgate.admin.models import Status
from specgate.admin.recorded import Switch
from specgate.admin.stream import LISTENERS_MAX, PENDING_MAX, Feed
from tests.support.client import chat_request, connect, get, request_bytes
from tests.support.control import TOKEN, change, message
from tests.support.events import EVENTS, Events, listening
from tests.support.lanes import ScriptedLane
from tests.support.live import running_gate
from tests.support.process import serve_process
from tests.support.stage import stage
from tests.support.streams import held


async def listeners_become(feed: Feed, count: int, within_s: float = 2) -> None:
    async with asyncio.timeout(within_s):
        while feed.listeners != count:
            await asyncio.sleep(0.01)


async def test_a_listener_is_told_the_state_at_once_and_as_it_changes(form):
    end = asyncio.Event()
    async with stage(threshold=8) as on, listening(on.url) as events:
        head = dict(events.client.headers)
        assert head[b"content-type"].startswith(b"text/event-stream")
        assert head[b"cache-control"] == b"no-store"
        first = await events.next("state")
        assert Status.model_validate(first).in_flight.total == 0
        assert first.keys() == (await on.gate.status()).keys()
        on.spec.answer_next(held(end))
        async with connect(on.url) as client, asyncio.timeout(5):
            await client.send(chat_request(n=3))
            await client.read_head()
            while (await events.next("state"))["in_flight"]["spec"] != 3:
                pass
            end.set()
            await client.read_body()


async def test_a_switch_is_told_as_it_happens(form):
    async with stage(threshold=8, admin_token=TOKEN) as on, listening(on.url) as events:
        await change(on, b"PUT", "mode", {"mode": "plain"})
        # Not with the next state, which may be a second away.
        async with asyncio.timeout(0.5):
            told = Switch.model_validate(await events.next("switch"))
        assert (told.number, told.was, told.side, told.reason) == (1, "spec", "plain", "forced")
        log = await on.gate.http.get("/_specgate/switches")
        assert log.json()["switches"] == [told.model_dump(mode="json")]


async def test_a_client_that_leaves_is_forgotten(form):
    async with stage() as on:
        feed = on.gate.service.feed
        for leave in ("close", "rst", "fin"):
            async with listening(on.url) as events:
                await events.next("state")
                assert feed.listeners == 1
                if leave != "close":
                    getattr(events.client, leave)()
                    await listeners_become(feed, 0)
            await listeners_become(feed, 0)


async def test_one_too_many_is_refused_and_may_come_when_another_has_left(form):
    async with stage() as on, AsyncExitStack() as open_ones:
        first = await open_ones.enter_async_context(AsyncExitStack())
        await first.enter_async_context(listening(on.url))
        for _ in range(LISTENERS_MAX - 1):
            await open_ones.enter_async_context(listening(on.url))
        refused = await get(on.url + EVENTS.decode())
        assert refused.status == 503
        assert str(LISTENERS_MAX) in message(refused)
        await first.aclose()
        await listeners_become(on.gate.service.feed, LISTENERS_MAX - 1)
        async with listening(on.url) as events:
            await events.next("state")


async def test_a_listener_that_does_not_read_is_cut_off_and_holds_nobody_up(form):
    async with stage() as on, listening(on.url) as reader:
        feed = on.gate.service.feed
        async with connect(on.url, receive_buffer=4096) as slow:
            await slow.send(request_bytes(b"GET", EVENTS))
            await slow.read_head()
            slow.stop_reading()
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                reading = group.create_task(_read_on(reader))
                while feed.listeners == 2:
                    # What an hour of states would be.
                    for _ in range(PENDING_MAX // 2):
                        feed.tell_state()
                    await asyncio.sleep(0.001)
                reading.cancel()
            slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await slow.ended(within_s=5) in ("fin", "reset")
        assert feed.listeners == 1
        async with asyncio.timeout(5):
            await reader.next("state")


async def _read_on(events: Events) -> None:
    while True:
        await events.next("state")


async def test_it_ends_with_the_gate(form):
    lanes = ("http://127.0.0.1:9", "http://127.0.0.1:9")
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(running_gate(*lanes, threshold=8))
        async with listening(gate.url) as events:
            await events.next("state")
            async with asyncio.timeout(5):
                _, rest = await asyncio.gather(stack.aclose(), events.client.read_body())
            assert rest.ending == "chunked", "a whole response, and not a cut one"


async def test_stopping_does_not_wait_for_those_who_listen():
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {"SPECGATE_SPEC_URL": spec.url, "SPECGATE_PLAIN_URL": plain.url}
        async with serve_process(environ) as gate, listening(gate.url) as events:
            await events.next("state")
            gate.process.send_signal(signal.SIGINT)
            assert await gate.stopped(within_s=5) == 0
