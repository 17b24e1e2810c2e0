"""What the lanes' journals, their keeper and the gate's log say of a run, put in order."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from specgate.control.prober import PROBE_CONNECT_S
from specgate.core.lanes import Lane
from tests.chaos.fates import ENDS_UNHEARD, Fate
from tests.chaos.journal import Entry, Event
from tests.chaos.lanes import Period

SLACK_S = 0.5
"""By how much clocks of different processes and a busy machine may be apart."""

REMEMBERED_S = 6.0
"""How long after it a bad moment may still show in a lane's health: a probe may take 5 s."""


_NO_TIME = re.compile(r"^ConnectTimeout$|took no connection in [\d.]+ s$")
"""Why a gate ejects a lane whose kernel it did not see take a connection in time. It takes each at
once, unless the gate itself did not come to look."""


class Ejection(NamedTuple):
    """began, ended: monotonic seconds. why: in the gate's words."""

    began: float
    ended: float
    why: str


class Visit(NamedTuple):
    """One time that a lane had a request's head. number: of the request on its connection. length,
    crc: of what it answered, without framing."""

    lane: Lane
    at: float
    number: int
    fate: Fate = Fate.SERVED
    read_at: float | None = None
    ended_at: float | None = None
    end: Event | None = None
    length: int = 0
    crc: int = 0


class Kept(NamedTuple):
    """What is known of one lane besides its journal. periods: it broke connections or took none;
    unready: its probes were answered 503; ejected: the gate had it so."""

    periods: list[Period]
    unready: list[Period]
    ejected: list[Ejection]


class Records(NamedTuple):
    """visits: of each request, in the order of time. bad: of each lane, when it broke connections
    or took none; shaky: when what it did may have cost it its health; quiet: when it closed a
    connection between two requests; ready: when it answered a probe that it is ready; spoilt:
    requests that came otherwise than they were sent."""

    visits: Mapping[str, list[Visit]]
    bad: Mapping[Lane, list[Period]]
    shaky: Mapping[Lane, list[Period]]
    ejected: Mapping[Lane, list[Ejection]]
    quiet: Mapping[Lane, list[Period]]
    ready: Mapping[Lane, list[float]]
    spoilt: list[str]

    def unreachable(self, lane: Lane, began: float, ended: float) -> bool:
        """Whether it broke connections, or took none, at some moment of that time."""
        return _meets(self.bad[lane], began, ended)

    def closed_one(self, lane: Lane, began: float, ended: float) -> bool:
        """Whether it closed a connection between two requests, without a word."""
        return _meets(self.quiet[lane], began, ended)

    def out(self, lane: Lane, began: float, ended: float) -> bool:
        """Whether the gate had ejected it."""
        return _meets(self.ejected[lane], began, ended)

    def killed(self, visit: Visit) -> bool:
        """Whether a visit of which its lane says no more was ended by a killing."""
        killings = (period for period in self.bad[visit.lane] if period.killed)
        return any(period.ended >= visit.at for period in killings)

    def ejected_for_nothing(self) -> Iterator[str]:
        """Load and slowness eject no lane."""
        for lane, ejection in self._unaccounted():
            if not self._found_no_time(lane, ejection):
                at, why = ejection.began, ejection.why
                yield f"the {lane} lane was ejected for nothing at {at:.3f}: {why}"

    def ejected_by_the_machine(self) -> int:
        """How often a lane was ejected as the machine was too busy for anybody to ask it."""
        return sum(self._found_no_time(lane, each) for lane, each in self._unaccounted())

    def _unaccounted(self) -> Iterator[tuple[Lane, Ejection]]:
        """Ejections before which the lane's record has nothing bad."""
        for lane, ejections in self.ejected.items():
            for ejection in ejections:
                began = ejection.began
                if not _meets(self.shaky[lane], began - REMEMBERED_S, began):
                    yield lane, ejection

    def _found_no_time(self, lane: Lane, ejection: Ejection) -> bool:
        """Whether the gate says so, and the lane's own record bears it out: for as long as a
        connection may take, no probe came to it that it answered. Else it was well, and asked."""
        if not _NO_TIME.search(ejection.why):
            return False
        since = ejection.began - PROBE_CONNECT_S + SLACK_S
        return not any(since <= at <= ejection.began for at in self.ready[lane])


def _meets(periods: Iterable[Period | Ejection], began: float, ended: float) -> bool:
    return any(
        period.began <= ended + SLACK_S and began - SLACK_S <= period.ended for period in periods
    )


def records(journals: Mapping[Lane, Iterable[Entry]], kept: Mapping[Lane, Kept]) -> Records:
    """From each lane's journal, in the order of writing."""
    visits: dict[str, list[Visit]] = defaultdict(list)
    bad: dict[Lane, list[Period]] = {lane: list(kept[lane].periods) for lane in Lane}
    shaky: dict[Lane, list[Period]] = {lane: list(kept[lane].unready) for lane in Lane}
    quiet: dict[Lane, list[Period]] = {lane: [] for lane in Lane}
    ready: dict[Lane, list[float]] = {lane: [] for lane in Lane}
    spoilt: list[str] = []
    for lane, entries in journals.items():
        current: dict[str, Visit] = {}
        for entry in entries:
            moment = Period(entry.at, entry.at, killed=False)
            match entry.event:
                case Event.RESET:
                    bad[lane].append(moment)
                case Event.QUIET:
                    quiet[lane].append(moment)
                case Event.READY:
                    ready[lane].append(entry.at)
                case Event.SPOILT:
                    spoilt.append(f"{entry.marker} reached {lane} spoilt ({entry.text})")
                case Event.HEAD:
                    if (first := current.pop(entry.marker, None)) is not None:
                        visits[entry.marker].append(first)
                    current[entry.marker] = Visit(lane, entry.at, entry.number)
                case _:
                    if (visit := current.get(entry.marker)) is not None:
                        current[entry.marker] = visit = _went_on(visit, entry)
                        if visit.end is not None and visit.fate in ENDS_UNHEARD:
                            shaky[lane].append(moment)
        for marker, visit in current.items():
            visits[marker].append(visit)
    for each in visits.values():
        each.sort(key=lambda visit: visit.at)
    shaky = {lane: bad[lane] + shaky[lane] for lane in Lane}
    ejected = {lane: kept[lane].ejected for lane in Lane}
    return Records(visits, bad, shaky, ejected, quiet, ready, spoilt)


def _went_on(visit: Visit, entry: Entry) -> Visit:
    match entry.event:
        case Event.FATE:
            return visit._replace(fate=Fate(entry.text))
        case Event.READ:
            return visit._replace(read_at=entry.at)
        case _:
            return visit._replace(
                end=entry.event, ended_at=entry.at, length=entry.number, crc=entry.crc
            )
