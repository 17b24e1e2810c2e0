"""The verdict finds what it is there to find, and nothing else: told of runs that never were."""

import zlib
from dataclasses import replace

import pytest

from specgate.core.lanes import Lane
from tests.chaos.clients import Outcome
from tests.chaos.fates import Fate, refusal
from tests.chaos.journal import Entry, Event
from tests.chaos.judge import Verdict, judge
from tests.chaos.lanes import Period
from tests.chaos.manners import Leaves, Manner
from tests.chaos.orders import Form, Order, read_order
from tests.chaos.reading import Reading, Seen
from tests.chaos.records import Ejection, Kept, records

ORDER = Order("r7-0badcafe", Form.STREAM, tokens=3)
DUE = ORDER.answer()
CRC = zlib.crc32(DUE)
WHOLE = Outcome(
    ORDER, Manner(), 10.0, 11.0, seen=Seen.WHOLE, status=200, lane="spec", length=len(DUE)
)
NO_ANSWER = replace(
    WHOLE, seen=Seen.GATES_ERROR, status=502, code="lane_no_answer", lane="spec", length=99
)
NO_TIME = ["ConnectTimeout", "the plain lane took no connection in 5 s"]
DOWN = Period(9.0, 12.0, killed=False)
KILLED = Period(10.2, 12.0, killed=True)


def visit(
    fate: Fate = Fate.SERVED, end: Event | None = Event.SENT, *, at: float = 10.1, number: int = 1
) -> list[Entry]:
    """What a lane writes of a request that it reads whole."""
    marker = ORDER.marker
    written = [
        Entry(at, Event.HEAD, marker, number),
        Entry(at, Event.FATE, marker, text=fate),
        Entry(at + 0.01, Event.READ, marker, number),
    ]
    if end is not None:
        written.append(Entry(at + 0.2, end, marker, len(DUE), CRC))
    return written


def verdict(
    outcome: Outcome,
    spec: list[Entry] | None = None,
    plain: list[Entry] | None = None,
    *,
    spec_periods: list[Period] | None = None,
    plain_periods: list[Period] | None = None,
    ejected: list[Ejection] | None = None,
) -> Verdict:
    """ejected: the plain lane."""
    kept = {
        Lane.SPEC: Kept(spec_periods or [], [], []),
        Lane.PLAIN: Kept(plain_periods or [], [], ejected or []),
    }
    found = records({Lane.SPEC: spec or [], Lane.PLAIN: plain or []}, kept)
    return judge([outcome], found, silence_s=10)


def problem(found: Verdict) -> str:
    (one,) = found.problems
    return one.partition(":")[0]


def test_a_request_that_was_served_is_no_problem():
    assert verdict(WHOLE, visit()).problems == []


def test_sent_to_both_lanes():
    found = verdict(WHOLE, visit(at=10.5), visit(Fate.RST_READ, Event.CUT))
    assert problem(found) == "sent to the other lane though the first had read all of it"


def test_a_decline_may_be_sent_to_the_other_lane():
    found = verdict(WHOLE, visit(at=10.5), visit(Fate.QUEUE_FULL))
    assert found.problems == []
    assert found.rerouted == 1


def test_sent_thrice():
    declined = [visit(Fate.QUEUE_FULL, at=at) for at in (10.1, 10.5)]
    found = verdict(WHOLE, [*declined[0], *visit(at=10.8)], declined[1])
    assert problem(found) == "rerouted more than once"


@pytest.mark.parametrize(("number", "allowed"), [(1, False), (2, True)])
def test_the_same_lane_is_asked_again_only_on_a_connection_that_had_aged(number, allowed):
    first = visit(Fate.RST_READ, Event.CUT, number=number)
    found = verdict(WHOLE, [*first, *visit(at=10.5)])
    assert (found.problems == []) is allowed
    assert found.asked_again == allowed


def test_an_answer_of_another_length_or_of_other_bytes():
    assert problem(verdict(replace(WHOLE, length=7), visit())) == (
        "not what the lane's own record has"
    )
    written = visit()
    written[-1] = written[-1]._replace(crc=1)
    assert problem(verdict(WHOLE, written)) == "not what the lane's own record has"


def test_an_answer_that_no_lane_has_given():
    assert problem(verdict(WHOLE)) == "an answer that no lane has given"
    cut = verdict(WHOLE, visit(Fate.CUT_RST, Event.CUT))
    assert problem(cut) == "an answer that no lane has given"
    # One that was killed had no time to write it down.
    assert verdict(WHOLE, visit(end=None), spec_periods=[KILLED]).problems == []


def test_said_to_be_of_the_other_lane():
    assert problem(verdict(replace(WHOLE, lane="plain"), visit())) == (
        "said to be of the other lane"
    )


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        (Seen.STRANGE, "bytes that nobody sent"),
        (Seen.SILENT_CUT, "cut, and it looked whole"),
        (Seen.NOTHING, "no answer at all"),
    ],
)
def test_what_must_never_be_seen(seen, what):
    assert problem(verdict(replace(WHOLE, seen=seen), visit())) == what


def test_a_request_that_never_ended():
    assert problem(verdict(replace(WHOLE, stuck=True), visit())) == "never ended"


def test_a_failure_that_a_healthy_lane_could_have_served():
    """The first lane takes no connection, and the other is well."""
    refused = replace(NO_ANSWER, status=503, code="no_lane_reachable", lane="")
    lost = "failed, and a healthy lane could have served it"
    assert problem(verdict(refused, plain_periods=[DOWN])) == lost
    found = verdict(refused, spec_periods=[DOWN], plain_periods=[DOWN])
    assert found.problems == []
    assert found.accounts == {"nowhere to go": 1}


def test_a_failure_that_its_lane_caused():
    found = verdict(NO_ANSWER, visit(Fate.RST_READ, Event.CUT))
    assert (found.problems, found.accounts) == ([], {"broken by its lane": 1})
    found = verdict(NO_ANSWER, visit(end=None), spec_periods=[KILLED])
    assert (found.problems, found.accounts) == ([], {"broken by its lane": 1})
    assert verdict(NO_ANSWER, visit()).problems != []


def test_a_connection_that_broke_with_the_request_unread():
    found = verdict(NO_ANSWER, spec_periods=[DOWN])
    assert found.accounts == {"broken unread": 1}
    # Not if it was the other lane that broke connections.
    assert verdict(NO_ANSWER, plain_periods=[DOWN]).problems != []


def test_a_decline_that_the_other_lane_could_have_taken_over():
    said = refusal(Fate.NOT_READY, ORDER.marker)[2]
    declined = replace(WHOLE, seen=Seen.LANES_ERROR, status=503, length=len(said))
    lost = "failed, and a healthy lane could have served it"
    assert problem(verdict(declined, visit(Fate.NOT_READY))) == lost
    out = [Ejection(9.0, 12.0, "the plain lane gave no answer")]
    found = verdict(
        declined, visit(Fate.NOT_READY), ejected=out, plain_periods=[Period(7, 8, killed=True)]
    )
    assert (found.problems, found.accounts) == ([], {"declined, and the other lane out": 1})


def test_a_lane_that_was_ejected_for_nothing():
    for why in ("/ready answered 500", "no answer within 5 s", *NO_TIME):
        # It is well, and was asked a moment ago.
        well = [Entry(at, Event.READY, "-") for at in (6.0, 8.5)]
        found = verdict(WHOLE, visit(), well, ejected=[Ejection(9.0, 12.0, why)])
        assert found.problems == [f"the plain lane was ejected for nothing at 9.000: {why}"]
        assert found.ejected_by_the_machine == 0


@pytest.mark.parametrize("why", NO_TIME)
def test_a_lane_that_nobody_had_the_time_to_ask(why):
    before = [Entry(at, Event.READY, "-") for at in (6.0, 6.9, 9.1)]
    found = verdict(WHOLE, visit(), before, ejected=[Ejection(9.0, 12.0, why)])
    assert (found.problems, found.ejected_by_the_machine) == ([], 1)
    # Nothing but the want of time is the machine's.
    other = Ejection(9.0, 12.0, "/ready answered 500")
    assert verdict(WHOLE, visit(), before, ejected=[other]).problems != []


def test_a_time_out_before_its_time():
    early = replace(NO_ANSWER, status=504, code="lane_timeout")
    assert verdict(early, visit(Fate.LATE, Event.GONE)).problems != []
    late = replace(early, ended=20.1)
    assert verdict(late, visit(Fate.LATE, Event.GONE)).accounts == {"too late": 1}


def test_turned_away():
    full = replace(NO_ANSWER, status=429, code="queue_full", lane="", retry_after="1")
    assert verdict(full).accounts == {"turned away": 1}
    assert problem(verdict(full, visit())) == "turned away, and a lane had it"
    bare = "turned away without a proper status or Retry-After"
    assert problem(verdict(replace(full, retry_after=""))) == bare
    assert problem(verdict(replace(full, status=503))) == bare


def test_half_a_request_reaches_no_lane():
    half = replace(
        WHOLE, manner=Manner(leaves=Leaves.IN_UPLOAD), seen=Seen.NOTHING, left=True, lane=""
    )
    assert verdict(half).problems == []
    assert problem(verdict(half, visit())) == "sent to a lane before all of it had come"


def test_a_request_that_came_otherwise_than_it_was_sent():
    spoilt = Entry(10.1, Event.SPOILT, ORDER.marker)
    assert verdict(WHOLE, [*visit(), spoilt]).problems == ["r7-0badcafe reached spec spoilt (-)"]


# What a client makes of bytes

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ERROR = b'data: {"error": {"message": "broke off", "code": "lane_stream_broken"}}\n\n'


def read(body: bytes, *, end: bool) -> Reading:
    reading = Reading()
    reading.feed(HEAD + b"%x\r\n%b\r\n" % (len(body), body))
    if end:
        reading.feed(b"0\r\n\r\n")
    return reading


@pytest.mark.parametrize(
    ("body", "end", "seen"),
    [
        (DUE, True, Seen.WHOLE),
        (DUE, False, Seen.BROKEN),
        (DUE[:100], False, Seen.BROKEN),
        (DUE[:100], True, Seen.SILENT_CUT),
        (DUE[:100] + b"\n\n" + ERROR, False, Seen.BROKEN),
        (DUE[:100] + b"\n\n" + ERROR + b"data: [DONE]\n\n", True, Seen.STRANGE),
        (DUE[:100] + DUE[90:], True, Seen.STRANGE),
        (replace(ORDER, marker="r8-00000000").answer(), True, Seen.STRANGE),
        (DUE + DUE[-14:], True, Seen.STRANGE),
        (refusal(Fate.FULL_EVENT, ORDER.marker)[2], True, Seen.LANES_ERROR),
        (refusal(Fate.FULL_EVENT, "r8-00000000")[2], True, Seen.STRANGE),
    ],
)
def test_what_an_answer_amounts_to(body, end, seen):
    assert read(body, end=end).amounts_to(ORDER, left=False) is seen


def test_an_error_event_that_was_cut_in_its_middle_is_told_from_other_bytes():
    reading = read(DUE[:100] + b"\n\n" + ERROR, end=False)
    assert reading.amounts_to(ORDER, left=False) is Seen.BROKEN
    assert reading.told


def test_a_second_answer_behind_the_first():
    reading = read(DUE, end=True)
    reading.feed(HEAD)
    assert reading.amounts_to(ORDER, left=False) is Seen.STRANGE


def test_an_order_travels_in_its_header():
    body = ORDER.body()
    assert read_order(ORDER.header(body)) == (ORDER, len(body), zlib.crc32(body))
