"""What the gate's own meter says it gained, beside what the replay found."""

from typing import NamedTuple

from specgate.core.meter import Bounds
from specgate.replay.comparison import Comparison, Way


class Metered(NamedTuple):
    """Seconds of mean E2E that the gate gained over a lane for everything; below 0 it lost.

    estimated_s: as `core.meter` would have told it live, from the profile and what was offered;
    low_s, high_s: its interval, None where the profile has none. measured_s: what it really was.
    """

    over: Way
    estimated_s: float
    low_s: float | None
    high_s: float | None
    measured_s: float


def metered(found: Comparison) -> tuple[Metered, ...]:
    """One against each lane; none where the gate has no curves to estimate by."""
    gain = found.gain
    if gain is None or not gain.sequences:
        return ()
    each = ((Way.ALL_PLAIN, gain.against_plain), (Way.ALL_SPEC, gain.against_spec))
    return tuple(_of(found, over, bounds, gain.sequences) for over, bounds in each)


def _of(found: Comparison, over: Way, bounds: Bounds, sequences: int) -> Metered:
    low, middle, high = (None if each is None else each / sequences for each in bounds)
    assert middle is not None
    return Metered(over, middle, low, high, found.mean_s(over) - found.mean_s(Way.POLICY))
