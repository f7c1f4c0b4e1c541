#!/usr/bin/env bash
# Runs every fuzz target (bin/*fuzz* of a fuzz build) for some seconds each, one a core, and prints a summary.
# Usage: scripts/fuzz.sh BUILD_DIR SECONDS. Seeds are read from tests/fuzz/corpus/TARGET; what is found stays in
# BUILD_DIR/corpus/TARGET, inputs that fail in BUILD_DIR/failures.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2
mkdir -p "$build/failures" "$build/logs"

run_one() {
  local target=$1 name log
  name=$(basename "$target")
  log=$build/logs/$name.log
  mkdir -p "$build/corpus/$name"
  local folders=("$build/corpus/$name")
  [[ -d tests/fuzz/corpus/$name ]] && folders+=("tests/fuzz/corpus/$name")
  local result="ok"
  "$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="$build/failures/$name-" "${folders[@]}" >"$log" 2>&1 </dev/null || result="FAILED"
  local runs
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  printf '%-28s %8s  %12s runs  %6s inputs kept\n' "$name" "$result" "${runs:-?}" "$(ls "$build/corpus/$name" | wc -l)"
  if [[ $result != ok ]]; then
    grep -m1 -E 'ERROR:|runtime error' "$log" || tail -n 5 "$log"
    return 1
  fi
}
export -f run_one
export build seconds

targets=$(find "$build/bin" -maxdepth 1 -type f -executable -name '*fuzz*' | sort)
[[ -n $targets ]] || { echo "fuzz: no targets in $build/bin" >&2; exit 1; }
echo "fuzz: $(wc -w <<<"$targets") targets, $seconds s each"
# shellcheck disable=SC2086
if printf '%s\n' $targets | xargs -P "$(nproc)" -I{} bash -c 'run_one {}'; then
  echo "fuzz: no findings"
else
  echo "fuzz: findings; inputs in $build/failures, logs in $build/logs" >&2
  exit 1
fi
