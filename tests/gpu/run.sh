#!/bin/sh
# run.sh - everything that only a machine with a GPU can show, in one call, most valuable first; writes a Markdown summary.
#
#     tests/gpu/run.sh [--prebuilt DIR] [--build DIR] [--out FILE] [--seconds N] [--again] [--emulated]
#
#   --prebuilt DIR  what prepare.sh made; without it, it is built here first
#   --build DIR     where to build (default: a folder under $TMPDIR that is removed at the end)
#   --out FILE      the summary, written part by part, so that an interrupted run leaves what it saw (default: standard
#                   output at the end); long logs lie beside it
#   --seconds N     parts that would not end in time are left out, and named (default: 600 after the build)
#   --again         what a mend may have changed: no peers, no times of the processors alone, fewer types of weights
#   --emulated      the emulated card instead of a GPU: no nvcc needed, nothing is timed; tests this script itself
#
# Needs python3 with NumPy for inputs and peers (without it only the shipped model is compared); PyTorch for peers,
# compute-sanitizer and ncu: left out if missing. To build: a C and C++ compiler, cmake 3.22, nvcc. No network. Exit status 0
# if every part passed.
set -u

usage() {
    sed -n '2,17p' "$0" | sed 's/^# \{0,1\}//'
}

prebuilt='' build='' out='' seconds=600 again=0 emulated=0
while [ $# -gt 0 ]; do
    case $1 in
    --prebuilt) prebuilt=$(cd "$2" && pwd) || exit 2; shift ;;
    --build) build=$2; shift ;;
    --out) out=$2; : >"$out" || exit 2; shift ;;
    --seconds) seconds=$2; shift ;;
    --again) again=1 ;;
    --emulated) emulated=1 ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/gpu
work=$(mktemp -d "${TMPDIR:-/tmp}/vcompress-gpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -n "$build" ] || build=$work/build
summary=${out:-$work/summary.md}
logs=$work
[ -z "$out" ] || logs=$(dirname "$out")
failed=0
jobs=$(nproc 2>/dev/null || echo 2)

say() {
    printf '%s\n' "$*" >>"$summary"
}

skip() {
    echo "== skipped: $*" >&2
    say "- skipped: $*"
}

have() {
    command -v "$1" >/dev/null 2>&1
}

now() {
    date +%s
}

# has_time SECONDS TITLE: whether a part that takes so long ends in time; says so if not.
has_time() {
    [ $(($(now) - start + $1)) -le "$seconds" ] || { skip "$2: no time left"; return 1; }
}

# begin NAME COMMAND...: runs it in the background; `end NAME TITLE` waits for it and notes how it went.
begin() {
    name=$1
    shift
    (
        at=$(now)
        "$@" >"$work/$name.log" 2>&1
        echo "$? $(($(now) - at))" >"$work/$name.status"
    ) &
    eval "pid_$name=$!"
}

end() {
    eval "wait \$pid_$1"
    read -r status took <"$work/$1.status"
    if [ "$status" -eq 0 ]; then
        say "- **passed**: $2 ($took s)"
    elif [ "$status" -eq 124 ]; then
        say "- not finished: $2: no time left after $took s"
    else
        say "- **FAILED** (status $status): $2"
        failed=1
    fi
    echo "== $2: status $status, $took s" >&2
    tail -n 4 "$work/$1.log" | cut -c 1-200 | sed 's/^/      /' >>"$summary"
    [ "$status" -eq 0 ] || tail -n 60 "$work/$1.log" >&2
}

# part NAME TITLE COMMAND...: both.
part() {
    name=$1 title=$2
    shift 2
    begin "$name" "$@"
    end "$name" "$title"
}

# table TITLE COMMAND...: a command that prints Markdown.
table() {
    title=$1
    shift
    say ""
    say "$title"
    say ""
    "$@" >>"$summary" 2>"$work/table.log" || {
        failed=1
        say "**FAILED**: $(tail -n 1 "$work/table.log")"
        tail -n 20 "$work/table.log" >&2
    }
    echo "== $title ($(($(now) - start)) s)" >&2
}

# ---- the machine ----

say "# GPU results"
say ""
if [ "$emulated" -eq 1 ]; then
    say "**Emulated: no GPU was involved.** The CUDA sources ran on the processor (tests/cuda_emu)."
else
    say "- device: $(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv,noheader 2>&1 | head -n 1)"
    say "- nvcc: $(nvcc --version 2>&1 | sed -n 's/^.*release //p')"
fi
say "- host: $(uname -sm), $(nproc) processors, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
say "- source: $(cat "$prebuilt/source" 2>/dev/null || git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)"
say ""
say "## Parts"
say ""

# ---- build ----

start=$(now)
if [ -z "$prebuilt" ]; then
    targets="vcompress_program kernelcheck test_engine_device test_step_device"
    if [ "$emulated" -eq 1 ]; then
        cuda=OFF
        targets="$targets vcompress_cuda_emu"
    else
        cuda=ON
        targets="$targets vcompress_cuda"
    fi
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '.')
    part configure "configure" cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DVCOMPRESS_CUDA=$cuda -DVCOMPRESS_TESTS=ON \
        "-DCMAKE_CUDA_ARCHITECTURES=${capability:-native}"
    if cmake --build "$build" --target help 2>/dev/null | grep -qw vcompress_mpi; then
        targets="$targets vcompress_mpi"
    fi
    # shellcheck disable=SC2086
    part build "build" cmake --build "$build" -j "$jobs" --target $targets
    for name in bench_device bench_step microbench; do
        [ "$emulated" -eq 1 ] || nvcc -std=c++17 -O3 -arch=native -fmad=false -I"$root" -I"$root/include" "$here/$name.cu" -o "$work/$name" ||
            failed=1
    done
    if [ "$failed" -ne 0 ]; then
        cat "$summary"
        exit 1
    fi
    PATH=$work:$PATH
    for name in vcompress kernelcheck test_engine_device test_step_device; do
        PATH=$(dirname "$(find "$build" -type f -name $name -perm -u+x | head -n 1)"):$PATH
    done
    libraries=$build
else
    PATH=$prebuilt/bin:$PATH
    LD_LIBRARY_PATH=$prebuilt/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    libraries=$prebuilt/lib
fi
export PATH
start=$(now)
program=$(command -v vcompress)
if [ "$emulated" -eq 1 ]; then
    VCOMPRESS_BACKEND_PATH=$(find "$libraries" -name vcompress_cuda_emu.so | head -n 1)
    limits="--max-elems 1100"
    devices=3
else
    VCOMPRESS_BACKEND_PATH=$(find "$libraries" -name vcompress_cuda.so | head -n 1)
    limits=""
    devices=$(nvidia-smi -L | grep -c '^GPU')
fi
export VCOMPRESS_BACKEND_PATH
numpy=0
python3 -c 'import numpy' 2>/dev/null && numpy=1
torch=0
[ "$emulated" -eq 0 ] && [ "$again" -eq 0 ] && python3 -c 'import torch; torch.cuda.init()' 2>/dev/null && torch=1

# ---- the kernels' bits: nothing is timed, so all of it at once ----

part devices "devices" "$program" devices -v
set -- "$root/examples/digits/digits.npz"
if [ "$numpy" -eq 1 ]; then
    part inputs "inputs" python3 "$here/make_inputs.py" "$work"
    set -- "$@" "$work/shapes.npz" "$work/types.npz"
else
    skip "inputs of many shapes: no NumPy"
fi
# The compiler of the peer needs its minute, too, and keeps what it made.
TORCHINDUCTOR_CACHE_DIR=$work/inductor
export TORCHINDUCTOR_CACHE_DIR
if [ "$torch" -eq 1 ]; then
    begin compile python3 "$here/train_speed.py" --prepare "$work/nets"
    begin casts python3 "$here/casts_on_torch.py"
fi
# shellcheck disable=SC2086
begin kernels kernelcheck --level cuda $limits
begin engine test_engine_device
begin steps test_step_device
end kernels "kernelcheck on the device"
end engine "training: every instruction as on the CPU"
end steps "training: losses, norms and updates to the last bit"
if [ "$torch" -eq 1 ]; then
    end compile "PyTorch compiles the networks"
    end casts "PyTorch compiles its kernels"
fi

# ---- speed: one thing after the other ----

say ""
say "## Speed"
say ""
if [ "$emulated" -eq 1 ]; then
    say "Not measured: an emulated card has no speed."
else
    has_time 10 "constants of the card" && table "Constants of the card:" microbench
    has_time 10 "kernels" && table "Kernels, data on the device:" bench_device
    has_time 5 "kernels of a step" && table "Kernels of a training step, each alone:" bench_step
    if [ "$numpy" -eq 1 ]; then
        if [ "$again" -eq 1 ]; then
            has_time 20 "training steps" && table "Steps of distillation:" python3 "$here/train_speed.py" --alone "$program" "$work/nets"
        else
            has_time 170 "training steps" && table "Steps of distillation:" python3 "$here/train_speed.py" "$program" "$work/nets"
        fi
        if [ -f "$libraries/trace_kernels.so" ]; then
            has_time 10 "kernels of a step" && table "Kernels of a step:" python3 "$here/train_speed.py" --trace \
                "$libraries/trace_kernels.so" "$program" "$work/nets"
        fi
        if [ "$again" -eq 1 ]; then
            has_time 45 "whole passes" && table "Whole passes:" python3 "$here/pass_speed.py" --seconds 35 \
                --only q4_k,q6_k,int4,q3_k,nvfp4,iq4_xs,nf4 "$program" "$work"
        else
            has_time 85 "whole passes" && table "Whole passes:" python3 "$here/pass_speed.py" "$program" "$work"
        fi
    fi
    if [ "$torch" -eq 1 ]; then
        has_time 10 "PyTorch's kernels" && table "PyTorch's kernels:" python3 "$here/casts_on_torch.py"
    fi
    if have ncu && has_time 25 "counters of kernels"; then
        part counters "counters of kernels (ncu.txt)" timeout 40 ncu --clock-control none --section SpeedOfLight --section Occupancy \
            --section WarpStateStats --section InstructionStats --log-file "$logs/ncu.txt" bench_device 1
    fi
fi

# ---- files, training and sanitizers: nothing is timed again ----
# Sanitizers multiply times by some hundred: small tiles only, a third of the inputs.

say ""
say "## Files, training, sanitizers"
say ""
begin same sh "$root/tests/cuda_emu/same_on_cuda.sh" "$program" "$@"
begin train sh "$root/tests/cuda_emu/train_on_cuda.sh" "$program" "$root/examples/digits" "$root/tests/graph/goldens"
sanitizers=''
if [ "$emulated" -eq 1 ]; then
    skip "compute-sanitizer: there is no device"
elif ! have compute-sanitizer; then
    skip "compute-sanitizer: not found"
elif has_time 30 "compute-sanitizer"; then
    sanitizers="racecheck synccheck memcheck"
fi
for tool in $sanitizers; do
    begin "$tool" timeout $((seconds - $(now) + start)) compute-sanitizer --tool "$tool" --error-exitcode 9 kernelcheck --level cuda \
        --by-turns --max-elems 300
done
end train "training: every step as on the CPU, resumed to the last bit"
end same "the same bytes and figures from CPU and CUDA"
plugin=$(find "$libraries" -name vcompress_mpi.so | head -n 1)
if [ -n "$plugin" ] && have mpiexec; then
    [ "$emulated" -eq 0 ] || export VC_EMU_DEVICES=3
    part ranks "training: ranks with a device each ($devices devices)" sh "$root/tests/cuda_emu/ranks_on_cuda.sh" "$program" \
        "$devices" "$plugin" "$(command -v mpiexec)"
    unset VC_EMU_DEVICES
else
    skip "training by ranks: there is no MPI"
fi
for tool in $sanitizers; do
    end "$tool" "compute-sanitizer $tool"
done

# ---- memory of PyTorch, which changes only when `estimate` does ----

if [ "$torch" -eq 1 ] && has_time 60 "memory of PyTorch"; then
    table "## Peaks of PyTorch beside \`estimate\`" python3 "$here/memory_on_torch.py" "$program"
fi

say ""
if [ "$failed" -eq 0 ]; then
    say "Every part passed."
else
    say "**At least one part failed.**"
fi
[ -n "$out" ] || cat "$summary"
exit "$failed"
