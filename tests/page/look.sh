#!/bin/sh
# look.sh PROGRAM OUT [PICTURE.png] - makes a page of every command with the model of demo.py, checks them, and looks at
# them in Chromium (browser.py); the pictures go into the folder OUT. PICTURE.png: the one in docs/report.md, docs/page.png.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
mkdir -p "$2"
out=$(cd "$2" && pwd)
picture=${3:-}
case $picture in "" | /*) ;; *) picture=$PWD/$picture ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
config=$here/../graph/goldens/llama/config.json
python3 "$here/demo.py" decoder.npz
"$program" quantize --int8 decoder.npz -o decoder.int8.npz -q --html quantize.html
"$program" prune --sparsity 0.6 decoder.npz -o decoder.pruned.npz -q --html prune.html
"$program" inspect --stats decoder.npz -q --html inspect.html
"$program" sensitivity decoder.npz -q --html sensitivity.html
"$program" diff decoder.npz decoder.int8.npz --min-sqnr 20 -q --html diff.html
"$program" graph "$config" -q --html graph.html
"$program" estimate "$config" --mode train --optimizer adamw --amp autocast --batch 8 -q --html estimate.html
"$program" fit "$config" --gpu 'RTX 4060' --batch 64 -q --html fit.html
"$program" verify decoder.int8.npz --against decoder.npz -q --html verify.html
"$program" plan "$config" --gpu 'RTX 4060' --mode train --batch 256 -q --html plan.html || [ $? -eq 1 ]
digits=$here/../../examples/digits
"$program" distill --teacher "$digits/digits.npz" --student "$digits/digits.npz" --graph "$digits/digits.layers.txt" --sparsity 0.9 --steps 40 \
    --match conv1=conv1:mse --match conv2=conv2:attention:0.5 --match fc1=fc1:cosine:0.2 \
    --data "$digits/images.npz" --array test_images=train_images --eval "$digits/images.npz" --eval-array y=test_labels -q \
    -o recovered.npz --html distill.html
python3 "$here/check_page.py" ./*.html
python3 "$here/browser.py" --out "$out" ${picture:+--picture "$picture"} --height 1330 quantize.html diff.html estimate.html \
    fit.html graph.html inspect.html prune.html sensitivity.html verify.html plan.html distill.html
