"""A run's report, for people."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.run import Report

SHOWN = 30
"""Problems that are printed; the rest are counted."""


def told(report: Report) -> Iterator[str]:
    """Line by line."""
    verdict = report.verdict
    total = sum(verdict.seen.values())
    yield (
        f"{report.clients} clients for {report.seconds:g} s, seed {report.seed}: "
        f"{total} requests, {report.requests_per_s:.0f} a second"
    )
    yield f"  clients    {_counts(verdict.manners)}"
    yield f"  answers    {_counts(verdict.seen)}"
    yield f"  lanes did  {_counts(verdict.fates)}"
    yield f"  failures   {_counts(verdict.accounts)}"
    yield (
        f"  rerouted {verdict.rerouted}, asked again on a connection that had aged "
        f"{verdict.asked_again}, told of a break in an event {verdict.told}, "
        f"switches {report.switches}, ejected for want of time {verdict.ejected_by_the_machine}"
    )
    agreed = [sample for sample in report.samples if sample.looks is not None]
    flights = [sum(sample.gate.sequences.values()) for sample in agreed]
    if flights:
        looks = [sample.looks for sample in agreed if sample.looks is not None]
        yield (
            f"  samples    {len(agreed)} of {len(report.samples)} equal, {min(flights)} to "
            f"{max(flights)} sequences in flight, after {max(looks)} looks at most"
        )
    begin, half, end = report.memory_mb
    yield f"  memory     {begin:.1f} MiB at first, {half:.1f} half way, {end:.1f} at the end"
    yield f"  log        {_counts(report.log)}"
    yield f"  problems   {len(report.problems)}"
    for problem in report.problems[:SHOWN]:
        yield f"    {problem}"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
