#!/bin/sh
# check_few_labels.sh VCOMPRESS SOURCE - what examples/few-labels.sh measures: over 10 seeds the teacher gains at least 8 points for a
# network that has few labels, and docs/distillation.md has its table, to 2 points: trained digits differ between processors.
# 77: the build has no SHA-256, which files of answers carry.
set -eu
"$1" --version | grep -q nettle || { echo "SKIPPED: this build has no SHA-256 (nettle)"; exit 77; }
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
table=$(sh "$2/examples/few-labels.sh" "$1" 10)
echo "$table"
echo "$table" | grep -F '| learns from |' >/dev/null
echo "$table" | sed -nE 's/^\| ([^|]*) \| ([0-9.]+) [+]- .*/\1\t\2/p' >"$rows"
[ "$(wc -l <"$rows")" -eq 4 ] || { echo "no table of four rows"; exit 1; }
for t in 1 4; do
    echo "$table" | awk -v want="T = $t " -F'|' 'index($2, want) { split($4, g, " "); if (g[1] >= 8) good = 1; split($5, w, " "); if (w[1] < 9) good = 0 } END { exit !good }' ||
        { echo "T = $t: the teacher gains less than 8 points"; exit 1; }
done
tab=$(printf '\t')
while IFS=$tab read -r name accuracy; do
    stated=$(grep -F "| $name |" "$2/docs/distillation.md" | sed -nE 's/^\| [^|]* \| ([0-9.]+) [+]- .*/\1/p')
    awk -v a="$accuracy" -v b="${stated:-0}" 'BEGIN { d = a - b; exit !(d < 2 && d > -2) }' ||
        { echo "docs/distillation.md: $name: ${stated:-no row}; measured $accuracy"; exit 1; }
done <"$rows"
