#!/bin/sh
# check_digits.sh VCOMPRESS EVALUATE SHRINK SOURCE - what the quickstart promises: the shipped network gets 988 of 997
# test images, and what each kind of compression leaves of it, measured from the written file. The library example
# writes the same bytes as the command.
set -eu
vcompress=$1
evaluate=$2
shrink=$3
digits=$4/examples/digits
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

right() { # MODEL: how many test images it gets
    "$evaluate" "$digits/images.npz" "$1" | sed -nE 's/.*: ([0-9]+) of 997 correct, [0-9.]+ %$/\1/p'
}

expect_at_least() { # WHAT MODEL LEAST
    got=$(right "$2")
    if [ "${got:-0}" -lt "$3" ]; then
        echo "$1: ${got:-no} of 997 correct, expected at least $3"
        exit 1
    fi
    echo "$1: $got of 997 correct"
}

expect_at_least "as trained" "$digits/digits.npz" 988
for options in --int8 "--int8 --asymmetric" "--int8 --granularity tensor" "--int8 --granularity group:64" --fp16 --bf16; do
    # shellcheck disable=SC2086
    "$vcompress" quantize $options -q --force "$digits/digits.npz" -o "$dir/small.npz"
    expect_at_least "$options" "$dir/small.npz" 985
done

"$vcompress" quantize --int8 -q --force "$digits/digits.npz" -o "$dir/small.npz"
"$shrink" "$digits/digits.npz" "$dir/shrunk.npz" | grep -q 'shrunk.npz: [0-9]* -> [0-9]* bytes, [0-9.]* dB'
cmp "$dir/small.npz" "$dir/shrunk.npz"
"$vcompress" dequantize -q "$dir/small.npz" -o "$dir/back.npz"
expect_at_least "int8 and back" "$dir/back.npz" 985

# The same network in every format that a network alone can be put into.
for kind in npz safetensors gguf pt; do
    "$vcompress" convert -q --force "$digits/digits.npz" -o "$dir/digits.$kind"
    expect_at_least "$kind" "$dir/digits.$kind" 988
    "$vcompress" quantize --int8 -q "$dir/digits.$kind" -o "$dir/int8.$kind"
    expect_at_least "$kind, int8" "$dir/int8.$kind" 985
    "$vcompress" dequantize -q --force "$dir/int8.$kind" -o "$dir/back.$kind"
    expect_at_least "$kind, int8 and back" "$dir/back.$kind" 985
done

# A model that is another network is refused with a sentence.
if "$evaluate" "$digits/images.npz" "$digits/images.npz" 2>"$dir/err"; then
    echo "the evaluator took the images for a model"
    exit 1
fi
grep -q 'images.npz: conv1.weight' "$dir/err"
