"""The id that an engine gives to what it holds from now on, read from its answer as it passes.

A stored response's stands first in its JSON, or in the first event of its stream:
`"id": "resp_..."`. A session's is SGLang's whole answer: `"..."`.
"""

import re
from collections.abc import Callable

from specgate.core.tap import Tap

LOOKED_AT = 16 * 1024
"""Bytes of an answer's beginning, within which the id stands or is not there."""

ID_MAX = 256
"""Characters of an id that is kept; engines' have some forty."""

_ID = re.compile(rb'(?:"id"\s*:|^)\s*"([^"\\\s]{1,%d})"' % ID_MAX)


class IdTap:
    """A tap that reads along for the id, and tells of it once, as soon as it has passed."""

    __slots__ = ("_begun", "_inner", "_learn")

    def __init__(self, inner: Tap, learn: Callable[[str], None]) -> None:
        self._inner = inner
        self._learn: Callable[[str], None] | None = learn
        self._begun = b""

    @property
    def first_output_at(self) -> float | None:
        return self._inner.first_output_at

    @property
    def last_at(self) -> float | None:
        return self._inner.last_at

    def feed(self, chunk: bytes, now: float) -> None:
        self._inner.feed(chunk, now)
        if self._learn is None:
            return
        self._begun += chunk
        found = _ID.search(self._begun[:LOOKED_AT])
        if found is not None:
            self._learn(found[1].decode("utf-8", "replace"))
        if found is not None or len(self._begun) >= LOOKED_AT:
            self._learn, self._begun = None, b""

    def output_tokens(self) -> int | None:
        return self._inner.output_tokens()

    def prompt_tokens(self) -> int | None:
        return self._inner.prompt_tokens()
