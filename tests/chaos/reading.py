"""A response as a client reads it, and what it amounts to beside the bytes that it should have."""

import json
import re
from contextlib import suppress
from enum import StrEnum
from typing import Any

import httptools

from tests.chaos.fates import DECLINES, Fate, refusal
from tests.chaos.orders import Order

ERROR_EVENT = re.compile(rb'\s*(event: error\r?\n)?data: (\{"error":.*\})\s*', re.DOTALL)
"""What may stand behind a stream that its lane has broken off, and stands nowhere else."""


class Seen(StrEnum):
    """What of an answer came."""

    NOTHING = "nothing"  # not even a head
    WHOLE = "whole"  # all of it, and it ended as its framing promised
    BROKEN = "broken"  # its beginning, and a client can tell that this is not all
    SILENT_CUT = "silent_cut"  # its beginning, and it ended as if it were whole
    LANES_ERROR = "lanes_error"  # an error in the lane's own words
    GATES_ERROR = "gates_error"  # an error in the gate's words
    PARTIAL = "partial"  # we left, and had read its beginning
    STRANGE = "strange"  # what nobody sent


class Reading:
    """One response: fed with what comes, until it is `complete`. `body`: without framing. `told`:
    it ended in an error event, for a stream that was broken off."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self.complete = False
        self.spoilt = ""
        self.told = False
        self.keep_alive = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.spoilt = self.spoilt or str(error)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_message_begin(self) -> None:
        if self.complete:
            self.spoilt = "more than was asked for"

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.complete = True
        self.keep_alive = self._parser.should_keep_alive()

    @property
    def code(self) -> str:
        """The gate's word for an error; empty if it is none of the gate's."""
        return _code(bytes(self.body))

    def amounts_to(self, order: Order, *, left: bool) -> Seen:
        """left: we left before its end."""
        if self.status is None:
            return Seen.NOTHING
        body, due = bytes(self.body), order.answer()
        if self.spoilt:
            return Seen.STRANGE
        if self.status == 200 and due.startswith(body):
            if self.complete:
                return Seen.WHOLE if body == due else Seen.SILENT_CUT
            return Seen.PARTIAL if left else Seen.BROKEN
        if self.status == 200 and (rest := _behind(due, body)) is not None:
            event = ERROR_EVENT.fullmatch(rest)
            if event is not None and _code(event[2]):
                self.told = True
                return Seen.BROKEN
        for fate in (*DECLINES, Fate.ERROR):
            status, _, said = refusal(fate, order.marker)
            if self.status == status and said.startswith(body):
                if self.complete:
                    return Seen.LANES_ERROR if body == said else Seen.SILENT_CUT
                return Seen.PARTIAL if left else Seen.BROKEN
        if self.status >= 400 and self.code:
            return Seen.GATES_ERROR
        return Seen.PARTIAL if left and self.status >= 400 else Seen.STRANGE


def _behind(due: bytes, body: bytes) -> bytes | None:
    """What stands behind as much of `due` as the body begins with; None if there is no telling."""
    at = body.rfind(b'data: {"error":')
    at = len(body) if at < 0 else at
    beginning = body[:at].removesuffix(b"event: error\n")
    # The gate may have to end an event that was cut in its middle.
    for ending in (b"", b"\n", b"\n\n", b"\r\n\r\n"):
        if beginning.endswith(ending) and due.startswith(beginning.removesuffix(ending)):
            return body[len(beginning.removesuffix(ending)) :]
    return None


def _code(body: bytes) -> str:
    value: Any = None
    with suppress(ValueError):
        value = json.loads(body)
    error = value.get("error") if isinstance(value, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""
