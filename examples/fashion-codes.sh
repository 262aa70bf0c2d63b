#!/bin/sh
# fashion-codes.sh [VCOMPRESS [FOLDER [SEEDS]]] - codes of 4 bits and fewer with and without training: a convolutional network of
# 206,922 weights learns Fashion-MNIST. Then the weights of two layers, or of all, become codes: at once, and while the network
# is trained on 1,000 of the images, without labels, by the answers of the network before.
#
# FOLDER has the four idx files (Debian: apt-get install dataset-fashion-mnist). Prints a table of accuracies on the 10,000 test
# images: mean over the seeds +- its standard error. Takes about 20 minutes on two busy cores.
set -eu
. "$(dirname "$0")/fashion-net.sh"

# mean of the numbers, a line each, and its standard error
mean() {
    awk '{ s += $1; q += $1 * $1 } END { v = NR > 1 ? (q - s * s / NR) / (NR - 1) / NR : 0; printf "%.2f +- %.2f", s / NR, sqrt(v > 0 ? v : 0) }'
}

# train SCHEME TENSORS... - accuracies of students of each seed
train() {
    scheme=$1
    shift
    seed=0
    while [ "$seed" -lt "$seeds" ]; do
        # shellcheck disable=SC2086
        "$vcompress" distill $graph --teacher "$dir/answers.npz" --student "$dir/teacher.npz" --fake-quant "$scheme" "$@" --seed "$seed" \
            --steps 400 --rows 1000 --data "$images" --lr 0.0003 --schedule cosine -q -f -o "$dir/codes.npz"
        accuracy "$dir/codes.npz"
        seed=$((seed + 1))
    done
}

"$vcompress" distill --student "$dir/cnn.layers.txt" --alpha 0 --scale 0.00392156862745098 --data "$images" --labels "$labels" \
    --epochs 16 --optimizer adam --lr 0.002 --schedule cosine -q -o "$dir/teacher.npz"
# shellcheck disable=SC2086
"$vcompress" logits -q $graph --data "$images" --rows 1000 "$dir/teacher.npz" -o "$dir/answers.npz"
echo "The teacher: $(accuracy "$dir/teacher.npz") % after 16 epochs."
echo
echo "| scheme | tensors | bytes | untrained % | trained % |"
echo "|---|---|---|---|---|"
while read -r scheme flags; do
    for tensors in "conv2, fc1" all; do
        rules=
        [ "$tensors" = all ] && rules='--include *.weight'
        set -f # globs are for the program
        # shellcheck disable=SC2086
        "$vcompress" quantize $flags $rules -q -f "$dir/teacher.npz" -o "$dir/codes.npz"
        untrained=$(accuracy "$dir/codes.npz")
        # shellcheck disable=SC2086
        trained=$(train "$scheme" $rules | mean)
        set +f
        printf '| `%s` | %s | %s | %s | %s |\n' "$scheme" "$tensors" "$(wc -c <"$dir/codes.npz")" "$untrained" "$trained"
    done
done <<END
int4 --int4
int3 --int3
int2 --int2
ternary --scheme ternary
nf4 --nf4
mxfp4 --mxfp4
nvfp4 --nvfp4
END
