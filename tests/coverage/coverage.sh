#!/usr/bin/env bash
# coverage.sh [--missing FILE] [BUILD [FOLDER]]   which branches of FOLDER (formats) the unit tests take: builds with gcc
# --coverage and without optimization in BUILD (build-coverage), runs every test of the label "unit" but the fuzz corpora, and
# prints a line per source file, the worst first, and a sum. --missing lists the lines of a file whose branches were not all
# taken, and tests nothing again.
# Counted is every branch that gcc makes of C, both ways, failed allocations and system calls too: nothing is left out.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
missing=
if [ "${1:-}" = --missing ]; then
  missing=${2:?a file}
  shift 2
fi
build=${1:-$root/build-coverage}
folder=${2:-formats}
if [ -z "$missing" ]; then
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O0 -g --coverage" -DCMAKE_C_COMPILER=gcc \
    -DCMAKE_EXE_LINKER_FLAGS=--coverage -DCMAKE_MODULE_LINKER_FLAGS=--coverage -DVCOMPRESS_TESTS=ON -DVCOMPRESS_CUDA=OFF >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
  # The programs have the names of their tests; a further run of one has a word behind a dot.
  tests=$(cd "$build" && ctest -N -L unit -R '^test_' -E cuda | sed -nE 's/^ *Test +#[0-9]+: ([^. ]+).*$/\1/p' | sort -u)
  # shellcheck disable=SC2086
  cmake --build "$build" -j "$(nproc)" --target $tests >>"$build.log" 2>&1 || { tail -n 50 "$build.log"; exit 1; }
  find "$build" -name '*.gcda' -delete
  (cd "$build" && ctest -j "$(nproc)" -L unit -R '^test_' -E cuda --output-on-failure) >"$build.tests" 2>&1 ||
    { tail -n 50 "$build.tests"; exit 1; }
fi
find "$build" -name '*.gcda' -path "*/$folder/*" ! -path '*/tests/*' -print0 |
  python3 -B "$root/tests/coverage/branches.py" "$root" "$folder" "$missing"
