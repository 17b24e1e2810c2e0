"""Which paths generate tokens, over all engines that a lane may hold.

Read from the sources of sglang 0.5.23, vllm 0.33.0 and llama.cpp's server. A path is classified as
its engine would read it: percent-decoded, without a trailing slash. A path that is not listed is
not load.
"""

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


def classify(method: str, path: str) -> RouteClass:
    """The class of a call. `path`: percent-decoded, without the query."""
    if method not in ("POST", "PUT"):
        return RouteClass.OTHER
    return GENERATION.get(path.rstrip("/"), RouteClass.OTHER)
