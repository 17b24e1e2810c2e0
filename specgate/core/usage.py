"""Asking for a stream's token count on a client's behalf, and hiding that it was asked for.

OpenAI's API tells a stream's token count only to those who set `stream_options.include_usage`; the
count then comes in an event of its own, with no choices, before the end mark. Clients that did not
ask may trip over that event. Opt-in: here alone a body is edited, by one member put in before its
last brace; nothing is re-encoded.
"""

import json
import re

_ASK = b'"stream_options":{"include_usage":true}'
_COUNTED = re.compile(rb'"usage"\s*:\s*\{')
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_HELD_MAX = 1 << 20


def asking(body: bytes) -> bytes | None:
    """The body with the question in it; None if it does not end like a JSON object with members."""
    end = len(body.rstrip())
    before = body[: end - 1].rstrip() if body[end - 1 : end] == b"}" else b""
    if not before or before.endswith((b"{", b",")):
        return None
    return body[: end - 1] + b"," + _ASK + body[end - 1 :]


class UsageFilter:
    """Takes the usage event out of an event stream; every other byte passes as it came.

    What passes may wait for the rest of its own event, and for nothing else. An event longer than a
    mebibyte passes unread: it is no usage event.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """The bytes that may go on now."""
        held = self._held
        look = max(0, len(held) - 3)  # of an event's end there may be so much already
        held += piece
        passed: list[bytes] = []
        start = 0
        while (end := _EVENT_END.search(held, look)) is not None:
            event = bytes(held[start : end.end()])
            if not (_COUNTED.search(event) and _only_counts(event)):
                passed.append(event)
            start = look = end.end()
        del held[:start]
        if len(held) > _HELD_MAX:
            passed.append(self.rest())
        return b"".join(passed)

    def rest(self) -> bytes:
        """What is held back at the stream's end."""
        held = bytes(self._held)
        self._held.clear()
        return held


def _only_counts(event: bytes) -> bool:
    data = event.strip().removeprefix(b"data:")
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and "error" not in chunk
