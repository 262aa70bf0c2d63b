# What is quantized and what is kept: NaN and Inf, values beyond the range, names, sizes, input that is quantized already.
# shellcheck shell=sh disable=SC2154,SC2086
for f in nonfinite.npz nonfinite.safetensors hard.gguf; do
    extension=${f##*.}
    for policy in error keep zero; do
        there_and_back $in/$f $extension --int8 --nonfinite $policy
        there_and_back $in/$f $extension --int8 --nonfinite $policy --min-elements 1 --min-row 1 --threads 1
        for overflow in error inf sat; do
            there_and_back $in/$f $extension --fp16 --nonfinite $policy --overflow $overflow
            there_and_back $in/$f $extension --bf16 --nonfinite $policy --overflow $overflow
        done
    done
    there_and_back $in/$f $extension --int8 --asymmetric --granularity tensor --nonfinite zero
    there_and_back $in/$f $extension --int8 --exclude '*' --include fine
    there_and_back $in/$f $extension --fp16 --exclude 'n*' --exclude 'i*' --exclude 'm*' --exclude b* --exclude h*
done
for f in plain.npz plain.safetensors plain.pt plain.gguf plain-f32.onnx; do
    for options in '--include *' '--exclude *' '--exclude fc1.* --include fc1.weight' '--include nothing*' \
        '--exclude *.weight' '--include [fc]*' '--min-elements 1' '--min-row 1' '--min-elements 9000' \
        '--min-elements 1 --min-row 200' '--include b1 --include *bias' '--min-elements 0' '--min-row x'; do
        set -f
        there_and_back $in/$f ${f##*.} --int8 $options
        there_and_back $in/$f ${f##*.} --bf16 $options
        set +f
    done
done
# Quantized already: refused, requantized, decoded to every target.
for f in plain.npz plain.safetensors plain.pt plain.gguf plain-f32.onnx layers-bf16.safetensors; do
    extension=${f##*.}
    begin
    run quantize --int8 -q $in/$f -o a.$extension
    run quantize --int8 a.$extension -o b.$extension --diffable
    run quantize --fp16 a.$extension -o c.$extension --diffable
    run quantize --int8 --requantize a.$extension -o d.$extension --diffable --json=d.json
    run quantize --int8 --requantize --asymmetric --granularity tensor a.$extension -o e.$extension --diffable
    run quantize --bf16 --requantize a.$extension -o f.$extension --diffable
    run inspect -v --diffable a.$extension
    for target in '' --f32 --fp16 --bf16 --source-dtype '--fp16 --casts' '--f32 --casts' '--bf16 --casts --overflow sat' \
        '--source-dtype --casts' '--f32 --exclude *' '--f32 --include fc1* --exclude conv*' '--fp16 --overflow inf'; do
        set -f
        run dequantize $target a.$extension -o g.$extension --force --diffable --json=g.json
        run verify --data --sha256 --diffable g.$extension
        set +f
    done
    run dequantize $in/$f -o h.$extension --diffable
done
for f in blocks.gguf mixed.npz mixed.safetensors plain-f16.onnx layers.pt; do # not quantized by vcompress
    for target in --f32 --fp16 --bf16 --source-dtype '--f32 --casts' '--fp16 --casts' '--bf16 --casts'; do
        one dequantize $target $in/$f -o o.${f##*.} --diffable --json=report.json
    done
done
