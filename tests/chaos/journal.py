"""A lane's record, kept by the lane alone: one line an event, written at once, so that a lane that
is killed has told all it knew."""

import os
import time
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Event(StrEnum):
    """What a lane writes down; behind each: what `number` and `crc` are then."""

    HEAD = "head"  # a request's head came; its number on its connection
    FATE = "fate"  # what will become of it; `text` is the fate
    READ = "read"  # all of it was read; its number on its connection
    SPOILT = "spoilt"  # all of it was read, and it is not what its header says
    SENT = "sent"  # a whole answer was written; bytes of the body, and their CRC
    CUT = "cut"  # we broke the answer off; bytes of the body so far, and their CRC
    GONE = "gone"  # the peer left before the end; bytes of the body so far
    RESET = "reset"  # a connection was reset as it was accepted
    READY = "ready"  # a probe was answered: the lane is ready
    QUIET = "quiet"  # a connection was closed after an answer, without a word


class Entry(NamedTuple):
    """at: monotonic seconds, the same clock in all processes of a machine."""

    at: float
    event: Event
    marker: str
    number: int = 0
    crc: int = 0
    text: str = "-"


class Writer:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(
        self, event: Event, marker: str = "-", *, number: int = 0, crc: int = 0, text: str = "-"
    ) -> None:
        line = f"{time.monotonic():.6f} {event} {marker} {number} {crc} {text}\n"
        os.write(self._file, line.encode())


def read_journal(lines: Iterable[str]) -> list[Entry]:
    """In the order of writing."""
    entries = []
    for line in lines:
        at, event, marker, number, crc, text = line.split()
        entries.append(Entry(float(at), Event(event), marker, int(number), int(crc), text))
    return entries
