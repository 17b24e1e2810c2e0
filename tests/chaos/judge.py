"""The verdict: what clients saw beside what lanes wrote down. Pure; it only reads.

A request *failed* if a client that stayed got anything but the whole answer, or an error of a lane
that worked on it. A failure is accounted for by one of these, and else it is a request that a
healthy lane could have served before its first byte, or one that was broken for nothing:

- *broken by its lane*: a lane that had its head resets, ends, garbles, hangs or cuts it, by that
  lane's own record, or was killed meanwhile. What was read may have been worked on.
- *broken unread*: the gate says that the lane ended the connection without an answer (502), and
  that lane did break connections within the request's time: it was killed, closed its port, or
  reset a connection as it accepted it. The gate cannot know whether the request had been read.
- *nowhere to go*: within the request's time each lane had declined it or was not to be reached.
- *declined*, and not given to the other lane: the gate does not hold a body of more than
  PEEK_LIMIT; of several sequences a lane with a full queue may have taken some; and a lane that the
  gate has ejected, by its own log, is not tried for a request that the first one could serve later.
  (That it was ejected must itself be accounted for.)
- *turned away*: no room in the queue (429), or not in time (503), with Retry-After, and no lane
  ever saw it.
- *too late*: the gate's own time-out for a lane that says nothing (504, or a stream that is cut),
  after no less than that time.

An ejection needs a lane that its own record shows to be down, unready, or breaking connections
shortly before. One for want of time to connect is the machine's, if the lane answered no probe in
that time.
"""

import itertools
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from specgate.core.lanes import Lane
from tests.chaos.clients import Outcome
from tests.chaos.fates import BREAKS, DECLINES, ENDS_UNHEARD, Fate
from tests.chaos.journal import Event
from tests.chaos.manners import Leaves
from tests.chaos.reading import Seen
from tests.chaos.records import SLACK_S, Records, Visit

AGAIN_WITHIN_S = 1.0
"""`specgate.upstream.pool.RETRY_WITHIN_S`: a reused connection that ends sooner after a request is
taken for one that the engine closed for its age, and the same lane is asked once more."""

QUEUE_CODES = {"queue_full": 429, "queue_timeout": 503}


@dataclass
class Verdict:
    """`problems`: empty, or the run failed. The counters are the run's figures."""

    problems: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    manners: Counter[str] = field(default_factory=Counter)
    fates: Counter[str] = field(default_factory=Counter)
    accounts: Counter[str] = field(default_factory=Counter)
    told: int = 0
    """Streams that were broken off, and whose client was told so in an event."""
    ejected_by_the_machine: int = 0
    """Ejections that a busy machine accounts for."""
    rerouted: int = 0
    asked_again: int = 0


def judge(outcomes: Iterable[Outcome], seen: Records, *, silence_s: float) -> Verdict:
    """silence_s: the gate's time-outs for a lane that says nothing."""
    verdict = Verdict(problems=[*seen.spoilt, *seen.ejected_for_nothing()])
    verdict.ejected_by_the_machine = seen.ejected_by_the_machine()
    for outcome in outcomes:
        marker = outcome.order.marker
        visits = seen.visits.get(marker, [])
        verdict.seen[outcome.seen] += 1
        verdict.manners[outcome.manner.label] += 1
        verdict.told += outcome.told
        verdict.fates.update(visit.fate for visit in visits)
        found = [*_doubled(visits, seen, verdict), *_wrong(outcome, visits, seen)]
        if not found and _failed(outcome, visits):
            why = _account(outcome, visits, seen, silence_s)
            verdict.accounts[why or "none"] += 1
            if why is None:
                found.append("failed, and a healthy lane could have served it")
        verdict.problems += [f"{what}: {_told(outcome, visits)}" for what in found]
    return verdict


def _failed(outcome: Outcome, visits: list[Visit]) -> bool:
    """Whether it must be accounted for. A lane that declines is no answer while another serves."""
    if outcome.left:
        return False
    if outcome.seen is Seen.LANES_ERROR:
        return visits[-1].fate in DECLINES
    return outcome.seen is not Seen.WHOLE


def _doubled(visits: list[Visit], seen: Records, verdict: Verdict) -> list[str]:
    """Whether it was sent again where it must not be."""
    found = []
    moves = 0
    for before, after in itertools.pairwise(visits):
        if before.lane is not after.lane:
            moves += 1
            verdict.rerouted += 1
            if before.read_at is not None and before.fate not in DECLINES:
                found.append("sent to the other lane though the first had read all of it")
        elif _may_ask_again(before, seen):
            verdict.asked_again += 1
        else:
            found.append("sent to the same lane twice")
    if moves > 1:
        found.append("rerouted more than once")
    return found


def _may_ask_again(visit: Visit, seen: Records) -> bool:
    """A reused connection that ended at once and without a word."""
    if visit.number < 2:
        return False
    if visit.end is None:
        return seen.killed(visit)
    assert visit.ended_at is not None
    soon = visit.ended_at - visit.at < AGAIN_WITHIN_S + SLACK_S
    return visit.fate in ENDS_UNHEARD and soon


def _wrong(outcome: Outcome, visits: list[Visit], seen: Records) -> list[str]:
    """What is wrong with an answer, whatever the weather."""
    found = []
    served = [visit for visit in visits if _has_answered(visit, seen)]
    if outcome.stuck:
        found.append("never ended")
    match outcome.seen:
        case Seen.NOTHING if not outcome.left:
            found.append("no answer at all")
        case Seen.STRANGE:
            found.append("bytes that nobody sent")
        case Seen.SILENT_CUT:
            found.append("cut, and it looked whole")
        case Seen.WHOLE | Seen.LANES_ERROR if not served:
            found.append("an answer that no lane has given")
        case Seen.WHOLE | Seen.LANES_ERROR:
            if outcome.lane != served[-1].lane:
                found.append("said to be of the other lane")
            if outcome.seen is Seen.WHOLE and not _is_its_record(served[-1], outcome):
                found.append("not what the lane's own record has")
        case Seen.GATES_ERROR if outcome.code in QUEUE_CODES:
            if outcome.status != QUEUE_CODES[outcome.code] or not outcome.retry_after.isdecimal():
                found.append("turned away without a proper status or Retry-After")
            if visits:
                found.append("turned away, and a lane had it")
        case _:
            pass
    if outcome.manner.leaves is Leaves.IN_UPLOAD and outcome.order.resendable and visits:
        found.append("sent to a lane before all of it had come")
    return found


def _has_answered(visit: Visit, seen: Records) -> bool:
    """Whether it may have said all of it: its lane may have been killed, or left, before it could
    write that down."""
    if visit.end is None:
        return seen.killed(visit)
    return visit.end in (Event.SENT, Event.GONE)


def _is_its_record(visit: Visit, outcome: Outcome) -> bool:
    if visit.end is None:
        return True
    answer = outcome.order.answer()
    return outcome.length == visit.length and zlib.crc32(answer) == visit.crc


def _account(outcome: Outcome, visits: list[Visit], seen: Records, silence_s: float) -> str | None:
    """What accounts for a failure, None if nothing does."""
    began, ended = outcome.began, outcome.ended
    if outcome.code in QUEUE_CODES:
        return "turned away"
    if visits and _is_broken(visits[-1], seen):
        return "broken by its lane"
    late = outcome.code == "lane_timeout" or outcome.seen is Seen.BROKEN
    if late and ended - began >= silence_s - SLACK_S:
        return "too late"
    lane = next((lane for lane in Lane if lane == outcome.lane), None)
    if lane is not None and outcome.code == "lane_no_answer":
        if seen.unreachable(lane, began, ended):
            return "broken unread"
        if not outcome.order.resendable and seen.closed_one(lane, began - 5.0, ended):
            return "broken unread"
    declined = {visit.lane for visit in visits if visit.fate in DECLINES}
    if all(lane in declined or seen.unreachable(lane, began, ended) for lane in Lane):
        return "nowhere to go"
    return _why_not_elsewhere(outcome, visits[-1], seen) if declined else None


def _why_not_elsewhere(outcome: Outcome, visit: Visit, seen: Records) -> str | None:
    """Why a request that its lane declined was not given to the other one."""
    if not outcome.order.resendable:
        return "declined, and too large to be sent twice"
    if outcome.order.sequences > 1 and visit.fate is not Fate.NOT_READY:
        return "declined, and of several sequences"
    if seen.out(visit.lane.other, outcome.began, outcome.ended):
        return "declined, and the other lane out"
    return None


def _is_broken(visit: Visit, seen: Records) -> bool:
    """Whether its lane broke it, by its own record, or was killed over it."""
    return visit.fate in BREAKS or (visit.end is None and seen.killed(visit))


def _told(outcome: Outcome, visits: list[Visit]) -> str:
    order = outcome.order
    way = "; ".join(
        f"{visit.lane} at {visit.at:.3f} no. {visit.number} {visit.fate} "
        f"read {visit.read_at} {visit.end} {visit.ended_at} {visit.length}"
        for visit in visits
    )
    return (
        f"{order} {outcome.manner} {outcome.seen} {outcome.status} {outcome.code!r} "
        f"lane {outcome.lane!r} {outcome.began:.3f} to {outcome.ended:.3f} "
        f"{outcome.length} bytes {outcome.detail} [{way or 'no lane saw it'}]"
    )
