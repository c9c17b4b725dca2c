#!/usr/bin/env bash
# Runs every example of every --help page: each has to end well. What takes longer than ten seconds is said.
#
#   tests/examples.sh PROGRAM
#
# Examples that name files of the reader's own (mine.toml) are left out; what they write goes into a scratch folder.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for folder in labs catalog fabrics validation docs; do ln -s "$PWD/$folder" "$scratch/$folder"; done
ln -s "$program" "$scratch/fabriscope"
cd "$scratch"
export PATH="$scratch:$PATH"

# The lines below "Examples:", without what explains them: two spaces and more.
examples() {
    { fabriscope --help; for command in $(fabriscope --help | awk '/^Commands:/ {on=1; next} on && /^  [a-z]/ {print $1} on && !/^  / {exit}'); do
        [[ $command == help ]] || fabriscope "$command" --help
    done; } | awk '/^Examples:/ {on=1; next} /^[^ ]/ {on=0} on && /^  fabriscope / {print}' | sed -E 's/^ +//; s/ {2,}[^ ].*$//' | sort -u
}

failed=0 count=0
while read -r example; do
    missing=""
    for word in $example; do
        case $word in *.toml | *.csv | *.xml | *.json | *.pcap | *.goal | *.gz | *.et) [[ -e $word ]] || missing=$word ;; esac
    done
    # What is written need not be there before.
    case $example in *" -o "* | *"--pcap"* | *"--nccl-topo"*) missing="" ;; esac
    [[ -z $missing ]] || continue
    count=$((count + 1))
    begun=$SECONDS
    if ! bash -c "$example" > out.txt 2> err.txt < /dev/null; then
        echo "example of a help page ends in an error: $example" >&2
        tail -n 3 err.txt >&2
        failed=$((failed + 1))
    fi
    if ((SECONDS - begun > 10)); then echo "$((SECONDS - begun)) s: $example"; fi
done < <(examples)
echo "$count examples of help pages ran"
((failed == 0))
