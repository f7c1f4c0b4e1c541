#!/usr/bin/env bash
# Runs all GPU tests and benches of an installed folder and prints one table.
# Usage: scripts/gpu_check.sh PREFIX [SOURCE]   SOURCE: the repository (configurations and the tiny model); default: here.
set -u
prefix=$(realpath "${1:?usage: gpu_check.sh PREFIX [SOURCE]}")
source_dir=$(realpath "${2:-.}")
export FATHOM_TEST_DATA=$prefix/share/fathom/data FATHOM_SOURCE_DIR=$source_dir FATHOM_TEST_DEVICE=cuda
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
logs=${GPU_CHECK_LOGS:-$(mktemp -d)}
failed=0

echo "date    $(date -u +%Y-%m-%dT%H:%MZ)"
echo "gpu     $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -1)"

for test in cuda_test golden_test tiny_test; do
  timeout 300 "$prefix/bin/$test" >"$logs/$test.log" 2>&1
  status=$?
  [ $status -eq 0 ] || failed=1
  printf 'test    %-12s %s, %s passed, %s failed, %s skipped\n' "$test" "$([ $status -eq 0 ] && echo ok || echo "status $status")" \
    "$(grep -c '^\[       OK' "$logs/$test.log")" "$(grep -cE '^\[  FAILED  \] .*ms\)' "$logs/$test.log")" \
    "$(grep -cE '^\[  SKIPPED \] .*ms\)' "$logs/$test.log")"
done

bench() {
  echo "bench   $*"
  timeout 300 "$prefix/bin/fathom" bench --device cuda "$@" 2>&1 | grep -E 'decode|prefill|error' || failed=1
}
bench --config "$source_dir/configs/config_16B.json" --batch 1 --ctx 128,4096 --steps 128
bench --config "$source_dir/configs/config_16B.json" --batch 8,32,64,128 --ctx 1024 --steps 32 --prefill 512,4096
bench --config "$source_dir/configs/config_16B.json" --dtype fp8 --batch 1,8,32 --ctx 128 --steps 128 --prefill 4096
bench --config "$source_dir/configs/config_671B.json" --layers 6 --batch 1,8 --ctx 128,4096 --steps 32 --prefill 4096
bench --config "$source_dir/configs/config_671B.json" --layers 6 --gemm fp8 --batch 1 --ctx 128 --steps 32 --prefill 4096
exit $failed
