#!/bin/sh
# check_distilled.sh VCOMPRESS EVALUATE SOURCE - the table of docs/guides/recover.md is what the programs measure: answers from the
# written files. The pruned ones are exact; trained ones may differ by 8 images on another processor. With SOURCE - the
# rows are printed for the table: check_distilled.sh VCOMPRESS EVALUATE SOURCE -
set -eu
vcompress=$1
evaluate=$2
source=$3
digits=$source/examples/digits
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

right() { "$evaluate" "$digits/images.npz" "$1" | sed -nE 's/.*: ([0-9]+) of 997 correct, ([0-9.]+) %$/\1, \2 %/p'; }

# the options between the files of the guide's second command
options=$(sed -nE '/^vcompress distill --teacher digits.npz/,/-o recovered.npz/p' "$source/docs/guides/recover.md" | sed -n '1,2p' |
    tr -d '\\\n' | sed -nE 's/.*--graph digits.layers.txt (.*) --data images.npz (.*) -o recovered.npz.*/\1 \2/p')
[ -n "$options" ] || { echo "recover.md has no command that distils"; exit 1; }
sed -nE '/^\| pruned by/,/^$/s/^\| `(prune [^`]*)` \| ([0-9]+, [0-9.]+ %) \| ([0-9]+, [0-9.]+ %) \|$/\1\t\2\t\3/p' "$source/docs/guides/recover.md" >"$dir/rows"
[ "$(wc -l <"$dir/rows")" -ge 3 ] || { echo "recover.md has no table of distilled networks"; exit 1; }
tab=$(printf '\t')
while IFS=$tab read -r command before after; do
    # shellcheck disable=SC2086
    "$vcompress" $command -q --force "$digits/digits.npz" -o "$dir/pruned.npz"
    # shellcheck disable=SC2086
    "$vcompress" distill --teacher "$digits/digits.npz" --student "$dir/pruned.npz" --graph "$digits/digits.layers.txt" \
        $options --data "$digits/images.npz" -q --force -o "$dir/recovered.npz"
    got_before=$(right "$dir/pruned.npz")
    got_after=$(right "$dir/recovered.npz")
    if [ "${4:-}" = - ]; then
        echo "| \`$command\` | $got_before | $got_after |"
        continue
    fi
    near=$((${got_after%%,*} - ${after%%,*}))
    if [ "$got_before" != "$before" ] || [ "$near" -gt 8 ] || [ "$near" -lt -8 ]; then
        echo "$command: recover.md says $before, then $after; measured $got_before, then $got_after"
        exit 1
    fi
    zeros=$("$vcompress" diff "$dir/pruned.npz" "$dir/recovered.npz" >/dev/null 2>&1 && echo same || echo differ)
    [ "$zeros" = differ ] || { echo "$command: nothing was trained"; exit 1; }
done <"$dir/rows"

# The three passes in one run: the file that it writes, and its bytes.
[ "${4:-}" != - ] || exit 0
chain=$(sed -nE '/^vcompress run --deflate --pass .prune/,/-o small.npz/p' "$source/docs/guides/recover.md" | tr -d '\\\n' | sed 's/^vcompress//')
[ -n "$chain" ] || { echo "recover.md has no chain that distils"; exit 1; }
cp "$digits/digits.npz" "$digits/images.npz" "$digits/digits.layers.txt" "$dir"
(cd "$dir" && eval "\"$vcompress\" $chain -q")
said=$(sed -nE 's/^The file shrinks from [0-9,]+ to ([0-9,]+) bytes, .* ([0-9]+) of the 997 answers are correct, .*/\1 \2/p' "$source/docs/guides/recover.md" | tr -d ,)
[ -n "$said" ] || { echo "recover.md does not say what the chain makes"; exit 1; }
got=$(right "$dir/small.npz")
near=$((${got%%,*} - ${said#* }))
bytes=$(($(wc -c <"$dir/small.npz") - ${said% *}))
if [ "$near" -gt 8 ] || [ "$near" -lt -8 ] || [ "$bytes" -gt 500 ] || [ "$bytes" -lt -500 ]; then
    echo "recover.md says $said of the chain; measured $(wc -c <"$dir/small.npz") bytes, $got"
    exit 1
fi
