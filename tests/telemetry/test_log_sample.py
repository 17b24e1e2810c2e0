"""Which requests' lines are written where not all are: by the id alone, and never an error's."""

import io
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from specgate.core.events import Outcome, RequestEnded
from specgate.core.lanes import Lane
from specgate.telemetry.lines import LineWriter
from specgate.telemetry.logs import Logs
from specgate.wiring import _ids

WELL = RequestEnded("id", "POST", "/v1/chat/completions", lane=Lane.SPEC, status=200)


def written(sample: float, *events: RequestEnded) -> list[str]:
    """The ids of the lines."""
    out = io.BytesIO()
    lines = LineWriter(out)
    logs = Logs(lines, sample)
    logs._loudly = True  # whatever level an earlier test has set
    for event in events:
        logs(event)
    lines.flush()
    return [json.loads(line)["request_id"] for line in out.getvalue().splitlines()]


def named(ids: list[str]) -> list[RequestEnded]:
    return [replace(WELL, request_id=one) for one in ids]


def own_ids(count: int) -> list[str]:
    new = _ids()
    return [new().decode() for _ in range(count)]


def test_all_are_written_unless_told_otherwise():
    ids = own_ids(100)
    assert written(1.0, *named(ids)) == ids
    assert written(0.0, *named(ids)) == []


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_as_many_as_the_share_says_of_ids_that_count_up(share: float):
    ids = own_ids(20_000)
    got = len(written(share, *named(ids)))
    # Five standard errors of a fair draw.
    assert abs(got - share * 20_000) <= 5 * (share * (1 - share) * 20_000) ** 0.5


def test_each_gate_says_the_same_of_an_id_and_a_larger_share_has_all_of_a_smaller():
    ids = own_ids(1000)
    tenth, half = written(0.1, *named(ids)), written(0.5, *named(list(reversed(ids))))
    assert set(tenth) < set(half) < set(ids)
    assert tenth == [one for one in ids if zlib.crc32(one.encode()) / 2**32 < 0.1]


@pytest.mark.parametrize(
    "changed",
    [
        *({"outcome": outcome} for outcome in Outcome if outcome is not Outcome.COMPLETED),
        *({"status": status} for status in (None, 400, 404, 429, 500, 503)),
        {"rerouted": True},
    ],
    ids=str,
)
def test_what_somebody_will_look_for_is_always_written(changed: dict[str, Any]):
    assert written(0.0, replace(WELL, **changed)) == ["id"]
