"""Which paths generate tokens, which change an engine, and which are about what one engine holds,
over all engines that a lane may hold, and the balancers that may stand before several of them.

Read from the sources of sglang 0.5.23, vllm 0.33.0 and llama.cpp's server, and from the manuals of
sglang-router and llama-swap. A path is classified in its plainest spelling (`engines.spelling`), so
that no other one is a way past. A path that is not listed is not load.
"""

from specgate.core.routes import RouteClass
from specgate.engines.spelling import plainly

_CHAT = ("/v1/chat/completions", "/chat/completions", "/v1/chat/completions/batch", "/api/chat")
_COMPLETIONS = ("/v1/completions", "/completions", "/completion", "/infill")
_GENERATE = ("/generate", "/api/generate", "/inference/v1/generate")
_OTHER = (
    "/invocations",
    "/vertex_generate",
    "/v1/systemone",
    "/cohere/v2/chat",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/generative_scoring",
)

GENERATION: dict[str, RouteClass] = {
    **dict.fromkeys(_CHAT, RouteClass.CHAT),
    **dict.fromkeys(_COMPLETIONS, RouteClass.COMPLETIONS),
    "/v1/responses": RouteClass.RESPONSES,
    "/responses": RouteClass.RESPONSES,
    "/v1/messages": RouteClass.MESSAGES,
    **dict.fromkeys(_GENERATE, RouteClass.GENERATE),
    **dict.fromkeys(_OTHER, RouteClass.OTHER_GENERATION),
}

ADMIN: dict[str, tuple[str, ...]] = {
    "SGLang": (
        "/set_internal_state",
        "/flush_cache",
        "/add_external_corpus",
        "/remove_external_corpus",
        "/hicache/storage-backend/clear",
        "/clear_hicache_storage_backend",
        "/start_profile",
        "/stop_profile",
        "/set_trace_level",
        "/freeze_gc",
        "/start_expert_distribution_record",
        "/stop_expert_distribution_record",
        "/dump_expert_distribution_record",
        "/update_weights_from_disk",
        "/update_weights_from_tensor",
        "/update_weights_from_distributed",
        "/update_weights_from_ipc",
        "/begin_weight_update",
        "/end_weight_update",
        "/update_weight_version",
        "/init_weights_update_group",
        "/destroy_weights_update_group",
        "/init_weights_send_group_for_remote_instance",
        "/send_weights_to_remote_instance",
        "/get_weights_by_name",
        "/weights_checker",
        "/slow_down",
        "/release_memory_occupation",
        "/resume_memory_occupation",
        "/pause_generation",
        "/continue_generation",
        "/load_lora_adapter",
        "/load_lora_adapter_from_tensors",
        "/unload_lora_adapter",
        "/pd_role_switch",
        "/configure_logging",
        "/scale_elastic_ep",
    ),
    "vLLM": (
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/start_profile",
        "/stop_profile",
        "/scale_elastic_ep",
        "/sleep",
        "/wake_up",
        "/release_kv_cache_memory",
        "/reset_prefix_cache",
        "/reset_mm_cache",
        "/reset_encoder_cache",
        "/collective_rpc",
        "/pause",
        "/resume",
        "/init_weight_transfer_engine",
        "/start_weight_update",
        "/start_draft_weight_update",
        "/update_weights",
        "/finish_weight_update",
    ),
    "llama.cpp": ("/models/load", "/models/unload", "/tools", "/cors-proxy"),
    "sglang-router": ("/add_worker", "/remove_worker"),
    "llama-swap": ("/unload",),
}
"""Paths that change an engine, with any method: many take GET. llama.cpp's last two run commands
and ask other hosts on a client's behalf."""

ADMIN_BELOW = ("/dumper/", "/fault_tolerance/", "/upstream/", "/api/models/unload/")
"""SGLang's, vLLM's, and llama-swap's: and all below."""

ADMIN_BUT_GET = (
    *("/hicache/storage-backend", "/props", "/lora-adapters", "/slots", "/models"),
    *("/workers", "/wasm"),
)
"""SGLang's, llama.cpp's and sglang-router's: read with GET, and changed with any other method."""

ADMIN_BUT_GET_BELOW = ("/slots/", "/workers/", "/wasm/")
"""And all below."""

ABORT = ("/abort_request", "/abort_requests", "/inference/v1/abort_requests")
"""They stop requests by id, or all."""

OPEN_SESSION, CLOSE_SESSION = "/open_session", "/close_session"
"""SGLang's."""

STORED_BELOW = ("/v1/responses/", "/responses/")
"""Followed by a stored response's id."""

_ADMIN = frozenset(path for paths in ADMIN.values() for path in paths)
_READS = ("GET", "HEAD", "OPTIONS")


def classify(method: str, path: str) -> RouteClass:
    """The class of a call. `path`: percent-decoded, without the query."""
    if method not in ("POST", "PUT"):
        return _without_load(method, plainly(path))
    # As nearly all spell it, first; the long way is for the others.
    found = GENERATION.get(path) or GENERATION.get(plain := plainly(path))
    return _without_load(method, plain) if found is None else found


def _without_load(method: str, path: str) -> RouteClass:
    if path in _ADMIN or path.startswith(ADMIN_BELOW):
        return RouteClass.ADMIN
    if path in ADMIN_BUT_GET or path.startswith(ADMIN_BUT_GET_BELOW):
        return RouteClass.OTHER if method in _READS else RouteClass.ADMIN
    if path in ABORT:
        return RouteClass.ABORT
    if path == OPEN_SESSION:
        return RouteClass.SESSION
    if path == CLOSE_SESSION or path.startswith(STORED_BELOW):
        return RouteClass.STORED
    return RouteClass.OTHER


def stored_id(path: str) -> str | None:
    """The id of a stored response that a path is about, as it is spelled there."""
    parts = [part for part in path.split("/") if part]
    if "responses" not in parts[:-1]:
        return None
    return parts[parts.index("responses") + 1]
