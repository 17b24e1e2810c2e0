"""Log lines on their way out: gathered in the event loop, written by a thread.

Writing to a pipe or a terminal may block for as long as nobody reads it, and the event loop must
not. Lines are gathered for a moment and handed over as one piece, so that a busy gate costs the
thread few wake-ups. What waits is bounded: beyond it lines are dropped, and how many is said.
"""

import asyncio
import atexit
import contextlib
import threading
import time
from queue import Empty, SimpleQueue
from typing import BinaryIO

from specgate.telemetry.visible import visible_bytes

GATHER_S = 0.05
"""How long a line may wait for company."""

PENDING_MAX = 8 * 1024 * 1024
"""Bytes that may wait for a reader: some ten thousand lines."""


FLUSH_S = 1.0
"""How long the process's end may wait for a line that nobody reads."""


class LineWriter:
    """Thread-safe."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._gathered: list[bytes] = []
        self._pending = 0
        self._dropped = 0
        self._queue: SimpleQueue[list[bytes]] = SimpleQueue()
        self._gathering = False
        self._gather = threading.Lock()
        self._writing = threading.Lock()
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()
        atexit.register(self.flush)

    def write(self, line: bytes) -> None:
        """Take a line, with its line end. Never blocks, never raises."""
        with self._gather:
            if self._pending > PENDING_MAX:
                self._dropped += 1
                return
            self._pending += len(line)
            self._gathered.append(line)
            if self._gathering:
                return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._hand_over()
        else:
            self._gathering = True
            loop.call_later(GATHER_S, self._hand_over)

    def flush(self) -> None:
        """Write what waits, and wait a moment for what the thread is writing."""
        self._hand_over()
        with contextlib.suppress(Empty):
            while True:
                self._put_out(self._queue.get_nowait())
        until = time.monotonic() + FLUSH_S
        while self._pending > 0 and time.monotonic() < until:
            time.sleep(0.005)

    def _hand_over(self) -> None:
        with self._gather:
            self._gathering = False
            gathered, self._gathered = self._gathered, []
        if gathered:
            self._queue.put(gathered)

    def _run(self) -> None:
        while True:
            self._put_out(self._queue.get())

    def _put_out(self, lines: list[bytes]) -> None:
        text = b"".join(lines)
        if not text.isascii():
            # Here and not where lines are made: once for many, and off the event loop.
            text = b"\n".join(map(visible_bytes, text.split(b"\n")))
        with self._writing:
            if dropped := self._dropped:
                self._dropped = 0
                lost = b'{"level": "error", "event": "log_lines_dropped", "count": %d}\n'
                text += lost % dropped
            # Where nobody reads any more, nobody is there to be told.
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(text)
                self._stream.flush()
        with self._gather:
            self._pending -= sum(map(len, lines))
