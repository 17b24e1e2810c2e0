"""What a chaos client asks for, and all that a lane answers to it: both follow from the order.

Every order has a marker of its own, which stands in its headers, its body and in each token of its
answer: what is mixed up, doubled or missing shows wherever the bytes are looked at.
"""

import json
import zlib
from dataclasses import dataclass
from enum import StrEnum

from tests.support.steps import DONE, frame

PEEK_LIMIT = 256 * 1024
"""SPECGATE_PEEK_LIMIT's default: the gate counts a larger body as one sequence, and cannot send it
twice."""

ORDER_HEADER = b"x-chaos-order"


class Form(StrEnum):
    """A streamed chat, one that is not, and a call that decodes nothing."""

    STREAM = "stream"
    WHOLE = "whole"
    MODELS = "models"


@dataclass(frozen=True, slots=True)
class Order:
    """tokens: of the answer, each with `pad` more bytes; sequences: `n`; filler: bytes that make
    the request's body larger."""

    marker: str
    form: Form
    tokens: int = 8
    pad: int = 0
    sequences: int = 1
    filler: int = 0

    @property
    def weight(self) -> int:
        """Sequences that the gate counts while it is in flight."""
        if self.form is Form.MODELS:
            return 0
        return self.sequences if self.filler + 1024 < PEEK_LIMIT else 1

    @property
    def resendable(self) -> bool:
        """Whether the gate holds all of its body, and can hand it to another lane."""
        return self.filler + 1024 < PEEK_LIMIT

    def body(self) -> bytes:
        """The request's; empty for a GET."""
        if self.form is Form.MODELS:
            return b""
        text = (self.marker * (self.filler // len(self.marker) + 1))[: self.filler]
        return json.dumps(
            {
                "model": "m",
                "stream": self.form is Form.STREAM,
                "n": self.sequences,
                "user": self.marker,
                "messages": [{"role": "user", "content": text}],
            }
        ).encode()

    def header(self, body: bytes) -> bytes:
        """All of it, and how the body can be told to have come unharmed."""
        fields = (self.marker, self.form, self.tokens, self.pad, self.sequences, self.filler)
        return " ".join(map(str, (*fields, len(body), zlib.crc32(body)))).encode()

    def answer(self) -> bytes:
        """The response's body, without its framing."""
        texts = [f"{self.marker}.{number} " + "x" * self.pad for number in range(self.tokens)]
        if self.form is Form.STREAM:
            return b"".join(map(self._event, texts)) + DONE
        choice = {"index": 0, "message": {"role": "assistant", "content": "".join(texts)}}
        return json.dumps({"id": self.marker, "choices": [choice]}).encode()

    def _event(self, text: str) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        return frame({"id": self.marker, "object": "chat.completion.chunk", "choices": [choice]})


def read_order(header: bytes) -> tuple[Order, int, int]:
    """From the header: the order, and its body's length and CRC."""
    marker, form, *numbers = header.decode("ascii").split()
    tokens, pad, sequences, filler, length, crc = map(int, numbers)
    return Order(marker, Form(form), tokens, pad, sequences, filler), length, crc
