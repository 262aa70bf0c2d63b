#!/bin/sh
# check_commands.sh VCOMPRESS SOURCE - what README.md shows beside the quickstart: every line of "More of the command" runs,
# in that order and in one folder, and the blocks of graph, sensitivity, fit and plan are what the program prints. Models are
# made here; of the larger ones only what is read.
set -eu
PROGRAM=$1
source=$2
export PROGRAM
python=${PYTHON:-python3}
command -v "$python" >/dev/null || exit 77
LC_ALL=C.UTF-8
export LC_ALL
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/shown" "$dir/run" "$dir/bin" # of bin: the words that the lines begin with
cd "$dir"
ln -s "$PROGRAM" bin/vcompress
printf '#!/bin/sh\nexec cat model.npz\n' >bin/curl
chmod +x bin/curl
PATH=$dir/bin:$PATH
failed=0
wrong() {
    echo "README.md: $*"
    failed=1
}

block() { # TEXT: the block of code that has a line which begins with it
    awk -v text="$1" '/^```/ { if (inside && found) { printf "%s", block; exit } inside = !inside; block = ""; found = 0; next }
        inside { block = block $0 "\n"; if (index($0, text) == 1) found = 1 }' "$source/README.md"
}

# Commands with their output, for a model of which config.json says enough.
cd shown
ln -s "$source/examples" examples
ln -s examples/digits/* .
mkdir phi-3-mini
cat >phi-3-mini/config.json <<'END'
{"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
 "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064, "max_position_embeddings": 4096, "rms_norm_eps": 1e-05,
 "rope_theta": 10000.0, "sliding_window": 2047, "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
END
for command in graph sensitivity fit plan; do
    block "\$ vcompress $command" >../wanted
    grep '^[$] ' ../wanted >../lines || wrong "shows nothing of $command"
    while IFS= read -r line; do
        printf '%s\n' "$line"
        eval "${line#??}" 2>&1 || [ "$?" -eq 1 ] || wrong "fails: ${line#??}"
    done <../lines >../got
    if [ "$command" = sensitivity ]; then # the first table
        sed -n -e 1p -e '/^  pruned:/,/^$/p' ../got | sed '/^$/d' >../first
        mv ../first ../got
    fi
    diff ../wanted ../got || wrong "shows another output of $command"
done
cards=$(sed -nE 's/.*recomputation\), `gpus` the ([0-9]+)$/\1/p' "$source/README.md" | tail -1)
[ "$cards" = "$(vcompress gpus --json | "$python" -c 'import json, sys; print(len(json.load(sys.stdin)["gpus"]))')" ] ||
    wrong "counts other GPUs than the catalogue: $cards"

# "More of the command".
cd "$dir/run"
make() {
    "$python" "$source/tests/cli/make_npz.py" "$@"
}
make model.npz layers.0.weight:f4:128x256 layers.0.bias:f4:128 layers.1.weight:f4:256x128 embed.weight:f4:200x128
vcompress convert -q model.npz -o model.safetensors
make pairs.npz a.weight_orig:f4:64x64 a.weight_mask:f4:64x64:%2 a.bias:f4:64
vcompress convert -q pairs.npz -o model.pt
make blocks.npz blk.0.ffn_up.weight:f4:96x64 blk.1.ffn_up.weight:f4:96x64 blk.2.ffn_up.weight:f4:96x64
vcompress convert -q blocks.npz -o blocks.gguf
vcompress convert -q --max-shard-size 25KiB blocks.gguf -o llama
mv llama/*.gguf .
rmdir llama
rm pairs.npz blocks.npz blocks.gguf
"$python" "$source/tests/cli/make_pt.py" training.pt model.a.weight=0:64x64 optimizer.state.0.exp_avg=1:64x64 \
    optimizer.state.0.exp_avg_sq=2:64x64
mkdir llama-whole minilm stable-diffusion stable-diffusion/text_encoder stable-diffusion/unet stable-diffusion/vae
printf 'prune --sparsity 0.5\nquantize --int8\n' >recipe.txt
cp model.safetensors llama-whole
vcompress convert -q --max-shard-size 64KiB llama-whole -o llama
rm -r llama-whole
cp model.safetensors minilm
printf '{"model_type": "bert", "architectures": ["BertModel"]}' >minilm/config.json
printf '{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}' >llama/config.json
printf '{"_class_name": "StableDiffusionPipeline", "text_encoder": ["transformers", "CLIPTextModel"],
"unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]}' >stable-diffusion/model_index.json
cp model.safetensors stable-diffusion/text_encoder
cp model.safetensors stable-diffusion/unet/diffusion_pytorch_model.safetensors
cp model.safetensors stable-diffusion/vae/diffusion_pytorch_model.safetensors
printf '{"model_type": "clip_text_model"}' >stable-diffusion/text_encoder/config.json
printf '{"_class_name": "UNet2DConditionModel"}' >stable-diffusion/unet/config.json
printf '{"_class_name": "AutoencoderKL"}' >stable-diffusion/vae/config.json

block 'vcompress inspect --stats' | grep -v -e '^#' -e '^$' >../lines
[ "$(wc -l <../lines)" -ge 30 ] || wrong "has no block of more lines"
hash=$(vcompress --version | grep -c nettle || :) # without it there are no digests
while IFS= read -r line; do
    case $hash-$line in
    0-*--digest* | 0-*--sha256*) continue ;;
    esac
    status=0
    sh -c "$line" >../out 2>../err </dev/null || status=$?
    case $status-$line in
    0-* | 1-vcompress\ diff*) ;;
    *) wrong "exit status $status: $line: $(tail -n 1 ../err)" ;;
    esac
done <../lines
exit $failed
