"""The reference pages cannot lie: they are what the code says today, and all that it says."""

import dataclasses
import inspect
import time
from dataclasses import replace
from typing import get_args

import click
import pytest

from specgate.core import headers
from specgate.core.config import PolicyConfig
from specgate.core.errors import FailureKind, NoLaneReachable
from specgate.core.events import Event, LaneFailed, Outcome, Phase
from specgate.core.lanes import Lane
from specgate.core.policy import MEANINGS, Reason
from specgate.core.routes import RouteClass
from specgate.proxy.app import OWN_PATHS
from specgate.proxy.replies import fault_reply, own_headers
from specgate.settings import Settings, env_name
from specgate.telemetry.metrics import Metrics
from tests.docs.a_gate import a_gate
from tests.docs.cli_page import commands
from tests.docs.events_page import ENDED, SAMPLES
from tests.docs.generate import PAGES, ROOT
from tests.docs.metrics_page import exposed_name, families, labels_of, values_of


def written(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_the_code_says(name):
    assert written(name) == PAGES[name](), "stale: run python -m tests.docs.generate"


def test_every_setting_is_described_and_says_when_a_change_takes_effect():
    page = written("reference/settings.md")
    for name, field in Settings.model_fields.items():
        assert f"### `{env_name(name)}`" in page
        assert field.description is not None
        assert field.description.endswith(".")
        assert isinstance(field.json_schema_extra, dict)
        assert isinstance(field.json_schema_extra["reloadable"], bool)


def test_every_command_and_option_is_there():
    page = written("reference/cli.md")
    for name, command in commands():
        assert f"## specgate {name}\n" in page
        for param in command.params:
            for option in param.opts if isinstance(param, click.Option) else ():
                assert f"`{option}`" in page


def test_every_metric_is_there():
    page = written("reference/metrics.md")
    for family in families():
        assert f"| `{exposed_name(family)}` | {family.type} |" in page


def test_a_label_never_has_a_value_that_the_page_does_not_list():
    """Everything that can happen to a request, one after the other, and then a scrape."""
    gate = a_gate().gate
    metrics = Metrics(
        view=gate.view,
        engines=dict,
        disagreement=gate.disagreement,
        clock=time.monotonic,
        version="0",
    )
    for sample in SAMPLES:
        metrics(sample)
    for lane in (None, *Lane):
        for outcome in Outcome:
            for status in (None, 200, 204, 302, 404, 499, 503, 700):
                metrics(replace(ENDED, lane=lane, outcome=outcome, status=status))
    for kind in FailureKind:
        metrics(LaneFailed(lane=Lane.SPEC, kind=kind, message=""))
    for phase in Phase:
        metrics(replace(ENDED, phase=phase, outcome=Outcome.CLIENT_GONE))
    for route in RouteClass:
        metrics(replace(ENDED, route=route))
    page = written("reference/metrics.md")
    for family in metrics.registry.collect():
        for label in labels_of(family):
            seen = {sample.labels[label] for sample in family.samples}
            if label != "version":
                assert seen <= set(values_of(family.name, label)), family.name
                assert all(f"`{value}`" in page for value in values_of(family.name, label))


def test_every_reason_is_explained():
    page = written("reference/reasons.md")
    assert set(MEANINGS) == set(Reason)
    for reason in Reason:
        assert f"| `{reason}` |" in page


def test_every_fact_and_field_is_there():
    page = written("reference/events.md")
    assert {type(sample) for sample in SAMPLES} == set(get_args(Event))
    for kind in get_args(Event):
        _, _, section = page.partition(f"## {kind.__name__}\n")
        section, _, _ = section.partition("\n## ")
        for name in inspect.get_annotations(kind):
            assert f"| `{name}` |" in section


def test_every_header_that_ends_at_the_gate_or_is_added_there_is_on_the_page():
    page = written("reference/headers.md").lower()
    for name in headers.HOP_BY_HOP:
        assert f"`{name.decode()}`" in page
    own = own_headers(Lane.SPEC, Reason.BURST)
    stream = [(b"content-type", b"text/event-stream")]
    added = headers.to_client(stream, request_id=b"1", accel_buffering=True, own=own).pairs
    added += fault_reply(NoLaneReachable("", retry_after_s=1), request_id=b"1")[1]
    sent = headers.to_lane([], method=b"POST", authority=b"lane", request_id=b"1", chunked=False)
    for name, _ in [*added, *sent]:
        if not name.startswith(b"content-type"):
            assert f"`{name.decode()}" in page


def test_every_route_of_the_gate_is_there():
    page = written("reference/control-api.md")
    assert all(f"`{path}`" in page or f" {path}\n" in page for path in OWN_PATHS)
    for path, methods in a_gate().app.openapi()["paths"].items():
        for method in methods:
            assert f"## {method.upper()} {path}\n" in page


def test_the_policy_page_names_each_knob_and_its_default():
    page = written("explanation/policy.md")
    for field in dataclasses.fields(PolicyConfig):
        if field.name in ("curves", "contexts", "fingerprint"):  # of the profile, no settings
            continue
        assert env_name("pool" if field.name == "placement" else field.name) in page
        if isinstance(field.default, float):
            assert f"| `{env_name(field.name)}` | {field.default:g} |" in page
