"""How one request is put: the body for each API, and the connection on which it goes out."""

import ssl
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from specgate.bench.faults import Misused
from specgate.bench.prompts import Dealt
from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin, Request
from specgate.upstream.pool import PooledUpstream

Api = Literal["chat", "completions", "generate"]
PATHS: dict[Api, bytes] = {
    "chat": b"/v1/chat/completions",
    "completions": b"/v1/completions",
    "generate": b"/generate",
}
CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How requests are put, alike for all arms. `extra`: members added to each body."""

    api: Api = "chat"
    ignore_eos: bool = True
    temperature: float = 0.0
    stream: bool = True
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An engine under a name. `model`: what it is asked for by, None for an API without one."""

    name: str
    url: str
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)


class Caller:
    """Sends one arm's requests, each on a connection that nobody else uses meanwhile."""

    def __init__(self, arm: Arm, manner: Manner) -> None:
        parts = urlsplit(arm.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misused(f"arm {arm.name}: {arm.url!r} is no http or https address")
        self.arm = arm
        self.manner = manner
        # The pool names lanes in its errors; an arm has a name of its own, told by `blame`.
        self.origin = Origin.of(Lane.SPEC, arm.url)
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.upstream = PooledUpstream(connect_timeout_s=CONNECT_TIMEOUT_S, tls=tls)
        self._target = self.origin.target(PATHS[manner.api])
        self._headers: Pairs = [
            (b"host", self.origin.authority),
            (b"content-type", b"application/json"),
            (b"accept", b"*/*"),
        ]
        if arm.api_key:
            self._headers.append((b"authorization", f"Bearer {arm.api_key}".encode()))

    def request(self, dealt: Dealt, max_tokens: int) -> Request:
        body = msgspec.json.encode(body_of(dealt, max_tokens, self.arm.model, self.manner))
        length = (b"content-length", str(len(body)).encode())
        return Request(b"POST", self._target, [*self._headers, length], pieces=(body,))

    def blame(self, error: Exception) -> str:
        """An error of the pool's in this arm's name."""
        return str(error).replace(f"the {Lane.SPEC} lane", f"arm {self.arm.name}")

    async def aclose(self) -> None:
        await self.upstream.aclose()


def body_of(dealt: Dealt, max_tokens: int, model: str | None, manner: Manner) -> dict[str, Any]:
    """The JSON of one request."""
    prompt = dealt.prompt
    if manner.api == "generate":
        sampling = {
            "max_new_tokens": max_tokens,
            "temperature": manner.temperature,
            "ignore_eos": manner.ignore_eos,
            "sampling_seed": dealt.seed,
        }
        return {
            "text": prompt.text,
            "sampling_params": sampling,
            "stream": manner.stream,
            **manner.extra,
        }
    body: dict[str, Any] = {"model": model} if model is not None else {}
    if manner.api == "chat":
        body["messages"] = [{"role": role, "content": text} for role, text in prompt.messages]
    else:
        body["prompt"] = prompt.text
    body |= {
        "max_tokens": max_tokens,
        "temperature": manner.temperature,
        "seed": dealt.seed,
        "ignore_eos": manner.ignore_eos,
        "stream": manner.stream,
    }
    if manner.stream:
        body["stream_options"] = {"include_usage": True}
    return body | manner.extra
