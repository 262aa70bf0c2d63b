#!/bin/sh
# fashion-codes.sh [VCOMPRESS [FOLDER [SEEDS]]] - codes of 4 bits with and without training: a convolutional network of
# 206,922 weights learns Fashion-MNIST. Then the weights of two layers, or of all, become codes: at once, and while the network
# is trained on 1,000 of the images, without labels, by the answers of the network before.
#
# FOLDER has the four idx files (Debian: apt-get install dataset-fashion-mnist). Prints a table of accuracies on the 10,000 test
# images: mean over the seeds +- its standard error. Takes about 15 minutes on two busy cores.
set -eu
vcompress=${1:-build/vcompress}
data=${2:-/usr/share/datasets/fashion-mnist}
seeds=${3:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/cnn.layers.txt" <<'END'
input x [batch, 1, 28, 28]
conv conv1 16 kernel=3 pad=1
relu
maxpool kernel=2
conv conv2 32 kernel=3 pad=1
relu
maxpool kernel=2
flatten
linear fc1 128
relu
linear fc2 10
END
images=$data/train-images-idx3-ubyte.gz
labels=$data/train-labels-idx1-ubyte.gz
[ -r "$images" ] || { echo "$images: cannot be read; Debian's package dataset-fashion-mnist has it" >&2; exit 1; }
graph="--graph $dir/cnn.layers.txt --scale 0.00392156862745098"

accuracy() {
    # shellcheck disable=SC2086
    "$vcompress" evaluate $graph --data "$data/t10k-images-idx3-ubyte.gz" --labels "$data/t10k-labels-idx1-ubyte.gz" "$1" |
        sed -nE 's/.*\(([0-9,]+) of ([0-9,]+)\).*/\1 \2/p' | tr -d , | awk '{ printf "%.2f\n", 100 * $1 / $2 }'
}

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
nf4 --nf4
mxfp4 --mxfp4
nvfp4 --nvfp4
END
