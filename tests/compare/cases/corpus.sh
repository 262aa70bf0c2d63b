# The kept corpus of the fuzzers, as make_inputs.py makes files of it.
# shellcheck shell=sh disable=SC2154
for path in "$side"/../../in/corpus/*/*; do
    kind=${path%/*}
    f=$in/corpus/${kind##*/}/${path##*/}
    begin
    run verify --data --diffable "$f"
    run inspect --json --stats "$f"
    run quantize --int8 --min-elements 1 --min-row 1 --nonfinite zero --requantize "$f" -o o --diffable
    run dequantize --casts "$f" -o p --diffable
    [ "${kind##*/}" = index ] || continue
    run quantize --int8 --layout bitsandbytes "$f" -o q --diffable
    cp -r "$f" m
    run index m
done
