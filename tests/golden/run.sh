#!/usr/bin/env bash
# Runs every case of cases.txt and compares its output with the file that pins it, or writes that file anew.
#
#   tests/golden/run.sh check|bless PROGRAM [SCOPE…]     SCOPE: the beginning of a file's name, such as bench/osu
#
# GOLDEN_LONG=1 adds the cases of long.txt, which take half a minute and more. Cases run side by side on all cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=$1 program=$2
shift 2
golden=tests/golden
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# One line a case: the file, then its command.
expand() {
    local file command name
    grep -v -e '^#' -e '^$' "$golden/cases.txt" | while read -r file command; do
        case $file in
            *@LAB*) for name in labs/*.toml; do name=$(basename "$name" .toml); echo "${file//@LAB/$name} ${command//@LAB/$name}"; done ;;
            *@TABLE*) for name in validation/*.csv; do name=$(basename "$name" .csv); echo "${file//@TABLE/$name} ${command//@TABLE/$name}"; done ;;
            *) echo "$file $command" ;;
        esac
    done
}

wanted() {
    local file=$1 scope
    shift
    if [[ -z ${GOLDEN_LONG:-} ]] && grep -qxF "$file" "$golden/long.txt"; then return 1; fi
    (($#)) || return 0
    for scope in "$@"; do [[ $file == "$scope"* ]] && return 0; done
    return 1
}

one() {
    local file=$1
    shift
    mkdir -p "$scratch/$(dirname "$file")"
    # A check that fails on purpose is pinned with its status: `validate` of a table outside its limits, a command that is refused.
    local status=0
    "$program" "$@" >"$scratch/$file" 2>"$scratch/$file.err" || status=$?
    if ((status)); then { echo "# exit status $status"; cat "$scratch/$file.err"; } >>"$scratch/$file"; fi
    if [[ $mode == bless ]]; then
        mkdir -p "$golden/$(dirname "$file")"
        cp "$scratch/$file" "$golden/$file"
    elif ! diff -u --label "$file (pinned)" --label "$file (now)" "$golden/$file" "$scratch/$file"; then
        echo "$file" >>"$scratch/changed"
    fi
}
export -f one
export mode program golden scratch

expand | while read -r file command; do
    if wanted "$file" "$@"; then echo "$file $command"; fi
done >"$scratch/list"
xargs -P "$(nproc)" -d '\n' -I{} bash -c 'set -f; one $1' _ {} <"$scratch/list"
total=$(wc -l <"$scratch/list")
if [[ -s $scratch/changed ]]; then
    echo "$(wc -l <"$scratch/changed") of $total goldens changed; if the new numbers are right: make bless, and a line under *Model changes* in CHANGELOG.md" >&2
    exit 1
fi
echo "$mode: $total goldens"
