#!/usr/bin/env bash
# run.sh SECONDS [BUILD [TARGET...]]   builds the fuzz targets (all, or fuzz_TARGET.c) with clang, ASan and UBSan, and runs each
# for SECONDS, as many at once as there are processors.
# New inputs stay in BUILD/corpus-*; a finding stays in BUILD as crash-*, and the exit status is 1.
# To keep what a run found:  BUILD/tests/fuzz/fuzz_npz -merge=1 tests/fuzz/corpus/npz BUILD/corpus-npz
# A corpus keeps inputs that were given a name or came with a mended defect, and of the others those that reach an edge which the
# rest does not:  BUILD/tests/fuzz/fuzz_npz -set_cover_merge=1 -use_counters=0 KEPT tests/fuzz/corpus/npz
set -eu
[ $# -ge 1 ] || { sed -n '2,7s/^# //p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=$1
build=${2:-$root/build-fuzz}
if [ $# -gt 2 ]; then
  targets=${*:3}
else
  targets=$(cd "$root/tests/fuzz" && grep -l LLVMFuzzerTestOneInput fuzz_*.c | sed -E 's/^fuzz_(.*)\.c$/\1/' | tr '\n' ' ')
fi
cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER=clang -DVCOMPRESS_FUZZ=ON -DVCOMPRESS_SANITIZE=address,undefined \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DVCOMPRESS_TESTS=ON -DVCOMPRESS_CUDA=OFF >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
# shellcheck disable=SC2046,SC2086
cmake --build "$build" -j2 --target $(printf 'fuzz_%s ' $targets) >>"$build.log" 2>&1 || { tail -50 "$build.log"; exit 1; }
cd "$build"

fuzz() { # TARGET   executions a second are of its processor time: other work on the machine does not count
  local TIMEFORMAT='%U %S' dict=$root/tests/fuzz/$1.dict
  [ -f "$dict" ] || dict=$root/tests/fuzz/npz.dict
  mkdir -p "corpus-$1"
  { time tests/fuzz/"fuzz_$1" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -dict="$dict" -artifact_prefix="$build/crash-$1-" "corpus-$1" "$root/tests/fuzz/corpus/$1" >"fuzz-$1.log" 2>&1 ||
    touch "failed-$1"; } 2>"cpu-$1"
  awk -v "t=$1" 'NR == FNR { cpu = $1 + $2; next } /number_of_executed_units/ { printf "%s: %d executions, %d a second\n", t, $2,
    $2 / (cpu > 0 ? cpu : 1) }' "cpu-$1" "fuzz-$1.log"
  grep -E 'ERROR|SUMMARY|broken promise' "fuzz-$1.log" || true
}

rm -f failed-*
for t in $targets; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
    wait -n || true
  done
  fuzz "$t" &
done
wait
! compgen -G 'failed-*' >/dev/null
