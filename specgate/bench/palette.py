"""Colours of the report: light ones that figures are drawn in, and the dark ones that take their
place where a reader prefers those.

A figure holds its light colours, so that it can be read by whatever shows SVG. `theme()` is a style
sheet that a browser applies on top: it finds elements by the light colour in their style.

The colours of arms are Okabe and Ito's, which people who see fewer colours can tell apart, some
darkened for a contrast of 3:1 at least. Each arm has a marker of its own as well.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

from specgate.core.profile import GATE, NATIVE, PLAIN

FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'


@dataclass(frozen=True, slots=True)
class Colour:
    """In both themes, as #rrggbb in small letters."""

    light: str
    dark: str


PAPER = Colour("#ffffff", "#15181c")
INK = Colour("#1f2429", "#e7e9ec")
MUTED = Colour("#59616b", "#a6aeb8")
GRID = Colour("#e3e6ea", "#2c3138")

_BLUE = Colour("#0072b2", "#56aee8")
_VERMILLION = Colour("#d55e00", "#ff8f45")
_GREEN = Colour("#008060", "#35c79c")
_PURPLE = Colour("#a8497f", "#e59ac6")
_AMBER = Colour("#9a6b00", "#e6b63c")
_GREY = Colour("#4a5058", "#c3c9d0")

_KNOWN = {PLAIN: _BLUE, "spec": _VERMILLION, NATIVE: _GREEN, GATE: _PURPLE}
_ALL = (_BLUE, _VERMILLION, _GREEN, _PURPLE, _AMBER, _GREY)
_MARKERS = ("o", "s", "^", "D", "v", "P")

EVERY = (PAPER, INK, MUTED, GRID, *_ALL)


@dataclass(frozen=True, slots=True)
class Style:
    """How an arm is drawn everywhere: colour and marker, which matplotlib knows by that name."""

    colour: Colour
    marker: str

    @property
    def light(self) -> str:
        return self.colour.light


def styles(arms: Iterable[str]) -> dict[str, Style]:
    """One for each arm. Plain, spec, native and gate look the same in every report."""
    names = sorted(set(arms))
    taken = {_KNOWN[name] for name in names if name in _KNOWN}
    free = cycle([colour for colour in _ALL if colour not in taken] or _ALL)
    before: Counter[Colour] = Counter()
    found = {}
    for name in names:
        colour = _KNOWN[name] if name in _KNOWN else next(free)
        # Past the last colour they come round again, with the marker of the next.
        marker = _MARKERS[(_ALL.index(colour) + before[colour]) % len(_MARKERS)]
        before[colour] += 1
        found[name] = Style(colour, marker)
    return found


def theme() -> str:
    """The style sheet of a figure: fonts, and the dark colours."""
    swaps = "".join(
        f'svg [style*="{what}: {colour.light}"]{{{what}:{colour.dark} !important}}'
        for colour in EVERY
        for what in ("fill", "stroke")
    )
    return (
        "svg *{stroke-linejoin:round;stroke-linecap:butt}"
        f"svg text{{font-family:{FONTS}}}"
        f"@media screen and (prefers-color-scheme:dark){{{swaps}}}"
    )
