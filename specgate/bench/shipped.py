"""Profiles that come with specgate, by name: the reference measurement, and published tables.

Each was measured once, or published without its spread, so none has an interval.
"""

from specgate.bench.judging import Rules, judged, profile_of
from specgate.core.lanes import Lane
from specgate.core.profile import ArmLevel, Engine, Fingerprint, Level, Profile, Run
from specgate.sim.profiles import load_profile, profile_names

names = profile_names
"""Every name that `shipped` takes."""


def shipped(name: str) -> Profile:
    """Raises `sim.profiles.UnknownProfileError`, whose message lists the names."""
    published = load_profile(name)
    draft = published.lanes[Lane.SPEC].draft
    levels = tuple(
        Level(
            concurrency=concurrency,
            arms={lane.value: single(published.measured[lane][i]) for lane in Lane},
        )
        for i, concurrency in enumerate(published.concurrency)
    )
    engines = {}
    if draft is not None:
        settings = {"topk": draft.topk, "draft_tokens": draft.tokens}
        engines[Lane.SPEC.value] = Engine(steps=draft.steps, settings={**settings})
    fingerprint = Fingerprint(hardware=published.hardware, source=published.source, engines=engines)
    return profile_of([judged(levels, paired=False, rules=Rules(), engines=engines)], fingerprint)


def single(tok_s: float) -> ArmLevel:
    """A throughput that was measured once, and nothing else."""
    return ArmLevel(tok_s=tok_s, runs=(Run(repeat=0, tok_s=tok_s, value=tok_s),))
