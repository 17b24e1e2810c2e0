"""Cases F05 to F09: what the gate decides by what is in flight, and by nothing else."""

import asyncio
import itertools
from typing import Any

import pytest

from specgate.core.config import PolicyConfig
from specgate.core.events import HealthChanged, LoopFailed, Outcome, RequestEnded, Switched
from specgate.core.lanes import Lane
from specgate.core.routes import RouteClass
from specgate.settings import SettingsError, load
from specgate.upstream.base import Origin
from tests.support.client import RawClient, chat_request
from tests.support.figures import total
from tests.support.lanes import (
    Rst,
    Script,
    ScriptedLane,
    Send,
    Silent,
    WaitFor,
    json_response,
    response,
)
from tests.support.scripted import manual_gate
from tests.support.stage import Stage, stage
from tests.support.streams import begin, finish, held

EMPTY = {"total": 0, "spec": 0, "plain": 0, "oldest_s": None}


async def test_f05_check_then_act_burst():
    """Many arrivals were decided on before any of them was counted."""
    end = asyncio.Event()
    async with stage(threshold=8) as on:
        on.spec.answer("*", held(end))
        on.plain.answer("*", held(end))
        clients = [await RawClient.open(on.gate.host, on.gate.port) for _ in range(64)]
        for client in clients:
            client.writer.write(chat_request())
        for client in clients:
            await client.read_head()
        assert (on.spec.requests_total, on.plain.requests_total) == (7, 57)
        counts = (await on.gate.status())["in_flight"]
        assert (counts["spec"], counts["plain"]) == (7, 57)
        end.set()
        await finish(clients)


OSCILLATION_S = 30


def oscillate(policy: PolicyConfig) -> tuple[int, list[Switched]]:
    """Load at the threshold ± 1, moving at 5 Hz: the switches by the counter, and the facts."""
    gate, clock, facts = manual_gate(policy)
    assert policy.threshold is not None
    # The next arrival is at the threshold - 1, the third at the threshold + 1.
    low = [gate.admit(RouteClass.CHAT, 1) for _ in range(int(policy.threshold) - 2)]
    start = gate.view().switches
    facts.facts.clear()
    for _ in range(OSCILLATION_S * 5):
        high = [gate.admit(RouteClass.CHAT, 1) for _ in range(3)]
        for _ in range(4):
            clock.advance(0.025)
            gate.tick()
        for admission in high:
            admission.__exit__(None, None, None)
        for _ in range(4):
            clock.advance(0.025)
            gate.tick()
    for admission in low:
        admission.__exit__(None, None, None)
    return gate.view().switches - start, facts.of(Switched)


@pytest.mark.parametrize(
    ("policy", "most"),
    [
        (PolicyConfig(threshold=8), 2),
        (PolicyConfig(threshold=8, smoothing_s=1, dwell_s=0), 2),
        (PolicyConfig(threshold=8, smoothing_s=0, dwell_s=0, band=0.2), 2),
        (PolicyConfig(threshold=8, smoothing_s=0, dwell_s=5, band=0), 2 * OSCILLATION_S // 5 + 1),
    ],
)
def test_f06_flapping_at_threshold(policy: PolicyConfig, most: int):
    """The side followed each request when the load lay at the threshold."""
    switches, told = oscillate(policy)
    assert switches == len(told) <= most


def test_f06_without_band_dwell_and_smoothing_it_would_flap():
    """What the bounds above hold back."""
    switches, _ = oscillate(PolicyConfig(threshold=8, smoothing_s=0, dwell_s=0, band=0))
    assert switches > 5 * OSCILLATION_S


async def test_f06_live():
    """The same over sockets, for two seconds."""
    async with stage(threshold=4, smoothing_s=0, band=0, dwell_s=0.5) as on:
        end, low = asyncio.Event(), list[RawClient]()
        on.spec.answer("*", held(end))
        on.plain.answer("*", held(end))
        for _ in range(2):
            await begin(on, low)
        until = asyncio.get_running_loop().time() + 2
        while asyncio.get_running_loop().time() < until:
            high = list[RawClient]()
            for _ in range(3):
                await begin(on, high)
            await asyncio.sleep(0.1)
            for client in high:
                await client.close()
            await asyncio.sleep(0.1)
        # Two streams are below the threshold: once the dwell is over it comes back, and stays.
        async with asyncio.timeout(10):
            while on.gate.service.gate.side is not Lane.SPEC:
                await asyncio.sleep(0.01)
        switches = (await on.gate.status())["switches"]
        assert 1 <= switches <= 2 * 2 / 0.5 + 2
        assert switches == len(on.gate.facts.of(Switched))
        assert total(await on.gate.metrics(), "specgate_switches_total") == switches
        end.set()
        await finish(low)


ODD_MODELS = [
    {"data": [{"id": "m", "owned_by": ["sglang"]}]},
    {"data": [{"id": "m", "owned_by": {"name": "vllm"}}]},
    {"data": {"id": "m"}},
    {"object": "list"},
    [],
    None,
]
F07: dict[str, Script] = {
    "404": response(404),
    "-1": json_response(200, {"loads": [-1], "num_running_reqs": -1}),
    "NaN": response(200, b"sglang:num_running_reqs NaN\n", [(b"content-type", b"text/plain")]),
    "changed keys": response(200, b'{"loads": "\xff'),
    "hang": Silent(),
}


@pytest.mark.parametrize("said", F07)
async def test_f07_stale_or_missing_scraped_load(said: str):
    """A scraped number that was missing, absurd or late moved the routing, or blocked it."""
    async with ScriptedLane() as spec, ScriptedLane() as plain, stage(threshold=3) as on:
        for lane in (on.spec, on.plain, spec, plain):
            for path in ("/metrics", "/v1/loads", "/server_info", "/get_server_info"):
                lane.answer(path, F07[said])
        await f01_again(on)


@pytest.mark.parametrize("models", [*ODD_MODELS, "nested", "hang", "broken"])
async def test_f07_odd_models(models: Any):
    """What a lane says of itself is of another shape: it serves all the same."""
    odd: dict[Any, Script] = {
        "nested": response(200, b"[" * 100_000),
        "hang": Silent(),
        "broken": [Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"), Rst()],
    }
    script = odd[models] if isinstance(models, str) else json_response(200, models)
    async with stage(threshold=3) as on:
        for lane, scripted in ((Lane.SPEC, on.spec), (Lane.PLAIN, on.plain)):
            scripted.answer("/v1/models", script)
            # A new URL is a new lane: it is asked for its name again.
            url = f"http://localhost:{scripted.port}"
            on.gate.service.gate.set_origin(Origin.of(lane, url))
        if models == "hang":  # slowness is no verdict; until there is one, a lane is used
            await on.plain.saw_requests(1)
        else:
            await on.gate.facts.wait_for(
                HealthChanged, count=4, where=lambda it: it.now == "healthy"
            )
        await f01_again(on)
        assert on.gate.facts.of(LoopFailed) == []


async def f01_again(on: Stage) -> None:
    """Two on spec, the third on plain, each at once."""
    end, clients = asyncio.Event(), list[RawClient]()
    on.spec.answer("/v1/chat/completions", held(end))
    on.plain.answer("/v1/chat/completions", held(end))
    async with asyncio.timeout(1):
        lanes = [(await begin(on, clients))[b"x-specgate-lane"] for _ in range(3)]
    assert lanes == [b"spec", b"spec", b"plain"]
    status = await on.gate.status()
    assert (status["load"], status["in_flight"]["total"]) == (3, 3)
    end.set()
    await finish(clients)


@pytest.mark.parametrize("joined", [",", ", ", ";", " "])
@pytest.mark.parametrize("name", ["SPEC_URL", "PLAIN_URL"])
def test_f08_several_replicas_of_a_lane(joined: str, name: str):
    """Ties sent all requests to one of several replicas. Here a lane is one URL, and it says so."""
    environ = {
        "SPECGATE_SPEC_URL": "http://a:1",
        "SPECGATE_PLAIN_URL": "http://b:1",
        f"SPECGATE_{name}": joined.join(["http://c:1", "http://d:1"]),
    }
    with pytest.raises(SettingsError) as refused:
        load(environ)
    (line,) = refused.value.problems
    assert f"SPECGATE_{name}=" in line
    assert "a lane is one URL; put a balancer in front of several replicas" in line


async def test_f08_a_lane_s_requests_all_go_to_its_url():
    """Behind that URL the spreading is the balancer's: nothing is dropped, kept or retried here."""
    async with stage(threshold=2) as on:
        for _ in range(100):
            assert (await on.ask()).status == 200
        assert (on.spec.requests_total, on.plain.requests_total) == (100, 0)


async def test_f09_non_generation_calls_counted():
    """Fifty slow calls that generate nothing pushed the gate over its threshold."""
    end = asyncio.Event()
    calls = [
        (b"GET", b"/v1/models"),
        (b"GET", b"/v1/models/m"),
        (b"GET", b"/get_server_info"),
        (b"GET", b"/v1/chat/completions"),
        (b"POST", b"/tokenize"),
        (b"POST", b"/v1/embeddings"),
    ]
    async with stage(threshold=2) as on:
        slow: Script = [WaitFor(end), json_response(200, {})]
        on.plain.answer("*", slow)
        on.plain.answer("/get_server_info", slow)
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(on.ask(method, path, body=b"{}" if method == b"POST" else None))
                for method, path in itertools.islice(itertools.cycle(calls), 50)
            ]
            # The lane answers models as a probe, at once: eight of the fifty end early.
            await on.plain.saw_requests(40)
            assert (await on.gate.status())["in_flight"] == EMPTY
            reply = await on.ask()
            assert reply.values(b"x-specgate-lane") == [b"spec"]
            assert reply.values(b"x-specgate-reason") == [b"below_threshold"]
            end.set()
        replies = [task.result() for task in asked]
        assert {reply.status for reply in replies} == {200}
        assert {reply.values(b"x-specgate-reason")[0] for reply in replies} == {b"not_generation"}
        assert {fact.outcome for fact in on.gate.facts.of(RequestEnded)} == {Outcome.COMPLETED}
        metrics = await on.gate.metrics()
        assert total(metrics, "specgate_requests_total", route="other") == 50
