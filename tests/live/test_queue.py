"""The admission queue over real sockets: who waits, in which order, and who is turned away."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from specgate.control.admission import Admission
from specgate.control.admission_queue import AdmissionQueue
from specgate.core.config import AdmissionConfig, PolicyConfig
from specgate.core.errors import TurnedAway
from specgate.core.events import Outcome, Phase, RequestEnded
from specgate.core.routes import RouteClass
from tests.support.client import RawClient, chat_request, connect
from tests.support.lanes import Send, WaitFor, sse_head, sse_response
from tests.support.scripted import manual_gate
from tests.support.stage import Stage, stage
from tests.support.steps import DONE, chunk, delta


def answer_when(on: Stage, *events: asyncio.Event) -> None:
    """The next requests are answered once their event is set."""
    for event in events:
        rest = [chunk(delta("Hi")), chunk(DONE), b"0\r\n\r\n"]
        on.spec.answer_next([Send(sse_head()), WaitFor(event), *map(Send, rest)])


@asynccontextmanager
async def asking(on: Stage, n: int = 1, user: str | None = None) -> AsyncIterator[RawClient]:
    async with connect(on.url) as client:
        await client.send(chat_request(n=n, user=user))
        yield client


@asynccontextmanager
async def busy(on: Stage) -> AsyncIterator[tuple[RawClient, asyncio.Event]]:
    """A request at the lane, and the event that ends it."""
    over = asyncio.Event()
    answer_when(on, over)
    async with asking(on) as client:
        await on.spec.saw_requests(1)
        yield client, over


async def queued(on: Stage, count: int) -> None:
    """Wait until so many requests are in the queue."""
    async with asyncio.timeout(2):
        while (await on.gate.status())["queued"] != count:
            await asyncio.sleep(0.01)


async def whole(client: RawClient) -> bytes:
    await client.read_head()
    assert client.status == 200
    body = await client.read_body()
    assert body.clean
    return body.data


async def test_what_finds_no_room_waits_and_is_no_load():
    async with stage(max_in_flight=1, queue_size=2) as on:
        async with busy(on) as (one, first), asking(on) as two:
            await queued(on, 1)
            assert await on.sample("specgate_queued") == 1
            assert (await on.gate.status())["in_flight"]["total"] == 1
            assert on.spec.requests_total == 1
            first.set()
            assert b"Hi" in await whole(one)
            assert b"Hello" in await whole(two)
        waited = await on.ended(2)
        assert waited.queued_s is not None
        assert waited.outcome is Outcome.COMPLETED
        # The wait is the client's, and no time that the gate took for itself.
        assert waited.overhead_s is not None
        assert waited.overhead_s < waited.duration_s
        assert on.gate.facts.of(RequestEnded)[0].queued_s is None


async def test_first_come_first_served():
    async with stage(max_in_flight=1, queue_size=8) as on:
        async with busy(on) as (one, first), AsyncExitStack() as waiting:
            clients = []
            for number in range(5):
                begun = asking(on, user=f"u{number}")
                clients.append(await waiting.enter_async_context(begun))
                await queued(on, number + 1)
            first.set()
            await whole(one)
            for client in clients:
                await whole(client)
        came = [request.json.get("user") for request in on.spec.requests]
        assert came == [None, "u0", "u1", "u2", "u3", "u4"]
        assert on.spec.most_in_progress == 1


async def test_a_large_request_is_not_overtaken_by_small_ones():
    async with stage(max_in_flight=4, queue_size=8) as on:
        first, second = asyncio.Event(), asyncio.Event()
        answer_when(on, first, second)
        async with asking(on, n=2) as one, asking(on, n=1) as two:
            await on.spec.saw_requests(2)
            async with asking(on, n=3, user="large") as large:
                await queued(on, 1)
                async with asking(on, n=1, user="small") as small:
                    await queued(on, 2)
                    first.set()
                    await whole(one)
                    await whole(large)
                    await whole(small)
                    second.set()
                    await whole(two)
        assert [r.json.get("user") for r in on.spec.requests][2:] == ["large", "small"]


async def test_one_that_is_larger_than_the_limit_goes_alone():
    async with (
        stage(max_in_flight=2, queue_size=1) as on,
        busy(on) as (one, first),
        asking(on, n=5) as large,
    ):
        await queued(on, 1)
        first.set()
        await whole(one)
        await whole(large)


async def test_a_full_queue_is_429_with_when_to_come_again():
    async with stage(max_in_flight=1, queue_size=1) as on:
        async with busy(on) as (one, first), asking(on) as two:
            await queued(on, 1)
            reply = await on.ask()
            assert reply.status == 429
            (after,) = reply.values(b"retry-after")
            assert int(after) >= 1
            error = json.loads(reply.body.data)["error"]
            assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")
            # It had no lane, and no header names one.
            assert not [name for name, _ in reply.headers if name.startswith(b"x-specgate")]
            first.set()
            await whole(one)
            await whole(two)
        assert await on.sample('specgate_turned_away_total{why="queue_full"}') == 1
        # The facts come in the order in which requests ended: the refused one ended first.
        refused = await on.ended(1)
        assert (refused.outcome, refused.turned_away) == (Outcome.REFUSED, TurnedAway.QUEUE_FULL)


async def test_without_a_queue_what_finds_no_room_is_refused_at_once():
    async with stage(max_in_flight=1) as on:
        async with busy(on) as (one, first):
            assert (await on.ask()).status == 429
            first.set()
            await whole(one)
        assert (await on.ask()).status == 200


async def test_what_waits_too_long_is_503():
    async with stage(max_in_flight=1, queue_size=1, queue_timeout_s=0.2) as on:
        async with busy(on) as (one, first):
            reply = await on.ask()
            assert reply.status == 503
            assert json.loads(reply.body.data)["error"]["code"] == "queue_timeout"
            assert reply.values(b"retry-after")
            await queued(on, 0)
            first.set()
            await whole(one)
        assert on.spec.requests_total == 1


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_client_that_leaves_the_queue_frees_its_place(how: str):
    async with stage(max_in_flight=1, queue_size=1) as on:
        async with busy(on) as (one, first), asking(on, user="left") as gone:
            await queued(on, 1)
            gone.fin() if how == "fin" else gone.rst()
            await queued(on, 0)
            async with asking(on, user="stays") as two:
                await queued(on, 1)
                first.set()
                await whole(one)
                await whole(two)
        left = await on.ended(1)
        assert (left.outcome, left.phase) == (Outcome.CLIENT_GONE, Phase.QUEUED)
        assert [r.json.get("user") for r in on.spec.requests] == [None, "stays"]


async def test_calls_that_decode_nothing_do_not_wait():
    async with stage(max_in_flight=1, queue_size=1) as on, busy(on) as (one, first):
        assert (await on.ask(b"GET", b"/v1/models", ())).status == 200
        first.set()
        await whole(one)


async def test_other_limits_make_room():
    async with stage(max_in_flight=1, queue_size=4) as on:
        first = asyncio.Event()
        answer_when(on, first)
        queue = on.gate.service.forwarder.queue
        async with asking(on) as one:
            await on.spec.saw_requests(1)
            async with asking(on) as two:
                await queued(on, 1)
                queue.use(AdmissionConfig())
                await whole(two)
                assert queue.straight
            first.set()
            await whole(one)


async def test_many_that_come_and_go_leave_nothing_behind():
    """200 clients on 3 places, every third of which leaves while it waits."""
    async with stage(max_in_flight=3, queue_size=500) as on:
        on.spec.answer("/v1/chat/completions", sse_response([delta("Hi"), DONE]))

        async def one(number: int) -> int:
            async with connect(on.url) as client:
                await client.send(chat_request())
                if number % 3 == 0:
                    await asyncio.sleep(0.001 * (number % 7))
                    client.rst()
                    return 0
                await client.read_head()
                await client.read_body()
                return client.status

        statuses = await asyncio.gather(*(one(number) for number in range(200)))
        assert set(statuses) <= {0, 200}
        assert statuses.count(200) == sum(number % 3 != 0 for number in range(200))
        assert on.spec.most_in_progress <= 3
        await queued(on, 0)


async def test_what_is_no_load_waits_for_the_fence_alone():
    """And not for the room that those before it in the queue wait for."""
    gate, _, _ = manual_gate(PolicyConfig())
    queue = AdmissionQueue(gate, AdmissionConfig(max_in_flight=1, queue_size=9))
    queue.fence("the lanes change places")

    async def ask(route: RouteClass, sequences: int) -> Admission:
        waiter = queue.place(sequences)
        assert waiter is not None
        return await waiter.admission(lambda: gate.admit(route, sequences))

    async with asyncio.TaskGroup() as tasks:
        first, second = (tasks.create_task(ask(RouteClass.CHAT, 1)) for _ in range(2))
        models = tasks.create_task(ask(RouteClass.OTHER, 0))
        await asyncio.sleep(0)
        assert len(queue) == 3
        queue.fence(None)
        await asyncio.sleep(0)
        assert (first.done(), second.done(), models.done()) == (True, False, True)
        gate.leave(first.result())
    assert second.done()
