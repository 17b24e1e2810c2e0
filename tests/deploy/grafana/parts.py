"""What the dashboards are made of: queries, panels, and the frame around them.

A panel is a line here and there of its builder, so that a dashboard's file reads as what it shows.
Lanes have the same colours everywhere, and a switch is drawn over every chart.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SPEC, PLAIN = "purple", "blue"
"""The lanes' colours."""

LANES = {r"^spec\b": SPEC, r"^plain\b": PLAIN}
"""By the legends of series."""

GOOD, WARN, BAD, DULL = "green", "yellow", "red", "#808080"

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
GATES = 'job=~"$job", instance=~"$instance"'
ENGINES = 'job=~"$engine_job", lane!=""'


class Query(NamedTuple):
    """`legend`: the series' name, with labels in double braces."""

    expr: str
    legend: str


class Mapped(NamedTuple):
    """How a value is shown."""

    text: str
    colour: str


def gate(metric: str, **labels: str) -> str:
    """A selector of the gates that are chosen at the top of the page."""
    return _selector(metric, GATES, labels)


def engine(metric: str, **labels: str) -> str:
    """A selector of the engines that are chosen there, those with a label `lane`."""
    return _selector(metric, ENGINES, labels)


def _selector(metric: str, chosen: str, labels: Mapping[str, str]) -> str:
    wanted = [f'{name}="{value}"' for name, value in labels.items()]
    return f"{metric}{{{', '.join([chosen, *wanted])}}}"


def rate(selector: str) -> str:
    return f"rate({selector}[$__rate_interval])"


def quantile(share: float, histogram: str, by: str = "lane") -> str:
    """Of a gate's histogram, over all that were chosen."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({labels}) ({rate(gate(histogram + '_bucket'))}))"


# Panels

Built = TypeVar("Built", stat.Panel, timeseries.Panel, statetimeline.Panel, heatmap.Panel)


def _named(
    panel: Built, title: str, text: str, size: tuple[int, int], queries: Iterable[Query]
) -> Built:
    width, height = size
    panel.title(title).description(text).datasource(SOURCE).span(width).height(height)
    now = isinstance(panel, stat.Panel)
    for letter, (expr, legend) in zip("ABCDEFGH", queries, strict=False):
        target = prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(letter)
        target.datasource(SOURCE)
        panel.with_target(target.instant() if now else target.range())
    return panel


def named_now(
    title: str,
    text: str,
    size: tuple[int, int],
    *queries: Query,
    names: Mapping[str, Mapped],
    empty: str = "nothing",
) -> stat.Panel:
    """Says the names of the series that there are. `names`: regular expressions of legends."""
    panel = _named(stat.Panel(), title, text, size, queries)
    panel.text_mode(common.BigValueTextMode.NAME).graph_mode(common.BigValueGraphMode.NONE)
    panel.color_mode(common.BigValueColorMode.BACKGROUND_SOLID).no_value(empty)
    panel.reduce_options(_last())
    for pattern, (shown, colour) in names.items():
        panel.override_by_regexp(
            f"/^{pattern}$/",
            [
                *([model.DynamicConfigValue("displayName", shown)] if shown else []),
                model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour}),
            ],
        )
    return panel


def number_now(
    title: str,
    text: str,
    size: tuple[int, int],
    *queries: Query,
    unit: str = "short",
    decimals: int | None = None,
    steps: Sequence[tuple[float | None, str]] = ((None, "text"),),
    empty: str = "-",
) -> stat.Panel:
    """`steps`: colours from a value on."""
    panel = _named(stat.Panel(), title, text, size, queries)
    panel.unit(unit).thresholds(_steps(steps)).no_value(empty).reduce_options(_last())
    panel.graph_mode(common.BigValueGraphMode.NONE).color_mode(common.BigValueColorMode.VALUE)
    if len(queries) > 1:
        panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME)
    if decimals is not None:
        panel.decimals(decimals)
    return panel


def chart(
    title: str,
    text: str,
    size: tuple[int, int],
    *queries: Query,
    unit: str = "short",
    colours: Mapping[str, str] | None = None,
    dashed: Sequence[str] = (),
    stacked: bool = False,
    floor: float | None = 0,
    ceiling: float | None = None,
    line: tuple[float, str] | None = None,
    log: bool = False,
) -> timeseries.Panel:
    """colours, dashed: by regular expressions of legends. line: a value that is drawn across, and
    its colour. log: a logarithmic axis, for times that differ by orders of magnitude."""
    panel = _named(timeseries.Panel(), title, text, size, queries)
    panel.unit(unit).line_width(2).fill_opacity(40 if stacked else 8)
    panel.show_points(common.VisibilityMode.NEVER).no_value("Nothing: the description says when")
    panel.legend(
        common_builder.VizLegendOptions()
        .show_legend(show_legend=True)
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
        .calcs([])
    )
    panel.tooltip(
        common_builder.VizTooltipOptions()
        .mode(common.TooltipDisplayMode.MULTI)
        .sort(common.SortOrder.DESCENDING)
    )
    if floor is not None and not log:
        panel.min(floor)
    if ceiling is not None:
        panel.max(ceiling)
    if stacked:
        panel.stacking(common_builder.StackingConfig().mode(common.StackingMode.NORMAL))
    if log:
        panel.scale_distribution(
            common_builder.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(2)
        )
    if line is not None:
        panel.thresholds(_steps([(None, "transparent"), line]))
        panel.thresholds_style(
            common_builder.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        )
    for pattern, colour in {**LANES, **(colours or {})}.items():
        fixed = {"mode": "fixed", "fixedColor": colour}
        panel.override_by_regexp(f"/{pattern}/", [model.DynamicConfigValue("color", fixed)])
    for pattern in dashed:
        style = {"fill": "dash", "dash": [8, 6]}
        panel.override_by_regexp(
            f"/{pattern}/",
            [
                model.DynamicConfigValue("custom.lineStyle", style),
                model.DynamicConfigValue("custom.fillOpacity", 0),
            ],
        )
    return panel


def states(
    title: str,
    text: str,
    size: tuple[int, int],
    *queries: Query,
    values: Mapping[int, Mapped],
) -> statetimeline.Panel:
    """What was the case, over time."""
    panel = _named(statetimeline.Panel(), title, text, size, queries)
    panel.show_value(common.VisibilityMode.AUTO).line_width(0).fill_opacity(80)
    panel.merge_values(merge_values=True).row_height(0.85)
    panel.mappings(
        [
            model.ValueMap(
                options={
                    str(value): model.ValueMappingResult(text=text, color=colour, index=index)
                    for index, (value, (text, colour)) in enumerate(values.items())
                }
            )
        ]
    )
    panel.color_scheme(builder.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(DULL))
    panel.legend(common_builder.VizLegendOptions().show_legend(show_legend=False))
    return panel


def heat(title: str, text: str, size: tuple[int, int], histogram: str) -> heatmap.Panel:
    """Of a gate's histogram of seconds."""
    panel = _named(heatmap.Panel(), title, text, size, []).unit("s")
    expr = f"sum by (le) (increase({gate(histogram + '_bucket')}[$__rate_interval]))"
    target = prometheus.Dataquery().expr(expr).legend_format("{{le}}").ref_id("A").range()
    target.datasource(SOURCE).format(PromQueryFormat.HEATMAP)
    panel.with_target(target).calculate(calculate=False)
    panel.y_axis(heatmap.YAxisConfig().unit("s"))
    return panel


def _steps(steps: Sequence[tuple[float | None, str]]) -> builder.ThresholdsConfig:
    return (
        builder.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=colour) for value, colour in steps])
    )


def _last() -> common_builder.ReduceDataOptions:
    return common_builder.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False)
