#!/usr/bin/env bash
# Runs every workload, training and inference, on a CPU or a GPU; ./runtest.sh --help lists the options.
# Without an active virtual environment it makes one of its own, .venv beside this file.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [ -n "${VIRTUAL_ENV:-}${CONDA_PREFIX:-}" ]; then
    python=python
else
    python=$root/.venv/bin/python
    "$python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$root/.venv"
fi
if ! "$python" -I -c 'import importlib.metadata; importlib.metadata.version("fathom-workloads")' 2>/dev/null; then
    echo "installing Fathom; this takes a few minutes the first time"
    "$python" -m pip install --quiet --editable "$root"
fi
exec "$python" -m fathom.cli.suite "$@"
