#!/usr/bin/env bash
# Builds every program under examples/ and runs each with -once: it shows what it has to show, and exits with status 0
# by itself. A program that is still running after two minutes has failed.
set -euo pipefail
cd "$(dirname "$0")/.."

GO=${GO:-go}
if [ ! -d examples ]; then
  echo 'no examples'
  exit 0
fi

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
bounded=
if command -v timeout >/dev/null; then bounded='timeout -k 10 120'; fi

$GO vet ./examples/...
failed=
programs=$($GO list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./examples/...)
for pkg in $programs; do
  name=${pkg##*/examples/}
  mkdir -p "$bin/$name.d"
  echo "run examples/$name -once"
  # A folder of its own, so that what a program writes is not found by the next one, nor by the work tree.
  if ! { $GO build -o "$bin/$name.d/program" "$pkg" && (cd "$bin/$name.d" && $bounded ./program -once </dev/null); }; then
    echo "examples/$name failed" >&2
    failed="$failed $name"
  fi
done

if [ -n "$failed" ]; then
  echo "failed:$failed" >&2
  exit 1
fi
