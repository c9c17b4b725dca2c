#!/usr/bin/env bash
# Runs every example of every --help page: each has to end well. What takes longer than ten seconds of one core is said.
#
#   tests/examples.sh PROGRAM [LIST]
#
# Times of all go to LIST. EXAMPLES_LONG=1 adds those that run all tables and all sizes of something, which the goldens hold as well; one that
# takes half an hour is never run. Examples on files of the reader's own (mine.topo, my-parts/) and through other programs are left out,
# and the server, which ends only when it is told to; what examples write goes into scratch folders. Examples run side by side on all cores.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "$1")
list=${2:-/dev/null}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export scratch HOME=$scratch PATH="$scratch/bin:$PATH" root=$PWD
mkdir "$scratch/bin"
cp "$program" "$scratch/bin/fabriscope"

# Those of a page: the lines below "Examples:", without what explains them behind two spaces and more.
examples() {
    local commands
    commands=$(fabriscope --help | awk '/^Commands:/ {on = 1; next} /^$/ {on = 0} on && /^  [a-z]/ {print $1}')
    { fabriscope --help; for command in $commands; do [[ $command == help ]] || fabriscope "$command" --help; done; } |
        awk '/^Examples:/ {on = 1; next} /^[^ ]/ {on = 0} on && /^  fabriscope / {print}' | sed -E 's/^ +//; s/ {2,}[^ ].*$//' | sort -u
}

# Without what names what only its reader has, and what takes long.
of_all_readers() {
    local long=()
    [[ -n ${EXAMPLES_LONG:-} ]] || long=(-e 'report ri2' -e 'validate$' -e 'validate --json' -e 'validate --summary' -e 'fabriscope sensitivity' -e 'explain all_reduce_perf .*--nodes 2$' -e 'explain vasp' -e 'spark-shuffle .*-d 4G')
    grep -v -e 'fabriscope serve' -e 'mine\.' -e 'my-' -e 'ours\.' -e gpu01 -e '|' -e '~/' -e --long "${long[@]}"
}

one() {
    local folder
    folder=$(mktemp -d -p "$scratch")
    cd "$folder"
    for shared in labs catalog fabrics validation docs examples; do ln -s "$root/$shared" .; done
    TIMEFORMAT=%U
    if ! { time bash -c "$1" >out.txt 2>err.txt </dev/null; } 2>time.txt; then
        { echo "an example of a help page ends in an error: $1"; head -c 400 err.txt; } >&2
        echo "$1" >>"$scratch/failed"
    fi
    echo "$(tail -1 time.txt) $1" >>"$scratch/times"
}
export -f one

examples | of_all_readers | xargs -P "$(nproc)" -d '\n' -I{} bash -c 'one "$1"' _ {}
sort -rn "$scratch/times" | tee "$list" | awk '$1 > 10 {sub(/^[^ ]+ /, ""); print "more than ten seconds: " $0}'
echo "$(wc -l <"$scratch/times") examples of help pages ran"
[[ ! -e $scratch/failed ]]
