#!/usr/bin/env bash
# A commit that changes what tests/golden pins says so: it adds a line under *Model changes* in CHANGELOG.md. Looks at the commits since the goldens
# came to be, as far as the checkout has them, and at what is not committed yet.
set -euo pipefail
cd "$(dirname "$0")/../.."
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "no history here: nothing to look at"; exit 0; }

# Whether `git diff` or `git show` with these arguments changes a pinned file that existed before.
moved() { git "$@" --diff-filter=M --name-only --format= -- tests/golden | grep -q '/.*/.*\.txt$'; }

# The lines under the heading *Model changes* of a text on standard input.
section() { sed -n '/^### Model changes/,/^##/p'; }

explained() {
    local before=$1 after=$2
    ! diff -q <(section <"$before") <(section <"$after") >/dev/null
}

failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for commit in $(git log --format=%h --diff-filter=M -- 'tests/golden/*/*.txt'); do
    git rev-parse -q --verify "$commit^" >/dev/null || continue
    moved show "$commit" || continue
    git show "$commit^:CHANGELOG.md" >"$scratch/before"
    git show "$commit:CHANGELOG.md" >"$scratch/after"
    explained "$scratch/before" "$scratch/after" || { git log -1 --format='%h %s: changes goldens without a line under Model changes' "$commit" >&2; failed=1; }
done
if moved diff HEAD; then
    git show HEAD:CHANGELOG.md >"$scratch/before"
    explained "$scratch/before" CHANGELOG.md || { echo "goldens changed: add a line under *Model changes* in CHANGELOG.md that says which number, by how much, and why" >&2; failed=1; }
fi
((failed)) || echo "every change of a golden is explained"
exit $failed
