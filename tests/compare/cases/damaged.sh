# Damaged files of every format: which sentence, which exit status, and what can be made of those that still open.
# shellcheck shell=sh disable=SC2154,SC2086
cd "$side/../../in/damaged" || exit 2
for f in *; do
    begin
    run verify --data --diffable $in/damaged/$f
    run inspect --json --stats $in/damaged/$f
    run quantize --int8 --min-elements 1 --min-row 1 --nonfinite zero $in/damaged/$f -o o.npz --diffable
    run quantize --bf16 --overflow sat --nonfinite keep $in/damaged/$f -o o --diffable
done
IFS='
'
for path in $more; do # what -x names
    for f in "$path" "$path"/* "$path"/*/*; do
        [ -e "$f" ] || continue
        begin
        run verify --data --diffable "$f"
        run inspect --json --stats "$f"
        run quantize --int8 --min-elements 1 --min-row 1 "$f" -o o.npz --diffable
        run dequantize "$f" -o p --diffable
    done
done
unset IFS
