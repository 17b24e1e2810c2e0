"""Lanes that can be reckoned by hand."""

import random

from specgate.bench.judging import profile_of
from specgate.bench.shipped import shipped
from specgate.core.curves import Curve, Curves
from specgate.core.lanes import Lane
from specgate.core.profile import Curve as Measured
from specgate.core.profile import Fingerprint
from specgate.replay.run import World, run
from specgate.replay.traffic import Arrival

FLAT = Curves(spec=Curve((1.0, 8.0), (20.0, 20.0)), plain=Curve((1.0, 8.0), (10.0, 10.0)))
"""20 and 10 tokens a second, however many share them."""

CROSSING = Curves(
    spec=Curve((1.0, 16.0, 64.0), (40.0, 200.0, 220.0)),
    plain=Curve((1.0, 16.0, 64.0), (20.0, 180.0, 400.0)),
)


class Chosen:
    """Sends each request to the lane that was chosen for it; remembers all it was told."""

    switches = 0

    def __init__(self, lanes):
        self._lanes = list(lanes)
        self.side = self._lanes[0]
        self.told = []
        self.accept = []

    def arrived(self, number, now):
        self.told.append((now, 1))
        self.side = self._lanes[number % len(self._lanes)]
        return self.side

    def ended(self, number, now, prompt_tokens):
        self.told.append((now, -1))

    def accepted(self, now, tokens, accept_length):
        self.accept.append((now, tokens, accept_length))

    def tick(self, now): ...

    def holding(self, now, waiting):
        return False


def requests(*pairs, prompt=100):
    """From pairs of a time and a number of output tokens."""
    return [Arrival(at, prompt, tokens) for at, tokens in pairs]


def at_random(count, rate, mean, *, seed):
    """Poisson arrivals with exponential lengths."""
    draw, now, found = random.Random(seed), 0.0, []
    for _ in range(count):
        now += draw.expovariate(rate)
        found.append(Arrival(now, 100, max(1, round(draw.expovariate(1 / mean)))))
    return found


def alone(lane, arrivals, curves=FLAT, **world):
    return run(curves, arrivals, Chosen([lane]), World(**world))


SPEC, PLAIN = Lane.SPEC, Lane.PLAIN


def several_lengths(*chosen):
    """A profile of one deployment at several prompt lengths, from what was published of it. Each of
    `chosen`: a shipped profile's name and the prompt tokens that it is to stand for."""
    curves = []
    for name, context in chosen:
        of = shipped(name)
        curves.append(
            Measured(
                verdict=of.verdict,
                levels=of.levels,
                context=context,
                max_tokens=256,
                by_arm=of.by_arm,
            )
        )
    return profile_of(curves, Fingerprint())


K26 = "k26-int4-8xrtxpro6000-vllm-ctx"
LENGTHS = ((K26 + "0-v1", 128), (K26 + "10k", 10_240), (K26 + "41k", 41_000))
"""Crossovers at 104, 39 and 3."""
