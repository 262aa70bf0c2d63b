# Tensors of several tiles: rows longer than 2^18 elements, many short rows, small memory, one thread and two.
# shellcheck shell=sh disable=SC2154,SC2086
for options in --int8 '--int8 --axis 1' '--int8 --granularity tensor --asymmetric' '--int8 --granularity group:32' \
    '--int8 --granularity group:300000' '--int8 --granularity group:1000 --axis 0' '--fp16 --threads 1' \
    '--bf16 --max-memory 16MiB' '--int8 --nonfinite keep --threads 1 --max-memory 12MiB' '--int8 --include line'; do
    there_and_back $in/long.npz npz $options
done
there_and_back $in/long.pt safetensors --int8
there_and_back $in/long.pt pt --bf16
for f in wide.gguf wide.onnx; do
    there_and_back $in/$f ${f##*.} --int8
    there_and_back $in/$f ${f##*.} --fp16
    there_and_back $in/$f ${f##*.} --int8 --threads 1 --max-memory 8MiB
done
for options in '' '--axis 1' '--threads 1'; do
    one quantize --int8 $options $in/long.npz -o a.npz --emit b.npz --deflate --diffable
    one quantize --int8 $options $in/long.npz -o a.npz --emit b.safetensors,c.pt --diffable
    one quantize --int8 $options $in/long.npz -o o.npz --min-sqnr 60 --diffable
done
for extension in npz safetensors gguf onnx pt; do
    one convert $in/long.npz -o o.$extension --diffable
done
one convert $in/long.npz -o o.npz --deflate=zlib -q
one diff --diffable $in/long.npz $in/long.pt
one diff --json --threads 1 --max-memory 8MiB $in/wide.gguf $in/long.npz
one inspect --stats --json $in/long.npz
