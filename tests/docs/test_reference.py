"""The reference pages cannot lie: they are what the code says today."""

import pytest

from specgate.settings import Settings, env_name
from tests.docs.generate import PAGES, ROOT


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_the_code_says(name):
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "stale: run python -m tests.docs.generate"


def test_every_setting_is_described_and_says_when_a_change_takes_effect():
    page = PAGES["reference/settings.md"]()
    for name, field in Settings.model_fields.items():
        assert f"### `{env_name(name)}`" in page
        assert field.description is not None
        assert field.description.endswith(".")
        assert isinstance(field.json_schema_extra, dict)
        assert isinstance(field.json_schema_extra["reloadable"], bool)
