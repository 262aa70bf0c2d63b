#!/bin/sh
# same_on_cuda.sh - the same files and figures from the CPU and from CUDA (a device, or the emulated card through
# VCOMPRESS_BACKEND_PATH). Prints one line per comparison; status 1 if any differs.
#
#     same_on_cuda.sh VCOMPRESS INPUT.npz...
set -eu
program=$1
shift
folder=$(mktemp -d "${TMPDIR:-/tmp}/vcompress-same.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failed=0

# run DEVICE OUTPUT REPORT COMMAND...: --diffable leaves out what may differ (time, threads, device)
run() {
    device=$1 output=$2 report=$3
    shift 3
    "$program" "$@" --device "$device" --diffable --json="$report" --force -o "$output" >"$folder/log" 2>&1 || {
        cat "$folder/log"
        return 1
    }
}

# compare LABEL COMMAND...
compare() {
    label=$1
    shift
    if run cpu "$folder/out.npz" "$folder/cpu.json" "$@" && mv "$folder/out.npz" "$folder/cpu.npz" &&
        run cuda "$folder/out.npz" "$folder/cuda.json" "$@" --threads 3 &&
        cmp "$folder/cpu.npz" "$folder/out.npz" && cmp "$folder/cpu.json" "$folder/cuda.json"; then
        echo "same: $label"
    else
        echo "DIFFERENT: $label"
        failed=1
    fi
}

# look LABEL COMMAND...: a command that only prints
look() {
    label=$1
    shift
    for device in cpu cuda; do
        "$program" "$@" --device "$device" --diffable --json >"$folder/$device.json" 2>"$folder/log" || {
            status=$? # 1 is an answer: they differ
            [ "$status" -eq 1 ] || { cat "$folder/log"; }
        }
    done
    if [ -s "$folder/cpu.json" ] && cmp "$folder/cpu.json" "$folder/cuda.json"; then
        echo "same: $label"
    else
        echo "DIFFERENT: $label"
        failed=1
    fi
}

for input in "$@"; do
    name=$(basename "$input")
    look "inspect $name" inspect --stats "$input"
    for options in "--int8" "--int8 --asymmetric" "--int8 --granularity tensor" \
        "--int8 --granularity tensor --asymmetric" "--int8 --granularity group:32" \
        "--int8 --granularity group:100 --asymmetric" "--int8 --axis 1 --min-row 1" \
        "--int8 --axis -1 --min-row 1 --asymmetric" "--fp16 --overflow inf" \
        "--bf16 --overflow sat" "--int4 --asymmetric" --nvfp4; do
        # shellcheck disable=SC2086
        compare "quantize $options $name" quantize $options "$input"
        mv "$folder/cpu.npz" "$folder/quantized.npz"
        look "diff of $options $name" diff "$input" "$folder/quantized.npz"
        for back in --f32 --fp16; do
            compare "dequantize $back of $options $name" dequantize $back --casts --overflow inf "$folder/quantized.npz"
        done
    done
done
exit $failed
