"""Every page, written by hand or not: its links lead somewhere, its names exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from specgate.settings import Settings, env_name
from specgate.settings.names import CONFIG, _is_service_link
from tests.docs.generate import ROOT
from tests.docs.metrics_page import exposed_name, families

REPOSITORY = ROOT.parent
PAGES = sorted([REPOSITORY / "README.md", *ROOT.rglob("*.md")])
NAMES = [str(page.relative_to(REPOSITORY)) for page in PAGES]

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SETTING = re.compile(r"\bSPECGATE_[A-Z0-9_]*[A-Z0-9]\b")
# After a colon it is part of a recording rule's name.
_METRIC = re.compile(r"(?<!:)\bspecgate_[a-z0-9_]*[a-z0-9]\b")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them: small letters, no signs, hyphens for blanks."""
    headings = _HEADING.findall(_FENCED.sub("", text_of(page)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[str]:
    for target in _LINK.findall(_FENCED.sub("", text_of(page))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_pages_and_headings_that_exist(name):
    page = REPOSITORY / name
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name}: {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name}: {target}"


@pytest.mark.parametrize("name", NAMES)
def test_settings_that_are_named_exist(name):
    known = {env_name(field) for field in Settings.model_fields} | {CONFIG}
    named = set(_SETTING.findall(text_of(REPOSITORY / name)))
    tests = {word for word in named if word.startswith("SPECGATE_TEST_")}
    wrong = {word for word in named - known - tests if not _is_service_link(word, "tcp://")}
    assert not wrong


@pytest.mark.parametrize("name", NAMES)
def test_metrics_that_are_named_exist(name):
    every = families()
    known = {name for family in every for name in (family.name, exposed_name(family))}
    known |= {sample.name for family in every for sample in family.samples}
    named = set(_METRIC.findall(_LINK.sub("", text_of(REPOSITORY / name))))
    # The edges have no samples without a threshold; a * stands for several.
    wrong = {word for word in named - known if not any(each.startswith(word) for each in known)}
    assert not wrong


def test_every_page_can_be_reached_from_the_index():
    seen: set[Path] = set()
    waiting = [ROOT / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for target in links(page):
            path = target.partition("#")[0]
            waiting += [(page.parent / path).resolve()] if path else []
    assert set(ROOT.rglob("*.md")) <= seen


@pytest.mark.parametrize("name", NAMES)
def test_no_page_holds_what_only_one_machine_has(name):
    text = text_of(REPOSITORY / name)
    assert not re.search(r"/(work|root|home/\w+)/", text)
