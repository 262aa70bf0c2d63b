# The commands that only read: inspect, diff, verify, in all their forms.
# shellcheck shell=sh disable=SC2154,SC2086
cd "$side/../../in" || exit 2
for f in * external/model.onnx digits/digits.npz; do
    case $f in long* | wide* | damaged | corpus) continue ;; esac # in other sections
    f=$in/$f
    begin
    run inspect --diffable $f
    run inspect --diffable -v --bytes $f
    run inspect --diffable --stats $f
    run inspect --json $f
    run inspect --json --stats --void-as bf16 $f
    run verify --diffable $f
    run verify --diffable --data --strict $f
    run verify --json --data --sha256 $f
    run verify --json --void-as bf16 --threads 1 $f
    run diff --diffable $f $f
    run diff --json $f $in/plain.npz
done
for pair in 'plain.npz plain.safetensors' 'plain.npz plain.pt' 'plain.npz deflated.npz' 'plain.safetensors bare.safetensors' \
    'hard-f32.npz hard-f16.npz' 'hard-f16.npz hard-f32.npz' 'layers-f32.safetensors layers-bf16.safetensors' \
    'layers-bf16.safetensors llama' 'llama layers.pt' 'mixed.npz mixed.safetensors' 'nonfinite.npz nonfinite.safetensors' \
    'nonfinite.npz hard.gguf' 'plain-f32.onnx plain-f16.onnx' 'plain-f32.onnx lists.onnx' 'plain.gguf several' \
    'plain.gguf aligned.gguf' 'training.pt plain.pt' 'views.pt views-legacy.pt' 'nothing.npz plain.npz' 'plain.npz none.npz'; do
    set -- $pair
    for options in '' '--tolerance 0.01' '--tolerance 1e-300' '--tolerance -1' '--min-sqnr 30' '--min-sqnr 60' \
        '--min-sqnr 60 --tolerance 0.5' '--json' '-v --bytes' '-q' '--key ema'; do
        one diff --diffable $options $in/$1 $in/$2
    done
    for options in '' '--min-sqnr 20' '--min-sqnr 90 --strict' '--data --sha256 --json' '-q'; do
        one verify --diffable $options $in/$1 --against $in/$2
    done
done
