#!/bin/sh
# check_pruned.sh VCOMPRESS EVALUATE SOURCE - the table of docs/pruning.md about the pruned digits network, that of six columns
# of figures, is what the programs measure: answers from the written files, and bytes from the reports. The deflated size
# depends on the version of zlib, so it may differ by 2 %. With SOURCE - the rows are printed for the table:
# check_pruned.sh VCOMPRESS EVALUATE SOURCE -
set -eu
vcompress=$1
evaluate=$2
source=$3
digits=$source/examples/digits
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

kib() { awk -v n="$1" 'BEGIN { if (n == "null") print "-"; else printf "%.1f", n / 1024 }'; }
of_report() { sed -nE "s/.*\"$1\": \\{\"before\": [0-9]+, (\"native\": [0-9]+, \"dequantized\": [0-9]+, )?\"$2\": ([0-9]+|null).*/\\2/p" "$dir/report"; }

measure() { # COMMAND WITH OPTIONS: the cells behind it
    eval "\"\$vcompress\" $1 --force \"\$digits/digits.npz\" -o \"\$dir/out.npz\" --json=\"\$dir/report\"" >"$dir/text"
    eval "\"\$vcompress\" $1 --force --deflate=zlib -q \"\$digits/digits.npz\" -o \"\$dir/small.npz\""
    right=$("$evaluate" "$digits/images.npz" "$dir/small.npz" | sed -nE 's/.*: ([0-9]+) of 997 correct, ([0-9.]+) %$/\1, \2 %/p')
    echo "$right | $(kib "$(of_report file after)") | $(kib "$(wc -c <"$dir/small.npz")") | $(kib "$(of_report host after)") |" \
        "$(kib "$(sed -nE 's/.*"native": ([0-9]+).*/\1/p' "$dir/report")") | $(kib "$(of_report device sparse_2_4)") |"
}

sed -nE 's/^\| `((prune|run) [^`]*)` \| (([^|]*\|){6})$/\1\t\3/p' "$source/docs/pruning.md" >"$dir/rows"
[ "$(wc -l <"$dir/rows")" -ge 8 ] || { echo "docs/pruning.md has no table of the pruned network"; exit 1; }
tab=$(printf '\t')
cd "$dir" # statistics as the page makes them
"$vcompress" calibrate --graph "$digits/digits.layers.txt" --data "$digits/images.npz" --array test_images=train_images --second-moments \
    -q -o stats.npz "$digits/digits.npz"
while IFS=$tab read -r command said; do
    got=$(measure "$command")
    if [ "${4:-}" = - ]; then
        echo "| \`$command\` | $got"
        continue
    fi
    printf '%s\n%s\n' "$said" "$got" | awk -F ' [|] ' -v command="$command" '
        { for (i = 1; i <= NF; i++) cell[NR, i] = $i }
        END {
            for (i = 1; i <= 6; i++) {
                near = i == 3 && cell[1, 3] > 0.98 * cell[2, 3] && cell[1, 3] < 1.02 * cell[2, 3]
                if (cell[1, i] != cell[2, i] && !near) {
                    printf "%s: docs/pruning.md says %s, measured %s\n", command, cell[1, i], cell[2, i]
                    exit 1
                }
            }
        }' || exit 1
done <"$dir/rows"
