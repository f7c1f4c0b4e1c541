#!/usr/bin/env bash
# Configures a preset once. Usage: scripts/configure.sh PRESET ON|OFF   (tests wanted or not). FATHOM_WERROR=ON in the
# environment makes warnings errors.
# OFF leaves tests that are already configured alone, so that `make chat` and `make test` share one build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 tests=$2
cache=build/$preset/CMakeCache.txt
if [[ -f build/$preset/build.ninja ]]; then
  [[ $tests == OFF ]] && exit 0
  grep -q '^FATHOM_TESTS:BOOL=ON$' "$cache" &&
    { [[ -z ${FATHOM_WERROR-} ]] || grep -q "^FATHOM_WERROR:BOOL=$FATHOM_WERROR\$" "$cache"; } && exit 0
fi
cmake --preset "$preset" -DFATHOM_TESTS="$tests" ${FATHOM_WERROR:+-DFATHOM_WERROR="$FATHOM_WERROR"}
