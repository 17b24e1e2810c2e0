"""A generation route: read the body, meet the faults, run the call, frame its tokens.

The client's leaving is watched from the first moment and aborts the sequences at once. (The real
engine polls for it every four seconds before its first chunk.)
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from specgate.sim.call import Call
from specgate.sim.engine import DuplicateRidError, Engine, EngineClosedError
from specgate.sim.faults import Faults
from specgate.sim.frames import DONE, ChatFrames, CompletionFrames, Frames, GenerateFrames
from specgate.sim.intake import (
    Ask,
    BadRequestError,
    orders,
    read_chat,
    read_completion,
    read_generate,
)
from specgate.sim.model import CannotFitError
from specgate.sim.replies import error_body, error_reply, json_reply, kind_of

EXTENSION = "specgate.sim"
EVENT_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]
QUEUE_FULL = "The request queue is full."
NOT_HTTP = b"\x00\xffSPDY/9 yes\r\n\r\n\x17\x03\x03"

Kind = Literal["chat", "completion", "generate"]

_READERS: Mapping[Kind, Callable[[bytes, Mapping[str, str]], Ask]] = {
    "chat": read_chat,
    "completion": read_completion,
    "generate": read_generate,
}
_FRAMES: Mapping[Kind, Callable[[Engine, Ask], Frames]] = {
    "chat": ChatFrames,
    "completion": CompletionFrames,
    "generate": GenerateFrames,
}


async def generation(request: Request, engine: Engine, kind: Kind) -> Response:
    """The reply to one generation request. Bad bodies are 400, whatever faults are on."""
    native = kind == "generate"
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not native and content_type != "application/json":
        return error_reply("the content type must be application/json", 400)
    try:
        ask = _READERS[kind](await request.body(), request.headers)
        call = engine.call(ask.rid, orders(ask, engine), streaming=ask.stream)
    except BadRequestError as exc:
        return error_reply(str(exc), 400, native=native)
    faults = engine.request_faults()
    if faults.status is not None:
        return _refusal(faults, faults.status, native=native)
    if faults.error_event_first:
        if not ask.stream:
            return error_reply(QUEUE_FULL, 503, native=native)
        error = json_reply({"error": error_body(QUEUE_FULL, 503, kind_of(503))}).body
        body = b"data: " + bytes(error) + b"\n\n" + DONE
        return Response(body, media_type="text/event-stream")
    return GenerationReply(engine, call, ask, _FRAMES[kind](engine, ask), faults, native=native)


class GenerationReply(Response):
    """Runs the call while it is being sent; Starlette calls it with the connection."""

    def __init__(
        self,
        engine: Engine,
        call: Call,
        ask: Ask,
        frames: Frames,
        faults: Faults,
        *,
        native: bool,
    ) -> None:
        super().__init__()
        self._engine = engine
        self._call = call
        self._ask = ask
        self._frames = frames
        self._faults = faults
        self._native = native

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._respond(scope, receive, send))
            gone = group.create_task(_client_gone(receive))
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            gone.cancel()

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        transport = scope.get("extensions", {}).get(EXTENSION, {}).get("transport")
        if self._faults.garble:
            _transport(transport).write(NOT_HTTP)
            await _cut(transport)
        try:
            await self._engine.memory.admit()
            with self._call:
                if self._faults.first_byte_delay_s:
                    await self._engine.pause(self._faults.first_byte_delay_s)
                if self._ask.stream:
                    await self._stream(transport, send)
                else:
                    await self._whole(transport, send)
        except (DuplicateRidError, CannotFitError, EngineClosedError) as exc:
            status = 503 if isinstance(exc, EngineClosedError) else 400
            await error_reply(str(exc), status, native=self._native)(scope, receive, send)

    async def _stream(self, transport: Any, send: Send) -> None:
        call, frames, faults = self._call, self._frames, self._faults
        # The head is held back until the first token, as in the engine.
        news = await call.take()
        await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
        chunks = 0
        while True:
            events = []
            for ticket in news:
                if chunks == faults.cut_after_chunks or chunks == faults.stall_after_chunks:
                    break
                start, stop = ticket.take()
                events.append(frames.news(ticket, start, stop))
                chunks += stop > start
            if events:
                await _send_body(send, b"".join(events))
            if chunks == faults.cut_after_chunks:
                await _cut(transport)
            if chunks == faults.stall_after_chunks:
                await self._engine.pause(None)
                await _cut(transport)
            if call.finished:
                break
            news = await call.take()
        await _send_body(send, frames.closing(call.tickets), more=False)

    async def _whole(self, transport: Any, send: Send) -> None:
        call, faults = self._call, self._faults
        if faults.stall_after_chunks is not None:
            await self._engine.pause(None)
            await _cut(transport)
        while not call.finished:
            for ticket in await call.take():
                ticket.take()
        body = self._frames.whole(call.tickets)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if faults.cut_after_chunks is not None:
            await _send_body(send, body[: len(body) // 2])
            await _cut(transport)
        await _send_body(send, body, more=False)


def _refusal(faults: Faults, status: int, *, native: bool) -> Response:
    headers = {}
    if faults.retry_after_s is not None:
        headers["retry-after"] = str(faults.retry_after_s)
    if faults.body is not None:
        return json_reply(faults.body, status, headers)
    reply = error_reply(QUEUE_FULL, status, native=native)
    reply.headers.update(headers)
    return reply


async def _send_body(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cut(transport: Any) -> NoReturn:
    """Close the socket as it is; what was sent still arrives. The watcher then ends the reply."""
    _transport(transport).close()
    await _forever()


async def _forever() -> NoReturn:
    while True:
        await asyncio.Event().wait()


def _transport(transport: Any) -> asyncio.Transport:
    if transport is None:
        raise RuntimeError("this fault needs the connection: serve the app with sim.server")
    found: asyncio.Transport = transport
    return found
