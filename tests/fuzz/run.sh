#!/usr/bin/env bash
# run.sh SECONDS [BUILD]   builds the fuzz targets with clang, ASan and UBSan, and runs each for SECONDS (all at once).
# New inputs stay in BUILD/corpus-*; a finding stays in BUILD as crash-*, and the exit status is 1.
# To keep what a run found:  BUILD/tests/fuzz/fuzz_npz -merge=1 tests/fuzz/corpus/npz BUILD/corpus-npz
set -eu
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$root/build-fuzz}
cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER=clang -DVCOMPRESS_FUZZ=ON -DVCOMPRESS_SANITIZE=address,undefined \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DVCOMPRESS_TESTS=ON -DVCOMPRESS_CUDA=OFF >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build "$build" -j2 --target fuzz_npy fuzz_npz fuzz_members fuzz_safetensors >>"$build.log" 2>&1 || { tail -50 "$build.log"; exit 1; }
cd "$build"
pids=
for t in npy npz members safetensors; do
  mkdir -p "corpus-$t"
  tests/fuzz/fuzz_$t -max_total_time="$1" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -dict="$root/tests/fuzz/${t/members/npz}.dict" -artifact_prefix="$build/crash-$t-" "corpus-$t" "$root/tests/fuzz/corpus/$t" \
    >"fuzz-$t.log" 2>&1 &
  pids="$pids $!"
done
failed=0
for p in $pids; do
  wait "$p" || failed=1
done
for t in npy npz members safetensors; do
  echo "$t: $(grep -E 'number_of_executed_units|average_exec' "fuzz-$t.log" | tr -s ' ' | tr '\n' ' ')"
  grep -E 'ERROR|SUMMARY|broken promise' "fuzz-$t.log" || true
done
exit $failed
