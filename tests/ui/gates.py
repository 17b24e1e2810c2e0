"""Gates for the dashboard to look at: between two scripted lanes, with a load that is held."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgate.bench.shipped import shipped
from specgate.core.lanes import Lane
from specgate.core.profile import dumps
from tests.support.client import chat_request, connect
from tests.support.lanes import ScriptedLane
from tests.support.live import BARE, LiveGate, running_gate
from tests.support.streams import held

CROSSES_AT_39 = "k26-int4-8xrtxpro6000-vllm-ctx10k"


@dataclass
class Held:
    """A gate, its lanes, and what keeps them busy."""

    gate: LiveGate
    spec: ScriptedLane
    plain: ScriptedLane

    @property
    def url(self) -> str:
        return self.gate.url

    @asynccontextmanager
    async def load(self, sequences: int) -> AsyncIterator[None]:
        """One request of so many sequences, in flight while the block runs."""
        end = asyncio.Event()
        for lane in (self.spec, self.plain):
            lane.answer("/v1/chat/completions", held(end))
        async with connect(self.url) as client:
            await client.send(chat_request(n=sequences))
            await client.read_head()
            try:
                yield
            finally:
                end.set()
                await client.read_body()


@asynccontextmanager
async def gate(**settings: Any) -> AsyncIterator[Held]:
    async with AsyncExitStack() as stack:
        spec = await stack.enter_async_context(ScriptedLane("spec"))
        plain = await stack.enter_async_context(ScriptedLane("plain"))
        known = {**BARE, **settings}
        running = await stack.enter_async_context(running_gate(spec.url, plain.url, **known))
        yield Held(running, spec, plain)


@asynccontextmanager
async def weighing_gate(folder: Path, **settings: Any) -> AsyncIterator[Held]:
    """One with a published profile, whose curves cross at a load of about 39; idle since its start,
    it has gone to the spec side."""
    profile = folder / "profile.json"
    profile.write_text(dumps(shipped(CROSSES_AT_39)))
    async with gate(profile=profile, **settings) as on:
        async with asyncio.timeout(10):
            while on.gate.service.gate.side is not Lane.SPEC:
                await asyncio.sleep(0.05)
        yield on
