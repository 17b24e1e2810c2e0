"""How arms and findings are drawn on a canvas: the marks that several figures share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from specgate.bench.drawing import Canvas, short
from specgate.bench.palette import INK, MUTED, Style
from specgate.bench.wording import number
from specgate.core.profile import PLAIN, SINGLE_RUN, ArmLevel, Curve, Verdict
from specgate.core.shape import Shape

Value = Callable[[ArmLevel], float | None]

Dashes = Literal["-"] | tuple[float, Sequence[float]]
_DASHED: Dashes = (0.0, (3.0, 2.0))
_SOLID: Dashes = "-"


def levels_of(curve: Curve) -> list[int]:
    """Every concurrency, ascending."""
    return [level.concurrency for level in curve.levels]


def at_levels(curve: Curve, name: str) -> list[tuple[int, ArmLevel]]:
    """One arm, where it was measured."""
    return [(lv.concurrency, lv.arms[name]) for lv in curve.levels if name in lv.arms]


def arms_with(curve: Curve, value: Value) -> list[str]:
    """Those that have the figure at any level: plain last, as in the table."""
    names = {name for lv in curve.levels for name, arm in lv.arms.items() if value(arm) is not None}
    return sorted(names, key=lambda name: (name == PLAIN, name != curve.verdict.arm, name))


def plot(
    canvas: Canvas, curve: Curve, name: str, style: Style, value: Value, *, dashed: bool = False
) -> Line2D:
    """A line through an arm's levels, where the value is known; dashed, it is a thin one."""
    known = [(c, y) for c, arm in at_levels(curve, name) if (y := value(arm)) is not None]
    (drawn,) = canvas.axes.plot(
        [c for c, _ in known],
        [y for _, y in known],
        color=style.light,
        marker=style.marker,
        markersize=3.5 if dashed else 5.0,
        linestyle=_DASHED if dashed else _SOLID,
        linewidth=1.2 if dashed else 1.8,
    )
    return drawn


def line(canvas: Canvas, curve: Curve, name: str, style: Style, value: Value) -> None:
    """The same, with the arm's name in the legend."""
    canvas.legend.append((plot(canvas, curve, name, style, value), short(name)))


def sample(*, dashed: bool) -> Line2D:
    """For the legend: what a kind of line means, whatever its colour."""
    kind = _DASHED if dashed else _SOLID
    return Line2D([], [], color=MUTED.light, linestyle=kind, linewidth=1.2 if dashed else 1.8)


def bars(canvas: Canvas, curve: Curve, name: str, style: Style, dodge: float) -> None:
    """Ratios with their intervals."""
    known = [(c * dodge, a.ratio, a.ratio_interval) for c, a in at_levels(curve, name) if a.ratio]
    drawn: ErrorbarContainer = canvas.axes.errorbar(
        [x for x, _, _ in known],
        [ratio for _, ratio, _ in known],
        yerr=[
            [max(0.0, ratio - span[0]) if span else 0.0 for _, ratio, span in known],
            [max(0.0, span[1] - ratio) if span else 0.0 for _, ratio, span in known],
        ]
        if any(span for _, _, span in known)
        else None,
        color=style.light,
        marker=style.marker,
        capsize=3.0,
        elinewidth=1.4,
        zorder=2.5,
    )
    canvas.legend.append((drawn, short(name)))


def mark_finding(canvas: Canvas, curve: Curve, styles: Mapping[str, Style]) -> bool:
    """The crossover and its interval, or the ranges that pay; whether there is a line. Among
    several arms it has the colour of the one that it is of."""
    verdict, axes = curve.verdict, canvas.axes
    several = len(curve.by_arm) > 1 and verdict.arm in styles
    colour = styles[verdict.arm].light if several and verdict.arm else INK.light
    shade: dict[str, Any] = {"color": colour, "alpha": 0.12, "linewidth": 0, "zorder": 0.5}
    if verdict.shape in (Shape.INVERTED, Shape.MULTI):
        for low, high in verdict.pays:
            # A little wider than the levels, so that a single one can be seen.
            axes.axvspan(low / 2**0.08, high * 2**0.08, **shade)
        if verdict.pays:
            canvas.finding.append((Patch(**shade), "levels at which speculation pays"))
        return False
    ends = verdict.interval
    shaded = ends is not None and ends[0] != ends[1]
    if ends is not None and shaded:
        left, right = axes.get_xlim()
        axes.axvspan(ends[0] or left, right if ends[1] is None else ends[1], **shade)
    if verdict.shape is Shape.CROSSES and verdict.crossover is not None:
        found = axes.axvline(
            verdict.crossover, color=colour, linestyle=(0, (4, 2)), linewidth=1.3, zorder=1.6
        )
        label = f"crossover {number(verdict.crossover)}{_interval(curve)}"
        canvas.finding.append((found, label))
        return True
    if shaded:
        canvas.finding.append((Patch(**shade), f"where a crossover may be{_interval(curve)}"))
    return False


def _interval(curve: Curve) -> str:
    """In brackets, short: its ends beyond the levels as <1 and >250."""
    verdict = curve.verdict
    if verdict.interval is None or verdict.confidence == SINGLE_RUN:
        return ""
    low, high = verdict.interval
    first, last = curve.compared[0].concurrency, curve.compared[-1].concurrency
    start = f"<{first}" if low == 0.0 else f">{last}" if low is None else number(low)
    return f" ({share(verdict)}: {start} to {f'>{last}' if high is None else number(high)})"


def share(verdict: Verdict) -> str:
    """Of all intervals: 90%."""
    return "" if verdict.confidence == SINGLE_RUN else f"{float(verdict.confidence):.0%}"
