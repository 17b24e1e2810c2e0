"""One figure on paper: its axes, its legend, and its SVG text. What is drawn is in `figures`.

Concurrency has an axis by powers of two, with the measured levels as ticks: nothing else was
measured. No state of matplotlib's own (pyplot) is used, no date and no random name is written, and
a user's matplotlibrc changes nothing: the same profile gives the same bytes.
"""

import io
import logging
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as ET  # what is read here is what was drawn here

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from specgate.bench.palette import GRID, INK, MUTED, PAPER, theme

WIDTH, HEIGHT = 380.0, 285.0
"""In points, of which 72 are an inch: a page shows it at about that many pixels."""

FONT, SMALL = 10.5, 9.5
BESIDE = 0.35
"""How many powers of two the axis of concurrency goes on at both ends."""

MOST = 26
"""Characters of a name."""

WIDE = 30.0
"""Times that differ by more than this factor get a logarithmic axis."""

_SAMPLE, _GAP = 1.8, 1.4
"""Of a legend, in units of the font's size: the length of a sample, the space between columns."""

_RC = {
    "svg.hashsalt": "specgate",
    "svg.fonttype": "none",  # text stays text: it can be read aloud, found and copied
    "text.parse_math": False,  # a name may hold dollars
    "font.size": FONT,
    "axes.edgecolor": MUTED.light,
    "axes.facecolor": PAPER.light,
    "axes.labelcolor": MUTED.light,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": GRID.light,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED.light,
    "ytick.color": MUTED.light,
    "xtick.labelsize": SMALL,
    "xtick.labelcolor": INK.light,
    "ytick.labelsize": SMALL,
    "ytick.labelcolor": INK.light,
    "text.color": INK.light,
    "legend.frameon": False,
    "legend.fontsize": FONT,
    "legend.handlelength": _SAMPLE,
    "legend.columnspacing": _GAP,
    "legend.borderaxespad": 0.2,
    "legend.borderpad": 0.25,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.0,
    "figure.facecolor": PAPER.light,
    "figure.constrained_layout.use": True,
    "figure.dpi": 72.0,
}

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@contextmanager
def drawing() -> Iterator[None]:
    """Figures are made and drawn within it."""
    # What it says of fonts and folders for its cache is nothing that a reader could act on.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with style.context(["default", _RC]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@dataclass(slots=True)
class Canvas:
    """A figure with one pair of axes. Both legends take what matplotlib can show a sample of:
    `legend` what is drawn, `finding` what was found, in a line of its own."""

    name: str
    figure: Figure = field(init=False)
    axes: Axes = field(init=False)
    legend: list[tuple[Any, str]] = field(default_factory=list)
    finding: list[tuple[Any, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72))
        self.axes = self.figure.add_subplot()

    def concurrency_axis(self, levels: Sequence[int]) -> None:
        """Horizontal: log2, a tick at each level, a label where there is room for it."""
        axes = self.axes
        axes.set_xscale("log", base=2)
        axes.set_xlim(levels[0] / 2**BESIDE, levels[-1] * 2**BESIDE)
        axes.xaxis.set_major_locator(FixedLocator(levels))
        axes.xaxis.set_minor_locator(NullLocator())
        shown = _with_room(levels)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda c, _: f"{c:.0f}" if c in shown else ""))
        axes.set_xlabel("requests in flight")

    def from_zero(self, label: str) -> None:
        """Vertical: linear, and honest about how much of it a difference is."""
        self.axes.set_ylim(bottom=0.0)
        self.axes.yaxis.set_major_locator(MaxNLocator(6))
        self.axes.set_ylabel(label)

    def of_times(self, label: str, values: Sequence[float]) -> None:
        """Vertical: from zero, or logarithmic where values differ too much for that."""
        low, high = min(values), max(values)
        if low <= 0.0 or high / low <= WIDE:
            self.from_zero(label)
            return
        axes = self.axes
        axes.set_yscale("log")
        steps = (1.0,) if high / low > 1000.0 else (1.0, 2.0, 5.0)
        axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=20))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylabel(f"{label} (log scale)")

    def label_points(self, points: Sequence[tuple[float, float, str, str]]) -> None:
        """Write beside each point its text in its colour, where that covers no point or text."""
        self._legends()
        self.figure.draw_without_rendering()
        spots = [self.axes.transData.transform((x, y)) for x, y, _, _ in points]
        taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in spots]
        left, low, right, high = self.axes.get_window_extent().extents
        for (x, y), (px, py, text, colour) in zip(spots, points, strict=True):
            w, h = _width(text, SMALL), SMALL
            for dx, dy in ((5, 4), (-w - 5, 4), (5, -h - 4), (-w - 5, -h - 4)):
                box = (x + dx, y + dy, x + dx + w, y + dy + h)
                inside = left < box[0] and low < box[1] and box[2] < right and box[3] < high
                if inside and not any(_overlap(box, other) for other in taken):
                    taken.append(box)
                    self.axes.annotate(
                        text,
                        (px, py),
                        xytext=(dx, dy),
                        textcoords="offset points",
                        fontsize=SMALL,
                        color=colour,
                    )
                    break

    def svg(self, title: str) -> str:
        """A document of its own, titled for those who have it read to them."""
        self._legends()
        return document(self.figure, self.name, title)

    def _legends(self) -> None:
        if self.legend:
            handles, labels = zip(*self.legend, strict=True)
            columns = _columns(labels)
            self.figure.legend(handles, labels, loc="outside upper left", ncols=columns)
        if self.finding:
            handles, labels = zip(*self.finding, strict=True)
            self.axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0))
        self.legend, self.finding = [], []


def document(figure: Figure, name: str, title: str) -> str:
    """A figure as SVG text, at its own size; `name` begins the names of its parts."""
    written = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(written, format="svg", metadata=nothing)
    width, height = (72.0 * inches for inches in figure.get_size_inches())
    return _finished(written.getvalue(), name, title, width, height)


def clean(text: str) -> str:
    """Without what XML and UTF-8 cannot hold (control characters, half pairs)."""
    return _UNPRINTABLE.sub("\ufffd", text)


def short(name: str) -> str:
    """For a figure: one line; of a long name its beginning and end."""
    line = " ".join(clean(name).split()) or "?"
    # Letters of other scripts may be twice as wide.
    half = MOST // 2 if line.isascii() else MOST // 4
    return line if len(line) <= 2 * half else f"{line[:half]}…{line[1 - half :]}"


def inline(svg: str) -> str:
    """A document of `Canvas.svg` as an element of a page that holds `theme()` itself."""
    root = ET.fromstring(svg)  # noqa: S314 - drawn here
    for found in root.findall(f"{{{_SVG}}}style"):
        root.remove(found)
    return _text(root)


def _finished(written: str, name: str, title: str, width: float, height: float) -> str:
    """What matplotlib wrote, with names that are unique in a page, and our style sheet."""
    root = ET.fromstring(written)  # noqa: S314 - drawn here
    for parent in root.iter():
        for child in [c for c in parent if c.tag == f"{{{_SVG}}}style"]:
            parent.remove(child)
        for key, value in parent.attrib.items():
            if key == "id":
                parent.set(key, f"{name}-{value}")
            elif key == f"{{{_XLINK}}}href":
                parent.set(key, value.replace("#", f"#{name}-"))
            elif key == "style":
                parent.set(key, re.sub(r"font-family: [^;]*;? ?", "", value))
            else:
                parent.set(key, value.replace("url(#", f"url(#{name}-"))
    root.attrib.pop("version", None)
    root.set("width", f"{width:g}")
    root.set("height", f"{height:g}")
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    named = ET.Element(f"{{{_SVG}}}title", id=f"{name}-title")
    named.text = title
    sheet = ET.Element(f"{{{_SVG}}}style")
    sheet.text = theme()
    root[:0] = [named, sheet]
    return _text(root) + "\n"


def _text(root: ET.Element) -> str:
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    return ET.tostring(root, encoding="unicode")


def _width(text: str, size: float) -> float:
    """In points. The font is a wide one: others need no more."""
    return text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)[0]  # noqa: FBT003 - no formula


def _columns(labels: Sequence[str]) -> int:
    """The most in which they fit beside each other. They are filled one after the other, the first
    ones with one more where it does not come out even."""
    widths = [_width(label, FONT) + (_SAMPLE + 0.8 + _GAP) * FONT for label in labels]
    for columns in range(len(labels), 1, -1):
        rows, more = divmod(len(labels), columns)
        ends = [rows * (i + 1) + min(i + 1, more) for i in range(columns)]
        starts = [0, *ends]
        if sum(max(widths[a:b]) for a, b in zip(starts, ends, strict=False)) <= WIDTH:
            return columns
    return 1


def _with_room(levels: Sequence[int]) -> set[int]:
    """The levels whose labels do not run into each other: first and last, then from the left."""
    room = WIDTH - 70.0
    span = math.log2(levels[-1] / levels[0]) + 2.0 * BESIDE

    def ends(level: int) -> tuple[float, float]:
        middle = (math.log2(level / levels[0]) + BESIDE) / span * room
        half = (_width(str(level), SMALL) + 3.0) / 2.0
        return middle - half, middle + half

    shown = {levels[0], levels[-1]}
    right = ends(levels[0])[1]
    for level in levels[1:-1]:
        start, end = ends(level)
        if right <= start and end <= ends(levels[-1])[0]:
            shown.add(level)
            right = end
    return shown


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
