"""Health, models, load and control over real sockets."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Mapping

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from specgate.core.lanes import Lane
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import CannotListenError, RunningLane, SimLane, running
from tests.sim.serving import CHAT, chat, client_of, events, until

GAUGES = {
    *("num_running_reqs", "num_queue_reqs", "num_grammar_queue_reqs", "num_retracted_reqs"),
    *("num_paused_reqs", "token_usage", "full_token_usage", "swa_token_usage", "num_used_tokens"),
    *("max_total_num_tokens", "cache_hit_rate", "gen_throughput", "utilization", "is_cuda_graph"),
    *("spec_accept_length", "spec_accept_rate", "spec_num_steps", "spec_num_draft_tokens"),
}
COUNTERS = {
    *("prompt_tokens_total", "generation_tokens_total", "num_requests_total"),
    *("num_aborted_requests_total", "spec_verify_calls_total"),
}
HISTOGRAMS = {
    *("time_to_first_token_seconds", "inter_token_latency_seconds"),
    *("request_time_per_output_token_seconds", "e2e_request_latency_seconds"),
}
LOAD = {
    *("dp_rank", "num_running_reqs", "num_waiting_reqs", "num_waiting_uncached_tokens"),
    *("num_used_tokens", "num_total_tokens", "num_active_tokens", "max_total_num_tokens"),
    *("max_running_requests", "token_usage", "gen_throughput", "cache_hit_rate", "utilization"),
}


async def test_ready_answers_at_once_and_health_takes_a_second(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        began = time.monotonic()
        assert (await client.get("/ready")).status_code == 200
        assert (await client.get("/ping")).status_code == 200
        assert time.monotonic() - began < 0.5
        both = [client.get(path) for path in ("/health", "/health_generate")]
        replies = await asyncio.gather(*both)
        assert 1.0 <= time.monotonic() - began < 2.5
        assert [(reply.status_code, reply.content) for reply in replies] == [(200, b"")] * 2


@pytest.mark.parametrize("flag", ["starting", "draining"])
async def test_probes_say_503_while_it_starts_or_drains(plain: RunningLane, flag: str) -> None:
    plain.engine.ready = flag != "starting"
    plain.engine.draining = flag == "draining"
    async with client_of(plain) as client:
        for path in ("/health", "/health_generate", "/ready", "/ping"):
            assert (await client.get(path)).status_code == 503
        assert (await client.post(CHAT, json=chat(max_tokens=1))).status_code == 200


async def test_models_are_listed_as_the_engine_lists_them(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        listed = (await client.get("/v1/models")).json()
        assert listed["object"] == "list"
        (card,) = listed["data"]
        assert (card["id"], card["owned_by"], card["object"]) == ("sim", "sglang", "model")
        assert {"created", "root", "max_model_len"} <= card.keys()
        assert (await client.get("/v1/models/sim")).json() == card
        missing = await client.get("/v1/models/a/b")
        assert (missing.status_code, missing.json()["object"]) == (404, "error")
        assert (await client.get("/model_info")).json()["is_generation"] is True


async def test_server_info_tells_the_lanes_apart(sims: Mapping[Lane, RunningLane]) -> None:
    found = {}
    for lane, found_lane in sims.items():
        async with client_of(found_lane) as client:
            for path in ("/server_info", "/get_server_info"):
                found[lane] = (await client.get(path)).json()
    spec, plain = found[Lane.SPEC], found[Lane.PLAIN]
    assert spec["speculative_algorithm"] == "EAGLE3"
    settings = ("num_steps", "eagle_topk", "num_draft_tokens")
    assert [spec[f"speculative_{name}"] for name in settings] == [2, 4, 16]
    assert plain["speculative_algorithm"] is None
    assert (spec["max_running_requests"], plain["max_running_requests"]) == (64, 36)
    assert "avg_spec_accept_length" in spec["internal_states"][0]
    assert "avg_spec_accept_length" not in plain["internal_states"][0]


async def test_loads_have_the_engines_shape(spec: RunningLane) -> None:
    async with client_of(spec) as client:
        reply = (await client.get("/v1/loads")).json()
        assert {"timestamp", "version", "accelerator", "num_accelerators"} <= reply.keys()
        (load,) = reply["loads"]
        assert load.keys() == LOAD
        everything = (await client.get("/v1/loads?include=all")).json()["loads"][0]
        assert everything.keys() == LOAD | {"memory", "speculative", "queues"}
        assert (await client.get("/v1/loads?include=sense")).status_code == 400


async def test_loads_know_a_stream_that_the_gauges_do_not(plain: RunningLane) -> None:
    body = chat(max_tokens=20_000, ignore_eos=True, stream=True)
    async with client_of(plain) as client:
        async with client.stream("POST", CHAT, json=body) as response:
            await anext(response.aiter_raw())
            async with asyncio.timeout(5):  # it may be reading the prompt still
                while True:
                    load = (await client.get("/v1/loads")).json()["loads"][0]
                    if load["num_running_reqs"] == 1:
                        break
                    await asyncio.sleep(0.01)
        await until(lambda: plain.engine.state()["in_flight"] == 0)


async def test_metrics_carry_the_engines_names(spec: RunningLane) -> None:
    async with client_of(spec) as client:
        await client.post(CHAT, json=chat(max_tokens=20, ignore_eos=True))
        await events(client, CHAT, chat(max_tokens=20, ignore_eos=True, stream=True))
        response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    kinds: dict[str, set[str]] = {"gauge": set(), "counter": set(), "histogram": set()}
    values = {}
    for family in text_string_to_metric_families(response.text):
        name = family.name.removeprefix("sglang:")
        kinds[family.type].add(f"{name}_total" if family.type == "counter" else name)
        for sample in family.samples:
            assert sample.labels["model_name"] == "sim"
            key = (sample.name.removeprefix("sglang:"), sample.labels.get("is_streaming"))
            if "le" not in sample.labels:
                values[key] = sample.value
    assert kinds == {"gauge": GAUGES, "counter": COUNTERS, "histogram": HISTOGRAMS}
    assert values["generation_tokens_total", None] == 40
    assert values["num_requests_total", None] == 2
    assert values["num_aborted_requests_total", None] == 0
    assert values["time_to_first_token_seconds_count", "true"] == 1
    assert values["e2e_request_latency_seconds_count", "false"] == 1
    assert values["request_time_per_output_token_seconds_count", None] == 2
    assert values["inter_token_latency_seconds_count", None] == 38
    assert 1 <= values["spec_accept_length", None] <= 3


async def test_an_abort_request_ends_what_it_names(plain: RunningLane) -> None:
    body = chat(max_tokens=30_000, ignore_eos=True, stream=True)
    async with client_of(plain) as client, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(events(client, CHAT, body | {"rid": rid}))
            for rid in ("job-1", "job-2", "other")
        ]
        await until(lambda: plain.engine.state()["running"] == 3)
        for unknown in ({"rid": "nobody"}, {}):
            assert (await client.post("/abort_request", json=unknown)).status_code == 200
        assert plain.engine.state()["running"] == 3
        await client.post("/abort_request", json={"rid": "job"})
        assert plain.engine.state()["running"] == 1
        await client.post("/abort_request", json={"abort_all": True})
    for task in tasks:
        *_, finish, done = task.result()
        assert done == "[DONE]"
        assert finish["choices"][0]["finish_reason"] == "abort"
    assert plain.engine.state()["aborted"] == 3


async def test_a_rid_in_flight_is_refused(plain: RunningLane) -> None:
    body = chat(max_tokens=30_000, ignore_eos=True, rid="same")
    async with client_of(plain) as client, asyncio.TaskGroup() as group:
        first = group.create_task(client.post(CHAT, json=body))
        await until(lambda: plain.engine.state()["running"] == 1)
        second = await client.post(CHAT, json=body)
        assert (second.status_code, second.json()["object"]) == (400, "error")
        await client.post("/abort_request", json={"rid": "same"})
    assert first.result().json()["choices"][0]["finish_reason"] == "abort"


async def test_the_cache_is_flushed_only_when_idle(plain: RunningLane) -> None:
    body = chat(max_tokens=30_000, ignore_eos=True)
    async with client_of(plain) as client, asyncio.TaskGroup() as group:
        assert (await client.post("/flush_cache")).status_code == 200
        group.create_task(client.post(CHAT, json=body))
        await until(lambda: plain.engine.state()["running"] == 1)
        assert (await client.get("/flush_cache")).status_code == 400
        await client.post("/abort_request", json={"abort_all": True})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nope", 404), ("GET", CHAT, 405), ("POST", "/v1/files", 404), ("PUT", CHAT, 405)],
)
async def test_unknown_routes_get_a_flat_error(
    plain: RunningLane, method: str, path: str, status: int
) -> None:
    async with client_of(plain) as client:
        response = await client.request(method, path)
    assert response.status_code == status
    assert (response.json()["object"], response.json()["code"]) == ("error", status)


async def test_any_origin_may_read(plain: RunningLane) -> None:
    async with client_of(plain) as client:
        response = await client.get("/ready", headers={"origin": "http://elsewhere"})
    assert response.headers["access-control-allow-origin"] == "*"


async def test_the_state_is_exact(spec: RunningLane) -> None:
    async with client_of(spec) as client:
        await client.post(CHAT, json=chat(n=3, max_tokens=10, ignore_eos=True))
        state = (await client.get("/_sim/state")).json()
    assert state == spec.engine.state()
    assert state["lane"] == "spec"
    counted = ("running", "queued", "in_flight", "served", "aborted", "tokens")
    assert [state[name] for name in counted] == [0, 0, 0, 3, 0, 30]
    assert state["max_in_flight_seen"] == 3


async def test_leaving_the_block_ends_streams_and_sockets() -> None:
    body = chat(max_tokens=30_000, ignore_eos=True, stream=True)
    lanes = [SimLane(lane=Lane.SPEC)]
    async with (
        httpx2.AsyncClient(timeout=20, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):
        async with running(lanes, profile=load_profile("reference"), time_scale=30) as sims:
            lane = sims[Lane.SPEC]
            stream = group.create_task(events(client, lane.url + CHAT, body))
            await until(lambda: lane.engine.state()["running"] == 1)
            left_at = time.monotonic()
        assert time.monotonic() - left_at < 1.0
        assert (await stream)[-2]["choices"][0]["finish_reason"] == "abort"
        assert lane.engine.state()["in_flight"] == 0
        with pytest.raises(httpx2.ConnectError):
            await client.get(f"{lane.url}/ready")


async def test_leaving_the_block_does_not_wait_for_stuck_replies() -> None:
    lanes = [SimLane(lane=Lane.SPEC)]
    body = chat(max_tokens=50, stream=True)
    async with (
        httpx2.AsyncClient(timeout=20, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):
        async with running(lanes, profile=load_profile("reference"), time_scale=30) as sims:
            lane = sims[Lane.SPEC]
            lane.engine.set_faults(Faults(stall_after_chunks=1, health_hang_s=60))
            tasks = [
                group.create_task(_ignoring_errors(client.post(lane.url + CHAT, json=body))),
                group.create_task(_ignoring_errors(client.get(f"{lane.url}/health"))),
            ]
            await until(lambda: lane.engine.state()["in_flight"] == 1)
            left_at = time.monotonic()
        assert time.monotonic() - left_at < 1.0
        await asyncio.gather(*tasks)


async def test_a_failing_test_inside_the_block_is_seen_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with running([SimLane(lane=Lane.SPEC)], profile=load_profile("reference")):
            raise KeyError("mine")


async def test_a_port_in_use_is_said_before_anything_is_served(plain: RunningLane) -> None:
    port = int(plain.url.rsplit(":", 1)[1])
    with pytest.raises(CannotListenError, match=f"127.0.0.1:{port}"):
        async with running(
            [SimLane(lane=Lane.SPEC), SimLane(lane=Lane.PLAIN, port=port)],
            profile=load_profile("reference"),
        ):
            pass


async def _ignoring_errors(request: Awaitable[httpx2.Response]) -> None:
    with contextlib.suppress(httpx2.HTTPError):
        await request
