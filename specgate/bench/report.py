"""The report: a profile as one HTML page that needs nothing else, and its figures as SVG files.

    write(profile, folder)      folder/report.html and folder/figures/*.svg; the page's path
    page(profile)               the same, as text: the page, and each figure's document by its name

The page begins with the verdict. It has no script and asks for nothing outside itself, and says so
to the browser. All text of a profile is escaped: names in it may come from anywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from specgate import __version__
from specgate.bench import palette
from specgate.bench.concluding import undecided
from specgate.bench.drawing import clean, drawing, inline
from specgate.bench.figures import KINDS, Drawn, figures, missing
from specgate.bench.grid import Grid, classes, grid_of
from specgate.bench.marks import share
from specgate.bench.rate_table import doubts, rate_tables
from specgate.bench.table import table
from specgate.bench.wording import headline, number
from specgate.core.config import ALWAYS, NEVER
from specgate.core.profile import (
    PLAIN,
    Curve,
    Fingerprint,
    Profile,
    Scalar,
)
from specgate.core.threshold import threshold_and_band

REPORT = "report.html"
FIGURES = "figures"

Rows = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One length of prompts and outputs, as the template takes it. `intervals`: how sure they
    are, as 90%; empty where there are none."""

    anchor: str
    said: str
    by_arm: Rows
    table: Grid
    intervals: str
    alarms: tuple[str, ...]
    figures: list[Drawn]
    missing: list[str]
    classes: list[Grid]


def page(profile: Profile) -> tuple[str, Mapping[str, str]]:
    """The HTML text, and each figure's SVG document by its name."""
    curves = (profile, *profile.also)
    names = {name for curve in curves for level in curve.levels for name in level.arms}
    looks = palette.styles(names)
    with drawing():
        sections = [_section(curve, looks, _suffix(i, curve)) for i, curve in enumerate(curves)]
    text = _template().render(
        sections=sections,
        open_loop=[grid_of(shown) for shown in rate_tables(profile)],
        doubts=list(doubts(profile)),
        undecided=_undecided(profile),
        gate=_gate(profile),
        about=_about(profile.fingerprint),
        settings=_pairs(profile.fingerprint.settings),
        engines=_engines(profile.fingerprint),
        model=profile.fingerprint.model,
        version=__version__,
        inline=inline,
        theme=palette.theme(),
        colours=palette,
    )
    return text, {figure.name: figure.svg for each in sections for figure in each.figures}


def write(profile: Profile, folder: Path) -> Path:
    """Make the folder, write page and figures, and take away figures of an earlier report that
    this one does not have. Raises OSError."""
    text, documents = page(profile)
    pictures = folder / FIGURES
    pictures.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        for old in (*pictures.glob(f"{kind}.svg"), *pictures.glob(f"{kind}-[0-9]*.svg")):
            if old.stem not in documents:
                old.unlink()
    for name, document in documents.items():
        _put(pictures / f"{name}.svg", document)
    _put(folder / REPORT, text)
    return folder / REPORT


def _put(path: Path, text: str) -> None:
    """Whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)


def _section(curve: Curve, looks: Mapping[str, palette.Style], suffix: str) -> Section:
    drawn = figures(curve, looks, suffix)
    several = curve.by_arm if len(curve.by_arm) > 1 else {}
    return Section(
        anchor="measured" + suffix,
        said=headline(curve),
        by_arm=[(n, headline(replace(curve, verdict=v))) for n, v in several.items()],
        table=grid_of(table(curve)),
        intervals=share(curve.verdict),
        alarms=curve.alarms,
        figures=drawn,
        missing=missing(drawn, suffix),
        classes=classes(curve),
    )


def _suffix(place: int, curve: Curve) -> str:
    """Of the names of other lengths' figures: -2-context-8000-tokens-256."""
    if place == 0:
        return ""
    context = "" if curve.context is None else f"-context-{curve.context}"
    tokens = "" if curve.max_tokens is None else f"-tokens-{curve.max_tokens}"
    return f"-{place + 1}{context}{tokens}"


def _undecided(profile: Profile) -> str | None:
    """What is missing, which the verdict's sentence does not say: arms to compare."""
    arms = {name for level in profile.levels for name in level.arms}
    return undecided(profile) if len(arms) < 2 or PLAIN not in arms else None


def _gate(profile: Profile) -> str:
    """What a gate does with the profile."""
    found = threshold_and_band(profile)
    if found.threshold is None:
        return f"A gate with this profile serves the plain lane: {found.caveat}."
    said = {NEVER: "never speculates", ALWAYS: "always speculates"}.get(found.threshold)
    if said is None:
        back = number(found.threshold * (1.0 - found.band))
        said = f"speculates below a load of {number(found.threshold)}, and again below {back}"
    return f"A gate with this profile {said}{': ' + found.caveat if found.caveat else ''}."


def _about(fingerprint: Fingerprint) -> Rows:
    found = {
        "model": fingerprint.model,
        "hardware": fingerprint.hardware,
        "prompts": fingerprint.prompts,
        "measured": fingerprint.measured_at,
        "source": fingerprint.source,
        "profile written by": fingerprint.specgate and f"specgate {fingerprint.specgate}",
    }
    return [(name, value) for name, value in found.items() if value]


def _engines(fingerprint: Fingerprint) -> list[tuple[str, Rows]]:
    found = []
    for arm, engine in sorted(fingerprint.engines.items()):
        known = {"engine": engine.name, "version": engine.version, "draft steps": engine.steps}
        rows = [(name, str(value)) for name, value in known.items() if value is not None]
        found.append((arm, rows + _pairs(engine.settings)))
    return [(arm, rows) for arm, rows in found if rows]


def _pairs(values: Mapping[str, Scalar]) -> Rows:
    words = {None: "none", True: "yes", False: "no"}
    return [
        (name, words[value] if value is None or isinstance(value, bool) else str(value))
        for name, value in sorted(values.items())
    ]


def _template() -> Template:
    source = resources.files("specgate.bench").joinpath("report.html.jinja")
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    ).from_string(source.read_text(encoding="utf-8"))


def _printable(value: Any) -> Any:
    return clean(value) if type(value) is str else value
