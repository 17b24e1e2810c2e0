"""Two replicas behind each lane: sglang-router in front of simulated engines, and the gate serves
as with one. What the how-to docs/how-to/replicas.md says is shown here."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specgate.core.lanes import Lane
from specgate.core.profile import dumps
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running
from tests.deploy.programs import sglang_router
from tests.live.test_adaptive import BENCH, NAME, until
from tests.support.client import CHAT, JSON, RawClient, Response, chat, chat_request, connect, get
from tests.support.invariants import assert_at_rest
from tests.support.lanes import DONE
from tests.support.live import BARE, LiveGate, running_gate
from tests.support.profiles import with_accept_length

READY_WITHIN_S = 40
TOKEN = "only-in-tests"

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "replicas.md"

pytestmark = pytest.mark.slow


@dataclass
class Replicated:
    """The gate, and the engines behind each of its lanes."""

    gate: LiveGate
    engines: dict[Lane, list[RunningLane]]

    def served(self, lane: Lane) -> list[int]:
        """How many requests each replica of the lane was sent."""
        return [replica.engine.meters.requests for replica in self.engines[lane]]

    def busy(self, lane: Lane) -> int:
        return sum(replica.engine.meters.in_flight for replica in self.engines[lane])


@asynccontextmanager
async def replicated(**settings: Any) -> AsyncIterator[Replicated]:
    program = await asyncio.to_thread(sglang_router)
    async with AsyncExitStack() as stack:
        engines: dict[Lane, list[RunningLane]] = {lane: [] for lane in Lane}
        for _ in range(2):
            both = [SimLane(lane=lane) for lane in Lane]
            pool = running(both, profile=load_profile("reference"), time_scale=5)
            for lane, replica in (await stack.enter_async_context(pool)).items():
                engines[lane].append(replica)
        urls = [
            await stack.enter_async_context(router(program, [each.url for each in engines[lane]]))
            for lane in Lane
        ]
        gate = await stack.enter_async_context(running_gate(*urls, **settings))
        yield Replicated(gate, engines)


@asynccontextmanager
async def router(program: str, workers: list[str]) -> AsyncIterator[str]:
    """Its URL, once both replicas are in."""
    port, own = free_port(), free_port()
    process = await asyncio.create_subprocess_exec(
        *(program, "--worker-urls", *workers, *flags()),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(own)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            while not await ready(url, len(workers)):
                assert process.returncode is None, f"sglang-router ended: {process.returncode}"
                await asyncio.sleep(0.1)
        yield url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def flags() -> list[str]:
    """Those that the how-to tells its readers to take, but for addresses."""
    (shown,) = set(re.findall(r"(?m)^ +(--policy (?:.*\\\n)*.*)$", HOW_TO.read_text()))
    return [flag for flag in shown.split() if flag != "\\"]


async def ready(url: str, workers: int) -> bool:
    try:
        answer = await get(f"{url}/readiness")
    except (OSError, asyncio.IncompleteReadError):
        return False
    return answer.status == 200 and f'"healthy_workers":{workers}'.encode() in answer.body.data


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


async def test_the_gate_serves_as_with_one_engine_a_lane():
    async with replicated(threshold=5, smoothing_s=0, band=0, dwell_s=0) as on:
        url = on.gate.url
        assert (await get(f"{url}/readyz")).status == 200
        lanes = await asyncio.gather(*(ask(url) for _ in range(12)))
        # Below a load of 5 it speculates, of all replicas together: so 4, and on a slow machine one
        # more as each ends.
        assert 4 <= lanes.count("spec") < 12
        for lane in Lane:
            assert sum(on.served(lane)) == lanes.count(lane)
            assert min(on.served(lane)) > 0, "both replicas serve"
        await assert_at_rest(url, within_s=10)
        assert [on.busy(lane) for lane in Lane] == [0, 0]


async def ask(url: str) -> str:
    """One stream, token by token to its end: the lane that served it."""
    async with connect(url) as client:
        await client.send(chat_request(max_tokens=100, model="sim"))
        _, pairs = await client.read_head()
        assert client.status == 200
        body = await client.read_body()
    assert body.clean
    assert body.data.endswith(DONE)
    assert len(body.pieces) > 5
    (lane,) = (value for name, value in pairs if name.lower() == b"x-specgate-lane")
    return lane.decode()


async def test_a_client_that_leaves_frees_its_replica():
    async with replicated(threshold="always") as on:
        async with connect(on.gate.url) as client:
            await client.send(chat_request(max_tokens=5000, model="sim"))
            await client.read_head()
            await client.read_until(b"\n\n\r\n")
            assert on.busy(Lane.SPEC) == 1
        async with asyncio.timeout(5):
            while on.busy(Lane.SPEC):
                await asyncio.sleep(0.02)
        await assert_at_rest(on.gate.url, within_s=10)


async def test_a_replica_that_dies_is_passed_by():
    async with replicated(threshold="always") as on, connect(on.gate.url) as client:
        lost, left = on.engines[Lane.SPEC]
        lost.engine.set_faults(Faults(not_ready=True))
        in_a_row = 0
        async with asyncio.timeout(20):
            while in_a_row < 10:
                in_a_row = 0 if await answered_by(on, lost, client) else in_a_row + 1
                await asyncio.sleep(0.1)
        assert left.engine.meters.requests >= 10
        assert (await on.gate.status())["lanes"]["spec"]["health"] == "healthy"


async def test_a_lane_that_lost_every_replica_is_passed_by_until_one_is_back():
    async with (
        replicated(threshold="always", probe_interval_s=0.2) as on,
        connect(on.gate.url) as client,
    ):
        lost = on.engines[Lane.SPEC]
        for replica in lost:
            assert replica.engine.on_crash is not None
            replica.engine.on_crash()
        async with asyncio.timeout(20):
            # Until the router's checks have missed them, each is its 500, of which nobody can know
            # that it was not worked on: that one stays.
            while (answer := await one_token(client)).status != 200:
                assert (answer.status, served_by(answer)) == (500, b"spec")
                assert b"call_upstream_request_error" in answer.body.data
                await asyncio.sleep(0.1)
        assert served_by(answer) == b"plain"

        async def told(health: str) -> bool:
            answer = await one_token(client)
            assert (answer.status, served_by(answer)) == (200, b"plain")
            return bool((await on.gate.status())["lanes"]["spec"]["health"] == health)

        await until(lambda: told("ejected"))
        assert not await told("healthy")

        port = int(lost[0].url.rpartition(":")[2])
        again = [SimLane(lane=Lane.SPEC, port=port)]
        async with running(again, profile=load_profile("reference"), time_scale=5):
            async with asyncio.timeout(20):
                while served_by(answer := await one_token(client)) == b"plain":
                    assert answer.status == 200
                    await asyncio.sleep(0.1)
            assert (answer.status, served_by(answer)) == (200, b"spec")
            assert (await on.gate.status())["lanes"]["spec"]["health"] == "healthy"


async def one_token(client: RawClient) -> Response:
    return await client.request(b"POST", CHAT, [JSON], chat(stream=False, max_tokens=1))


def served_by(answer: Response) -> bytes:
    (lane,) = answer.values(b"x-specgate-lane")
    return lane


async def answered_by(on: Replicated, replica: RunningLane, client: RawClient) -> bool:
    """Whether it is the one that answers one request more."""
    before = replica.engine.meters.requests
    assert (await one_token(client)).status == 200
    return replica.engine.meters.requests > before


async def test_an_answer_that_is_not_streamed_and_an_engines_refusal_are_the_engines_own():
    async with replicated(threshold="always") as on, connect(on.gate.url) as client:
        whole = await client.request(b"POST", CHAT, [JSON], chat(stream=False, max_tokens=8))
        assert whole.status == 200
        assert whole.values(b"x-specgate-lane") == [b"spec"]
        assert b'"chat.completion"' in whole.body.data
        for replica in on.engines[Lane.SPEC]:
            replica.engine.set_faults(Faults(status=500, times=9))
        failed = await client.request(b"POST", CHAT, [JSON], chat(stream=False))
        assert failed.status == 500
        left = {replica.engine.faults.times for replica in on.engines[Lane.SPEC]}
        assert left == {8, 9}, "sent once, to one of them"


async def test_the_gate_reads_accept_length_and_load_of_all_replicas(tmp_path):
    file = tmp_path / "profile.json"
    file.write_text(dumps(with_accept_length(NAME, BENCH)))
    following = {"profile": file, "adaptive": True, "scrape_interval_s": 0.2, "admin_token": TOKEN}
    async with replicated(**BARE, **following) as on:
        spec, plain = (on.engines[lane] for lane in Lane)
        await until(lambda: read(on, Lane.SPEC))
        assert (await on.gate.status())["accept_length"]["age_s"] is None
        spec[0].engine.set_faults(Faults(accept_length_factor=0.6))
        await force(on.gate, "spec")
        await asyncio.gather(*(ask(on.gate.url) for _ in range(40)))
        assert min(on.served(Lane.SPEC)) > 0

        async def learnt() -> bool:
            status = await on.gate.status()
            live: float = status["accept_length"]["live"]
            return abs(live / of_all(spec) - 1) < 0.1

        await until(learnt)
        tokens = sum(replica.engine.model.tokens for replica in spec)
        line = f'specgate_engine_output_tokens_total{{lane="spec"}} {tokens:.1f}'
        await until(lambda: shown(on.gate, line))
        # Past the gate: two long answers from one replica of the plain lane, one from the other.
        past = [asyncio.ensure_future(direct(each.url)) for each in (*plain, plain[0])]
        await until(lambda: shown(on.gate, 'specgate_engine_load_beyond{lane="plain"} 3.0'))
        for each in past:
            each.cancel()
        await until(lambda: shown(on.gate, 'specgate_engine_load_beyond{lane="plain"} 0.0'))


def of_all(replicas: list[RunningLane]) -> float:
    """Their accept length together: tokens over steps, a request's first token being no step's."""
    tokens = sum(each.engine.model.tokens - each.engine.meters.requests for each in replicas)
    return tokens / sum(each.engine.model.verified for each in replicas)


async def read(on: Replicated, lane: Lane) -> bool:
    return await shown(on.gate, f'specgate_engine_output_tokens_total{{lane="{lane}"}}')


async def shown(gate: LiveGate, line: str) -> bool:
    return line in await gate.metrics()


async def force(gate: LiveGate, mode: str) -> None:
    answer = await gate.http.put(
        "/_specgate/mode", json={"mode": mode}, headers={"authorization": f"Bearer {TOKEN}"}
    )
    assert answer.status_code == 200


async def direct(url: str) -> None:
    async with connect(url) as client:
        await client.send(chat_request(max_tokens=20_000, model="sim", ignore_eos=True))
        await client.read_head()
        await client.read_body()
