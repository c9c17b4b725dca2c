#!/usr/bin/env bash
# Runs every example of every --help page: each has to end well. What takes longer than ten seconds is said.
#
#   tests/examples.sh PROGRAM
#
# Examples on files of the reader's own (mine.topo, my-parts/) and through other programs are left out; what examples write goes into a
# scratch folder.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for folder in labs catalog fabrics validation docs; do ln -s "$PWD/$folder" "$scratch/$folder"; done
cp "$program" "$scratch/fabriscope"
cd "$scratch"
export PATH="$scratch:$PATH" HOME="$scratch"

# Those of a page: the lines below "Examples:", without what explains them behind two spaces and more.
examples() {
    local commands
    commands=$(fabriscope --help | awk '/^Commands:/ {on = 1; next} /^$/ {on = 0} on {print $1}')
    { fabriscope --help; for command in $commands; do [[ $command == help ]] || fabriscope "$command" --help; done; } |
        awk '/^Examples:/ {on = 1; next} /^[^ ]/ {on = 0} on && /^  fabriscope / {print}' | sed -E 's/^ +//; s/ {2,}[^ ].*$//' | sort -u
}

# Whether an example names what only its reader has.
of_reader() {
    case $1 in *'mine.'* | *'my-'* | *'ours.'* | *'gpu01'* | *'|'* | *'~/'*) return 0 ;; esac
    return 1
}

failed=0 count=0
while read -r example; do
    if of_reader "$example"; then continue; fi
    count=$((count + 1))
    begun=$SECONDS
    if ! bash -c "$example" > out.txt 2> err.txt < /dev/null; then
        echo "an example of a help page ends in an error: $example" >&2
        head -c 400 err.txt >&2
        failed=$((failed + 1))
    fi
    if ((SECONDS - begun > 10)); then echo "$((SECONDS - begun)) s: $example"; fi
done < <(examples)
echo "$count examples of help pages ran"
((failed == 0))
