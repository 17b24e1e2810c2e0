"""Engines for the doctor's tests: what SGLang, vLLM and llama.cpp answer, on real sockets.

The documents have the shape of sglang 0.5.23's, vllm 0.33.0's and llama.cpp's own, cut to what is
read; a test changes the members that it is about.
"""

import asyncio
import contextlib
import copy
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

IDLE_S = 4.3
"""Just above what our pool needs, so that a test is not held up by the engines' 5 s."""

Documents = dict[str, Any]
"""By path: an object for JSON, a text for itself, a number for an empty answer of that status."""

LAUNCH = "python -m sglang.launch_server --model-path m --api-key sk-hush"


def sglang(*, spec: bool = False, state: Any = None, **info: Any) -> Documents:
    """An SGLang 0.5.23 with settings that nothing is wrong with. `state`: of internal_states."""
    speculative = {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "speculative_adaptive": False,
    }
    internal = {
        "effective_max_running_requests_per_dp": 256,
        "decode_cuda_graph_bs": [1, 2, 4, 256],
        "memory_usage": {
            "weight": 16.0,
            "kvcache": 20.0,
            "startup_available": 78.0,
            "graph": {"decode": 1.5},
        },
        **({"avg_spec_accept_length": 2.4} if spec else {}),
    }
    document = {
        "model_path": "m",
        "launch_command": f"{LAUNCH} --max-running-requests 256",
        "device": "cuda",
        "dtype": "auto",
        "quantization": None,
        "kv_cache_dtype": "auto",
        "context_length": None,
        "tp_size": 1,
        "pp_size": 1,
        "dp_size": 1,
        "base_gpu_id": 1 if spec else 0,
        "gpu_id_step": 1,
        "mem_fraction_static": 0.7,
        "max_running_requests": 256,
        "max_total_num_tokens": 100_000,
        "random_seed": 1 if spec else 2,
        "version": "0.5.23",
        **(speculative if spec else {"speculative_algorithm": None}),
        **info,
        "internal_states": [internal | dict(state or {})],
    }
    load = {"num_running_reqs": 0, "num_waiting_reqs": 0}
    meta = {"completion_tokens": 48}
    verified = {"spec_verify_ct": 16, "spec_accept_length": 3.0} if spec else {}
    counters = 'sglang:generation_tokens_total{model_name="m"} 900.0\n'
    return {
        "/v1/models": models("sglang"),
        "/server_info": document,
        "/v1/loads": {"loads": [load]},
        "/metrics": counters + 'sglang:spec_verify_calls_total{model_name="m"} 400.0\n' * spec,
        "/ready": 200,
        "/health": 200,
        "/generate": {"text": "...", "meta_info": meta | verified},
    }


def vllm(*, spec: bool = False, utilization: str = "0.4", engines: int = 1) -> Documents:
    """A vLLM as it answers without its development mode."""
    info = f'cache_dtype="auto",gpu_memory_utilization="{utilization}",num_gpu_blocks="4096"'
    page = [f'vllm:cache_config_info{{{info},engine="0"}} 1.0']
    for rank in range(engines):
        labels = f'engine="{rank}",model_name="m"'
        page += [
            f"vllm:num_requests_running{{{labels}}} 0.0",
            f"vllm:num_requests_waiting{{{labels}}} 0.0",
            f"vllm:generation_tokens_total{{{labels}}} 900.0",
        ]
        if spec:
            accepted = "vllm:spec_decode_num_accepted_tokens"
            page += [
                f"vllm:spec_decode_num_drafts_total{{{labels}}} 300.0",
                f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} 900.0",
                f"{accepted}_total{{{labels}}} 600.0",
                *(f'{accepted}_per_pos_total{{{labels},position="{n}"}} 200.0' for n in range(3)),
            ]
    return {
        "/v1/models": models("vllm"),
        "/version": {"version": "0.33.0"},
        "/metrics": "\n".join(page) + "\n",
        "/health": 200,
        "/v1/completions": {"choices": [], "usage": {"completion_tokens": 48}},
    }


def llamacpp(*, spec: bool = False) -> Documents:
    """A llama.cpp server with --metrics and --slots."""
    meta = {"n_ctx": 2048, "n_params": 268098176, "ftype": "Q4_K - Medium"}
    timings = {"predicted_n": 48, **({"draft_n": 40, "draft_n_accepted": 24} if spec else {})}
    return {
        "/v1/models": {"object": "list", "data": [model("llamacpp") | {"meta": meta}]},
        "/props": {
            "default_generation_settings": {"n_ctx": 2048},
            "total_slots": 256,
            "build_info": "b1-7e4c0a9",
        },
        "/slots": [{"id": 0, "n_ctx": 2048, "speculative": spec, "is_processing": False}],
        "/metrics": "llamacpp:tokens_predicted_total 900\nllamacpp:requests_processing 0\n"
        "llamacpp:requests_deferred 0\nllamacpp:spec_decode_num_drafts_total 0\n"
        "llamacpp:spec_decode_num_draft_tokens_total 0\n"
        "llamacpp:spec_decode_num_accepted_tokens_total 0\n",
        "/health": {"status": "ok"},
        "/v1/completions": {"usage": {"completion_tokens": 48}, "timings": timings},
    }


def router(*, tokens: int = 2, verified: int = 2, ready: int = 2) -> Documents:
    """An sglang-router 0.3.2 before two SGLangs, of which so many are up, and tell of their tokens
    and of verifications."""
    names = ("generation_tokens_total", "num_requests_total", "num_running_reqs", "num_queue_reqs")
    lines = [
        f'sglang_{name}{{model_name="m",worker_addr="http://w{worker}:1"}} {value}'
        for worker in range(tokens)
        for name, value in zip(names, (510, 10, worker, 0), strict=True)
    ]
    lines += [
        f'sglang_spec_verify_calls_total{{model_name="m",worker_addr="http://w{worker}:1"}} 200'
        for worker in range(verified)
    ]
    return {
        "/v1/models": {"object": "list", "data": [{"id": "m", "owned_by": "local"}]},
        "/get_server_info": {"router_manager": True, "workers_count": 2},
        "/readiness": {"status": "ready", "healthy_workers": ready, "total_workers": 2},
        "/engine_metrics": "\n".join(lines) + "\n",
        "/health": 200,
        "/v1/completions": {"choices": [], "usage": {"completion_tokens": 48}},
    }


def model(owner: str, name: str = "m") -> dict[str, Any]:
    return {"id": name, "object": "model", "owned_by": owner, "max_model_len": 32_768}


def models(owner: str, name: str = "m") -> dict[str, Any]:
    return {"object": "list", "data": [model(owner, name)]}


def without(documents: Documents, *paths: str) -> Documents:
    return {path: each for path, each in copy.deepcopy(documents).items() if path not in paths}


@asynccontextmanager
async def serving(
    documents: Documents,
    *,
    slow: Mapping[str, float] | None = None,
    idle_s: float = IDLE_S,
    key: str | None = None,
    tls: ssl.SSLContext | None = None,
    asked: list[str] | None = None,
) -> AsyncIterator[str]:
    """These documents under an address. `slow`: seconds before an answer, by path; `key`: asked for
    everywhere but at /ready and /health; `asked`: is told each path."""
    engine = _Engine(documents, slow or {}, idle_s, key, [] if asked is None else asked)
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()
        for task in engine.tasks:
            task.cancel()


class _Engine:
    def __init__(
        self,
        documents: Documents,
        slow: Mapping[str, float],
        idle_s: float,
        key: str | None,
        asked: list[str],
    ) -> None:
        self.asked = asked
        self.documents = documents
        self.slow = slow
        self.idle_s = idle_s
        self.key = key
        self.tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while True:
                async with asyncio.timeout(self.idle_s):
                    head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head.decode().lower(), reader))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            with contextlib.suppress(Exception):
                writer.close()

    async def _answer(self, head: str, reader: asyncio.StreamReader) -> bytes:
        if "content-length:" in head:
            await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
        path = head.split(" ", 2)[1].partition("?")[0]
        self.asked.append(path)
        await asyncio.sleep(self.slow.get(path, 0))
        if self.key and f"bearer {self.key}" not in head and path not in ("/ready", "/health"):
            return _reply(401, b'{"error":"Unauthorized"}')
        found = self.documents.get(path, 404)
        if isinstance(found, int):
            return _reply(found, b"")
        body = found if isinstance(found, str) else json.dumps(found)
        return _reply(200, body.encode())


def _reply(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d It Is\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)
