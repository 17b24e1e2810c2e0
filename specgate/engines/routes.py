"""Which paths generate tokens, which change an engine, and which are about what one engine holds,
over all engines that a lane may hold.

Read from the sources of sglang 0.5.23, vllm 0.33.0 and llama.cpp's server. A path is classified as
its engine would read it: percent-decoded, without a trailing slash. What is refused or sent to both
lanes is found in other spellings too (slashes repeated, dot segments, capitals): an engine takes
none of them, but a proxy between may make them plain. A path that is not listed is not load.
"""

import posixpath

from specgate.core.routes import RouteClass

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
    "llama.cpp": ("/models/load", "/models/unload"),
}
"""Paths that change an engine, with any method: many take GET."""

ADMIN_BELOW = ("/dumper/", "/fault_tolerance/")
"""SGLang's and vLLM's: and all below."""

ADMIN_BUT_GET = ("/hicache/storage-backend", "/props", "/lora-adapters", "/slots")
"""SGLang's and llama.cpp's: read with GET, and changed with any other method. Of `/slots` also all
below."""

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
    if method in ("POST", "PUT"):
        found = GENERATION.get(path.rstrip("/"))
        if found is not None:
            return found
    return _without_load(method, plainly(path))


def _without_load(method: str, path: str) -> RouteClass:
    if path in _ADMIN or path.startswith(ADMIN_BELOW):
        return RouteClass.ADMIN
    if path in ADMIN_BUT_GET or path.startswith("/slots/"):
        return RouteClass.OTHER if method in _READS else RouteClass.ADMIN
    if path in ABORT:
        return RouteClass.ABORT
    if path == OPEN_SESSION:
        return RouteClass.SESSION
    if path == CLOSE_SESSION or path.startswith(STORED_BELOW):
        return RouteClass.STORED
    return RouteClass.OTHER


def plainly(path: str) -> str:
    """A path in its plainest spelling: one slash between, none at the end, no dots, no capitals."""
    return posixpath.normpath("/" + path.strip("/")).lower()


def stored_id(path: str) -> str | None:
    """The id of a stored response that a path is about, as it is spelled there."""
    parts = [part for part in path.split("/") if part]
    if "responses" not in parts[:-1]:
        return None
    return parts[parts.index("responses") + 1]
