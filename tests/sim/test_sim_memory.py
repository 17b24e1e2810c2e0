"""Memory that is given back and taken again, with the traps of the real engine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from specgate.core.lanes import Lane
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running
from tests.sim.serving import CHAT, chat, client_of, until

PAUSE, GO_ON = "/pause_generation", "/continue_generation"
RELEASE, RESUME = "/release_memory_occupation", "/resume_memory_occupation"
SHORT = chat(max_tokens=8, ignore_eos=True)
LONG = chat(max_tokens=4000, ignore_eos=True, stream=True)
GENERATE = {"text": "x", "sampling_params": {"max_new_tokens": 32, "ignore_eos": True}}


@contextlib.asynccontextmanager
async def an_engine(
    faults: Faults | None = None, *, asleep: bool = False
) -> AsyncIterator[tuple[RunningLane, httpx2.AsyncClient]]:
    lane = SimLane(lane=Lane.SPEC, asleep=asleep, faults=faults or Faults())
    async with (
        running([lane], profile=load_profile("reference"), time_scale=50) as sims,
        client_of(sims[Lane.SPEC]) as client,
    ):
        yield sims[Lane.SPEC], client


async def test_it_sleeps_and_serves_again() -> None:
    async with an_engine() as (sim, client):
        for path in (PAUSE, RELEASE):
            assert (await client.post(path, json={})).status_code == 200
        assert sim.engine.state()["released"] is True
        assert (await client.get("/ready")).status_code == 503
        assert (await client.get("/ping")).status_code == 200
        assert (await client.get("/v1/models")).status_code == 200
        for path in (RESUME, GO_ON):
            assert (await client.post(path, json={})).status_code == 200
        assert (await client.get("/ready")).status_code == 200
        assert (await client.post(CHAT, json=SHORT)).status_code == 200


@pytest.mark.parametrize("path", [PAUSE, RELEASE, RESUME])
async def test_a_body_is_needed(path: str) -> None:
    async with an_engine() as (sim, client):
        assert (await client.post(path)).status_code == 422
        assert (await client.post(PAUSE, json={"mode": "soon"})).status_code == 400
        assert not sim.engine.crashed


async def test_paused_a_request_waits_and_then_is_served() -> None:
    async with an_engine(asleep=True) as (sim, client):
        waits = asyncio.ensure_future(client.post(CHAT, json=SHORT))
        await asyncio.sleep(0.1)
        assert not waits.done()
        assert sim.engine.state()["in_flight"] == 0
        await client.post(RESUME, json={})
        await client.post(GO_ON, json={})
        assert (await waits).status_code == 200


async def test_a_request_to_one_that_sleeps_and_is_not_paused_hangs() -> None:
    async with an_engine(Faults(no_pause=True)) as (_, client):
        assert (await client.post(PAUSE, json={})).status_code == 404
        assert (await client.post(RELEASE, json={})).status_code == 200
        assert (await client.get("/ready")).status_code == 200, "it does not tell"
        with pytest.raises(httpx2.ReadTimeout):
            await client.post(CHAT, json=SHORT, timeout=0.2)


async def test_or_ends_it() -> None:
    async with an_engine(Faults(no_pause=True, asleep_request_kills=True)) as (sim, client):
        await client.post(RELEASE, json={})
        with pytest.raises(httpx2.HTTPError):
            await client.post(CHAT, json=SHORT)
        assert sim.engine.crashed
        with pytest.raises(httpx2.ConnectError):
            await client.get("/ready")


@pytest.mark.parametrize("kills", [False, True])
async def test_to_release_it_while_it_has_requests(kills: bool) -> None:
    async with an_engine(Faults(busy_release_kills=kills)) as (sim, client):
        with contextlib.suppress(httpx2.HTTPError):
            async with client.stream("POST", CHAT, json=LONG):
                await until(lambda: sim.engine.in_flight == 1)
                if kills:
                    with pytest.raises(httpx2.HTTPError):
                        await client.post(RELEASE, json={})
                else:
                    assert (await client.post(RELEASE, json={})).status_code == 400
                    # Paused by `retract` it has none that runs.
                    await client.post(PAUSE, json={"mode": "retract"})
                    assert (await client.post(RELEASE, json={})).status_code == 200
        assert sim.engine.crashed is kills


async def test_to_resume_what_was_not_released_ends_it() -> None:
    async with an_engine() as (sim, client):
        with pytest.raises(httpx2.HTTPError):
            await client.post(RESUME, json={})
        assert sim.engine.crashed


async def sleep_and_wake(client: httpx2.AsyncClient) -> None:
    for path in (PAUSE, RELEASE, RESUME, GO_ON):
        (await client.post(path, json={})).raise_for_status()


async def test_weights_without_a_backup_are_gone() -> None:
    async with an_engine(Faults(weights_lost=True)) as (_, client):
        before = (await client.post("/generate", json=GENERATE)).json()["text"]
        await sleep_and_wake(client)
        after = (await client.post("/generate", json=GENERATE)).json()["text"]
    assert "!" not in before
    assert set(after) == {"!"}


async def test_a_draft_without_its_weights_is_never_accepted() -> None:
    async with an_engine(Faults(draft_lost=True)) as (sim, client):
        before = (await client.post("/generate", json=GENERATE)).json()["meta_info"]
        await sleep_and_wake(client)
        # Nor do other faults bring it back.
        sim.engine.set_faults(Faults(slow_factor=2))
        after = (await client.post("/generate", json=GENERATE)).json()["meta_info"]
    assert before["spec_num_correct_drafts"] > 0
    assert after["spec_num_correct_drafts"] == 0


@pytest.mark.parametrize(
    ("faults", "path"),
    [(Faults(release_fails=True), RELEASE), (Faults(resume_fails=True), RESUME)],
)
async def test_either_may_be_refused(faults: Faults, path: str) -> None:
    async with an_engine(faults, asleep=path == RESUME) as (sim, client):
        assert (await client.post(path, json={})).status_code == 500
        assert sim.engine.memory.released is (path == RESUME)
        assert not sim.engine.crashed


async def test_a_pool_that_holds_one_has_no_room_for_a_second() -> None:
    lanes = [SimLane(lane=Lane.SPEC, asleep=True), SimLane(lane=Lane.PLAIN)]
    async with running(lanes, profile=load_profile("reference"), holds=1) as sims:
        async with client_of(sims[Lane.SPEC]) as client:
            with pytest.raises(httpx2.HTTPError):
                await client.post(RESUME, json={})
        assert sims[Lane.SPEC].engine.crashed
        assert not sims[Lane.PLAIN].engine.crashed
