#!/bin/sh
# few-labels.sh [VCOMPRESS [SEEDS]] - what a teacher is worth where few rows have labels: a network of 1,210 weights learns
# digits from 40 labelled images (5 %), or from the teacher's answers to all 800 images without any label.
#
# Prints a table of accuracies on 997 other images: mean over the seeds +- its standard error, and the paired gain. Takes some
# ten seconds. Seeds change the first weights and the order of the rows.
set -eu
vcompress=${1:-build/vcompress}
seeds=${2:-10}
digits=$(dirname "$0")/digits
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/small.layers.txt" <<'EOF'
input test_images [batch, 8, 8]
multiply 0.0625
reshape [-1, 64]
linear fc1 16
relu
linear fc2 10
EOF

# What the teacher answers, once for all runs.
"$vcompress" logits -q --graph "$digits/digits.layers.txt" --data "$digits/images.npz" --array test_images=train_images \
    "$digits/digits.npz" -o "$dir/answers.npz"

# train SEED OPTIONS... - a new network; prints its accuracy on the test images, in per cent
train() {
    seed=$1
    shift
    "$vcompress" distill --student "$dir/small.layers.txt" --seed "$seed" --steps 1000 --batch 32 --optimizer adam --lr 0.003 \
        --data "$digits/images.npz" --array test_images=train_images -q -f -o "$dir/student.npz" "$@"
    "$vcompress" evaluate --graph "$dir/small.layers.txt" --data "$digits/images.npz" --array y=test_labels \
        "$dir/student.npz" | sed -nE 's/.*\(([0-9]+) of ([0-9]+)\).*/\1 \2/p' | awk '{ print $1 / $2 }'
}

seed=0
while [ "$seed" -lt "$seeds" ]; do
    few=$(train "$seed" --array y=train_labels --rows 40 --alpha 0)
    all=$(train "$seed" --array y=train_labels --alpha 0)
    low=$(train "$seed" --teacher "$dir/answers.npz" --temperature 1)
    high=$(train "$seed" --teacher "$dir/answers.npz" --temperature 4)
    echo "$few $all $low $high"
    seed=$((seed + 1))
done >"$dir/runs"

awk '
{ for (i = 1; i <= 4; i++) { x = 100 * $i; g = x - 100 * $1; sum[i] += x; square[i] += x * x; gain[i] += g; gains[i] += g * g; wins[i] += g > 0 } }
function error(sum, square) { return NR > 1 ? sqrt((square - sum * sum / NR) / (NR - 1) / NR) : 0 }
END {
    split("40 images with labels|800 images with labels|800 images, the teacher'"'"'s answers, T = 1|800 images, the teacher'"'"'s answers, T = 4", name, "|")
    print "| learns from | accuracy % | gain over 40 labels | better in |"
    print "|---|---|---|---|"
    for (i = 1; i <= 4; i++) {
        printf "| %s | %.2f +- %.2f |", name[i], sum[i] / NR, error(sum[i], square[i])
        if (i == 1) print " | |"
        else printf " %+.2f +- %.2f | %d of %d |\n", gain[i] / NR, error(gain[i], gains[i]), wins[i], NR
    }
}' "$dir/runs"
