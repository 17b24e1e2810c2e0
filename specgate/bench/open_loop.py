"""The open loop: requests arrive when they are due, whether or not others have ended.

Arrivals go on until every request that counts has ended, so that the last of them meet the same
load as the first; an arm that cannot carry the rate is left when as many have come again. The first
request that fails, is cut, or comes back short ends the loop, and the others of it are let go.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specgate.bench.asking import Caller
from specgate.bench.load import read, send
from specgate.bench.prompts import Dealt
from specgate.bench.samples import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """An open loop that has ended. Times are monotonic seconds.

    samples: in the order in which they ended. left: when those were sent that had not ended.
    begin, end: between them arrived what counts: `warm_up` and the next `counted` indices.
    late_s: of each arrival that counts, how much later than due it was sent.
    client_busy: the bench's own processor time over the window, as a share of one core.
    spoilt: why it ended early, None if it did not.
    """

    samples: tuple[Sample, ...]
    left: tuple[float, ...]
    warm_up: int
    counted: int
    begin: float
    end: float
    late_s: tuple[float, ...]
    client_busy: float
    spoilt: str | None

    def counting(self) -> list[Sample]:
        """The requests that count and have ended."""
        beyond = self.warm_up + self.counted
        return [s for s in self.samples if self.warm_up <= s.index < beyond and not s.error]


async def open_loop(
    caller: Caller,
    prompts: Sequence[Dealt],
    due_s: Sequence[float],
    *,
    warm_up: int,
    counted: int,
    max_tokens: int,
    on_sample: Callable[[Sample], None] = lambda sample: None,
) -> OpenRun:
    """Send prompt by prompt at `due_s`, seconds from now; as many of both, more than `warm_up` and
    `counted` together. Raises Unreachable, and what `on_sample` raises."""
    loop = _OpenLoop(caller, prompts, warm_up, counted, max_tokens, on_sample)
    return await loop.run(due_s)


class _OpenLoop:
    def __init__(
        self,
        caller: Caller,
        prompts: Sequence[Dealt],
        warm_up: int,
        counted: int,
        max_tokens: int,
        on_sample: Callable[[Sample], None],
    ) -> None:
        self._caller = caller
        self._prompts = prompts
        self._warm_up = warm_up
        self._beyond = warm_up + counted
        self._max_tokens = max_tokens
        self._on_sample = on_sample
        self._left_to_count = counted
        self._samples: list[Sample] = []
        self._late_s: list[float] = []
        self._sent: dict[int, float] = {}
        self._spoilt: str | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, due_s: Sequence[float]) -> OpenRun:
        start = time.monotonic()
        begin, end = start + due_s[self._warm_up], start + due_s[self._beyond]
        tasks: set[asyncio.Task[None]] = set()
        cpu_s = [0.0, 0.0]
        try:
            for index, due in enumerate(due_s):
                if index in (self._warm_up, self._beyond):
                    cpu_s[index == self._beyond] = time.process_time()
                if await self._until(start + due):
                    break
                task = asyncio.ensure_future(self._one(index, start + due))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._over.done():
            self._over.result()
        else:
            self._over.cancel()
        busy_s = max(0.0, cpu_s[1] - cpu_s[0])
        return OpenRun(
            samples=tuple(self._samples),
            left=tuple(self._sent.values()),
            warm_up=self._warm_up,
            counted=self._beyond - self._warm_up,
            begin=begin,
            end=end,
            late_s=tuple(self._late_s),
            client_busy=busy_s / (end - begin),
            spoilt=self._spoilt,
        )

    async def _until(self, due: float) -> bool:
        """Wait for a time; whether the loop was over before."""
        while not self._over.done():
            left = due - time.monotonic()
            if left <= 0:
                return False
            # uvloop's timers are whole milliseconds, and may fire a little early.
            await asyncio.wait([self._over], timeout=left)
        return True

    async def _one(self, index: int, due: float) -> None:
        dealt = self._prompts[index]
        sent_at = self._sent[index] = time.monotonic()
        if self._warm_up <= index < self._beyond:
            self._late_s.append(max(0.0, sent_at - due))
        try:
            answer = await send(self._caller, dealt, self._max_tokens)
            sample = read(self._caller, dealt, self._max_tokens, index, answer)
            self._samples.append(sample)
            del self._sent[index]
            self._on_sample(sample)
        except Exception as error:  # noqa: BLE001 - raised again, by `run`
            if not self._over.done():
                self._over.set_exception(error)
            return
        if sample.error is not None:
            self._spoilt = self._spoilt or sample.error
        elif self._warm_up <= index < self._beyond:
            self._left_to_count -= 1
        if (self._spoilt or not self._left_to_count) and not self._over.done():
            self._over.set_result(None)
