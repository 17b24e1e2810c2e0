"""A lane's output tokens a second, between two points of the history.

By the engine's own counter where there is one: it counts tokens as they come, and those of streams
that state no usage. Else by the counts of the responses that ended, which come all at once.
"""

from specgate.core.view import EngineCounters

STALE_S = 20.0
"""An engine's counter that was not read for so long says nothing of now."""

LEAST_S = 1.0
"""The first point is taken as the gate starts."""


class OutputRate:
    """`over` it once a point."""

    __slots__ = ("_rate", "_read")

    def __init__(self) -> None:
        self._read: EngineCounters | None = None
        self._rate: float | None = None

    def over(
        self, elapsed_s: float, ended: int, counted: EngineCounters | None, now: float
    ) -> float | None:
        """elapsed_s: since the last point; ended: tokens of the responses that ended in it;
        counted: the engine's latest reading. None where too little time has passed to say."""
        before, self._read = self._read, counted
        if counted is None or now - counted.at > STALE_S:
            self._rate = None
        elif before is not None and before.url == counted.url and counted.at > before.at:
            tokens = counted.output_tokens - before.output_tokens
            # A counter that went back is an engine that was started anew.
            self._rate = tokens / (counted.at - before.at) if tokens >= 0.0 else None
        elif before is None or before.url != counted.url:
            self._rate = None
        # Else nothing was read since: the last rate is still the latest.
        if self._rate is not None:
            return self._rate
        return ended / elapsed_s if elapsed_s >= LEAST_S else None
