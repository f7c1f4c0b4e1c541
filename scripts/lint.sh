#!/usr/bin/env bash
# The checks that need no run of the program. Usage: scripts/lint.sh [format] [layers] [repository] [headers] [tidy];
# without arguments all of them. headers and tidy need a configured build/release.
set -euo pipefail
cd "$(dirname "$0")/.."

check() {
  case "$1" in
    format) git ls-files -z '*.cc' '*.h' '*.inc' '*.cu' '*.cuh' | xargs -0 clang-format --dry-run -Werror ;;
    layers) python3 scripts/check_layers.py ;;
    repository) python3 scripts/check_repository.py ;;
    headers) python3 scripts/check_headers.py ;;
    tidy) python3 scripts/tidy.py ;;
    *) echo "lint: unknown check '$1'" >&2; exit 2 ;;
  esac
}

(($#)) || set -- format layers repository headers tidy
for name in "$@"; do
  check "$name" || { echo "lint: $name failed" >&2; exit 1; }
  echo "lint: $name ok"
done
