"""`/_specgate/events`: the gate's state once a second, and switches as they happen, as an event
stream (server-sent events).

A frame is encoded once for all who listen. Each listener has a short queue of its own; one that
does not read is dropped, so that what waits is bounded. A state a second keeps balancers' idle
time-outs away too.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from specgate.admin.models import Status
from specgate.admin.recorded import Switch
from specgate.telemetry import switches

LISTENERS_MAX = 32
PENDING_MAX = 16
"""Frames that wait for a listener whose connection takes no more."""

EVERY_S = 1.0
RETRY_MS = 2000
"""How soon a browser that lost the stream asks for it again."""


class Listener:
    """Frames for one client. `lost` is set when it fell too far behind."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._ended = False
        self.lost = asyncio.Event()

    def put(self, frame: bytes) -> None:
        if len(self._frames) >= PENDING_MAX:
            self.lost.set()
            return
        self._frames.append(frame)
        self._news.set()

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._news.set()

    async def next(self) -> bytes | None:
        """The next frame; None after the last one."""
        while not self._frames:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        return self._frames.popleft()


class Feed:
    """Who listens, and what they are told. `state`: the status now."""

    def __init__(self, state: Callable[[], Status]) -> None:
        self._state = state
        self._listeners: set[Listener] = set()
        self._closed = False

    @property
    def full(self) -> bool:
        return len(self._listeners) >= LISTENERS_MAX

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def tell_state(self) -> None:
        """For a loop, every EVERY_S."""
        if self._listeners:
            self._tell(self._state_frame())

    def switched(self, switch: switches.Switch) -> None:
        """Tell a switch at once."""
        if self._listeners:
            self._tell(_frame("switch", Switch.of(switch).model_dump_json()))

    def join(self) -> Listener:
        """A new listener; it is told the state first."""
        listener = Listener()
        listener.put(b"retry: %d\n\n" % RETRY_MS + self._state_frame())
        if self._closed:
            listener.end()
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def close(self) -> None:
        """The gate stops: streams that never end would hold it up."""
        self._closed = True
        for listener in self._listeners:
            listener.end()

    def _state_frame(self) -> bytes:
        return _frame("state", self._state().model_dump_json())

    def _tell(self, frame: bytes) -> None:
        for listener in self._listeners:
            listener.put(frame)


class EventStream(Response):
    """The response to one listener: until it leaves, falls behind, or the gate stops."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        listener = self._feed.join()
        loop = asyncio.get_running_loop()
        sending = loop.create_task(_send_all(listener, head, send), name="events")
        tasks: list[asyncio.Task[Any]] = [
            sending,
            loop.create_task(_until_gone(receive), name="events-gone"),
            loop.create_task(listener.lost.wait(), name="events-lost"),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feed.leave(listener)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # One that was cancelled has not finished the response: the server cuts the connection.
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error


async def _send_all(listener: Listener, head: dict[str, object], send: Send) -> None:
    await send(head)
    while (frame := await listener.next()) is not None:
        await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _frame(event: str, data: str) -> bytes:
    return f"event: {event}\ndata: {data}\n\n".encode()
