#!/usr/bin/env bash
# Runs go generate and fails if it changes the work tree. What was changed before it is left out of the comparison.
set -euo pipefail
cd "$(dirname "$0")/.."

GO=${GO:-go}
if ! git grep -q --untracked '^//go:generate ' -- '*.go'; then
  echo 'no go:generate lines'
  exit 0
fi

# The tracked changes, and the untracked files with their contents.
tree() {
  git diff HEAD
  git ls-files --others --exclude-standard -z | sort -z | xargs -0 cksum
}

before=$(tree)
$GO generate ./...
after=$(tree)
if [ "$before" != "$after" ]; then
  echo 'go generate changes the tree; run make generate and commit the result:' >&2
  diff <(echo "$before") <(echo "$after") >&2 || true
  exit 1
fi
echo 'go generate changes nothing'
