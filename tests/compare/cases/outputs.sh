# Where results go: names, --emit, pipes, gates, --dry-run, --force, and the full reports.
# shellcheck shell=sh disable=SC2154,SC2086
for f in plain.npz plain.safetensors plain.pt plain.gguf plain-f32.onnx f32-2.npy llama; do
    extension=${f##*.}
    for options in --int8 --fp16 '--int8 --asymmetric'; do
        one quantize $options $in/$f -n --diffable
        one quantize $options $in/$f -o o.$extension --dry-run --json
        one quantize $options $in/$f -o o.$extension --json
        one quantize $options $in/$f -o o.$extension --json=report.json -v --bytes --diffable
        one quantize $options $in/$f -o o.$extension -v
        one quantize $options $in/$f -o o.$extension --color always --diffable
        for gate in '--max-bytes 0' '--max-bytes 1' '--max-bytes 60000' '--max-bytes 1MiB' '--min-sqnr 200' \
            '--min-sqnr 20' '--min-sqnr 42.5' '--min-sqnr -5' '--min-sqnr x' '--max-bytes 1XB' \
            '--min-sqnr 200 --max-bytes 1'; do
            one quantize $options $in/$f -o o.$extension $gate --json=report.json --diffable
            one quantize $options $in/$f -o o.$extension $gate --dry-run --diffable
        done
        for emit in b.npz b.safetensors b.gguf b.onnx b.pt b.npz,c.safetensors,d.pt a.$extension b.npz,b.npz none/b.npz ''; do
            one quantize $options $in/$f -o a.$extension --emit "$emit" --diffable --json=report.json
        done
        one quantize $options $in/$f -o a.npz --emit b.npz,c.safetensors --deflate=zlib --threads 1 -q
        one quantize $options $in/$f -o a.npz --emit b.pt --max-bytes 20000 --diffable
    done
    one convert $in/$f -o a.npz --emit b.safetensors,c.pt,d.gguf --diffable --json=report.json
done
for f in plain.npz deflated.npz plain.safetensors plain.pt plain-legacy.pt plain.gguf plain-f32.onnx f32-2.npy; do
    begin
    run_from $in/$f quantize --int8 - -o o.${f##*.} --diffable
    run_from $in/$f quantize --int8 - -o - --diffable
    run quantize --int8 $in/$f -o -
    run convert $in/$f -o -
    run_from $in/$f inspect - --json
    run_from $in/$f inspect - --stats --diffable
    run_from $in/$f verify - --data --diffable
    run_from $in/$f diff - $in/$f --diffable
    run_from $in/$f quantize --int8 -
done
for f in plain.npz plain.safetensors plain.pt plain.gguf plain-f32.onnx f32-2.npy; do
    begin
    cp $in/$f m.${f##*.}
    run quantize --int8 m.${f##*.} --diffable
    run quantize --int8 m.${f##*.} --diffable
    run quantize --int8 m.${f##*.} --diffable -f
    run quantize --fp16 m.${f##*.} -q
    run quantize --bf16 m.${f##*.} -q
    run dequantize m.int8.${f##*.} -q
    run dequantize m.int8.${f##*.} -q --source-dtype
    run quantize --int8 m.${f##*.} -o m.${f##*.} -f
    run quantize --int8 m.${f##*.} -o noextension --diffable
    run quantize --int8 m.${f##*.} -o strange.xyz --diffable
    run convert m.${f##*.}
    run convert m.${f##*.} -o m.${f##*.}
    run quantize --int8 m.${f##*.} -o none/o.npz
    cp m.${f##*.} wrong.gguf
    run inspect --diffable wrong.gguf
    run verify --diffable wrong.gguf
    run quantize --int8 wrong.gguf --diffable
done
for memory in 1 64KiB 300KiB 1MiB 2MiB 3MiB 5MiB; do # enough or not: the same answer
    for f in plain.npz deflated.npz plain.gguf llama layers.pt; do
        one quantize --int8 $in/$f -o o --max-memory $memory --threads 1 --diffable
    done
    one verify --data --max-memory $memory --threads 1 --diffable $in/plain.pt
    one diff --max-memory $memory --threads 1 --diffable $in/plain.npz $in/plain.safetensors
done
