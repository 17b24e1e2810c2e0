"""Everything of SGLang's HTTP surface that is not generation: health, models, load, control.

Probes differ on purpose, as they do in the engine: `/ready` is a flag and answers at once,
`/health` runs the engine and takes at least a second of real time.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from specgate.sim.engine import Engine
from specgate.sim.exposition import exposition
from specgate.sim.memory import Refused
from specgate.sim.replies import error_reply, json_reply

HEALTH_TAKES_S = 1.0
HEALTH_GIVES_UP_S = 20.0
PAUSE_MODES = ("abort", "retract", "in_place")
ENGINE_VERSION = "0.5.23"
CORE, QUEUES, MEMORY, SPEC = "core", "queues", "memory", "spec"
SECTIONS = (CORE, QUEUES, MEMORY, SPEC, "lora", "disagg", "all")


class Surface:
    """The handlers of one engine."""

    def __init__(self, engine: Engine, *, port: int = 0) -> None:
        self._engine = engine
        self._port = port
        self._started = int(time.time())

    async def health(self, request: Request) -> Response:
        engine = self._engine
        if not engine.ready or engine.draining:
            return Response(status_code=503)
        if engine.memory.paused or engine.memory.released:
            # It generates, as every request does.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEALTH_GIVES_UP_S):
                    await engine.memory.admit()
        hang_s = engine.faults.health_hang_s
        await engine.pause(HEALTH_TAKES_S if hang_s is None else hang_s)
        asleep = engine.memory.paused or engine.memory.released
        up = hang_s is None and engine.ready and not engine.draining and not asleep
        return Response(status_code=200 if up else 503)

    async def ready(self, request: Request) -> Response:
        engine = self._engine
        up = engine.ready and not engine.draining and not engine.faults.not_ready
        up = up and not engine.memory.paused
        return Response(status_code=200 if up else 503)

    async def ping(self, request: Request) -> Response:
        up = self._engine.ready and not self._engine.draining
        return Response(status_code=200 if up else 503)

    async def models(self, request: Request) -> Response:
        return json_reply({"object": "list", "data": [self._card()]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name != self._engine.model_name:
            return error_reply(f"The model '{name}' does not exist", 404)
        return json_reply(self._card())

    async def model_info(self, request: Request) -> Response:
        name = self._engine.model_name
        return json_reply(
            {
                "model_path": name,
                "tokenizer_path": name,
                "is_generation": True,
                "weight_version": "default",
                "model_type": "specgate-sim",
            }
        )

    async def server_info(self, request: Request) -> Response:
        engine, draft = self._engine, self._engine.shape.draft
        name = engine.model_name
        speculative = {
            "speculative_algorithm": "EAGLE3" if draft else None,
            "speculative_draft_model_path": f"{name}-draft" if draft else None,
            "speculative_num_steps": draft.steps if draft else None,
            "speculative_eagle_topk": draft.topk if draft else None,
            "speculative_num_draft_tokens": draft.tokens if draft else None,
        }
        internal: dict[str, Any] = {
            "effective_max_running_requests_per_dp": engine.shape.cap,
            "last_gen_throughput": engine.meters.loads.published.tok_s,
            "memory_usage": {"token_capacity": engine.shape.kv_tokens},
        }
        if draft:
            internal["avg_spec_accept_length"] = engine.model.accept_length
        return json_reply(
            {
                "model_path": name,
                "served_model_name": name,
                "tokenizer_path": name,
                "host": "127.0.0.1",
                "port": self._port,
                "tp_size": 1,
                "dp_size": 1,
                "context_length": engine.context_tokens,
                "max_running_requests": engine.shape.cap,
                "max_total_num_tokens": engine.shape.kv_tokens,
                "random_seed": engine.seed,
                "enable_metrics": True,
                **speculative,
                "version": ENGINE_VERSION,
                "status": "ready" if engine.ready else "starting",
                "internal_states": [internal],
            }
        )

    async def loads(self, request: Request) -> Response:
        if self._engine.faults.unread:
            return error_reply("Not Found", 404)
        if request.query_params.get("format", "json") != "json":
            return error_reply("the simulated engine gives /v1/loads as json only", 400)
        wanted = set(request.query_params.get("include", CORE).split(","))
        unknown = wanted - set(SECTIONS)
        if unknown:
            return error_reply(f"include: unknown section {min(unknown)!r}", 400)
        return json_reply(
            {
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "version": ENGINE_VERSION,
                "accelerator": "simulated",
                "num_accelerators": 1,
                "loads": [self._load(wanted)],
            }
        )

    async def metrics(self, request: Request) -> Response:
        if self._engine.faults.unread:
            return error_reply("Not Found", 404)
        content_type = "text/plain; version=0.0.4; charset=utf-8"
        return Response(exposition(self._engine), media_type=content_type)

    async def abort_request(self, request: Request) -> Response:
        """An unknown rid is accepted silently; a rid aborts every request whose id begins so."""
        try:
            body = await request.json()
        except ValueError as exc:
            return error_reply(str(exc), 400)
        if not isinstance(body, dict):
            return error_reply("the body must be an object", 400)
        if body.get("abort_all"):
            self._engine.abort_matching("")
        elif body.get("rid"):
            self._engine.abort_matching(str(body["rid"]))
        return Response(status_code=200)

    async def pause_generation(self, request: Request) -> Response:
        body = await _object(request)
        mode = body.get("mode", "abort")
        if mode not in PAUSE_MODES:
            return error_reply(f"mode is {mode!r}: it is one of {', '.join(PAUSE_MODES)}", 400)
        return await self._do(lambda: self._engine.memory.stop(str(mode)))

    async def continue_generation(self, request: Request) -> Response:
        return await self._do(self._engine.memory.go_on)

    async def release_memory(self, request: Request) -> Response:
        await _object(request)
        return await self._do(self._engine.memory.release)

    async def resume_memory(self, request: Request) -> Response:
        await _object(request)
        return await self._do(self._engine.memory.resume)

    async def _do(self, change: Callable[[], Awaitable[None] | None]) -> Response:
        try:
            done = change()
            if done is not None:
                await done
        except Refused as exc:
            return error_reply(str(exc), exc.status)
        return Response(status_code=200)

    async def flush_cache(self, request: Request) -> Response:
        if self._engine.meters.in_flight:
            return PlainTextResponse("requests are pending: nothing flushed\n", 400)
        return PlainTextResponse("Cache flushed.\n")

    def _card(self) -> dict[str, Any]:
        name = self._engine.model_name
        return {
            "id": name,
            "object": "model",
            "created": self._started,
            "owned_by": "sglang",
            "root": name,
            "parent": None,
            "max_model_len": self._engine.context_tokens,
        }

    def _load(self, wanted: set[str]) -> dict[str, Any]:
        shape, seen = self._engine.shape, self._engine.meters.loads.published
        everything = "all" in wanted
        load: dict[str, Any] = {
            "dp_rank": 0,
            "num_running_reqs": seen.running,
            "num_waiting_reqs": seen.waiting,
            "num_waiting_uncached_tokens": seen.waiting_tokens,
            "num_used_tokens": seen.used_tokens,
            "num_total_tokens": seen.used_tokens + seen.waiting_tokens,
            "num_active_tokens": seen.used_tokens,
            "max_total_num_tokens": shape.kv_tokens,
            "max_running_requests": shape.cap,
            "token_usage": seen.used_tokens / shape.kv_tokens,
            "gen_throughput": seen.tok_s,
            "cache_hit_rate": 0.0,
            "utilization": seen.running / shape.cap,
        }
        if everything or MEMORY in wanted:
            load["memory"] = {
                "weight_gb": 0.0,
                "kv_cache_gb": 0.0,
                "graph_gb": 0.0,
                "token_capacity": shape.kv_tokens,
            }
        if shape.draft and (everything or SPEC in wanted):
            load["speculative"] = {
                "accept_length": seen.accept_length,
                "accept_rate": seen.accept_rate,
            }
        if everything or QUEUES in wanted:
            load["queues"] = {"waiting": seen.waiting, "grammar": 0, "paused": 0, "retracted": 0}
        shown = {**load, **self._engine.faults.loads}
        return {name: value for name, value in shown.items() if value is not None}


async def _object(request: Request) -> dict[str, Any]:
    """The body of a call that wants a JSON object, if only an empty one."""
    try:
        body = await request.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise HTTPException(422, "the body must be a JSON object")
    return body
