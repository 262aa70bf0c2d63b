# Every scheme, every way to prune, chains of both: what builds by other compilers and for other processors have to do alike
# (scripts/check_builds.sh).
# shellcheck shell=sh disable=SC2154,SC2086
there() { # FILE OPTION...: a pass, and its codes as floats again
    begin
    source=$in/$1 o=o.${1##*.}
    shift
    run "$@" --diffable --json=report.json "$source" -o "$o"
    [ ! -e "$o" ] || run dequantize -q "$o" -o "back.${o##*.}"
}
for options in --int8 '--int8 --asymmetric' '--int8 --granularity tensor' '--int8 --granularity group:24' --int4 '--int4 --asymmetric' --int3 \
    '--int2 --asymmetric' '--scheme int5' '--scheme int6/group:32' '--scheme ternary' --fp8 '--fp8 --granularity block:16' --nvfp4 --mxfp4 --mxfp8 \
    --nf4 --fp4 --fp16 --bf16 '--fp16 --overflow sat' '--aim-sqnr 30' '--aim-bpw 5'; do
    for f in digits/digits.npz hard-f32.npz hard-f16.safetensors hard-bf16.safetensors; do
        there $f quantize $options --min-elements 64 --min-row 1
    done
    there layers-f32.safetensors quantize $options
done
for options in --int4 '--int3 --asymmetric' --int2 '--scheme ternary' --fp8 --nvfp4 --mxfp4 --nf4; do
    there layers-f32.safetensors quantize $options --calibration $in/layers-statistics.npz
done
there nonfinite.npz quantize --int8 --nonfinite zero
for type in Q4_K_M Q5_K_M Q6_K Q3_K_S Q2_K Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL IQ4_XS NVFP4 TQ1_0 TQ2_0 Q1_0 Q2_0; do
    for encoder in best llama; do
        there blocks.gguf quantize --gguf $type --encoder $encoder --pure --requantize
        there plain.gguf quantize --gguf $type --encoder $encoder --pure
    done
done
for options in '--sparsity 0.5' '--sparsity 0.8 --scope tensor' '--sparsity 0.7 --scope global --score magnitude' '--pattern 2:4' \
    '--pattern block:4x4 --sparsity 0.5'; do
    for f in digits/digits.npz hard-f32.npz hard-f16.safetensors hard-bf16.safetensors layers-f32.safetensors; do
        there $f prune $options
    done
done
for options in '--sparsity 0.5 --score wanda' '--sparsity 0.5 --score sparsegpt' '--sparsity 0.5 --reconstruct' '--pattern 2:4 --reconstruct'; do
    there layers-f32.safetensors prune $options --calibration $in/layers-statistics.npz
done
for score in l2 l1 norm; do
    there digits/digits.npz prune --structured 0.3 --score $score --graph $in/digits/digits.layers.txt
done
there llama quantize --int4 --granularity group:32
there llama prune --structured 0.25
there digits/digits.npz run --pass 'prune --sparsity 0.8' --pass 'quantize --int8 --rest fp16' --deflate=zlib
