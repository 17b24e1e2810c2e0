"""Small replies: SGLang's error bodies, and JSON."""

import json
from typing import Any

from starlette.responses import Response


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(value).encode()
    return Response(body, status, headers=headers, media_type="application/json")


def error_body(message: str, status: int, kind: str) -> dict[str, Any]:
    """The OpenAI routes' flat error object."""
    return {"object": "error", "message": message, "type": kind, "param": None, "code": status}


def error_reply(message: str, status: int, *, native: bool = False) -> Response:
    """`native`: as `/generate` says it, nested under `error`."""
    if native:
        return json_reply({"error": {"message": message}}, status)
    return json_reply(error_body(message, status, kind_of(status)), status)


def kind_of(status: int) -> str:
    return {
        400: "BadRequestError",
        401: "AuthenticationError",
        404: "NotFoundError",
        429: "RateLimitError",
        503: "ServiceUnavailableError",
    }.get(status, "BadRequestError" if status < 500 else "InternalServerError")
