"""A replay as a picture: what was offered, the load behind the gate with its side and its switches,
and what requests took on the mean. It needs the extra `bench`.
"""

import textwrap
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullFormatter

from specgate.bench.drawing import clean, document, drawing
from specgate.bench.palette import INK, MUTED, Style, styles
from specgate.core.lanes import Lane
from specgate.replay.comparison import Comparison, Way
from specgate.replay.figures import load_over_time
from specgate.replay.plan import Plan
from specgate.replay.record import Replay
from specgate.replay.wording import NAMES, sentence, title

WIDTH, HEIGHT = 620.0, 560.0
"""In points."""

FONT, LINE, MARGIN = 9.5, 12.0, 8.0

BINS = 240
"""Of time: finer would be a smear."""

BAND = 0.13
WIDE = 30.0
"""Means that differ by more than this factor get a logarithmic axis."""

HOUR_S = 3600.0
FILE = "replay.svg"
_MARKERS = ("v", "o", "s", "D", "^", "P", "X", "*")


def write(plan: Plan, replayed: Replay, folder: Path) -> Path:
    """The picture's path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(picture(plan, replayed), encoding="utf-8")
    return path


def picture(plan: Plan, replayed: Replay) -> str:
    """An SVG document."""
    found = replayed.found
    said = clean(title(plan, found, replayed.load, replayed.world.contention))
    looks = styles(["spec", "plain", "gate"])
    # Its own layout: a solver's last digits differ from one run to the next.
    with drawing(), rc_context({"figure.constrained_layout.use": False}):
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72))
        offered, load, latency = figure.subplots(
            3, 1, sharex=True, gridspec_kw={"height_ratios": (1.0, 1.5, 1.3)}
        )
        unit_s, unit = _unit(found.arrivals[-1].at)
        for axes in (offered, load, latency):
            _bands(axes, found, looks, unit_s)
        _offered(offered, plan, found, looks, unit_s)
        _load(load, plan, found, looks, unit_s)
        _latency(latency, found, looks, unit_s)
        latency.set_xlabel(f"time, {unit}")
        latency.set_xlim(0.0, found.arrivals[-1].at / unit_s)
        latency.xaxis.set_major_locator(MaxNLocator(8))
        lines = [
            *said.split(": ", 1),
            *textwrap.wrap(sentence(plan, found), 112, break_on_hyphens=False),
        ]
        top = HEIGHT - 26.0 - LINE * len(lines)
        figure.text(MARGIN / WIDTH, 1 - 6.0 / HEIGHT, "\n".join(lines), fontsize=FONT, va="top")
        figure.subplots_adjust(
            left=58.0 / WIDTH,
            right=1 - MARGIN / WIDTH,
            bottom=38.0 / HEIGHT,
            top=top / HEIGHT,
            hspace=0.27,
        )
        figure.align_ylabels()
        return document(figure, "replay", f"{said}. {sentence(plan, found)}")


def _bands(axes: Axes, found: Comparison, looks: dict[str, Style], unit_s: float) -> None:
    """The gate's side behind everything."""
    span = found.arrivals[-1].at
    sides = [each for each in found.outcomes[Way.POLICY].sides if each[0] <= span]
    ends = [at for at, _ in sides[1:]] + [span]
    for (at, side), end in zip(sides, ends, strict=True):
        axes.axvspan(
            at / unit_s, end / unit_s, color=looks[side].light, alpha=BAND, linewidth=0, zorder=0.5
        )


def _offered(
    axes: Axes, plan: Plan, found: Comparison, looks: dict[str, Style], unit_s: float
) -> None:
    span = found.arrivals[-1].at
    tokens = [0] * BINS
    for each in found.arrivals:
        tokens[min(BINS - 1, int(each.at / span * BINS))] += each.output_tokens
    step = span / BINS
    edges = [i * step / unit_s for i in range(BINS + 1)]
    axes.stairs([each / step for each in tokens], edges, color=INK.light, linewidth=1.0)
    for lane in Lane:
        top = plan.curves.of(lane).top
        axes.axhline(top, color=looks[lane].light, linewidth=1.2, linestyle=(0, (3, 2)))
    axes.set_ylabel("offered tok/s")
    axes.set_ylim(bottom=0.0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    shown: list[tuple[object, str]] = [
        (Patch(color=looks[lane].light, alpha=2 * BAND), f"side {lane}") for lane in Lane
    ]
    dashes = Line2D([], [], color=MUTED.light, linewidth=1.2, linestyle=(0, (3, 2)))
    shown.append((dashes, "the most that the lane can give"))
    _legend(axes, shown)


def _load(
    axes: Axes, plan: Plan, found: Comparison, looks: dict[str, Style], unit_s: float
) -> None:
    span = found.arrivals[-1].at
    counts = _mean_by_bin(load_over_time(found.outcomes[Way.POLICY], found.arrivals), span)
    edges = [i * span / BINS / unit_s for i in range(BINS + 1)]
    axes.stairs(counts, edges, color=looks["gate"].light, linewidth=1.3)
    high = max(counts) * 1.15
    shown: list[tuple[object, str]] = []
    edge = sorted({x for low, up in plan.curves.paying for x in (low, up) if 0.0 < x <= high})
    for x in edge:
        axes.axhline(x, color=INK.light, linewidth=1.0, linestyle=(0, (1, 1.5)))
    if edge:
        dots = Line2D([], [], color=INK.light, linewidth=1.0, linestyle=(0, (1, 1.5)))
        shown.append((dots, "crossover"))
    top = max(high, 1.0)
    reasons = list(dict.fromkeys(switch.reason for switch in found.switched))
    for i, reason in enumerate(reasons):
        marker = _MARKERS[i % len(_MARKERS)]
        at = [switch.at / unit_s for switch in found.switched if switch.reason is reason]
        axes.vlines(at, 0.0, top, color=MUTED.light, linewidth=0.6)
        (drawn,) = axes.plot(
            at,
            [top * 0.95] * len(at),
            linestyle="",
            marker=marker,
            markersize=5.5,
            color=INK.light,
            markerfacecolor="#ffffff",
            zorder=4,
        )
        shown.append((drawn, f"switch: {reason} ({len(at)})"))
    axes.set_ylim(0.0, top)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_ylabel("in flight (gate)")
    _legend(axes, shown)


def _latency(axes: Axes, found: Comparison, looks: dict[str, Style], unit_s: float) -> None:
    lines = {
        # The widest first: where they are alike, all are seen.
        Way.POLICY: (looks["gate"].light, "-", 3.2),
        Way.ALL_PLAIN: (looks["plain"].light, "-", 1.2),
        Way.ALL_SPEC: (looks["spec"].light, "-", 1.2),
        Way.CLAIRVOYANT: (INK.light, (0, (1, 1.5)), 1.2),
    }
    times = [each.at / unit_s for each in found.arrivals]
    keep = range(0, len(times), max(1, len(times) // 800))
    drawn: list[float] = []
    shown: list[tuple[object, str]] = []
    for way, (colour, dashes, width) in lines.items():
        sums = accumulate(found.outcomes[way].e2e_s)
        means = [total / count for count, total in enumerate(sums, 1)]
        (line,) = axes.plot(
            [times[i] for i in keep],
            [means[i] for i in keep],
            color=colour,
            linestyle=dashes,
            linewidth=width,
        )
        shown.append((line, NAMES[way]))
        drawn += [means[i] for i in keep][len(keep) // 50 :]
    axes.set_ylabel("mean E2E so far, s")
    if max(drawn) > WIDE * min(drawn):
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylabel("mean E2E so far, s (log)")
    else:
        axes.set_ylim(0.0, max(drawn) * 1.05)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    _legend(axes, shown)


def _legend(axes: Axes, shown: Sequence[tuple[object, str]]) -> None:
    """Above the axes, in a line."""
    if shown:
        handles, labels = zip(*shown, strict=True)
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=len(shown) if len(shown) <= 4 else 3,
            fontsize=9.5,
        )


def _mean_by_bin(counts: Sequence[tuple[float, int]], span: float) -> list[float]:
    """The time-weighted mean in each of BINS to `span`."""
    step = span / BINS
    means = []
    at, count, coming = 0.0, 0, 0
    for i in range(1, BINS + 1):
        area = 0.0
        while coming < len(counts) and counts[coming][0] <= i * step:
            until, after = counts[coming]
            area += count * (until - at)
            at, count = until, after
            coming += 1
        area += count * (i * step - at)
        at = i * step
        means.append(area / step)
    return means


def _unit(span: float) -> tuple[float, str]:
    if span > 3 * HOUR_S:
        return HOUR_S, "hours"
    return (60.0, "minutes") if span > 300.0 else (1.0, "seconds")
