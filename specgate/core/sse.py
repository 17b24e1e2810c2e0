"""Server-Sent Events, incrementally: bytes in, the data of finished events out.

Source: the event stream format of the HTML standard, §9.2. The decoder never alters what passes;
it only reads along. A character or a line cut in two by the network waits for its rest. Comments
(`: ping`) and other fields yield nothing. Bounded: an event longer than `limit` is skipped.
"""

import re

_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n")
_BLANK_MOST = 4
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventDecoder:
    """Feed it chunks as they come; each call returns the data of the events that ended in it."""

    __slots__ = ("_limit", "_rest", "_skipping")

    def __init__(self, limit: int = 1 << 20) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Data payloads of finished events, in order; several `data:` lines join with \\n."""
        buffer = self._rest
        # What was looked through is not looked through again: an event of a mebibyte that came in
        # pieces of a hundred bytes took minutes. A blank line is four bytes at most.
        look = max(0, len(buffer) - _BLANK_MOST)
        buffer += chunk
        found: list[bytes] = []
        start = 0
        # A carriage return at the very end may be half of \r\n: leave it for the next chunk.
        usable = len(buffer) - 1 if buffer.endswith(b"\r") else len(buffer)
        while (end := _BLANK_LINE.search(buffer, look, usable)) is not None:
            if self._skipping:
                self._skipping = False
            elif (data := _data(bytes(buffer[start : end.start()]))) is not None:
                found.append(data)
            start = look = end.end()
        del buffer[:start]
        if len(buffer) > self._limit:
            # Keep enough to see a blank line that the next chunk completes.
            del buffer[:-3]
            self._skipping = True
        return found


def ends_event(sent: bytes) -> bool:
    """Whether what was sent so far, or its last four bytes, ends where an event does: what comes
    next begins one. True for nothing. A last carriage return may be half of a line's end."""
    return not sent or sent.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))


def _data(block: bytes) -> bytes | None:
    """The data of one event, None if it has none."""
    if block.startswith(b"data: ") and b"\n" not in block and b"\r" not in block:
        return block[6:]
    lines = []
    for line in _LINE_END.split(block):
        if line.startswith(b"data:"):
            value = line[5:]
            lines.append(value[1:] if value.startswith(b" ") else value)
    return b"\n".join(lines) if lines else None
