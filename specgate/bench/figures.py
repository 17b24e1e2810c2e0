"""The figures of a report: what each shows of a curve, and the sentence that says what to read off.

    with drawing():
        for figure in figures(curve, styles(arms)): figure.svg, figure.caption ...

One for which nothing was measured is not drawn; `missing` names it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specgate.bench.drawing import Canvas, short
from specgate.bench.marks import (
    Value,
    arms_with,
    at_levels,
    bars,
    levels_of,
    line,
    mark_finding,
    plot,
    sample,
    share,
)
from specgate.bench.palette import INK, Style
from specgate.bench.wording import OBJECTIVES
from specgate.core.profile import PLAIN, ArmLevel, Curve, Times

Styles = Mapping[str, Style]

SHADE = 0.18
DODGE = 0.07
"""Of a power of two: how far apart the bars of several arms stand at a level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """`name`: of its file, without ending; `svg`: a whole document."""

    name: str
    title: str
    caption: str
    svg: str


def figures(curve: Curve, styles: Styles, suffix: str = "") -> list[Drawn]:
    """Those that the curve has figures for. `suffix` is for the names of other lengths."""
    found = []
    for kind, (title, draw) in _FIGURES.items():
        canvas = Canvas(kind + suffix)
        caption = draw(canvas, curve, styles)
        if caption is not None:
            svg = canvas.svg(f"{title}. {caption}")
            found.append(Drawn(name=canvas.name, title=title, caption=caption, svg=svg))
    return found


def missing(drawn: Sequence[Drawn], suffix: str = "") -> list[str]:
    """The titles of those that were not drawn."""
    names = {figure.name for figure in drawn}
    return [title for kind, (title, _) in _FIGURES.items() if kind + suffix not in names]


def _throughput(canvas: Canvas, curve: Curve, styles: Styles) -> str | None:
    arms = arms_with(curve, lambda arm: arm.tok_s)
    if not arms:
        return None
    canvas.concurrency_axis(levels_of(curve))
    for name in arms:
        line(canvas, curve, name, styles[name], lambda arm: arm.tok_s)
        spans = [(c, arm.tok_s_interval) for c, arm in at_levels(curve, name) if arm.tok_s_interval]
        canvas.axes.fill_between(
            [c for c, _ in spans],
            [low for _, (low, _) in spans],
            [high for _, (_, high) in spans],
            color=styles[name].light,
            alpha=SHADE,
            linewidth=0,
        )
    marked = mark_finding(canvas, curve, styles)
    canvas.from_zero("output tok/s, all requests")
    shade = f"; shades are {share(curve.verdict)} intervals" if _repeated(curve) else ""
    if PLAIN not in arms or len(arms) == 1:
        return f"Output tokens a second of all requests together{shade}."
    where = ", left of the dashed line" if marked else ""
    return (
        "The higher line gives more output tokens a second at that load: speculation pays where "
        f"its line is above {PLAIN}'s{where}{shade}."
    )


def _ratio(canvas: Canvas, curve: Curve, styles: Styles) -> str | None:
    arms = [name for name in arms_with(curve, lambda arm: arm.ratio) if name != PLAIN]
    if not arms:
        return None
    verdict, axes = curve.verdict, canvas.axes
    canvas.concurrency_axis(levels_of(curve))
    for i, name in enumerate(arms):
        bars(canvas, curve, name, styles[name], 2.0 ** (DODGE * (i - (len(arms) - 1) / 2)))
    axes.axhline(1.0, color=INK.light, linewidth=1.2, zorder=1.5)
    if verdict.margin > 0.0:
        low, high = 1.0 / (1.0 + verdict.margin), 1.0 + verdict.margin
        axes.axhline(low, color=INK.light, linewidth=1.0, linestyle=":", zorder=1.5)
        dotted = axes.axhline(high, color=INK.light, linewidth=1.0, linestyle=":", zorder=1.5)
        canvas.legend.append((dotted, f"margin {verdict.margin * 100:.3g}%"))
    mark_finding(canvas, curve, styles)
    _room_around_one(canvas)
    compared = OBJECTIVES[verdict.objective]
    axes.set_ylabel(f"{compared}, over {PLAIN}")
    sure = ""
    if any(arm.ratio_interval for name in arms for _, arm in at_levels(curve, name)):
        sure = (
            f", and sure where its {share(verdict)} bar is clear of that line"
            " and reaches beyond the dotted margin"
        )
    return f"Above the line at 1 speculation is ahead of {PLAIN}{sure}."


def _ttft(canvas: Canvas, curve: Curve, styles: Styles) -> str | None:
    what = _times(canvas, curve, styles, lambda arm: arm.ttft_s, "time to first token, s")
    return what and f"How long a request waits for its first token: lower is better; {what}."


def _tpot(canvas: Canvas, curve: Curve, styles: Styles) -> str | None:
    what = _times(
        canvas, curve, styles, lambda arm: arm.tpot_s, "time per output token, ms", unit=1000.0
    )
    return what and (
        f"How long each further token of one stream takes: lower is faster to read; {what}."
    )


def _e2e(canvas: Canvas, curve: Curve, styles: Styles) -> str | None:
    what = _times(canvas, curve, styles, lambda arm: arm.e2e_s, "whole request, s")
    return what and f"How long a whole request takes, from sending to its end: {what}."


def _per_user(canvas: Canvas, curve: Curve, styles: Styles) -> str | None:
    arms = arms_with(curve, lambda arm: arm.tok_s_per_request)
    if not arms:
        return None
    points = []
    for name in arms:
        at = [(c, a.tok_s, a.tok_s_per_request) for c, a in at_levels(curve, name)]
        known = [(c, total, each) for c, total, each in at if each is not None]
        style = styles[name]
        (drawn,) = canvas.axes.plot(
            [total for _, total, _ in known],
            [each for _, _, each in known],
            color=style.light,
            marker=style.marker,
        )
        canvas.legend.append((drawn, short(name)))
        if len(arms) > 3 and name not in (PLAIN, curve.verdict.arm):
            continue  # those of many arms would cover each other
        points += [(total, each, str(c), style.light) for c, total, each in known]
    canvas.axes.margins(x=0.1, y=0.12)
    canvas.axes.set_xlim(left=0.0)
    canvas.axes.set_xlabel("output tok/s, all requests")
    canvas.from_zero("output tok/s of one request")
    canvas.label_points(points)
    return (
        "What one user gets against what all get together: further up and to the right is better; "
        "the numbers are requests in flight."
    )


def _accept(canvas: Canvas, curve: Curve, styles: Styles) -> str | None:
    arms = arms_with(curve, lambda arm: arm.accept_length)
    if not arms:
        return None
    canvas.concurrency_axis(levels_of(curve))
    for name in arms:
        line(canvas, curve, name, styles[name], lambda arm: arm.accept_length)
    needed = arms_with(curve, lambda arm: arm.break_even_accept_length)
    for name in needed:
        style = styles[name]
        plot(canvas, curve, name, style, lambda arm: arm.break_even_accept_length, dashed=True)
    canvas.legend.append((sample(dashed=False), "reached"))
    if needed:
        canvas.legend.append((sample(dashed=True), "needed to break even"))
    canvas.axes.set_ylim(bottom=min(1.0, canvas.axes.get_ylim()[0]))
    canvas.axes.set_ylabel("tokens a verification step")
    if not needed:
        return "How many tokens a verification step yields, the bonus token included."
    return (
        "Speculation pays where the accept length that was reached (solid) is above the one that "
        "it needs to break even at that load (dashed)."
    )


_FIGURES: dict[str, tuple[str, Callable[[Canvas, Curve, Styles], str | None]]] = {
    "throughput": ("Throughput", _throughput),
    "ratio": ("Ratio to plain", _ratio),
    "ttft": ("Time to first token (TTFT)", _ttft),
    "tpot": ("Time per output token (TPOT)", _tpot),
    "e2e": ("Whole requests (E2E)", _e2e),
    "per-user": ("One user against all", _per_user),
    "accept-length": ("Accept length", _accept),
}

KINDS = tuple(_FIGURES)
"""How the names of all figures begin."""


def _times(
    canvas: Canvas,
    curve: Curve,
    styles: Styles,
    times: Callable[[ArmLevel], Times | None],
    label: str,
    unit: float = 1.0,
) -> str | None:
    """What the lines are; None where nothing was measured."""
    every = [t for lv in curve.levels for arm in lv.arms.values() if (t := times(arm)) is not None]
    if not every:
        return None
    middle = "p50" if all(t.p50 is not None for t in every) else "mean"

    def value(of: str) -> Value:
        def get(arm: ArmLevel) -> float | None:
            found = times(arm)
            at = None if found is None else getattr(found, of)
            return None if at is None else at * unit

        return get

    canvas.concurrency_axis(levels_of(curve))
    for name in arms_with(curve, value(middle)):
        line(canvas, curve, name, styles[name], value(middle))
    tails = arms_with(curve, value("p99"))
    if len(tails) > 3:
        # Those of many arms cannot be told apart.
        tails = [name for name in tails if name in (PLAIN, curve.verdict.arm)]
    for name in tails:
        plot(canvas, curve, name, styles[name], value("p99"), dashed=True)
    said = "median" if middle == "p50" else "mean"
    canvas.legend.append((sample(dashed=False), said))
    if tails:
        canvas.legend.append((sample(dashed=True), "99th percentile"))
    drawn = [getattr(t, of) for t in every for of in (middle, "p99") if getattr(t, of) is not None]
    canvas.of_times(label, drawn)
    of = "" if tails == arms_with(curve, value("p99")) else f" of {' and '.join(map(short, tails))}"
    return f"the {said} is solid" + (f", the 99th percentile{of} dashed" if tails else "")


def _room_around_one(canvas: Canvas) -> None:
    """The line at 1 stays in sight, and is no edge."""
    low, high = canvas.axes.get_ylim()
    pad = 0.08 * max(high - low, 0.1)
    canvas.axes.set_ylim(max(0.0, min(low, 1.0 - pad)), max(high, 1.0 + pad))


def _repeated(curve: Curve) -> bool:
    return any(arm.tok_s_interval for level in curve.levels for arm in level.arms.values())
