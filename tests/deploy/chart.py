"""The Helm chart as helm itself renders it."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.programs import helm
from tests.deploy.tools import DEPLOY, run

CHART = DEPLOY / "helm" / "specgate"

LANES = {"spec_url": "http://engine-spec:30000", "plain_url": "http://engine-plain:30001"}
"""The two settings without which nothing is rendered."""

Object = dict[str, Any]


def render(
    scratch: Path, values: Object | None = None, *, chart: Path = CHART, release: str = "prod"
) -> list[Object]:
    """All objects of a release in the namespace `llm`; LANES are set beside the values."""
    given = values or {}
    given = {**given, "settings": LANES | given.get("settings", {})}
    return rendered(scratch, given, chart=chart, release=release)


def rendered(
    scratch: Path, values: Object, *, chart: Path = CHART, release: str = "prod"
) -> list[Object]:
    """The same with these values alone."""
    text = run(*_command(scratch, values, chart, release), **_environ(scratch))
    return [found for found in yaml.load_all(text, Loader=yaml.CSafeLoader) if found is not None]


def refusal(scratch: Path, values: Object) -> str:
    """What helm says of values that it does not take."""
    done = subprocess.run(
        _command(scratch, values, CHART, "prod"),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=_environ(scratch),
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


def _command(scratch: Path, values: Object, chart: Path, release: str) -> list[str]:
    file = scratch / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return [helm(), "template", release, str(chart), "-n", "llm", "--values", str(file)]


def _environ(scratch: Path) -> dict[str, str]:
    """It reads and writes files of its own there, not in the user's home."""
    return {"HELM_CACHE_HOME": str(scratch), "HELM_CONFIG_HOME": str(scratch)}


def the(kind: str, objects: list[Object]) -> Object:
    """The one object of this kind, but for those of `helm test`."""
    found = [each for each in objects if each["kind"] == kind and not _is_test(each)]
    assert len(found) == 1, f"{len(found)} of {kind}"
    return found[0]


def _is_test(found: Object) -> bool:
    annotations: dict[str, str] = found["metadata"].get("annotations", {})
    return annotations.get("helm.sh/hook") == "test"


def container(objects: list[Object]) -> Object:
    (found,) = the("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def environment(objects: list[Object]) -> dict[str, str]:
    """The container's variables that have a value of their own, as its process gets them."""
    env = container(objects)["env"]
    assert len({each["name"] for each in env}) == len(env), "one is set twice"
    return {each["name"]: each["value"] for each in env if "value" in each}
