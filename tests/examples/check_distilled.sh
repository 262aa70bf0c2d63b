#!/bin/sh
# check_distilled.sh VCOMPRESS EVALUATE PYTHON SOURCE - the commands of docs/guides/recover.md run as they stand, and its table is what
# the programs measure: answers from the written files. The pruned ones are exact; trained ones may differ by 8 images on
# another processor. With - behind SOURCE the rows are printed for the table.
set -eu
vcompress=$1
evaluate=$2
python=$3
source=$4
digits=$source/examples/digits
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

right() { "$evaluate" "$digits/images.npz" "$1" | sed -nE 's/.*: ([0-9]+) of 997 correct, ([0-9.]+) %$/\1, \2 %/p'; }

# the options between the files of the guide's second command
options=$(sed -nE '/^vcompress distill --teacher digits.npz/,/-o recovered.npz/p' "$source/docs/guides/recover.md" | sed -n '1,2p' |
    tr -d '\\\n' | sed -nE 's/.*--graph digits.layers.txt (.*) --data images.npz (.*) -o recovered.npz.*/\1 \2/p')
[ -n "$options" ] || { echo "recover.md has no command that distils"; exit 1; }
shown=$(sed -nE 's/^vcompress (prune .*) digits.npz -o pruned.npz$/\1/p' "$source/docs/guides/recover.md")
[ -n "$shown" ] || { echo "recover.md has no command that prunes"; exit 1; }
"$python" "$source/tests/examples/run_documents.py" "$vcompress" "$source" docs/guides/recover.md "$dir/guide"
sed -nE '/^\| pruned by/,/^$/s/^\| `(prune [^`]*)` \| ([0-9]+, [0-9.]+ %) \| ([0-9]+, [0-9.]+ %) \|$/\1\t\2\t\3/p' "$source/docs/guides/recover.md" >"$dir/rows"
[ "$(wc -l <"$dir/rows")" -ge 3 ] || { echo "recover.md has no table of distilled networks"; exit 1; }
tab=$(printf '\t')
found=
while IFS=$tab read -r command before after; do
    if [ "$command" = "$shown" ]; then # trained by the guide's own commands
        found=yes
        cp "$dir/guide/pruned.npz" "$dir/guide/recovered.npz" "$dir"
    else
        # shellcheck disable=SC2086
        "$vcompress" $command -q --force "$digits/digits.npz" -o "$dir/pruned.npz"
        # shellcheck disable=SC2086
        "$vcompress" distill --teacher "$digits/digits.npz" --student "$dir/pruned.npz" --graph "$digits/digits.layers.txt" \
            $options --data "$digits/images.npz" -q --force -o "$dir/recovered.npz"
    fi
    got_before=$(right "$dir/pruned.npz")
    got_after=$(right "$dir/recovered.npz")
    if [ "${5:-}" = - ]; then
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

[ -n "$found" ] || { echo "the table of recover.md has no row for $shown"; exit 1; }

# The three passes in one run: the file that it writes, and its bytes.
[ "${5:-}" != - ] || exit 0
"$vcompress" quantize --int8 --deflate -q "$dir/guide/recovered.npz" -o "$dir/three.npz"
cmp "$dir/three.npz" "$dir/guide/small.npz" || { echo "three commands write other bytes than one run"; exit 1; }
said=$(sed -nE 's/^The file shrinks from [0-9,]+ to ([0-9,]+) bytes, .* ([0-9]+) of the 997 answers are correct, .*/\1 \2/p' "$source/docs/guides/recover.md" | tr -d ,)
[ -n "$said" ] || { echo "recover.md does not say what the chain makes"; exit 1; }
got=$(right "$dir/guide/small.npz")
near=$((${got%%,*} - ${said#* }))
bytes=$(($(wc -c <"$dir/guide/small.npz") - ${said% *}))
if [ "$near" -gt 8 ] || [ "$near" -lt -8 ] || [ "$bytes" -gt 500 ] || [ "$bytes" -lt -500 ]; then
    echo "recover.md says $said of the chain; measured $(wc -c <"$dir/guide/small.npz") bytes, $got"
    exit 1
fi
