#!/bin/sh
# prepare.sh - builds all that run.sh needs into a folder that can be carried to a machine with a card, where time is dear:
#
#     tests/gpu/prepare.sh DIR [--arch 90] [--build DIR]      here; needs nvcc
#     tests/gpu/run.sh --prebuilt DIR                         there
#
#   bin/  vcompress, kernelcheck, test_engine_device, test_step_device, bench_device, bench_step, microbench
#   lib/  the plug-in, trace_kernels.so where CUPTI is at hand, and the libraries that the programs load
#
# The C library is that of the other machine, which must not be older than this one's.
set -eu

usage() {
    sed -n '2,11p' "$0" | sed 's/^# \{0,1\}//'
}

[ $# -ge 1 ] || { usage >&2; exit 2; }
folder=$1 arch=90 build=''
shift
while [ $# -gt 1 ]; do
    case $1 in
    --arch) arch=$2 ;;
    --build) build=$2 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift 2
done
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$folder/bin" "$folder/lib"
folder=$(cd "$folder" && pwd)
[ -n "$build" ] || build=$folder/build

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DVCOMPRESS_CUDA=ON -DVCOMPRESS_TESTS=ON "-DCMAKE_CUDA_ARCHITECTURES=$arch"
cmake --build "$build" -j "$(nproc)" \
    --target vcompress_program kernelcheck vcompress_cuda test_engine_device test_step_device
for name in vcompress kernelcheck test_engine_device test_step_device; do
    cp "$(find "$build" -type f -name "$name" -perm -u+x | head -n 1)" "$folder/bin/"
done
cp "$(find "$build" -name vcompress_cuda.so | head -n 1)" "$folder/lib/"
for name in bench_device bench_step microbench; do
    nvcc -std=c++17 -O3 "-arch=sm_$arch" -fmad=false -I"$root" -I"$root/include" "$root/tests/gpu/$name.cu" -o "$folder/bin/$name"
done

# CUPTI lies beside the toolkit's other files, or in extras/.
toolkit=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
header=$(find "$toolkit/" -name cupti.h | head -n 1)
cupti=$(find "$toolkit/" -name 'libcupti.so.*' | head -n 1)
if [ -n "$header" ] && [ -n "$cupti" ]; then
    cc -O2 -shared -fPIC "-I$(dirname "$header")" "-I$toolkit/include" "$root/tests/gpu/trace_kernels.c" \
        -o "$folder/lib/trace_kernels.so" "$cupti"
    cp -L "$cupti" "$folder/lib/"
else
    echo "prepare: no CUPTI, so nothing will be traced" >&2
fi

# What the programs load but for the C library.
ldd "$folder"/bin/* | sed -n 's/^.*=> \(\/[^ ]*\) .*$/\1/p' | sort -u |
    grep -v -E '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so' | while read -r library; do
    cp -L "$library" "$folder/lib/"
done
git -C "$root" rev-parse --short HEAD >"$folder/source" 2>/dev/null || echo unknown >"$folder/source"
strip "$folder"/bin/* "$folder/lib/vcompress_cuda.so"
[ "$build" != "$folder/build" ] || rm -rf "$build"
echo "prepared in $folder: $(du -sh "$folder" | cut -f 1)"
