"""Metrics that dashboards and alerts need: why, how far from switching, shadow, the profile."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specgate.bench.shipped import shipped
from specgate.core.profile import dumps
from tests.support.lanes import ScriptedLane
from tests.support.live import BARE, running_gate


async def figures(**settings: Any) -> dict[str, dict[str, float]]:
    """Of an idle gate: values by the labels' values, by the series' name."""
    async with (
        ScriptedLane("spec") as spec,
        ScriptedLane("plain") as plain,
        running_gate(spec.url, plain.url, **settings) as gate,
    ):
        page = await gate.metrics()
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = " ".join(sample.labels.values())
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def on(series: dict[str, float]) -> set[str]:
    return {labels for labels, value in series.items() if value == 1}


async def test_a_threshold_has_a_reason_and_a_distance():
    found = await figures(threshold=8, **{**BARE, "band": 0.25})
    assert on(found["specgate_reason"]) == {"below_threshold"}
    assert on(found["specgate_shadow"]) == set()
    edges = [found[f"specgate_edge_{end}"][""] for end in ("low", "high", "distance")]
    assert edges == [6, 8, 8]
    assert "specgate_profile_info" not in found


@pytest.mark.parametrize("threshold", ["never", "always"])
async def test_a_side_that_is_fixed_has_no_edge(threshold: str):
    found = await figures(threshold=threshold)
    assert on(found["specgate_reason"]) == {threshold}
    assert not [name for name in found if name.startswith("specgate_edge")]


async def test_a_shadow_names_its_lane():
    found = await figures(shadow="plain")
    assert found["specgate_shadow"] == {"spec": 0, "plain": 1}
    assert on(found["specgate_reason"]) == {"unmeasured"}


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("2026-01-02T03:04:05+00:00", {"": 1767323045.0}),
        ("2026-01-02T03:04:05", {"": 1767323045.0}),
        ("last week", None),
        (None, None),
    ],
)
async def test_a_profile_tells_its_model_and_its_date(
    tmp_path: Path, said: str | None, seconds: dict[str, float] | None
):
    profile = shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")
    told = replace(profile.fingerprint, model="a/model", measured_at=said)
    file = tmp_path / "profile.json"
    file.write_text(dumps(replace(profile, fingerprint=told)))
    found = await figures(profile=file)
    assert found["specgate_profile_info"] == {"a/model": 1}
    assert found.get("specgate_profile_measured_timestamp_seconds") == seconds
    low, high = (found[f"specgate_edge_{end}"][""] for end in ("low", "high"))
    assert low <= 38.6 <= high + 0.1


async def test_a_threshold_by_hand_takes_nothing_of_the_profile(tmp_path: Path):
    file = tmp_path / "profile.json"
    file.write_text(dumps(shipped("k26-int4-8xrtxpro6000-vllm-ctx10k")))
    found = await figures(profile=file, threshold=3)
    assert "specgate_profile_info" not in found
