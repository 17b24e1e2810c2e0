"""How engines say that they take no request now, before they have worked on it: in a 503, or, of
SGLang and a stream, in the first event of a 200.

SGLang 0.5.23: `The request queue is full.`, of a stream as `data: {"error": {..., "code": 503}}`
(sglang#28175). Its other 503s are of requests that had waited or run: time-outs, evictions.
llama.cpp: `Loading model`, on every route. vLLM 0.33: a full queue, worded by its release, and
`The model is currently scaling`. sglang-router 0.3.2: the code `no_available_workers`, once its
checks have missed them; the 500 of one that it still asks may be of a request that was worked on.
SGLang's /generate and /v1/messages hide it: the one in the
`finish_reason` of an ordinary event, the other behind `Internal server error`.
"""

import json
import re
from typing import Any

from specgate.core.label import Label


class Declined(Label):
    """Why: it serves nobody yet, or has no place for one more."""

    NOT_READY = "not_ready"
    QUEUE_FULL = "queue_full"


MESSAGE_MAX = 4096
"""Characters of a message that are looked at."""

_FULL = re.compile(r"queue\b.{0,40}\b(full|limit)", re.IGNORECASE)
_NOT_READY = re.compile(r"^(Loading model|The model is currently scaling)", re.IGNORECASE)

_NO_WORKER = "no_available_workers"

ERROR_EVENT = b'data: {"error"'
"""How SGLang's begins; none that carries output does."""


def declined(body: bytes) -> Declined | None:
    """Why, by the body of a 503; None for all other reasons that it may have."""
    value = _loaded(body)
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict) and error.get("code") == _NO_WORKER:
        return Declined.NOT_READY
    message = _message(value)
    if message is None:
        return None
    if _FULL.search(message):
        return Declined.QUEUE_FULL
    return Declined.NOT_READY if _NOT_READY.search(message) else None


def declined_in_stream(body: bytes) -> Declined | None:
    """Why, by the whole body of an event stream; None if it carries anything else."""
    event, _, rest = body.replace(b"\r\n", b"\n").partition(b"\n\n")
    if not event.startswith(ERROR_EVENT) or rest.strip() not in (b"", b"data: [DONE]"):
        return None
    value = _loaded(event.removeprefix(b"data: "))
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or error.get("code") != 503:
        return None
    message = _message(value)
    return Declined.QUEUE_FULL if message is not None and _FULL.search(message) else None


def may_decline(begun: bytes) -> bool:
    """Whether an event stream that begins so may still turn out to be such an error."""
    return begun.startswith(ERROR_EVENT) or ERROR_EVENT.startswith(begun)


def _message(value: Any) -> str | None:
    """Of an error in any of the engines' shapes: flat, under `error`, or the error itself."""
    if not isinstance(value, dict):
        return None
    error = value.get("error", value)
    message = error.get("message") if isinstance(error, dict) else error
    return message[:MESSAGE_MAX] if isinstance(message, str) else None


def _loaded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
