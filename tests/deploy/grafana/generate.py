"""Writes deploy/grafana/dashboards: `python -m tests.deploy.grafana.generate`.

A dashboard is a function without arguments, and a line of DASHBOARDS. `test_dashboards` fails while
a file is not what its function returns.
"""

from collections.abc import Callable, Mapping

from grafana_foundation_sdk.builders import dashboard as builder

from tests.deploy.grafana.decisions import decisions
from tests.deploy.grafana.engines import engines
from tests.deploy.grafana.frame import written
from tests.deploy.grafana.lanes import lanes
from tests.deploy.grafana.latency import latency
from tests.deploy.grafana.overview import overview
from tests.deploy.tools import DEPLOY

FOLDER = DEPLOY / "grafana" / "dashboards"

DASHBOARDS: Mapping[str, Callable[[], builder.Dashboard]] = {
    "overview": overview,
    "lanes": lanes,
    "decisions": decisions,
    "latency": latency,
    "engines": engines,
}


def main() -> None:
    for name, dashboard in DASHBOARDS.items():
        file = FOLDER / f"{name}.json"
        file.write_text(written(dashboard()), encoding="utf-8")
        print(file.relative_to(DEPLOY.parent))


if __name__ == "__main__":
    main()
