# Every scheme with every option that chooses codes and scales, on every format that can hold the result; there and back.
# shellcheck shell=sh disable=SC2154,SC2086
for f in plain.npz plain.safetensors plain.pt plain.gguf plain-f32.onnx hard-f32.npz hard-f64.npz hard-f16.safetensors \
    hard-bf16.safetensors mixed.npz f32-2.npy; do
    extension=${f##*.}
    [ "$extension" != npy ] || extension=npz
    for options in '' '--granularity tensor' '--granularity group:32' '--granularity group:100' '--axis 1' '--asymmetric' \
        '--asymmetric --granularity tensor' '--asymmetric --granularity group:7 --axis -1' '--min-elements 1 --min-row 1'; do
        there_and_back $in/$f $extension --int8 $options
    done
    for options in --fp16 --bf16 '--fp16 --overflow sat' '--fp16 --overflow inf' '--bf16 --overflow sat'; do
        there_and_back $in/$f ${f##*.} $options --min-elements 1 --min-row 1
    done
done
for options in '--axis 3' '--axis -4' '--axis 9' '--granularity group:0' '--granularity group:4097' \
    '--granularity group:18446744073709551615' '--granularity rows' '--axis x'; do
    one quantize --int8 $options $in/plain.npz -o o.npz --diffable
done
for f in mixed.safetensors mixed.pt views.pt lists.onnx old.onnx plain-f16.onnx aligned.gguf blocks.gguf hard.gguf \
    version2.gguf odd.npz names.npz scales.npz fortran.npy big.npy f16-1.npy f32-0.npy i8-2.npy nothing.npz \
    nothing.safetensors empty.pt training.pt layers-legacy.pt external/model.onnx; do
    extension=${f##*.}
    there_and_back $in/$f $extension --fp16
    [ "$extension" != npy ] || extension=npz
    there_and_back $in/$f $extension --int8
done
for threads in 1 2; do
    for memory in 4MiB 16MiB 1GiB; do
        there_and_back $in/plain.npz npz --int8 --threads $threads --max-memory $memory
        there_and_back $in/plain.pt safetensors --int8 --asymmetric --threads $threads --max-memory $memory
    done
done
for mask in ref base avx2 all; do
    there_and_back $in/hard-f32.npz npz --int8 --cpu-mask $mask
    there_and_back $in/hard-f32.npz npz --fp16 --overflow sat --cpu-mask $mask
done
for options in --int8 '--int8 --asymmetric' --fp16; do # the digits model
    there_and_back $in/digits/digits.npz npz $options
    there_and_back $in/digits/digits.npz safetensors $options
    there_and_back $in/digits/digits.npz pt $options
done
