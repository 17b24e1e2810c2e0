"""Every page, written by hand or not: its links lead somewhere, its names exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from specgate.cli.main import main
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
_SHELL = re.compile(r"^```(?:bash|sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_KEPT = re.compile(
    r"""^(?:\$ )?SPECGATE_\w+=(?:"[^"]*"|'[^']*'|[^\s"'])*(?: +#.*)?$""", re.MULTILINE
)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_COMMAND = re.compile(r"(?:^|[\s(;&|])specgate((?: +[^\s]+)+)")
_END_OF_COMMAND = re.compile(r"(?:^| )(?:[|;&<>#]|2>|->)")
_ROUTE = re.compile(r"/_specgate/[\w/{}.-]*[\w}]")
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
def test_settings_that_a_shell_is_given_reach_the_gate(name):
    # On a line of its own without `export` it is the shell's alone, and `specgate` never sees it.
    text = text_of(REPOSITORY / name)
    kept = [line for block in _SHELL.findall(text) for line in _KEPT.findall(block)]
    assert not kept


@pytest.mark.parametrize("name", NAMES)
def test_metrics_that_are_named_exist(name):
    every = families()
    known = {name for family in every for name in (family.name, exposed_name(family))}
    known |= {sample.name for family in every for sample in family.samples}
    text = _LINK.sub("", text_of(REPOSITORY / name))
    wrong = set(_METRIC.findall(text)) - known
    assert not wrong


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_options_that_are_named_exist(name):
    for words in commands(text_of(REPOSITORY / name)):
        command: click.Command = main
        for word in words:
            if isinstance(command, click.Group) and not word.startswith("-"):
                found = command.get_command(click.Context(command), word)
                assert found is not None, f"{name}: specgate {' '.join(words)}"
                command = found
            elif word.startswith("-"):
                option = word.partition("=")[0]
                assert option in options_of(command), f"{name}: {command.name} {option}"


def test_commands_are_found_in_shells_and_in_a_line():
    shell = "```bash\nX=1 specgate bench --spec-url U \\\n  --nope=3 | jq .  # specgate\n```\n"
    assert list(commands(shell + "So `specgate nowhere --json`, says `specgate`.")) == [
        ["bench", "--spec-url", "U", "--nope=3"],
        ["nowhere", "--json"],
    ]
    assert "--nope" not in options_of(main)
    assert sum(len(list(commands(text_of(page)))) for page in PAGES) > 100


def commands(text: str) -> Iterator[list[str]]:
    """What is typed after `specgate`, in shells and in a line: subcommands, arguments, options."""
    code = [*_SHELL.findall(text), *_SPAN.findall(_FENCED.sub("", text))]
    for piece in code:
        for line in piece.replace("\\\n", " ").splitlines():
            for typed in _COMMAND.findall(line):
                words = _END_OF_COMMAND.split(typed)[0].split()
                yield [bare for word in words if (bare := word.strip("`'\"()[],.")) != ""]


def options_of(command: click.Command) -> set[str]:
    # A command keeps the help option of the first context that asks: `-h` must be in that, too.
    context = click.Context(command, parent=click.Context(main, **main.context_settings))
    params = command.get_params(context)
    return {each for param in params for each in (*param.opts, *param.secondary_opts)}


@pytest.mark.parametrize("name", NAMES)
def test_alerts_and_routes_that_are_named_exist(name):
    text = text_of(REPOSITORY / name)
    rules = (REPOSITORY / "deploy" / "prometheus" / "rules" / "alerts.yml").read_text()
    alerts = set(re.findall(r"(?m)^ *- alert: (\w+)$", rules))
    assert alerts
    assert set(re.findall(r"\bSpecgate[A-Z]\w+", text)) <= alerts
    page = text_of(ROOT / "reference" / "control-api.md")
    # Those of the dashboard are no part of the interface that is described there.
    routes = [*_ROUTE.findall(page), "/_specgate/ui"]
    known = re.compile("|".join(re.sub(r"\\{\w+\\}", r"[\\w{}]+", re.escape(r)) for r in routes))
    wrong = [route for route in _ROUTE.findall(text) if not known.fullmatch(route)]
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
