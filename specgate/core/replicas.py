"""What several engines behind one lane count, as if it were one engine's count.

Each engine's count is held against its own earlier one, and what came between is added up: tokens
over steps of them all, never a mean of means. An engine that is new, or whose count went backwards
(it was started anew), or whose figures cannot be, is only noted: it neither adds nor takes away.
"""

from collections.abc import Mapping

from specgate.core.accept import LONGEST, Counted, Sample, between, went_back


class Together:
    """Decode steps of several engines, by name, since the first look at them."""

    __slots__ = ("_before", "_requests", "_steps", "_tokens")

    def __init__(self) -> None:
        self._before: dict[str, Counted] = {}
        self._tokens = self._steps = self._requests = 0.0

    def saw(self, readings: Mapping[str, Counted]) -> Counted:
        """Take a reading of each that told; of one that did not tell, the next begins anew."""
        before, self._before = self._before, dict(readings)
        for name, now in readings.items():
            was = before.get(name)
            if was is None or went_back(was, now):
                continue
            sample = between(was, now)
            if sample is None:
                self._before[name] = was  # nothing new yet, or only half of it
            elif 1.0 <= sample.length <= LONGEST:
                self._add(sample)
        known = all(each.requests is not None for each in readings.values())
        return Counted(self._tokens, self._steps, self._requests if known else None)

    def _add(self, sample: Sample) -> None:
        self._tokens += sample.tokens
        # An engine that tells a mean in place of its steps took as many as give that mean.
        self._steps += sample.tokens / sample.length
        self._requests += sample.requests or 0.0


class Summed:
    """One counter of several engines, by name. Begins as the sum of the first look at them."""

    __slots__ = ("_before", "_total")

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._total: float | None = None

    def saw(self, readings: Mapping[str, float]) -> float:
        """It never falls, whichever engine begins anew or is gone."""
        if self._total is None:
            self._total = sum(readings.values())
        else:
            for name, now in readings.items():
                self._total += max(0.0, now - self._before.get(name, now))
        self._before = dict(readings)
        return self._total
