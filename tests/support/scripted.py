"""An upstream and a client in memory, for a step that no socket can hit on the spot.

Each calls the hook that a test gives it, at the point that the hook is named for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from specgate.control.admission_queue import AdmissionQueue
from specgate.control.gate import Gate
from specgate.core.config import AdmissionConfig, PolicyConfig, ProxyConfig
from specgate.core.errors import ClientGone, Fault, LaneFault
from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.core.rules import RulesConfig
from specgate.ledger.local import LocalLedger
from specgate.proxy.forward import Forwarder
from specgate.upstream.base import Origin, Peeked, Request, Sink
from tests.support.client import chat
from tests.support.clocks import ManualClock
from tests.support.observer import Recorder

Hook = Callable[[], Awaitable[None]]

ORIGINS = {lane: Origin.of(lane, f"http://{lane}.test:80") for lane in Lane}


async def nothing() -> None:
    """The hook of a test that has none."""


@dataclass
class ScriptedResponse:
    lane: Lane
    pieces: list[bytes]
    fault: LaneFault | None
    closing: Hook
    status: int = 200
    headers: Pairs = field(default_factory=lambda: [(b"content-type", b"text/event-stream")])
    closed: int = 0
    reason: bytes = b""
    trailers: Pairs = field(default_factory=list)

    async def peek(self, undecided: Callable[[bytes], bool], within_s: float) -> Peeked:
        return Peeked(b"".join(self.pieces), complete=self.fault is None)

    async def deliver(self, sink: Sink, idle_s: float | None) -> None:
        for piece in self.pieces:
            if sink.write(piece):
                await sink.drain()
            await asyncio.sleep(0)
        if self.fault:
            raise self.fault

    async def aclose(self) -> None:
        self.closed += 1
        await self.closing()


class ScriptedUpstream:
    """Answers with these pieces and then the fault, if any."""

    def __init__(
        self,
        pieces: Iterable[bytes] = (),
        *,
        fault: LaneFault | None = None,
        head: Hook = nothing,
        closing: Hook = nothing,
        given: Callable[[], None] = lambda: None,
    ) -> None:
        self._pieces = list(pieces)
        self._fault = fault
        self._head = head
        self._closing = closing
        self._given = given
        self.responses: list[ScriptedResponse] = []

    async def send(self, origin: Origin, request: Request) -> ScriptedResponse:
        if request.rest is not None:
            async for _ in request.rest:
                pass
        await self._head()
        self._given()
        response = ScriptedResponse(origin.lane, self._pieces, self._fault, self._closing)
        self.responses.append(response)
        return response

    async def aclose(self) -> None:
        return


class ScriptedDownstream:
    """A client that sent a chat request; it leaves when `left` is set."""

    def __init__(self, *, starting: Hook = nothing) -> None:
        self.method = b"POST"
        self.target = b"/v1/chat/completions"
        self.path = "/v1/chat/completions"
        self.headers: Pairs = []
        self.values: Mapping[bytes, bytes] = {}
        self.length: int | None = len(chat())
        self.left = asyncio.Event()
        self.sent: list[bytes] = []
        self._watcher: asyncio.Task[None] | None = None
        self.status: int | None = None
        self.finished = False
        self._starting = starting
        self._body = [chat()]

    def whole(self) -> bytes | None:
        return None

    async def read(self) -> bytes | None:
        return self._body.pop() if self._body else None

    def last(self) -> None:
        """It has no connection to end."""

    def on_gone(self, tell: Callable[[Fault], None] | None) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        if tell is not None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch(tell))

    async def _watch(self, tell: Callable[[Fault], None]) -> None:
        await self.left.wait()
        tell(ClientGone("the client left"))

    async def start(self, status: int, reason: bytes, headers: Pairs) -> None:
        await self._starting()
        self.status = status

    def write(self, piece: bytes) -> bool:
        self.sent.append(piece)
        return False

    async def drain(self) -> None:
        return

    async def finish(self, trailers: Pairs) -> None:
        self.finished = True


@dataclass
class Bench:
    """A gate and a forwarder around a scripted upstream, and the facts they told."""

    gate: Gate
    forwarder: Forwarder
    facts: Recorder


def bench(upstream: ScriptedUpstream, config: ProxyConfig | None = None) -> Bench:
    facts = Recorder()
    clock = asyncio.get_running_loop().time
    gate = Gate(
        policy=PolicyConfig(threshold=8, band=0, smoothing_s=0, dwell_s=0),
        origins=ORIGINS,
        ledger=LocalLedger(),
        observe=facts,
        clock=clock,
    )
    forwarder = Forwarder(
        gate=gate,
        queue=AdmissionQueue(gate, AdmissionConfig()),
        upstream=upstream,
        config=config or ProxyConfig(),
        retry_after_s=1,
        observe=facts,
        clock=clock,
        new_id=lambda: b"id",
    )
    return Bench(gate, forwarder, facts)


def manual_gate(
    policy: PolicyConfig, rules: RulesConfig | None = None
) -> tuple[Gate, ManualClock, Recorder]:
    """A gate whose time a test moves, and the facts it told."""
    clock, facts = ManualClock(), Recorder()
    gate = Gate(
        policy=policy,
        origins=ORIGINS,
        ledger=LocalLedger(),
        observe=facts,
        clock=clock,
        rules=rules,
    )
    return gate, clock, facts
