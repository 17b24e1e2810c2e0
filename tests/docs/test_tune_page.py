"""docs/how-to/tune.md names every knob of the policy, with its default, and real reasons."""

import dataclasses
import re

from specgate.core.config import PolicyConfig
from specgate.core.policy import Reason
from specgate.settings import env_name, kind_of
from specgate.settings.model import Settings
from tests.docs.generate import ROOT

PAGE = (ROOT / "how-to" / "tune.md").read_text(encoding="utf-8")
KNOBS = {field.name for field in dataclasses.fields(PolicyConfig)} & Settings.model_fields.keys()


def test_it_names_every_knob():
    assert len(KNOBS) >= 7
    for name in KNOBS - {"shadow"}:  # it decides nothing, it only keeps the traffic in place
        assert f"`{env_name(name)}" in PAGE, name


def test_the_defaults_in_its_table_are_true():
    _, _, table = PAGE.partition("## What each knob does")
    rows = re.findall(r"^\| `SPECGATE_(\w+)`[^|]*\| ([^|]+) \|", table, re.MULTILINE)
    assert len(rows) >= 8
    for name, told in rows:
        default = Settings.model_fields[name.lower()].default
        written = kind_of(name.lower()).write(default)
        shown = "unset" if written is None else str(written).lower()
        assert shown == told, name


def test_the_reasons_that_it_names_exist():
    named = set(re.findall(r"reasons? ((?:`\w+`(?:, | or | and )?)+)", PAGE))
    words = {word for group in named for word in re.findall(r"`(\w+)`", group)}
    assert len(words) >= 10
    assert words <= set(Reason)
