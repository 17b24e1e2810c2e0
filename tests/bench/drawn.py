"""Reading a report's page and figures back: what a reader's browser would see of them."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
HTML = "{http://www.w3.org/1999/xhtml}"
XLINK = "{http://www.w3.org/1999/xlink}href"


def tree(file: Path) -> ET.Element:
    """Raises ParseError where it is not well-formed."""
    return ET.fromstring(file.read_text(encoding="utf-8"))


def text_of(element: ET.Element | None) -> str:
    assert element is not None
    return " ".join("".join(element.itertext()).split())


def cells(table: ET.Element) -> list[list[str]]:
    """The rows of a page's table, its head first."""
    return [[text_of(cell) for cell in row] for row in table.iter(f"{HTML}tr")]


def what_it_loads(root: ET.Element) -> list[str]:
    """Every address that showing the document could ask for, and every way to run a script."""
    found = []
    for element in root.iter():
        name = element.tag.rpartition("}")[2]
        if name in ("script", "iframe", "object", "embed", "image", "img", "foreignObject"):
            found.append(name)
        if name == "style":
            found += re.findall(r"url\(|@import|expression", element.text or "")
        for key, value in element.attrib.items():
            plain = key.rpartition("}")[2]
            if plain.startswith("on"):
                found.append(f"{plain}={value}")
            if plain in ("href", "src", "srcset", "data", "action") and not value.startswith("#"):
                found.append(value)
            found += [url for url in re.findall(r"url\(([^)]*)\)", value) if url[0] != "#"]
    return found


def axis(svg: ET.Element, which: str) -> dict[str, tuple[float, float]]:
    """The labelled ticks of an axis ("x" or "y"), as text: where in the picture."""
    found = {}
    for group in svg.iter(f"{SVG}g"):
        if re.search(f"-{which}tick_[0-9]+$", group.get("id", "")):
            label = next((text_of(text) for text in group.iter(f"{SVG}text")), "")
            if label:
                *_, mark = group.iter(f"{SVG}use")
                found[label] = float(mark.attrib["x"]), float(mark.attrib["y"])
    return found


def lines(svg: ET.Element, colour: str, *, dashed: bool = False) -> Iterator[list[list[float]]]:
    """The curves of that colour through two points or more, but for those of legends."""
    for axes in svg.iter(f"{SVG}g"):
        if "-axes_" not in axes.get("id", ""):
            continue
        for group in axes.findall(f"{SVG}g"):
            for path in group.findall(f"{SVG}path"):
                style = path.get("style", "")
                wanted = f"stroke: {colour}" in style and ("stroke-dasharray" in style) is dashed
                points = [
                    [float(number) for number in pair]
                    for pair in re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))
                ]
                if "line2d" in group.get("id", "") and wanted and len(points) > 1:
                    yield points


def colours(svg: ET.Element) -> set[str]:
    found = " ".join(element.get("style", "") for element in svg.iter())
    return set(re.findall(r"#[0-9a-f]{6}", found))
