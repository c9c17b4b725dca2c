#!/usr/bin/env bash
# Makes a report, a comparison and the page of a benchmark, and checks them in Debian's Chromium (apt-get install chromium nodejs npm).
#
#   tests/page/run.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")"
program=$(realpath "$1")
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
[[ -d node_modules ]] || npm install --no-audit --no-fund --silent
"$program" report ri2:8 -o "$pages/report.html"
"$program" report ri2:8 alaska-roce25 -o "$pages/compared.html"
"$program" bench osu_bw --on ri2 -o "$pages/bench.html"
"$program" explain osu_latency --on ri2 -s 8 -o "$pages/explain.html"
node check.mjs "$pages"/*.html
