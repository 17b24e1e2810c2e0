"""Writes the reference pages from the code: `python -m tests.docs.generate`.

A page is a function without arguments that returns its text, and a line of PAGES.
`test_reference` fails while a page is not what its function returns.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs.settings_page import settings_page

ROOT = Path(__file__).parents[2] / "docs"

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/settings.md": settings_page,
}


def main() -> None:
    for name, page in PAGES.items():
        target = ROOT / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
