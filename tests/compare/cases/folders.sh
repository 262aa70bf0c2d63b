# Checkpoints that are folders: shards, index and config.json; layouts for other programs; workers; several GGUF files.
# shellcheck shell=sh disable=SC2154,SC2086
look() { # FOLDER OR FILE, SOURCE
    [ -e "$1" ] || return 0
    run verify --data --diffable "$1" --against "$2"
    run inspect --json "$1"
    run dequantize --source-dtype -q "$1" -o back
    run dequantize --fp16 --diffable "$1" -o back.npz --json=back.json
}
for f in llama llama-tied gpt2; do
    for layout in auto plain compressed-tensors bitsandbytes gptq; do
        for options in '' '--asymmetric' '--granularity tensor' '--granularity group:32' '--granularity group:24' \
            '--axis 1' '--exclude *mlp*' '--include lm_head*' '--exclude *q_proj*' '--min-elements 5000'; do
            begin
            set -f
            run quantize --int8 --layout $layout $options $in/$f -o o --diffable --json=report.json
            set +f
            look o $in/$f
        done
    done
    for options in --fp16 --bf16 '--int8 --max-shard-size 20KiB' '--int8 --max-shard-size 1MiB' '--bf16 --max-shard-size 1'; do
        begin
        run quantize $options $in/$f -o o --diffable --json=report.json
        look o $in/$f
    done
    for extension in npz safetensors gguf pt onnx; do
        begin
        run quantize --int8 $in/$f -o o.$extension --diffable --json=report.json
        look o.$extension $in/$f
        one convert $in/$f -o o.$extension --diffable
    done
    begin
    cp -r $in/$f m # the default name
    run quantize --int8 m --diffable
    run quantize --int8 m --diffable
    run quantize --int8 m --diffable --force
    run convert m -o copy
    run convert m -o m
    run quantize --int8 m.int8 -o again
    run quantize --int8 --requantize m.int8 -o again --diffable
    run diff --diffable m m.int8
    run index copy
    begin
    for i in 1 2 3; do run quantize --int8 --shard $i/3 $in/$f -o w --diffable --json=worker$i.json; done
    run verify --diffable w
    run index w
    run verify --data --diffable w --against $in/$f
    for shard in 4/3 0/3 1/0 a/b 3 1/99 2/3; do run quantize --int8 --shard $shard $in/$f -o w --diffable; done
done
for f in layers-f32.safetensors layers-f16.safetensors layers-bf16.safetensors plain.safetensors hard-f16.safetensors \
    nonfinite.safetensors plain.npz layers.pt hf.npz; do
    for layout in plain compressed-tensors bitsandbytes; do
        for options in '' '--asymmetric' '--granularity tensor' '--granularity group:32' '--nonfinite zero' \
            '--granularity group:32 --min-elements 1 --min-row 1' '--threads 1'; do
            begin
            run quantize --int8 --layout $layout $options $in/$f -o o.safetensors --diffable --json=report.json
            look o.safetensors $in/$f
        done
    done
done
for options in --int8 --fp16 '--int8 --max-shard-size 60KiB' '--int8 --max-shard-size 1GiB' '--bf16 --include *'; do
    for f in several several/m-00001-of-00003.gguf several/m-00002-of-00003.gguf plain.gguf; do
        begin
        set -f
        run quantize $options $in/$f -o o --diffable --json=report.json
        run quantize $options $in/$f -o o.gguf --diffable
        set +f
        look o $in/$f
        run convert $in/$f -o o.npz -q
        run convert $in/$f -o o.safetensors -q
    done
done
begin
for i in 1 2 3; do run quantize --int8 --shard $i/3 $in/several -o w --diffable; done
run index w
run verify --data --diffable w --against $in/several
one index $in/llama/config.json
one index $in/corpus
one index none
begin
cp -r $in/no-map m
run inspect --diffable m
run index m
run inspect --json m
run quantize --int8 m -o o --diffable
begin # something in the way, something missing, something that goes along
cp -r $in/llama m
mkdir m/more o
echo x >m/more/x
ln -s tokenizer.json m/link
run quantize --int8 m -o o --diffable
run quantize --int8 m -o o --diffable --force
run quantize --int8 m -o new --diffable
rm m/model-00002-of-00003.safetensors
run quantize --int8 m -o p --diffable
run verify --diffable m
run index m
begin
cp -r $in/llama m
echo '{"torch_dtype": ' >m/config.json
run quantize --int8 m -o p --diffable
run quantize --bf16 m -o q --diffable
run verify --diffable m
