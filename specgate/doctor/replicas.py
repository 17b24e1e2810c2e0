"""A balancer that answers in its engines' place (sglang-router): what it tells of them, and what of
that would spoil a measurement or a gate. No I/O.

It says at /readiness how many replicas it has, and passes their /metrics on as one page. All else,
it hides: which engine they are, their settings, their limits.
"""

from collections.abc import Mapping
from typing import Any

from specgate.doctor.documents import mapped, number
from specgate.doctor.facts import Accepted, Facts, Read, Replicas, Severity, Speculation
from specgate.doctor.report import Report
from specgate.engines.base import READINESS_PATH
from specgate.engines.replicas import METRICS_PATH, told_of_all

HIDDEN = "a balancer answers in its replicas' place: ask them"


def facts_behind(documents: Mapping[str, Any], page: str) -> dict[str, Any]:
    """As members of Facts; empty for what is no balancer. `page`: of METRICS_PATH."""
    said = documents.get(READINESS_PATH)
    if said is None:
        return {}
    told = told_of_all(page)
    steps = list(told.steps.values()) if told is not None else []
    taken = [each for each in steps if each.steps]
    verified = sum(each.steps or 0 for each in taken)
    where = f"{METRICS_PATH}, of {len(taken)} replica{'' if len(taken) == 1 else 's'} together"
    accepted = None
    on = None
    if verified:
        length = sum(each.tokens or 0 for each in taken) / verified
        accepted = Accepted(length=length, over=round(verified), where=where)
        on = Read(True, where, f"{verified:g} verifications")  # noqa: FBT003
    return {
        "replicas": Replicas(
            ready=number(mapped(said).get("healthy_workers")),
            total=number(mapped(said).get("total_workers")),
            counted=None if told is None else len(told.tokens),
        ),
        "counters": told is not None and bool(told.tokens),
        "metrics_path": METRICS_PATH,
        "speculation": Speculation(on=on),
        "accepted": accepted,
    }


def in_flight_behind(page: str) -> Read | None:
    """What all replicas have running and waiting."""
    told = told_of_all(page)
    if told is None or told.in_hand is None:
        return None
    return Read(told.in_hand.total, f"{METRICS_PATH} running and waiting, of all replicas")


def check_replicas(facts: Facts, report: Report) -> None:
    """Nothing of a lane that is one engine."""
    behind = facts.replicas
    if behind is None:
        return
    report.unknown(facts, "which engine its replicas are, and how they were started", HIDDEN)
    ready, total = behind.ready, behind.total
    if ready is not None and total is not None and ready < total:
        report.find(
            Severity.WARNING,
            "replicas-down",
            facts,
            f"{ready} of its {total} replicas are ready: the lane carries less than it was set up "
            "for",
            [f"{READINESS_PATH} healthy_workers: {ready}", f"total_workers: {total}"],
            "start the others, or take them out of the balancer; a threshold is that of all of "
            "them together",
        )
    if ready is not None and behind.counted is not None and 0 < behind.counted < ready:
        report.find(
            Severity.WARNING,
            "replicas-uncounted",
            facts,
            f"{behind.counted} of {ready} replicas have counters of tokens: what the gate reads of "
            "the lane's load and accept length leaves the others out",
            [f"{METRICS_PATH}: output tokens of {behind.counted} replicas"],
            "start all replicas with --enable-metrics",
        )
