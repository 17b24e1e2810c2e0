"""One engine's HTTP, within a deadline: GETs and one POST; and its errors as one line."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from specgate.doctor.documents import mapped
from specgate.doctor.faults import NeedsKey, NoEngine, Unreachable
from specgate.engines.base import MODELS_PATH

CONNECT_S = 3.0
ANSWER_S = 5.0
LEAST_S = 1.0
"""With less time left than this, nothing is asked any more."""

PAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of an answer; SGLang's /metrics is below 200 KiB."""

_OURS = "/_specgate/status"
FAILED = (httpx2.HTTPError, OSError, TimeoutError)


@dataclass(slots=True)
class Answer:
    """`status`: None if no whole answer came in time. `json`: None for anything else. `skipped`: it
    was not asked, as there was no time left."""

    status: int | None = None
    took_s: float = 0.0
    body: bytes = b""
    json: Any = None
    skipped: bool = False

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def _is_gate(answer: Answer) -> bool:
    """By its status, or by the token that it asks readers for."""
    if answer.status == 401:
        return "SPECGATE_ADMIN_TOKEN" in answer.text
    return answer.status == 200 and "threshold" in mapped(answer.json)


class Caller:
    """`deadline`: monotonic seconds, after which nothing is waited for."""

    def __init__(
        self, http: httpx2.AsyncClient, url: str, key: str | None, deadline: float
    ) -> None:
        self._http = http
        self._deadline = deadline
        self.url = url
        self.headers = authorised(key)

    def left_s(self) -> float:
        return max(0.01, self._deadline - time.monotonic())

    async def models(self) -> Any:
        """What every engine lists. Raises Unreachable, NeedsKey and NoEngine."""
        try:
            answer = await self._exchange("GET", MODELS_PATH, None, ANSWER_S)
        except FAILED as error:
            raise Unreachable(f"{self.url}: {why(error)}") from error
        if answer.status in (401, 403):
            asked = "refuses this key" if self.headers else "asks for a key: give --api-key"
            raise NeedsKey(f"{self.url}: {asked} ({MODELS_PATH} answered {answer.status})")
        ours = await self.get(_OURS, bare=True)
        if _is_gate(ours):
            raise NoEngine(
                f"{self.url}: a specgate, and no engine: give the addresses of its lanes"
            )
        if answer.status == 503:
            raise Unreachable(f"{self.url}: not ready ({MODELS_PATH} answered 503)")
        if answer.status != 200 or not isinstance(mapped(answer.json).get("data"), list):
            lists = "" if answer.status != 200 else ", without a list of models"
            raise NoEngine(
                f"{self.url}: no engine that is known here ({MODELS_PATH} answered "
                f"{answer.status}{lists})"
            )
        return answer.json

    async def get(self, path: str, *, most_s: float = ANSWER_S, bare: bool = False) -> Answer:
        """Whatever comes of it. `bare`: without the key."""
        started = time.monotonic()
        if self.left_s() < LEAST_S:
            return Answer(skipped=True)
        try:
            return await self._exchange("GET", path, None, most_s, bare=bare)
        except FAILED:
            return Answer(took_s=time.monotonic() - started)

    async def post(self, path: str, body: dict[str, Any], most_s: float) -> Answer:
        """Raises one of FAILED."""
        return await self._exchange("POST", path, body, most_s)

    async def _exchange(
        self, method: str, path: str, body: Any, most_s: float, *, bare: bool = False
    ) -> Answer:
        started = time.monotonic()
        headers = {} if bare else self.headers
        pieces = bytearray()
        limits = httpx2.Timeout(most_s, connect=CONNECT_S)
        async with (
            asyncio.timeout(min(most_s, self.left_s())),
            self._http.stream(
                method, self.url + path, headers=headers, json=body, timeout=limits
            ) as reply,
        ):
            async for piece in reply.aiter_bytes():
                pieces += piece
                if len(pieces) > PAGE_LIMIT:
                    raise httpx2.ReadError(f"{path}: its answer has no end")
        answer = Answer(reply.status_code, time.monotonic() - started, bytes(pieces))
        with contextlib.suppress(ValueError, RecursionError):
            answer.json = httpx2.Response(200, content=answer.body).json()
        return answer


def authorised(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def why(error: BaseException) -> str:
    """An error in one line, without a path or a key in it."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate does not hold: {cause.verify_message} (see SSL_CERT_FILE)"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {(cause.reason or 'unknown').replace('_', ' ').lower()}"
    if isinstance(error, httpx2.ConnectTimeout):
        return f"took no connection in {CONNECT_S:g} s"
    if isinstance(error, httpx2.ConnectError):
        strerror = next(
            (c.strerror for c in _causes(error) if isinstance(c, OSError) and c.strerror), None
        )
        return f"took no connection: {strerror or error}"
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "no answer in time"
    if isinstance(error, httpx2.ProtocolError | httpx2.ReadError):
        return f"broke off or spoke no HTTP ({error})" if str(error) else "broke off"
    return str(error) or type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        if isinstance(seen, BaseExceptionGroup):
            seen = seen.exceptions[0]
        else:
            seen = seen.__cause__ or seen.__context__
