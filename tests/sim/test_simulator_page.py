"""The reference page names everything there is."""

import re
from pathlib import Path

import msgspec
import pytest

from specgate.cli.sim import sim
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile, profile_names
from specgate.sim.prompts import PromptClass

PAGE = (Path(__file__).parents[2] / "docs/reference/simulator.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        *(option for parameter in sim.params for option in parameter.opts),
        *(field.name for field in msgspec.structs.fields(Faults)),
        *profile_names(),
        *PromptClass,
    ],
)
def test_the_page_names_it(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", profile_names())
def test_the_page_has_the_crossing(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| (\w+) \| (\w+\.?\d*) \|", PAGE, re.MULTILINE)
    profile = load_profile(name)
    assert row[0] == profile.shape
    assert float(row[1].replace("infinite", "inf")) == pytest.approx(profile.crossing(), abs=0.06)
