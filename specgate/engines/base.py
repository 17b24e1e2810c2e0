"""What the gate asks an engine about itself, and how the answers read."""

import json
from typing import Any

from specgate.core.label import Label


class Engine(Label):
    """The server software in a lane, as far as it is known."""

    SGLANG = "sglang"
    VLLM = "vllm"
    LLAMACPP = "llamacpp"
    UNKNOWN = "unknown"


READY_PATH = "/ready"
"""SGLang's readiness: answers at once, adds no work, 503 while starting, paused or draining.

Not /health: SGLang's runs a one-token generation, takes a second when idle and fails under long
prefills (sglang#22511); a probe on it would eject engines for being busy.
"""

MODELS_PATH = "/v1/models"
"""Every engine's: for those that do not know /ready."""


READINESS_PATH = "/readiness"
"""sglang-router's: whether it has a worker left. Its /v1/models is 200 without one too (0.3.2)."""


def tells_readiness(status: int, body: bytes) -> bool:
    """Whether an answer at READINESS_PATH is that of a sglang-router; another server may have a
    page of its own there, or one for all paths."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    said = value.get("status") if isinstance(value, dict) else None
    return (status, said) in ((200, "ready"), (503, "not ready"))


def engine_of(models: Any) -> Engine:
    """The engine that a decoded /v1/models names in `owned_by`, UNKNOWN for any other reply."""
    data = models.get("data") if isinstance(models, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    owner = first.get("owned_by") if isinstance(first, dict) else None
    if isinstance(owner, str) and owner in set(Engine):
        return Engine(owner)
    return Engine.UNKNOWN
