"""What makes a measurement doubtful, found in the figures themselves."""

from collections.abc import Iterable, Mapping

from specgate.core.breakeven import break_even
from specgate.core.cells import Cell
from specgate.core.profile import NOT_STATIC, PLAIN, SINGLE_RUN, Curve, Engine, Level
from specgate.core.shape import Shape

LITTLE = 0.05
"""By Little's law a closed loop that holds C has C x L = X x E2E on average: off by more than this
and ramp, early ends or stalls of the client are in the figures."""

DRIFT = 0.10
"""An accept length belongs to draft and prompts: over load it should not move by more than this."""


def void_cells(cells: Iterable[Cell]) -> list[str]:
    """A line for each cell that does not count."""
    return [
        f"void: {cell.arm} at {cell.concurrency}, repeat {cell.repeat}: {cell.void}"
        for cell in cells
        if cell.void is not None
    ]


def little(cells: Iterable[Cell]) -> list[str]:
    """A line for each cell that breaks Little's law: mean E2E against C x L / X.

    L, the mean output length, is tokens over E2E times E2E, at most what was asked for. That
    bound makes it exact where every output has the full length, however long requests queued.
    """
    found = []
    for cell in cells:
        if cell.void is not None:
            continue
        length = min(float(cell.max_tokens), cell.tok_s_per_request * cell.e2e_s.mean)
        expected = cell.concurrency * length / cell.tok_s
        off = cell.e2e_s.mean / expected - 1.0
        if abs(off) > LITTLE:
            found.append(
                f"Little's law: {cell.arm} at {cell.concurrency}, repeat {cell.repeat}: mean E2E "
                f"{cell.e2e_s.mean:.2f} s is {abs(off):.0%} {'above' if off > 0 else 'below'} "
                f"{expected:.2f} s, which {cell.concurrency} in flight at "
                f"{cell.tok_s:.1f} tok/s would take"
            )
    return found


def disturbed(cells: Iterable[Cell]) -> list[str]:
    """One line for all cells that have a systematic error."""
    found = sorted({cell.concurrency for cell in cells if cell.error > 0.0})
    if not found:
        return []
    return [
        f"the machine did other work while {', '.join(map(str, found))} were measured: intervals "
        "there are wider by what it may have taken from one arm and not from the other"
    ]


def alarms_of(curve: Curve, engines: Mapping[str, Engine]) -> list[str]:
    """A line for each alarm in a curve that was judged."""
    found = []
    names = sorted({name for level in curve.levels for name in level.arms})
    if curve.levels and PLAIN not in names:
        found.append("no plain arm was measured, so there is nothing to compare with")
    if curve.levels and not set(names) - set(NOT_STATIC):
        found.append("no speculative arm was measured")
    for name in names:
        if name not in NOT_STATIC:
            steps = engines[name].steps if name in engines else None
            found += _drift(curve.levels, name)
            found += _break_even(curve.levels, name, steps)
    if curve.verdict.confidence == SINGLE_RUN and curve.verdict.shape is not Shape.INCONCLUSIVE:
        found.append("single run: nothing was repeated, so nothing here has an interval")
    return found


def _drift(levels: Iterable[Level], name: str) -> list[str]:
    lengths = {
        level.concurrency: length
        for level in levels
        if name in level.arms and (length := level.arms[name].accept_length) is not None
    }
    if len(lengths) < 2:
        return []
    low, high = min(lengths, key=lambda c: lengths[c]), max(lengths, key=lambda c: lengths[c])
    if lengths[high] / lengths[low] <= 1.0 + DRIFT:
        return []
    return [
        f"accept length of {name} moves over load, from {lengths[low]:.2f} at {low} to "
        f"{lengths[high]:.2f} at {high}: the prompts differ between levels, or the engine "
        "drafts worse in a batch"
    ]


def _break_even(levels: Iterable[Level], name: str, steps: int | None) -> list[str]:
    """One line for each kind of alarm, at the lowest load where it is raised."""
    found: dict[bool, str] = {}
    for level in levels:
        arm, plain = level.arms.get(name), level.arms.get(PLAIN)
        if arm is None or plain is None or arm.accept_length is None:
            continue
        length, alarm = break_even(
            arm.accept_length, spec_tok_s=arm.tok_s, plain_tok_s=plain.tok_s, steps=steps
        )
        if alarm is not None:
            found.setdefault(length < 1.0, f"{name} from {level.concurrency} on: {alarm}")
    return list(found.values())
