#!/usr/bin/env bash
# Makes a report, a comparison and the page of a benchmark, and checks them in Debian's Chromium (apt-get install chromium nodejs npm);
# drives the page of `fabriscope serve` there.
#
#   tests/page/run.sh PROGRAM
#
# The checkers are installed below target/, where no page of the project is looked for.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "$1")
mkdir -p target/page
cp tests/page/package.json tests/page/*.mjs target/page/
cd target/page
[[ -d node_modules ]] || npm install --no-audit --no-fund --silent
"$program" report ri2:8 -o report.html
"$program" report ri2:8 alaska-roce25 -o compared.html
"$program" bench -o bench.html osu_bw --on ri2
"$program" explain osu_latency --on ri2 -s 8 -o explain.html
node check.mjs report.html compared.html bench.html explain.html
node serve.mjs "$program"
