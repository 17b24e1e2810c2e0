"""U, the scripted lane: an upstream that answers by a script of bytes and records what reached it.

    async with ScriptedLane("spec") as spec:
        spec.answer_next([Send(sse_head()), Send(chunk(frame({"x": 1}))), Pause(0.5), Rst()])
        ...
        assert spec.requests[0].body == sent
        await spec.saw_close(within_s=1)

A script is a step or a list of them; a step is a class in `steps` or an `async def (request,
connection)`. The request's body is read first, unless the script has a `ReadBody()` or a
`DontReadBody()` (an unread body holds its sender back; with more than 256 KiB of it unread, the
lane cannot notice its sender's leaving). As in the engines, a peer that closes ends the script.
`requests` holds what scripts answered, `probes` what the lane answers for the gate's own probes.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from tests.support.steps import *  # noqa: F403 - tests take the steps from here
from tests.support.steps import (
    DONE,
    Script,
    Send,
    delta,
    error_response,
    json_response,
    sse_response,
    usage,
)
from tests.support.wire import Connection as Connection
from tests.support.wire import Request as Request

CHAT_PATHS = ("/v1/chat/completions", "/v1/completions", "/generate")
_PAGES = ("/metrics", "/engine_metrics", "/v1/loads")
PROBES: dict[str, Script] = {
    "/ready": json_response(200, {"status": "ok"}),
    "/health": json_response(200, {"status": "ok"}),
    "/v1/models": json_response(200, {"object": "list", "data": [{"id": "m", "object": "model"}]}),
    "/readiness": error_response(404, "no such path"),
    **{path: error_response(404, "no such path") for path in _PAGES},
    **{path: error_response(404, "no such path") for path in ("/server_info", "/get_server_info")},
}


async def well_behaved(request: Request, connection: Connection) -> None:
    """What a lane does unless told otherwise: a short answer, streamed if so asked."""
    if request.method != b"POST":
        return await connection.perform(error_response(404, "no such path"))
    try:
        stream = request.json.get("stream", False)
    except (ValueError, AttributeError):
        return await connection.perform(error_response(400, "not a JSON object"))
    if stream:
        frames = [delta(""), delta("Hello"), delta(" world"), usage(3, 2), DONE]
        return await connection.perform(sse_response(frames))
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello world"}}
    counts = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    answer = {"id": "c", "object": "chat.completion", "choices": [choice], "usage": counts}
    return await connection.perform(json_response(200, answer))


class ScriptedLane:
    """A lane on a port of its own; a well-behaved engine until told otherwise."""

    def __init__(self, name: str = "lane", *, keep_alive_s: float | None = None) -> None:
        self.name = name
        self.keep_alive_s = keep_alive_s  # None: the lane never closes an idle connection
        self.port = 0
        self.requests: list[Request] = []
        self.requests_total = 0  # goes on counting if a test clears the list
        self.most_in_progress = 0
        self.probes: list[Request] = []
        self.connections: set[Connection] = set()
        self.connections_total = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []
        self._arrived = asyncio.Event()
        self._set: dict[str, Script] = {}
        self._queued: dict[str, deque[Script]] = {}
        self._server: asyncio.Server | None = None

    def answer(self, path: str, script: Script) -> None:
        """Answer requests for this path so from now on; "*" is every path but those of probes."""
        self._set[path] = script

    def answer_next(self, *scripts: Script, path: str = "*") -> None:
        """Answer the next requests so, one script for each; goes before what `answer` set."""
        self._queued.setdefault(path, deque()).extend(scripts)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self.connections)

    @property
    def idle_connections(self) -> int:
        """Those kept alive between two requests."""
        return sum(connection.idle for connection in self.connections)

    @property
    def in_progress(self) -> int:
        """Requests being answered now, but for probe paths: what the gate's in-flight is about."""
        answering = [connection.answering for connection in self.connections]
        return sum(1 for request in answering if request and not request.probe)

    @property
    def busy_connections(self) -> int:
        """Those with a request in progress, or half-closed: their peer has yet to close."""
        probed = sum(bool(c.answering and c.answering.probe) for c in self.connections)
        return self.open_connections - self.idle_connections - probed

    async def saw_requests(self, count: int = 1, within_s: float = 2) -> list[Request]:
        """Wait until this many requests have come in all."""
        try:
            async with asyncio.timeout(within_s):
                while self.requests_total < count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            got = f"{self.requests_total} requests in {within_s} s, not {count}"
            raise AssertionError(f"lane {self.name} saw {got}") from None
        return self.requests

    async def saw_close(self, within_s: float = 1, request: Request | None = None) -> float:
        """When (loop time) the peer closed the connection of this request, or of the last one."""
        request = request or (await self.saw_requests(within_s=within_s))[-1]
        connection = request.connection
        try:
            async with asyncio.timeout(within_s):
                await connection.peer_closed.wait()
        except TimeoutError:
            what = f"{request.request_line!r} is still open after {within_s} s"
            raise AssertionError(f"lane {self.name}: the connection of {what}") from None
        assert connection.closed_at is not None
        return connection.closed_at

    async def start(self) -> None:
        """Open the port: a free one, the second time the same."""
        loop = asyncio.get_running_loop()
        factory = lambda: Connection(self)  # noqa: E731
        self._server = await loop.create_server(factory, "127.0.0.1", self.port, backlog=2048)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection, as an engine that dies; `start()` brings it back."""
        if not self._server:
            return
        server, self._server = self._server, None
        # Connections that were just being accepted come first: asyncio loses one whose server is
        # closed meanwhile. uvloop does not, and lets nobody at its sockets.
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.BaseEventLoop):
            for listening in server.sockets:
                loop.remove_reader(listening.fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        server.close()
        connections = list(self.connections)
        for connection in connections:
            connection.task.cancel()
            connection.abort()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for connection in connections:
            await connection.lost.wait()
        await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.stop()
        if self._errors and error is None:
            raise self._errors[0]  # a script that raised, or a request that no server can read

    # For its connections

    def began(self, connection: Connection) -> None:
        self.connections.add(connection)
        self.connections_total += 1
        self.tasks.add(connection.task)
        connection.task.add_done_callback(self._done)

    def ended(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._errors.append(error)

    def script_for(self, request: Request) -> Script:
        """Which script answers this request; it is recorded here."""
        path = request.target.partition(b"?")[0].decode("latin-1")
        request.probe = path in PROBES
        if request.probe and not (self._queued.get(path) or path in self._set):
            self.probes.append(request)
            probe = PROBES[path]
            if request.method == b"HEAD" and isinstance(probe, Send):
                return Send(probe.data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            return probe
        self.requests.append(request)
        self.requests_total += 1
        self.most_in_progress = max(self.most_in_progress, self.in_progress)
        self._arrived.set()
        for key in (path, "*"):
            if queue := self._queued.get(key):
                return queue.popleft()
            if key in self._set:
                return self._set[key]
        return well_behaved


@contextmanager
def refuses() -> Iterator[str]:
    """The URL of a lane that refuses connections: its port is taken, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
