#!/usr/bin/env bash
# Runs labs with 1, 2 and 4 threads and compares what they print, byte by byte.
#
#   tests/threads.sh PROGRAM [LAB…]     LAB: the name of a file in labs/ without .toml; without any, all labs
#
# THREADS_LONG=1 adds the labs whose goldens take half a minute and more (tests/golden/long.txt). Some labs of 2,048 hosts, whose
# mechanisms no lab of labs/ has on so large a fabric, are written here.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# NAME, lines of the lab, lines of its workload.
large() {
    local name=$1 top=$2 workload=$3
    printf 'title = "%s"\ncluster = "lab-roce-8192:2048"\nengine = "packet"\n%s\n\n[workload.permutation]\nsize = "100 kB"\n%s\n' \
        "$name" "$top" "$workload" >"$scratch/$name.toml"
    echo "$scratch/$name.toml"
}

list() {
    if (($#)); then printf 'labs/%s.toml\n' "$@"; return; fi
    local lab
    for lab in labs/*.toml; do
        if [[ -z ${THREADS_LONG:-} ]] && grep -qxF "labs/$(basename "$lab" .toml).txt" tests/golden/long.txt; then continue; fi
        echo "$lab"
    done
    large sprayed 'routing = "spray"' 'any_order = true'
    large dcqcn $'routing = "ecmp"\ncongestion = "dcqcn"\nflow_control = "lossless"' ''
    large nscc $'routing = "spray"\ncongestion = "nscc"\nflow_control = "lossy"' $'transport = "uet"\nany_order = true'
    large srd 'routing = "spray"' 'transport = "srd"'
    large hpcc $'routing = "ecmp"\ncongestion = "hpcc"\nflow_control = "lossy"' ''
}

count=0
while read -r lab; do
    for threads in 1 2 4; do
        # A lab that is refused says so whatever the threads.
        "$program" run "$lab" --json --threads "$threads" >"$scratch/$threads" 2>&1 || true
        if ! cmp -s "$scratch/1" "$scratch/$threads"; then
            echo "$lab: $threads threads print other bytes than one" >&2
            exit 1
        fi
    done
    count=$((count + 1))
done < <(list "$@")
echo "the same bytes with 1, 2 and 4 threads: $count labs"
