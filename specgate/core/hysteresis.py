"""Which side a load keeps the gate on. Every transition is in this file.

A load is in one of three zones: LOW below the band, MIDDLE in it, HIGH at the threshold or above.
The side moves as the table says; an absent pair is an error. The table knows nothing of time: the
dwell is the caller's, and it can only hold back the one move that enters the spec side.
"""

from specgate.core.label import Label
from specgate.core.lanes import Lane


class Zone(Label):
    """Where a load lies: below the band, in it, or at the threshold and above."""

    LOW = "low"
    MIDDLE = "middle"
    HIGH = "high"


MOVES: dict[Lane, dict[Zone, Lane]] = {
    Lane.SPEC: {Zone.LOW: Lane.SPEC, Zone.MIDDLE: Lane.SPEC, Zone.HIGH: Lane.PLAIN},
    Lane.PLAIN: {Zone.LOW: Lane.SPEC, Zone.MIDDLE: Lane.PLAIN, Zone.HIGH: Lane.PLAIN},
}


def zone(load: float, *, speculate_below: float, plain_above: float) -> Zone:
    """The zone of a load; comparisons are strict: a load equal to the threshold is HIGH."""
    if load >= plain_above:
        return Zone.HIGH
    return Zone.LOW if load < speculate_below else Zone.MIDDLE
