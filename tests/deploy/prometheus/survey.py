"""Asks a real Prometheus every query of the dashboards, every recording rule and every alert, and
holds against what comes back which may be empty, and why."""

import asyncio
import re
from dataclasses import dataclass

from tests.deploy.grafana import reading as dashboards
from tests.deploy.prometheus import reading as rules
from tests.deploy.prometheus.server import Api

EMPTY = {
    "overview / Upstream errors / rerouted to {{lane}}": "a reroute needs a lane that takes no "
    "connection, and the simulated ones always take one",
    "lanes / Upstream errors / rerouted to {{lane}}": "the same",
    "lanes / Wait in the queue / half below": "SPECGATE_MAX_IN_FLIGHT is not set: nobody waits",
    "lanes / Wait in the queue / 95 % below": "the same",
    "decisions / Speculation by experiment / {{bound}}": "no gate runs the experiment",
    "decisions / What the experiment takes / of the time": "the same",
    "decisions / What the experiment takes / pairs an hour": "the same",
    "SpecgateTurnsAway": "SPECGATE_MAX_IN_FLIGHT is not set: nobody is turned away",
    "SpecgateLeakSuspected": "no request is an hour old",
    "SpecgateMemoryGrows": "there is no day ago",
    "SpecgateFilesRunOut": "a few dozen files are open",
    "SpecgateLoopFails": "no loop raises",
    "SpecgateAlternationFails": "the pools hold both lanes: none takes turns",
    "SpecgateNoLaneAwake": "the same",
}
"""What has no data, and why that is right."""

EITHER = {
    "SpecgateDown": "whether each scrape was answered in time",
    "SpecgateSaturated": "whether a gate has a whole core to itself",
    "SpecgateOverheadHigh": "how many others the two cores serve",
}
"""Alerts that have data or not by how busy the machine is."""

NOTHING_TO_COMPARE = {
    "SpecgateMemoryGrows": "one side of the comparison is a day ago",
}
"""Of the alerts without data: those that have none even before they are compared with a limit."""

_NAMED = re.compile(r"{{(\w+)}}")
_LIMIT = re.compile(r"(?<=[\s)}])(>|<|==) (?=[\d.]+\b)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """kind: query, record or alert. series: numbers by the values of the labels. labels: the names
    that each of the series has."""

    kind: str
    name: str
    expr: str
    series: dict[str, list[float]]
    labels: set[str]


async def survey(
    api: Api, begin: float, end: float, *, rate_interval: str, step_s: float
) -> list[Answer]:
    """All of them over that time, seconds since the epoch."""
    asked = [
        *(("query", *each) for each in dashboards.queries(rate_interval=rate_interval)),
        *(("record", *each) for each in rules.recorded().items()),
        *(("alert", name, rule["expr"]) for name, rule in rules.alerts().items()),
    ]
    found = await asyncio.gather(*(api.labelled(expr, begin, end, step_s) for _, _, expr in asked))
    return [
        Answer(
            kind=kind,
            name=name,
            expr=expr,
            series={" ".join(labels.values()): numbers for labels, numbers in series},
            labels=set.intersection(*(set(labels) for labels, _ in series)) if series else set(),
        )
        for (kind, name, expr), series in zip(asked, found, strict=True)
    ]


async def compared(api: Api, name: str, begin: float, end: float, step_s: float) -> bool:
    """Whether an alert's expression has data with its comparisons as 0 or 1 instead of filters."""
    expr = rules.alerts()[name]["expr"]
    asked, count = _LIMIT.subn(r"\1 bool ", expr)
    assert count, f"{name} compares nothing with a number"
    return bool(await api.over(asked, begin, end, step_s))


def wrongly_empty(answers: list[Answer]) -> set[str]:
    return {
        answer.name
        for answer in answers
        if not answer.series and answer.name not in EMPTY.keys() | EITHER.keys()
    }


def legends_without_their_label(answers: list[Answer]) -> set[str]:
    """Queries whose legend names a label that not each of their series has: Grafana writes nothing
    in its place."""
    return {
        answer.name
        for answer in answers
        if answer.kind == "query" and answer.series
        if set(_NAMED.findall(answer.name.rsplit(" / ", 1)[-1])) - answer.labels
    }


def wrongly_listed(answers: list[Answer]) -> set[str]:
    """Names in the table that have data, or that there are not."""
    return set(EMPTY) - {answer.name for answer in answers if not answer.series}
