"""How large a share of recent sequences must go to the plain lane by rules, whatever the side."""

import math

MEMORY = 200.0
"""Sequences over which the average runs: of random requests near the limit, its deviation is then
a tenth of the limit, well within the distance between the two edges."""

BACK_BELOW = 0.7
"""The share of the limit below which the side is free again."""


class ForcedShare:
    """limit: the share above which the whole side moves, None: never.

    A request that is not forced costs nothing here: the caller counts all sequences, and what they
    change of the average is caught up with when it is next looked at.
    """

    __slots__ = ("_limit", "_seen", "_share", "over")

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._share = 0.0
        self._seen = 0
        self.over = False

    def forced(self, sequences: int, total: int) -> None:
        """So many of the sequences up to `total`, the last of them, were forced."""
        self._catch_up(total - sequences)
        self._seen = total
        self._share += (1.0 - self._share) * -math.expm1(-sequences / MEMORY)
        self._judge()

    def read(self, total: int) -> float:
        """The share by now, in [0, 1]."""
        self._catch_up(total)
        self._judge()
        return self._share

    def _catch_up(self, total: int) -> None:
        if total > self._seen:
            self._share *= math.exp((self._seen - total) / MEMORY)
            self._seen = total

    def _judge(self) -> None:
        if self._limit is not None:
            edge = self._limit * BACK_BELOW if self.over else self._limit
            self.over = self._share > edge
