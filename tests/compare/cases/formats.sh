# Every format into every other one: convert, plain and quantized; streams of deflated members; dictionaries of PyTorch.
# shellcheck shell=sh disable=SC2154,SC2086
for f in plain.npz deflated.npz odd.npz names.npz mixed.npz nothing.npz scales.npz plain.safetensors bare.safetensors \
    mixed.safetensors plain.pt plain-legacy.pt mixed.pt mixed-legacy.pt views.pt views-legacy.pt training.pt layers.pt \
    plain.gguf aligned.gguf blocks.gguf version2.gguf plain-f32.onnx lists.onnx old.onnx external/model.onnx f32-2.npy \
    f32-0.npy f16-1.npy fortran.npy big.npy hf.npz layers-f16.safetensors; do
    for extension in npz npy safetensors gguf onnx pt pth bin; do
        begin
        run convert $in/$f -o o.$extension --diffable --json=report.json
        [ ! -e o.$extension ] || run verify --data --diffable o.$extension --against $in/$f
    done
done
for f in plain.npz layers-f16.safetensors plain.pt plain.gguf plain-f32.onnx; do
    for extension in npz safetensors gguf onnx pt; do
        there_and_back $in/$f $extension --int8
        there_and_back $in/$f $extension --int8 --asymmetric --granularity group:32
        there_and_back $in/$f $extension --bf16
        begin # quantized first, converted then
        run quantize --int8 -q $in/$f -o a.${f##*.}
        run convert a.${f##*.} -o b.$extension --diffable --json=b.json
        run dequantize -q --source-dtype b.$extension -o c.${f##*.}
    done
done
for f in plain.npz deflated.npz f32-2.npy plain.safetensors; do
    for deflate in --deflate --deflate=auto --deflate=zlib --deflate=isal --deflate=best; do
        for threads in 1 2; do
            begin
            run convert $in/$f -o o.npz $deflate --threads $threads --diffable
            run quantize --int8 $in/$f -o q.npz $deflate --threads $threads --diffable --json=q.json
            run dequantize q.npz -o back.npz $deflate -q
            run verify --data --diffable q.npz
        done
    done
    one convert $in/$f -o o.safetensors --deflate
    one convert $in/$f -o o.pt --deflate=zlib
done
for f in training.pt training-legacy.pt plain.pt views.pt; do
    for options in '--key ema' '--key nets.0' '--key model_state_dict' '--key none' '--drop optimizer' '--drop other' \
        '--drop optimizer --drop other' '--drop all' '--key ema --drop other'; do
        for extension in pt npz safetensors; do
            one quantize --int8 $in/$f -o o.$extension $options --diffable --json=report.json
            one convert $in/$f -o o.$extension $options --diffable --json=report.json
        done
    done
    one inspect --json --key ema $in/$f
done
one convert --key ema $in/plain.npz -o o.npz
one convert --drop optimizer $in/plain.npz -o o.npz
for f in mixed.npz hard-bf16.npz; do
    one convert $in/$f -o o.safetensors --void-as bf16 --diffable --json=report.json
    one convert $in/$f -o o.safetensors --diffable
    there_and_back $in/$f npz --int8 --void-as bf16
    there_and_back $in/$f npz --fp16 --void-as bf16
done
