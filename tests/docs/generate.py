"""Writes the reference pages from the code: `python -m tests.docs.generate`.

The part of the Helm chart's schema that follows from the settings, too.

A page is a function without arguments that returns its text, and a line of PAGES.
`test_reference` fails while a page is not what its function returns.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.deploy import chart_schema
from tests.docs.cli_page import cli_page
from tests.docs.control_page import control_page
from tests.docs.events_page import events_page
from tests.docs.headers_page import headers_page
from tests.docs.metrics_page import metrics_page
from tests.docs.policy_page import policy_page
from tests.docs.profile_page import profile_page
from tests.docs.reasons_page import reasons_page
from tests.docs.replay_page import replay_page
from tests.docs.rules_page import rules_page
from tests.docs.settings_page import settings_page

ROOT = Path(__file__).parents[2] / "docs"

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/settings.md": settings_page,
    "reference/metrics.md": metrics_page,
    "reference/reasons.md": reasons_page,
    "reference/rules.md": rules_page,
    "reference/headers.md": headers_page,
    "reference/events.md": events_page,
    "reference/cli.md": cli_page,
    "reference/control-api.md": control_page,
    "reference/profile.md": profile_page,
    "explanation/policy.md": policy_page,
    "how-to/replay.md": replay_page,
}


def main() -> None:
    for name, page in PAGES.items():
        target = ROOT / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(), encoding="utf-8")
        print(f"docs/{name}")
    chart_schema.write()


if __name__ == "__main__":
    main()
