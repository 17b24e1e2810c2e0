"""The parts of docs/how-to/replay.md that come from the code: an example, and what is left out."""

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from specgate.cli.main import main
from specgate.replay.pool import LEFT_OUT

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "replay.md"

_COMMAND = re.compile(r"^specgate (replay .*)$", re.MULTILINE)


def replay_page() -> str:
    """The page as it is, with its generated parts as the code says them now."""
    text = PAGE.read_text(encoding="utf-8")
    text = _replaced(text, "example", _example(commands()[0]))
    return _replaced(
        text, "left out", ".\n".join(f"- {said[0].upper()}{said[1:]}" for said in LEFT_OUT) + "."
    )


def commands() -> list[list[str]]:
    """Every command that the page shows, in its order."""
    found = _COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    return [shlex.split(line) for line in found]


def _example(words: list[str]) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    lines = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
    return f"```text\n{lines}\n```"


def _replaced(text: str, part: str, with_this: str) -> str:
    before, begin, rest = text.partition(f"<!-- generated: {part} -->\n")
    _, end, after = rest.partition("<!-- end -->\n")
    assert begin, f"{PAGE.name} has no part {part}"
    assert end, f"the part {part} of {PAGE.name} has no end"
    return f"{before}{begin}\n{with_this}\n\n{end}{after}"
