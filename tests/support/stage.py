"""A gate between two scripted lanes: set up in one line, and found at rest when the test ends.

    async with stage() as on:
        on.spec.answer_next(sse_response([delta("Hi"), DONE]))
        reply = await on.ask()

Generation goes to the spec lane unless `threshold` says otherwise, all else to the plain one.
"""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from specgate.core.events import RequestEnded
from tests.support.client import CHAT, JSON, Response, chat, connect
from tests.support.invariants import assert_at_rest, pending_tasks
from tests.support.lanes import ScriptedLane
from tests.support.live import BARE, LiveGate, running_gate
from tests.support.steps import HeaderPairs


@dataclass
class Stage:
    gate: LiveGate
    spec: ScriptedLane
    plain: ScriptedLane

    @property
    def url(self) -> str:
        return self.gate.url

    async def ask(
        self,
        method: bytes = b"POST",
        target: bytes = CHAT,
        headers: HeaderPairs = (JSON,),
        body: bytes | None = None,
    ) -> Response:
        """One exchange on a connection of its own: a streamed chat unless told otherwise."""
        if target == CHAT and body is None:
            body = chat()
        async with connect(self.url) as client:
            return await client.request(method, target, headers, body)

    async def ended(self, count: int = 1) -> RequestEnded:
        """The fact of the `count`-th request's end."""
        return await self.gate.facts.wait_for(RequestEnded, count=count)

    async def sample(self, series: str) -> float:
        """The value of one series of /metrics, as `name{label="value"}`."""
        lines = (await self.gate.metrics()).splitlines()
        (value,) = (line.removeprefix(series) for line in lines if line.startswith(series + " "))
        return float(value)


@asynccontextmanager
async def stage(
    *, spec_base: str = "", plain_base: str = "", threshold: Any = "always", **settings: Any
) -> AsyncIterator[Stage]:
    """`spec_base`, `plain_base`: path prefixes of the lanes' URLs."""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        urls = (spec.url + spec_base, plain.url + plain_base)
        async with running_gate(*urls, threshold=threshold, **{**BARE, **settings}) as gate:
            before = pending_tasks()
            with no_errors_logged():
                yield Stage(gate, spec, plain)
                token = gate.service.settings.read_token
                sent = [] if token is None else [(b"Authorization", b"Bearer " + token.encode())]
                await assert_at_rest(gate.url, [spec, plain], tasks=before, headers=sent)


@contextmanager
def no_errors_logged() -> Iterator[None]:
    """No library logs an error meanwhile: an exception in the app, one that nobody retrieved."""
    kept: list[logging.LogRecord] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = kept.append  # type: ignore[method-assign, assignment]
    # uvicorn's word for a response that the gate cuts on purpose.
    handler.addFilter(lambda record: "without completing response" not in record.getMessage())
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
    assert not kept, [record.getMessage() for record in kept]
