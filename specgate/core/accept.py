"""The live accept length: what the spec lane's steps yield on today's prompts, against the bench's.

Break-even moves with the prompts: a step of the spec lane costs what it did in the measurement and
yields a_live instead of a_bench tokens, so its curve is a_live / a_bench times as high
(`core.breakeven`, `Curves.scaled`). This keeps that factor, from what an engine counts.

Requests, not seconds, are what teaches: each new one takes its share of the average, and after
thirty the ones before them hardly count. In the beginning the bench's value counts as a few
requests. Seconds only make old news old: while the lane is off nothing is seen, the evidence fades
and the bench's value comes back, so that after some ten minutes the lane is judged as measured.

Ignored, since an engine's numbers may be anything: lengths below 1, above steps + 1 (or 64 where
the steps are unknown), what is no finite number, counters that went backwards (a restart), a mean
that is repeated while the engine's tokens stand still. As the bench's value and all that is let in
lie within 1 to steps + 1, so does the estimate: where break-even is above steps + 1 no reading
makes speculation pay.

The mean is over steps: samples are averaged by their steps for a token, 1 / a.
"""

import math
from typing import NamedTuple

MEMORY = 7.0
"""Requests: the weight of an observation falls by e with so many later ones."""

PRIOR = 3.0
"""The bench's value counts for so many requests."""

FADE_S = 400.0
"""While nothing is seen, the evidence is left to exp(-(age / FADE_S)^3): nearly all of it for two
minutes, so that a gate which has just left the spec lane does not come straight back on a memory
that fades, two thirds after five, and 3 % after ten."""

LONGEST = 64.0
"""Above it no accept length is believed, where the number of draft steps is unknown."""

FEWEST_STEPS = 16.0
"""A difference over fewer steps waits for more of them: the ends of a count do not quite meet."""

REQUESTS_DIFFER = 0.15
"""Relative standard deviation between requests: 9 to 15 % in published traces."""

STEPS_DIFFER = 1.2
"""Standard deviation between steps, in tokens."""

TRAFFICS_DIFFER = 0.25
"""Relative standard deviation of a traffic's mean about the bench's, before anything is seen."""


class Counted(NamedTuple):
    """What an engine has counted since its start.

    tokens: output tokens that decode steps yielded. steps: those steps, of one sequence each.
    requests: that ended, where the engine counts them. length: for engines that do not count their
    steps, the mean that they tell of the last ones; `steps` is then None.
    """

    tokens: float
    steps: float | None
    requests: float | None = None
    length: float | None = None


class Sample(NamedTuple):
    """Between two readings. `length`: accept length over `tokens`, of so many requests if known."""

    length: float
    tokens: float
    requests: float | None


def between(before: Counted, after: Counted) -> Sample | None:
    """None where nothing new was counted, or a count went backwards."""
    tokens = after.tokens - before.tokens
    if not tokens > 0.0:
        return None
    requests = None
    if before.requests is not None and after.requests is not None:
        requests = after.requests - before.requests
        if requests < 0.0:
            return None
    if after.steps is None:
        return None if after.length is None else Sample(after.length, tokens, requests)
    if before.steps is None or not after.steps > before.steps:
        return None
    return Sample(tokens / (after.steps - before.steps), tokens, requests)


class Estimate(NamedTuple):
    """accept_length: of live readings and the bench's value. factor: it over the bench's, with its
    standard error; noise: the part of it that more readings of the same prompts would take away.
    age_s: since something was last learnt, None: never; the factor is then 1."""

    accept_length: float
    factor: float
    standard_error: float
    noise: float
    age_s: float | None


class AcceptLength:
    """`bench`: accept length of the measurement, at least 1. `steps`: draft steps, if known.
    `output_tokens`: of a request, for engines that count none. Times: monotonic seconds."""

    __slots__ = (
        "_at",
        "_before",
        "_inverse",
        "_output_tokens",
        "_prior",
        "_squares",
        "_weight",
        "bench",
        "most",
    )

    def __init__(self, bench: float, *, steps: int | None, output_tokens: float) -> None:
        self.most = LONGEST if steps is None else steps + 1.0
        self.bench = bench = min(max(1.0, bench), self.most)
        self._output_tokens = max(1.0, output_tokens)
        self._weight = 0.0
        """Requests that the live average is of, each counted by how much it still weighs."""
        self._squares = 0.0
        self._inverse = 0.0
        """The sum of weight / length."""
        self._prior = PRIOR
        self._at: float | None = None
        self._before: Counted | None = None

    def against(self, bench: float, *, steps: int | None, output_tokens: float) -> None:
        """Another measurement to be held against; what was seen of the engine stays."""
        self.most = LONGEST if steps is None else steps + 1.0
        self.bench = min(max(1.0, bench), self.most)
        self._output_tokens = max(1.0, output_tokens)

    def saw(self, reading: Counted, now: float) -> bool:
        """Take a reading of the engine's counters; whether anything was learnt from it."""
        before = self._before
        if before is None or went_back(before, reading):
            self._before = reading
            return False
        if reading.steps is not None and before.steps is not None:
            if reading.steps - before.steps < FEWEST_STEPS:
                return False
        elif reading.tokens <= before.tokens:
            return False
        self._before = reading
        sample = between(before, reading)
        return sample is not None and self.learn(sample, now)

    def learn(self, sample: Sample, now: float) -> bool:
        """Take one sample; False: it cannot be, and is ignored."""
        length, tokens = sample.length, sample.tokens
        if not (1.0 <= length <= self.most and 0.0 < tokens < math.inf):
            return False
        requests = max(tokens / self._output_tokens, sample.requests or 0.0)
        self._age(now)
        keep = math.exp(-requests / MEMORY)
        # The later ones of a sample weigh more too, as if they had come one by one.
        weight = MEMORY * (1.0 - keep)
        self._weight = self._weight * keep + weight
        self._squares = self._squares * keep**2 + MEMORY / 2.0 * (1.0 - keep**2)
        self._inverse = self._inverse * keep + weight / length
        self._prior *= keep
        return True

    def forget(self) -> None:
        """Another engine speculates from now on: what was seen says nothing of it."""
        self._weight = self._squares = self._inverse = 0.0
        self._prior, self._at, self._before = PRIOR, None, None

    def estimate(self, now: float) -> Estimate:
        if self._at is None or self._weight <= 0.0:
            return Estimate(self.bench, 1.0, TRAFFICS_DIFFER, 0.0, None)
        age_s = max(0.0, now - self._at)
        fade = _left_after(age_s)
        live = self._weight * fade
        prior = PRIOR + (self._prior - PRIOR) * fade
        length = (live + prior) / (self._inverse * fade + prior / self.bench)
        length = min(max(1.0, length), self.most)
        factor = length / self.bench
        share = live / (live + prior)
        noise = share * self._relative_error()
        error = math.hypot(noise, (1.0 - share) * TRAFFICS_DIFFER)
        return Estimate(length, factor, factor * error, factor * noise, age_s)

    def _relative_error(self) -> float:
        """Of the live average alone."""
        length = self._weight / self._inverse
        independent = self._weight**2 / self._squares
        steps = max(1.0, self._output_tokens / length)
        return math.sqrt(
            (REQUESTS_DIFFER**2 + (STEPS_DIFFER / length) ** 2 / steps) / max(1e-9, independent)
        )

    def _age(self, now: float) -> None:
        """Let time pass to `now`; a clock that stands still or goes back ages nothing."""
        if self._at is not None and now > self._at:
            fade = _left_after(now - self._at)
            self._weight *= fade
            self._squares *= fade**2
            self._inverse *= fade
            self._prior = PRIOR + (self._prior - PRIOR) * fade
        self._at = now if self._at is None else max(now, self._at)


def _left_after(age_s: float) -> float:
    return math.exp(-((age_s / FADE_S) ** 3))


def went_back(before: Counted, after: Counted) -> bool:
    """Counters only grow, so the engine was started anew; or it tells other things than before."""
    for was, now in zip(before[:3], after[:3], strict=True):
        if (was is None) != (now is None):
            return True
        if was is not None and now is not None and not now >= was:
            return True
    return False
