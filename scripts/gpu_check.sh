#!/usr/bin/env bash
# Runs all GPU tests and benches of an installed folder and prints one table. Builds nothing.
# Usage: gpu_check.sh PREFIX [SOURCE [PART...]]
#   SOURCE  where models/tiny and configs are; default: the folder's own share/fathom. When the folder carries no test
#           data, it is unpacked from SOURCE/tests/data.
#   PART    tests, portable, product, decode, prefill, kernels; default: all
# GPU_CHECK_LOGS names a folder for whole logs. Exit status 1 when something failed.
set -u
prefix=$(realpath "${1:?usage: gpu_check.sh PREFIX [SOURCE [PART...]]}")
source_dir=$(realpath "${2:-$prefix/share/fathom}")
shift $(($# > 2 ? 2 : $#))
parts=${*:-tests portable product decode prefill kernels}
fathom=$prefix/bin/fathom
logs=${GPU_CHECK_LOGS:-$(mktemp -d)}
failed=0
data=$prefix/share/fathom/data
if [[ ! -d $data ]]; then
  data=$(mktemp -d)
  for name in golden tiny; do
    mkdir -p "$data/$name"
    tar -xJf "$source_dir/tests/data/$name.tar.xz" -C "$data/$name" 2>/dev/null ||
      python3 -m tarfile -e "$source_dir/tests/data/$name.tar.xz" "$data/$name" >/dev/null
  done
fi
export FATHOM_TEST_DATA=$data FATHOM_SOURCE_DIR=$source_dir FATHOM_BIN=$fathom

row() { printf '%-9s %s\n' "$1" "$2"; }
wants() { [[ " $parts " == *" $1 "* ]]; }

run_test() {  # run_test DEVICE PROGRAM [FILTER]
  local device=$1 name=$2 log=$logs/$2.$1.log status begin=$SECONDS
  FATHOM_TEST_DEVICE=$device timeout 500 "$prefix/bin/$name" ${3:+--gtest_filter="$3"} >"$log" 2>&1
  status=$?
  ((status == 0)) || failed=1
  row test "$(printf '%-18s %-14s %-10s %3d passed %3d failed %3d skipped  %4d s' "$name" "$device" \
    "$( ((status == 0)) && echo ok || echo "status $status")" "$(grep -c '^\[       OK' "$log")" \
    "$(grep -cE '^\[  FAILED  \] .*ms\)' "$log")" "$(grep -cE '^\[  SKIPPED \] .*ms\)' "$log")" $((SECONDS - begin)))"
  grep -E '^(v[0-9]|perplexity|greedy|eight|fp8_gemm|full card)' "$log" | sed 's/^/          /'
  ((status == 0)) || grep -E 'Failure|error:|terminate|Expected|Which|actual' -A3 "$log" | head -40
}

ask() {  # ask NAME EXPECTED FLAGS...: one question to the embedded model
  local name=$1 expected=$2 answer
  shift 2
  answer=$("$fathom" chat "$source_dir/models/tiny" --temperature 0 "$@" <<<"What's the capital of Romania?" 2>"$logs/$name.log")
  if [[ $answer == "$expected" ]]; then
    row product "$name: ok ($(tail -n 1 "$logs/$name.log"))"
  else
    failed=1
    row product "$name: '$answer' ($(tail -n 1 "$logs/$name.log"))"
  fi
}

refuses() {  # refuses NAME TEXT COMMAND...: one error line that holds the text
  local name=$1 text=$2 line
  shift 2
  if line=$("$@" 2>&1 </dev/null >/dev/null) || [[ $line != *"fathom: error: "*"$text"* || $line == *$'\n'*$'\n'* ]]; then
    failed=1
    row product "$name: NOT refused in one line: $line"
  else
    row product "$name: $line"
  fi
}

bench() {
  row bench "$*"
  timeout 300 "$fathom" bench --device cuda "$@" 2>&1 | grep -E 'decode|prefill|engine|without work|error'
  ((PIPESTATUS[0] == 0)) || failed=1
}

row date "$(date -u +%Y-%m-%dT%H:%MZ)"
row gpu "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -1)"
row program "$("$fathom" --version)"

if wants tests; then
  for name in cuda_test ops_test device_test engine_model_test full_card_test golden_test tiny_test; do
    run_test cuda "$name"
  done
  FATHOM_FULL_CARD_CONFIG=$source_dir/configs/config_16B.json run_test cuda full_card_test
fi
if wants portable; then
  run_test cuda-portable device_test
  run_test cuda-portable golden_test
fi
if wants product; then
  romania="The capital of Romania is Bucharest."
  ask auto "$romania" --device auto
  ask cuda "$romania" --device cuda
  ask no-graphs "$romania" --device cuda --no-graphs
  ask naive "$romania" --device cuda --attn naive
  ask fp8 "$romania" --device cuda --gemm fp8
  ask portable "$romania" --device cuda-portable
  for flags in "" --no-graphs; do
    row product "chat ${flags:-with recorded steps}: $(printf 'Tell me a long story.\n/stats\n' |
      "$fathom" chat "$source_dir/models/tiny" --device cuda --temperature 0.9 --max-new-tokens 400 $flags 2>&1 >/dev/null)"
  done
  CUDA_VISIBLE_DEVICES="" refuses no-gpu "use --device cpu" "$fathom" chat "$source_dir/models/tiny" --device cuda
  refuses wrong-number "numbered from 0" "$fathom" chat "$source_dir/models/tiny" --device cuda:77
  CUDA_VISIBLE_DEVICES="" ask cpu-instead "$romania" --device auto
  refuses too-large "too small" "$fathom" logits --model "synthetic:$source_dir/configs/config_671B.json" --ids 1 \
    --out /dev/null --device cuda
  refuses large-cache "--cache-tokens" "$fathom" chat "$source_dir/models/tiny" --cache-tokens 100000000000 --device cuda
fi
config=$source_dir/configs
if wants decode; then
  floor=()  # of a card whose bandwidth is known
  [[ $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1) == *H200* ]] && floor=(--bandwidth 4.3e12)
  bench --config "$config/config_16B.json" --batch 1 --ctx 128,4096 --steps 128 "${floor[@]}"
  bench --config "$config/config_16B.json" --batch 8,32,64,128 --ctx 1024 --steps 32 "${floor[@]}"
  bench --config "$config/config_16B.json" --dtype fp8 --batch 1,8,32,128 --ctx 128 --steps 64 "${floor[@]}"
  bench --config "$config/config_16B.json" --engine --batch 1,8 --ctx 128,1024 --steps 128
  bench --config "$config/config_16B.json" --engine --batch 1 --ctx 128 --steps 128 --no-graphs
  bench --config "$config/config_671B.json" --layers 6 --batch 1,8,64 --ctx 128,4096 --steps 32 "${floor[@]}"
  bench --config "$config/config_671B.json" --layers 6 --gemm fp8 --batch 1 --ctx 128 --steps 32 "${floor[@]}"
fi
if wants prefill; then
  bench --config "$config/config_16B.json" --no-decode --prefill 512,4096
  bench --config "$config/config_16B.json" --no-decode --dtype fp8 --prefill 4096
  bench --config "$config/config_671B.json" --no-decode --layers 6 --prefill 512,4096
  bench --config "$config/config_671B.json" --no-decode --layers 6 --gemm fp8 --prefill 4096
fi
if wants kernels; then
  for program in "$prefix"/bin/*_bench; do
    [[ -x $program ]] || continue
    row kernels "$(basename "$program")"
    LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 300 "$program" 2>&1 || failed=1
  done
fi
row result "$( ((failed)) && echo FAILED || echo ok)"
exit $failed
