#!/bin/sh
# run.sh - everything that only a machine with a GPU can show, in one call; writes a Markdown summary.
#
#     tests/gpu/run.sh [--deps DIR] [--build DIR] [--out FILE] [--quick] [--emulated]
#
#   --deps DIR    zlib, jansson, cmocka as unpacked by collect-deps.sh, where the system lacks them
#   --build DIR   where to build (default: a folder under $TMPDIR that is removed at the end)
#   --out FILE    the summary, written part by part, so that an interrupted run leaves what it saw (default: standard
#                 output at the end)
#   --quick       smaller inputs, fewer sanitizer runs
#   --emulated    the emulated card instead of a GPU: no nvcc needed, nothing is timed; tests this script itself
#
# Needs a C and C++ compiler, cmake 3.22, nvcc, python3 with NumPy (for inputs; without it only the shipped model is
# compared), compute-sanitizer (skipped if missing). No network. Exit status 0 if every part passed.
set -u

usage() {
    sed -n '2,15p' "$0" | sed 's/^# \{0,1\}//'
}

deps='' build='' out='' quick=0 emulated=0
while [ $# -gt 0 ]; do
    case $1 in
    --deps) deps=$(cd "$2" && pwd) || exit 2; shift ;;
    --build) build=$2; shift ;;
    --out) out=$2; : >"$out" || exit 2; shift ;;
    --quick) quick=1 ;;
    --emulated) emulated=1 ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/vcompress-gpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -n "$build" ] || build=$work/build
summary=${out:-$work/summary.md}
failed=0
jobs=$(nproc 2>/dev/null || echo 2)

say() {
    printf '%s\n' "$*" >>"$summary"
}

# part TITLE COMMAND...: runs it, notes the outcome and the last lines of what it printed.
part() {
    title=$1
    shift
    echo "== $title" >&2
    begin=$(date +%s)
    if "$@" >"$work/log" 2>&1; then
        say "- **passed**: $title ($(($(date +%s) - begin)) s)"
    else
        say "- **FAILED** (status $?): $title"
        failed=1
    fi
    tail -n 4 "$work/log" | cut -c 1-200 | sed 's/^/      /' >>"$summary"
    cat "$work/log" >&2
}

skip() {
    echo "== skipped: $*" >&2
    say "- skipped: $*"
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# ---- the machine ----

say "# GPU results"
say ""
if [ "$emulated" -eq 1 ]; then
    say "**Emulated: no GPU was involved.** The CUDA sources ran on the processor (tests/cuda_emu)."
else
    say "- device: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 | head -n 1)"
    say "- nvcc: $(nvcc --version 2>&1 | sed -n 's/^.*release //p')"
fi
say "- host: $(uname -sm), $(nproc) processors, $(c++ --version 2>/dev/null | head -n 1)"
say "- source: $(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)"
say ""
say "## Parts"
say ""

# ---- build ----

# Positional parameters are the one kind of list that sh has.
set -- -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release
if [ -n "$deps" ]; then
    set -- "$@" "-DCMAKE_PREFIX_PATH=$deps/usr"
    for libs in "$deps"/usr/lib/*-linux-gnu "$deps"/lib/*-linux-gnu; do
        [ -d "$libs" ] && LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    done
    export LD_LIBRARY_PATH
fi
if [ "$emulated" -eq 1 ]; then
    set -- "$@" -DVCOMPRESS_CUDA=OFF -DVCOMPRESS_TESTS=ON
    targets="vcompress_program kernelcheck vcompress_cuda_emu test_engine_device test_step_device"
else
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '.')
    set -- "$@" -DVCOMPRESS_CUDA=ON -DVCOMPRESS_TESTS=ON "-DCMAKE_CUDA_ARCHITECTURES=${capability:-native}"
    targets="vcompress_program kernelcheck vcompress_cuda test_engine_device test_step_device"
fi
part "configure" cmake "$@"
if cmake --build "$build" --target help 2>/dev/null | grep -qw vcompress_mpi; then
    targets="$targets vcompress_mpi"
fi
# shellcheck disable=SC2086
part "build" cmake --build "$build" -j "$jobs" --target $targets
if [ "$failed" -ne 0 ]; then
    cat "$summary"
    exit 1
fi

program=$(find "$build" -type f -name vcompress -perm -u+x | head -n 1)
kernelcheck=$(find "$build" -type f -name kernelcheck -perm -u+x | head -n 1)
engine=$(find "$build" -type f -name test_engine_device -perm -u+x | head -n 1)
arithmetic=$(find "$build" -type f -name test_step_device -perm -u+x | head -n 1)
if [ "$emulated" -eq 1 ]; then
    VCOMPRESS_BACKEND_PATH=$(find "$build" -name vcompress_cuda_emu.so | head -n 1)
    limits="--max-elems 1100"
else
    VCOMPRESS_BACKEND_PATH=$(find "$build" -name vcompress_cuda.so | head -n 1)
    limits=""
fi
export VCOMPRESS_BACKEND_PATH

# ---- correctness ----

part "devices" "$program" devices -v
# shellcheck disable=SC2086
part "kernelcheck on the device" "$kernelcheck" --level cuda $limits
if [ "$quick" -eq 0 ] && [ "$emulated" -eq 0 ]; then
    part "kernelcheck on the device, another seed" "$kernelcheck" --level cuda --seed 20260101
fi

set -- "$root/examples/digits/digits.npz"
if python3 -c 'import numpy' 2>/dev/null; then
    megabytes=1536
    [ "$quick" -eq 1 ] && megabytes=128
    [ "$emulated" -eq 1 ] && megabytes=0
    part "inputs" python3 "$root/tests/gpu/make_inputs.py" "$work" "$megabytes"
    set -- "$@" "$work/shapes.npz" "$work/types.npz"
else
    skip "inputs of many shapes: no NumPy"
fi
part "the same bytes and figures from CPU and CUDA" sh "$root/tests/cuda_emu/same_on_cuda.sh" "$program" "$@"

part "training: every step as on the CPU, resumed to the last bit" sh "$root/tests/cuda_emu/train_on_cuda.sh" "$program" \
    "$root/examples/digits" "$root/tests/graph/goldens"
if [ "$emulated" -eq 1 ]; then
    VC_EMU_DEVICES=3
    export VC_EMU_DEVICES
    devices=3
else
    devices=$(nvidia-smi -L | grep -c '^GPU')
fi
plugin=$(find "$build" -name vcompress_mpi.so | head -n 1)
if [ -n "$plugin" ] && have mpiexec; then
    part "training: ranks with a device each ($devices devices)" sh "$root/tests/cuda_emu/ranks_on_cuda.sh" "$program" "$devices" \
        "$plugin" "$(command -v mpiexec)"
else
    skip "training by ranks: there is no MPI"
fi
unset VC_EMU_DEVICES
if [ -n "$engine" ]; then
    part "training: every instruction as on the CPU" "$engine"
fi
if [ -n "$arithmetic" ]; then
    part "training: losses, norms and updates to the last bit" "$arithmetic"
fi

# ---- memory ----

if [ "$emulated" -eq 0 ] && python3 -c 'import torch, transformers; torch.cuda.init()' 2>/dev/null; then
    say ""
    say "## Peaks of PyTorch beside \`estimate\`"
    say ""
    python3 "$root/tests/gpu/memory_on_torch.py" "$program" >>"$summary" 2>"$work/log" || {
        failed=1
        say "**FAILED**: memory_on_torch.py: $(tail -n 1 "$work/log")"
    }
fi

# ---- speed ----

say ""
say "## Speed"
say ""
if [ "$emulated" -eq 1 ]; then
    say "Not measured: an emulated card has no speed."
else
    if nvcc -std=c++17 -O3 -arch=native -fmad=false -I"$root" -I"$root/include" "$root/tests/gpu/bench_device.cu" \
        -o "$work/bench_device" >"$work/log" 2>&1 && "$work/bench_device" >"$work/log" 2>&1; then
        cat "$work/log" >>"$summary"
    else
        failed=1
        say "**FAILED**: bench_device: $(tail -n 1 "$work/log")"
    fi
    say ""
    say "Through the table of kernels, host memory to host memory (GB/s, beside memcpy):"
    say ""
    say '```'
    "$kernelcheck" --level cuda --bench >>"$summary" 2>&1 || failed=1
    say '```'
    say ""
    say "Steps of distillation, the digits network as its own teacher, batches of 64 (44 steps less 4 steps, over 40):"
    say ""
    say "| device | per step |"
    say "|---|---:|"
    for device in cpu cuda; do
        for steps in 4 44; do
            begin=$(date +%s%N)
            "$program" distill -q --device "$device" --teacher "$root/examples/digits/digits.npz" \
                --student "$root/examples/digits/digits.npz" --graph "$root/examples/digits/digits.layers.txt" \
                --data "$root/examples/digits/images.npz" --array test_images=train_images --steps "$steps" --force \
                -o "$work/steps.npz" || failed=1
            [ "$steps" -eq 4 ] && few=$(($(date +%s%N) - begin))
        done
        say "| $device | $((($(date +%s%N) - begin - few) / 40000)) us |"
    done
    if python3 -c 'import numpy' 2>/dev/null; then
        python3 "$root/tests/gpu/train_speed.py" "$program" >>"$summary" 2>"$work/log" || {
            failed=1
            say "**FAILED**: train_speed.py: $(tail -n 1 "$work/log")"
        }
    fi
    if [ -f "$work/big.npz" ]; then
        say ""
        say "Whole program, $(du -m "$work/big.npz" | cut -f 1) MiB npz in the page cache, best of three:"
        say ""
        say "| job | cpu s | cuda s |"
        say "|---|---:|---:|"
        for options in "--int8" "--int8 --granularity group:128" "--fp16"; do
            row="| quantize $options |"
            for device in cpu cuda; do
                best=$(for _ in 1 2 3; do
                    # shellcheck disable=SC2086
                    "$program" quantize $options --device "$device" --force --json -o "$work/big.out.npz" \
                        "$work/big.npz" | sed -n 's/^.*"seconds": *\([0-9.e-]*\).*$/\1/p' | head -n 1
                done | sort -g | head -n 1)
                row="$row ${best:-failed} |"
            done
            say "$row"
        done
    fi
fi

# ---- sanitizers ----
# Last, for they take longest.

say ""
say "## Sanitizers"
say ""

# What compute-sanitizer multiplies by some hundred, so with small tiles only, and a third of the inputs.
if [ "$emulated" -eq 1 ]; then
    skip "compute-sanitizer: there is no device"
elif have compute-sanitizer; then
    tools="memcheck racecheck synccheck"
    [ "$quick" -eq 1 ] && tools="memcheck racecheck"
    for tool in $tools; do
        part "compute-sanitizer $tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$kernelcheck" --level cuda \
            --by-turns --max-elems 300
    done
else
    skip "compute-sanitizer: not found"
fi

say ""
if [ "$failed" -eq 0 ]; then
    say "Every part passed."
else
    say "**At least one part failed.**"
fi
[ -n "$out" ] || cat "$summary"
exit "$failed"
