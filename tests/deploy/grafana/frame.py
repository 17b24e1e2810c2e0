"""The frame of every dashboard: its variables, the links to the others, switches as annotations."""

import json
from collections.abc import Iterable
from typing import Any

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from tests.deploy.grafana.parts import GATES, PLAIN, SOURCE, SPEC

TAG = "specgate"
"""Of all dashboards: the links find them by it."""

ENGINE_GAUGES = "sglang:num_running_reqs|vllm:num_requests_running|llamacpp:requests_processing"


def framed(name: str, title: str, text: str) -> builder.Dashboard:
    """An empty dashboard; `name`: of its file, and the end of its uid."""
    return (
        builder.Dashboard(title)
        .uid(f"specgate-{name}")
        .description(text)
        .tags([TAG])
        .editable()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("10s")
        .link(
            builder.DashboardLink("specgate")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(include_vars=True)
            .keep_time(keep_time=True)
        )
        .with_variable(
            builder.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(
            _values("job", "Gates' job", "label_values(specgate_build_info, job)").description(
                "The scrape job of the gates."
            )
        )
        .with_variable(
            _values(
                "instance", "Gate", 'label_values(specgate_build_info{job=~"$job"}, instance)'
            ).description("Which gates. Each decides for itself.")
        )
    )


def with_engines(dashboard: builder.Dashboard) -> builder.Dashboard:
    """With a variable for the engines' scrape job."""
    every = f'label_values({{__name__=~"{ENGINE_GAUGES}", lane!=""}}, job)'
    return dashboard.with_variable(
        _values("engine_job", "Engines' job", every).description(
            "The scrape job of the engines, whose targets have a label lane."
        )
    )


def section(page: builder.Dashboard, title: str, panels: Iterable[Builder[model.Panel]]) -> None:
    """A row, and what is in it."""
    page.with_row(builder.Row(title))
    for panel in panels:
        page.with_panel(panel)


def written(dashboard: builder.Dashboard) -> str:
    """The JSON of its file."""
    found: dict[str, Any] = json.loads(json.dumps(dashboard.build(), cls=JSONEncoder))
    found["annotations"] = {"list": [_switches(SPEC, "spec"), _switches(PLAIN, "plain")]}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _values(name: str, label: str, query: str) -> builder.QueryVariable:
    return (
        builder.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        # Also where a target has no such label, and before there is data.
        .all_value(".*")
        .current(model.VariableOption(selected=True, text="All", value="$__all"))
    )


def _switches(colour: str, side: str) -> dict[str, Any]:
    """Where a gate went over to that side: it is on it, and was not a step ago. A time without
    the gate before that is no switch. (The builder has no fields for Prometheus's annotations.)"""
    now = f'specgate_side{{{GATES}, side="{side}"}}'
    return {
        "name": f"Switch to {side}",
        "datasource": {"type": "prometheus", "uid": SOURCE.uid},
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "expr": f"{now} == 1 and {now} offset $__interval == 0",
        "titleFormat": f"to {side}",
        "textFormat": "{{instance}}",
        "tagKeys": "",
        "step": "",
        "useValueForTime": False,
    }
