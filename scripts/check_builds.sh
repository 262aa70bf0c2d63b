#!/bin/sh
# check_builds.sh [BUILD...] - do all builds of this commit write the same bytes? Builds the program in the ways below, all of them or those
# that are named, and compares each with the first: files, reports and sentences of the commands in tests/compare/cases/passes.sh,
# with the loops that the processor gets and with the plain ones. Some minutes for each; a way whose compiler is missing is said.
#
# Release has flags of its own for loops over elements; in the others, all sources have the flags that are named.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- gcc-O2 gcc-O3 gcc-O3-native clang-release clang-O2 clang-O3-native arm64
work=$PWD/build/builds
mkdir -p "$work"
generator="Unix Makefiles"
if command -v ninja >/dev/null; then generator=Ninja; fi
failed=0
echo 'passes: *: report.json: run.device is *' >"$work/wanted"

program() { # NAME CMAKE-OPTION...
    folder=$work/$1
    shift
    if ! cmake -G "$generator" -S . -B "$folder" -DVCOMPRESS_TESTS=OFF -DVCOMPRESS_CUDA=OFF -DVCOMPRESS_MPI=OFF -DVCOMPRESS_HTTP=OFF "$@" >"$folder.log" 2>&1 ||
        ! cmake --build "$folder" -j "${JOBS:-$(nproc)}" --target vcompress_program >>"$folder.log" 2>&1; then
        tail -n 20 "$folder.log"
        exit 1
    fi
}

compare() { # NAME LEVEL COMMAND...: the first program, and COMMAND with the loops of LEVEL
    name=$1 level=$2
    shift 2
    printf '#!/bin/sh\nVC_CPU_MASK=%s exec %s "$@"\n' "$level" "$*" >"$work/other"
    chmod +x "$work/other"
    if found=$(tests/compare/compare.sh -e "$work/wanted" -i "$work/inputs" "$work/gcc-release/vcompress" "$work/other" passes); then
        echo "$name, $level: the same ($found)"
    else
        printf '%s, %s: DIFFERENT\n' "$name" "$level"
        echo "$found" | tail -n 20
        failed=1
    fi
}

program gcc-release -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc
rm -rf "$work/inputs"
python3 -B tests/compare/make_inputs.py "$work/inputs/in" tests/fuzz/corpus
cp -r examples/digits "$work/inputs/in/"
compare gcc-release ref "$work/gcc-release/vcompress"
for name; do
    compiler=${name%%-*}
    case $name in
    arm64) compiler=qemu-aarch64-static ;;
    esac
    if ! command -v "$compiler" >/dev/null; then
        echo "$name: $compiler is not here, not compared"
        continue
    fi
    case $name in
    arm64)
        if [ ! -d build/arm64-sysroot ]; then
            echo "$name: scripts/arm64_sysroot.sh has not run, not compared"
            continue
        fi
        program arm64 --preset arm64 -B "$work/arm64"
        set -- qemu-aarch64-static -L "$PWD/build/arm64-sysroot" "$work/arm64/vcompress"
        ;;
    *-release)
        program "$name" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_C_COMPILER=$compiler"
        set -- "$work/$name/vcompress"
        ;;
    *)
        flags=-$(echo "${name#*-}" | sed 's/-native/ -march=native/')
        program "$name" -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=$flags -DNDEBUG" "-DCMAKE_C_COMPILER=$compiler"
        set -- "$work/$name/vcompress"
        ;;
    esac
    for level in all ref; do
        compare "$name" "$level" "$@"
    done
done
exit "$failed"
