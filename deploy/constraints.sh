#!/usr/bin/env bash
# Writes deploy/constraints.txt anew: the newest versions that the project's dependencies resolve to
# on this machine. Run it with the Python of the image (3.11), then run the tests and commit both.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3.11}
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

"$python" -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check '.[otel]'
frozen=$("$home/bin/python" -m pip --disable-pip-version-check freeze --exclude specgate)
{
  echo "# All that the image installs besides specgate itself. Written by deploy/constraints.sh."
  echo "$frozen"
} >deploy/constraints.txt
