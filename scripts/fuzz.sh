#!/usr/bin/env bash
# fuzz.sh TIME PARSER_TIME [REGEXP] runs each fuzz target of the module for TIME, empty: an equal share of ten minutes;
# those of the cron parser for PARSER_TIME.
set -euo pipefail
cd "$(dirname "$0")/.."

GO=${GO:-go}
each=${1:-}
parser=$2
only=${3:-.}

# `go test -list` prints a package's targets, and then the package's own line.
listing=$($GO test -list '^Fuzz' ./...)
targets=$(awk '/^Fuzz/ {names[n++] = $1} /^ok/ {for (i = 0; i < n; i++) print $2, names[i]; n = 0}' <<<"$listing" |
  grep -E "$only" || true)
if [ -z "$targets" ]; then
  echo 'no fuzz targets'
  exit 0
fi

count=$(wc -l <<<"$targets")
if [ -z "$each" ]; then
  others=$(grep -vc '/engine/cron ' <<<"$targets") || others=1
  each=$((600 / others))
  [ "$each" -ge 5 ] || each=5
  each=${each}s
fi

out=$(mktemp)
trap 'rm -f "$out"' EXIT

fuzz() { # PACKAGE TARGET
  local span=$each
  [[ $1 != */engine/cron ]] || span=$parser
  echo "fuzz $2 for $span ($1)"
  $GO test -run '^$' -fuzz "^$2\$" -fuzztime "$span" "$1" 2>&1 | tee "$out"
}

# Up to Go 1.26 the fuzzer may take the end of its own time for a failure of the target (go.dev/issue/75804): it says
# "context deadline exceeded" and names no input. A second run tells that apart from a fault.
at_deadline() {
  grep -q '^ *context deadline exceeded$' "$out" && ! grep -qE 'Failing input|panic:|hung or terminated' "$out"
}

failed=
while read -r pkg name; do
  if ! fuzz "$pkg" "$name"; then
    if ! at_deadline || { echo 'the fuzzer stumbled over its own deadline: once more' && ! fuzz "$pkg" "$name"; }; then
      failed="$failed $name"
    fi
  fi
done <<<"$targets"

if [ -n "$failed" ]; then
  echo "failed:$failed" >&2
  exit 1
fi
echo "$count fuzz targets, none failed"
