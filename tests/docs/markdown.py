"""Markdown in small pieces, shared by the pages that are written from the code."""

from collections.abc import Iterable, Sequence


def written_from(source: str) -> str:
    """The first line of a generated page: says where to change it."""
    return f"<!-- Written by `python -m tests.docs.generate` from {source}: change it there. -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(head), "|" + "---|" * len(head)]
    return "\n".join([*lines, *(_row(row) for row in rows)])


def code(*words: str) -> str:
    """Each word as code, with commas between."""
    return ", ".join(f"`{word}`" for word in words)


def prose(docstring: str | None) -> str:
    """A docstring as one paragraph a paragraph, without its indentation."""
    paragraphs = (docstring or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
