"""Log lines that nobody reads: they wait up to a bound, and beyond it are dropped and counted."""

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from specgate.telemetry.lines import PENDING_MAX, LineWriter

LINE = b'{"event": "a line"}' + b" " * 1000 + b"\n"


def test_logs_that_nobody_reads_hold_nothing_up_and_what_is_dropped_is_counted():
    reading, writing = os.pipe()
    with open(reading, "rb") as reader, open(writing, "wb") as stream:
        lines = LineWriter(stream)
        several = 2 * PENDING_MAX // len(LINE)
        for _ in range(several):
            # It returns, though the pipe was full after the first few dozen.
            lines.write(LINE)
        kept = dropped = 0
        for line in told(reader):
            if line["event"] == "log_lines_dropped":
                dropped += line["count"]
            else:
                kept += 1
            if kept + dropped == several:
                break
        assert dropped > 0
        assert kept * len(LINE) <= PENDING_MAX + (1 << 20)  # which the pipe and its buffer hold
        # Who reads again gets what is written from then on.
        lines.write(b'{"event": "another"}\n')
        assert next(told(reader))["event"] == "another"


def told(reader: BinaryIO) -> Iterator[dict[str, Any]]:
    while line := reader.readline():
        yield json.loads(line)
