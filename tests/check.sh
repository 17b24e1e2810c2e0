#!/usr/bin/env bash
# Sets up all that the checks and tests need, then runs them: format, lint, types, layers, tests.
# Anything after it goes to pytest: `bash tests/check.sh tests/core -k policy`.
set -euo pipefail
cd "$(dirname "$0")/.."

# Debian packages: promtool checks the metrics, nginx is compared with and stands in front, zsh and
# fish read their completions, systemd checks its unit, Chromium shows the dashboard. Elsewhere, bring
# them yourself.
missing=()
command -v promtool >/dev/null || missing+=(prometheus)
command -v nginx >/dev/null || [[ -x /usr/sbin/nginx ]] || missing+=(nginx-light)
command -v wrk >/dev/null || missing+=(wrk)
command -v openssl >/dev/null || missing+=(openssl)
command -v zsh >/dev/null || missing+=(zsh)
command -v fish >/dev/null || missing+=(fish)
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium fonts-dejavu-core)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if ((${#missing[@]})); then
  as_root=$([[ $EUID == 0 ]] || echo sudo)
  $as_root apt-get update -qq
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

[[ -x .venv/bin/python ]] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
export PATH=$PWD/.venv/bin:$PATH

ruff format --check specgate tests
ruff check specgate tests
mypy
lint-imports
pytest -n 2 "$@"
