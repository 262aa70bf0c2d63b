#!/bin/sh
# check_arm64.sh - builds for arm64 and runs, under qemu-user, the tests of kernels (NEON against the reference loops, bit for bit), formats,
# passes and loops of networks; of many like cases every ninth (tests/support/stride.h). Needs scripts/arm64_sysroot.sh before. Five minutes
# on two busy processors, and the first build. test_threads is left out: test_threads starts itself through the shell, and the shell
# starts no program for arm64. scripts/check_builds.sh compares what programs write.
set -eu
cd "$(dirname "$0")/.."
build=build/arm64
tests='^(test_(engine_ops|fake_quant_codes|executor|chain|arith|blocks|block_encode|int4|grid_codes|kernels|functions|half|exact_sum|tile|pass|keys|axis_sums|given|lamp|bands|npy|idx|infile|outfile|outfolder|codec|npz_read|npz_write|npz_others|safetensors|gguf|gguf_split|onnx_read|onnx_write|torch|torch_values|torch_write|dialects|layouts|manifest|strided|streams|program_bytes|plain|zip_read|zip_write))$'
generator="Unix Makefiles"
if command -v ninja >/dev/null; then generator=Ninja; fi
cmake --preset arm64 -G "$generator" >/dev/null
targets=$(ctest --test-dir "$build" -N -R "$tests" | sed -n 's/^ *Test *#[0-9]*: \(test_[a-z0-9_]*\)$/\1/p' | sort -u)
# shellcheck disable=SC2086
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target vcompress_program kernelcheck $targets >"$build/log" 2>&1 || { tail -n 30 "$build/log"; exit 1; }
echo "level: $(qemu-aarch64-static -L build/arm64-sysroot "$build/vcompress" --version | grep 'cpu levels')"
# Fewer elements than natively: emulated, all of them take more than five minutes.
timeout 900 qemu-aarch64-static -L build/arm64-sysroot "$build/tests/kernelcheck/kernelcheck" --level neon --max-elems 300 --by-turns
ctest --test-dir "$build" -R "$tests" -j "${JOBS:-$(nproc)}" --timeout 900 --output-on-failure
