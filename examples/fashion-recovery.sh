#!/bin/sh
# fashion-recovery.sh [VCOMPRESS [FOLDER [SEEDS]]] - what comes back of a network that was compressed: a convolutional network of 206,922
# weights learns Fashion-MNIST, is damaged in several ways, and then trained on 1,000 of its images: with their labels, or
# without labels by the teacher's answers. Last, it is pruned while it is trained on them.
#
# FOLDER has the four idx files (Debian: apt-get install dataset-fashion-mnist). Prints a table of accuracies on the 10,000 test
# images: mean over the seeds +- its standard error. Takes some minutes.
set -eu
. "$(dirname "$0")/fashion-net.sh"

# recover STUDENT OPTIONS... - accuracies after training with each seed, as "mean +- standard error"
recover() {
    student=$1
    shift
    seed=0
    while [ "$seed" -lt "$seeds" ]; do
        # shellcheck disable=SC2086
        "$vcompress" distill $graph --student "$student" --seed "$seed" --steps 300 --rows 1000 --data "$images" -q -f \
            -o "$dir/recovered.npz" "$@"
        accuracy "$dir/recovered.npz"
        seed=$((seed + 1))
    done | awk '{ s += $1; q += $1 * $1 } END { v = NR > 1 ? (q - s * s / NR) / (NR - 1) / NR : 0; printf "%.2f +- %.2f", s / NR, sqrt(v > 0 ? v : 0) }'
}

"$vcompress" distill --student "$dir/cnn.layers.txt" --alpha 0 --scale 0.00392156862745098 --data "$images" --labels "$labels" \
    --epochs 2 --optimizer adam -q -o "$dir/teacher.npz"
# shellcheck disable=SC2086
"$vcompress" logits -q $graph --data "$images" --rows 1000 "$dir/teacher.npz" -o "$dir/answers.npz"
echo "The teacher: $(accuracy "$dir/teacher.npz") % after 2 epochs."
echo
echo "| compressed by | untuned % | labels of 1,000 images % | teacher, the same images without labels % |"
echo "|---|---|---|---|"
while read -r pass; do
    # shellcheck disable=SC2086
    "$vcompress" $pass -q -f "$dir/teacher.npz" -o "$dir/small.npz"
    keep=--keep-sparsity
    case $pass in
    quantize*) keep= ;; # int8 is trained as int8
    esac
    printf "| \`%s\` | %s |" "$(echo "$pass" | sed "s, --graph [^ ]*,,")" "$(accuracy "$dir/small.npz")"
    # shellcheck disable=SC2086
    printf " %s |" "$(recover "$dir/small.npz" $keep --alpha 0 --labels "$labels")"
    # shellcheck disable=SC2086
    printf " %s |\n" "$(recover "$dir/small.npz" $keep --teacher "$dir/answers.npz" --temperature 1)"
done <<EOF
prune --sparsity 0.9 --scope tensor
prune --sparsity 0.97 --scope tensor
prune --sparsity 0.97 --scope global
prune --pattern 2:4
prune --structured 0.5 --graph $dir/cnn.layers.txt
quantize --int8 --granularity tensor
EOF

# Not at once, but on the way: the student begins as the teacher.
while read -r how; do
    # shellcheck disable=SC2086
    printf "| \`distill %s\` | - | %s |" "$how" "$(recover "$dir/teacher.npz" $how --alpha 0 --labels "$labels")"
    # shellcheck disable=SC2086
    printf " %s |\n" "$(recover "$dir/teacher.npz" $how --teacher "$dir/answers.npz" --temperature 1)"
done <<EOF
--sparsity 0.97 --prune-steps 0:150:10
--sparsity 0.97 --prune-steps 0:150:10 --scope global
EOF
