"""The hold: after a switch new requests may wait until the side that was left has drained.

While both lanes work on one pool each is slower, and together they give less than one of them
would. A drain that no new requests join runs at the old lane's full speed and is over sooner; what
waited begins on a lane that has the pool for itself. It pays where the lanes are nearly full, and
costs a wait for the first token. Off unless it is asked for.

The one function is pure; who calls it keeps one number, the time since the hold began:

    a switch, on one pool, that nobody forced        held since now, in place of any hold before
    a mode that is forced                            held no more
    an arriving request, while held                  waits, before it is admitted
    `holds` says False; it is asked as a request     held no more: all that wait are admitted in
    arrives or ends, and at each tick                their order, as if they came now

A hold that is over does not begin anew before the next switch, whatever still goes to the old lane
(a rule, a conversation that stays). It ends for certain: `longest` mean durations of a sequence
after the switch, whether the old lane has drained or not.
"""

from typing import NamedTuple

LONGEST = 1.0
"""Most of a lane's sequences have ended after one mean duration; a longer wait is for a few."""


class Hold(NamedTuple):
    """drained: the old side counts as drained with so many sequences left, 0 or more. longest: of
    a hold, in mean durations of a sequence."""

    drained: int
    longest: float = LONGEST


def holds(hold: Hold, *, old: int, held_s: float, duration_s: float) -> bool:
    """Whether arriving requests wait.

    old: sequences in flight in the lane that was left. held_s: seconds since the switch.
    duration_s: a sequence's mean duration, as observed (`Demand.duration_s`, in `Weighed` too).
    """
    return old > hold.drained and held_s < hold.longest * duration_s
