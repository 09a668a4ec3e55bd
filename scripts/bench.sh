#!/usr/bin/env bash
# bench.sh full|once [REGEXP] runs the benchmarks beside the code and those of the bench module, and then the bench
# module's programs. "once" is one short pass of each (-benchtime 1x -short; programs with -once), to see that they work.
set -euo pipefail
cd "$(dirname "$0")/.."

GO=${GO:-go}
mode=${1:-full}
only=${2:-.}

flags="-benchmem -timeout 2h"
program_flags=
if [ "$mode" = once ]; then
  flags="-benchtime 1x -short -timeout 10m"
  program_flags=-once
fi

# The benchmarks of one package at a time, so that they do not disturb each other.
# shellcheck disable=SC2086 # flags are words
$GO test -p 1 -run '^$' -bench "$only" $flags ./...

[ -f bench/go.mod ] || exit 0
cd bench
# shellcheck disable=SC2086
$GO test -p 1 -run '^$' -bench "$only" $flags ./...
[ "$only" = . ] || exit 0

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
programs=$($GO list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./...)
for pkg in $programs; do
  echo "run $pkg $program_flags"
  $GO build -o "$bin/program" "$pkg"
  # shellcheck disable=SC2086
  "$bin/program" $program_flags </dev/null
done
