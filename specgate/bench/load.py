"""The closed loop: exactly C requests in flight against one arm, until all were sent.

A stream of the loop sends its next request first of all when one has ended, and what that one said
is read while the engine is at work again. The first request that fails, is cut, or comes back short
ends the loop: its cell is void, and the others of it are let go.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specgate.bench.asking import Caller
from specgate.bench.faults import Voided
from specgate.bench.prompts import Dealt
from specgate.bench.reply import Reading, Told
from specgate.bench.samples import Loop, Sample
from specgate.core.errors import ConnectFailed, LaneFault

IDLE_S = 600.0
"""The longest silence of an engine: a queue in front of it may be long, but not for ever."""


class Unreachable(Voided):
    """The arm took no connection: there is no use in going on with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A request that is over, unread. `reading`: None if no head came; `error`: of the wire."""

    sent_at: float
    ended_at: float
    status: int
    reading: Reading | None
    error: str | None


async def send(caller: Caller, dealt: Dealt, max_tokens: int) -> Answer:
    """One request, from sending to its last byte. Raises Unreachable; all else is in `error`."""
    request = caller.request(dealt, max_tokens)
    reading: Reading | None = None
    status = 0
    error: str | None = None
    sent_at = time.monotonic()
    try:
        response = await caller.upstream.send(caller.origin, request)
        try:
            status = response.status
            reading = Reading(time.monotonic, response.headers)
            await response.deliver(reading, IDLE_S)
        finally:
            await response.aclose()
    except ConnectFailed as fault:
        raise Unreachable(f"{caller.blame(fault)} ({caller.arm.url})") from fault
    except LaneFault as fault:
        error = caller.blame(fault)
    ended_at = time.monotonic()
    if reading is not None and reading.first_output_at is not None and reading.last_at is not None:
        ended_at = reading.last_at
    return Answer(sent_at=sent_at, ended_at=ended_at, status=status, reading=reading, error=error)


def read(caller: Caller, dealt: Dealt, max_tokens: int, index: int, answer: Answer) -> Sample:
    """What an answer says, and whether it counts."""
    reading, error = answer.reading, answer.error
    told = reading.told() if reading is not None else Told()
    if reading is not None and error is None:
        error = _wrong(caller, answer.status, reading, told, max_tokens)
    return Sample(
        index=index,
        prompt_class=dealt.prompt.prompt_class,
        sent_at=answer.sent_at,
        first_output_at=reading.first_output_at if reading is not None else None,
        ended_at=answer.ended_at,
        tokens=told.tokens,
        prompt_tokens=told.prompt_tokens,
        cached_tokens=told.cached_tokens,
        steps=told.steps,
        finish=told.finish,
        error=error,
    )


def _wrong(
    caller: Caller, status: int, reading: Reading, told: Told, max_tokens: int
) -> str | None:
    """Why an answer does not count, None if it does."""
    name = caller.arm.name
    if status != 200:
        return f"arm {name} answered with status {status}: {reading.text() or 'no reason given'}"
    if told.error is not None:
        return f"arm {name} answered with an error: {told.error}"
    if not told.ended:
        return f"arm {name} ended a stream without its end mark"
    if told.tokens is None:
        return f"arm {name} gives no token counts (usage): chunks are no tokens, so none is counted"
    if told.finish == "abort":
        return f"arm {name} aborted a request"
    if caller.manner.ignore_eos and told.tokens < max_tokens:
        return (
            f"arm {name} gave {told.tokens} tokens of the {max_tokens} asked for "
            f"(finish {told.finish or 'unknown'}): it does not honour ignore_eos, or its context "
            "is full"
        )
    if caller.manner.stream and reading.first_output_at is None:
        return f"arm {name} streamed nothing that could be timed"
    return None if told.tokens else f"arm {name} answered without a token"


async def closed_loop(
    caller: Caller,
    prompts: Sequence[Dealt],
    *,
    concurrency: int,
    warm_up: int,
    max_tokens: int,
    on_sample: Callable[[Sample], None] = lambda sample: None,
) -> Loop:
    """Send all prompts, `concurrency` at a time; `warm_up` of them end before the window opens.

    `on_sample` is told of each request soon after it ended. Raises Unreachable, and what
    `on_sample` raises.
    """
    loop = _Loop(caller, prompts, warm_up, max_tokens, on_sample)
    return await loop.run(min(concurrency, len(prompts)))


class _Loop:
    def __init__(
        self,
        caller: Caller,
        prompts: Sequence[Dealt],
        warm_up: int,
        max_tokens: int,
        on_sample: Callable[[Sample], None],
    ) -> None:
        self._caller = caller
        self._prompts = prompts
        self._warm_up = warm_up
        self._max_tokens = max_tokens
        self._on_sample = on_sample
        self._next = 0
        self._ended = 0
        self._counted = 0
        self._samples: list[Sample] = []
        self._begin: float | None = None
        self._end: float | None = None
        self._cpu_s = 0.0
        self._void: str | None = None
        # Done when a request spoilt the cell: None, or with what reading it raised.
        self._spoilt: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, concurrency: int) -> Loop:
        streams = asyncio.gather(*(self._stream() for _ in range(concurrency)))
        try:
            either: tuple[asyncio.Future[Any], ...] = (self._spoilt, streams)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            for ended in either:
                if ended.done():
                    ended.result()
        finally:
            streams.cancel()
            await asyncio.gather(streams, return_exceptions=True)
            self._spoilt.cancel()
        begin, end = self._begin, self._end
        wall_s = end - begin if begin is not None and end is not None else 0.0
        return Loop(
            samples=tuple(self._samples),
            counted=(self._warm_up, self._counted),
            begin=begin,
            end=end if begin is not None else None,
            client_busy=self._cpu_s / wall_s if wall_s > 0 else 0.0,
            void=self._void,
        )

    async def _stream(self) -> None:
        """One of the C: a request, and at its end the next."""
        soon = asyncio.get_running_loop().call_soon
        while self._next < len(self._prompts):
            index = self._next
            self._next += 1
            answer = await send(self._caller, self._prompts[index], self._max_tokens)
            self._ended += 1
            if self._ended == self._warm_up:
                self._begin = answer.ended_at
                self._cpu_s = -time.process_time()
            if self._next == len(self._prompts) and self._end is None:
                self._end = answer.ended_at
                self._counted = self._ended
                self._cpu_s += time.process_time()
            # Runs when this task next waits, and then the next request is on its way.
            soon(self._read, index, answer)

    def _read(self, index: int, answer: Answer) -> None:
        if self._spoilt.done():
            return
        try:
            sample = read(self._caller, self._prompts[index], self._max_tokens, index, answer)
            self._samples.append(sample)
            self._on_sample(sample)
        except Exception as error:  # noqa: BLE001 - raised again, by `run`
            self._spoilt.set_exception(error)
            return
        if sample.error is not None:
            self._void = sample.error
            self._spoilt.set_result(None)
