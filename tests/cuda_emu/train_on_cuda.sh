#!/bin/sh
# train_on_cuda.sh - distill, evaluate and logits on the CPU and on CUDA (a device, or the emulated card through
# VCOMPRESS_BACKEND_PATH): losses of every step within 1e-5, answers and figures as near; on the device an interrupted
# run and one that is not have the same bits. Prints a line per comparison; status 1 if any fails.
#
#     train_on_cuda.sh VCOMPRESS EXAMPLES/digits [TESTS/graph/goldens]
#
# With the folder of goldens also for an encoder and a decoder of two layers.
set -eu
program=$1
digits=$2
goldens=${3:-}
folder=$(mktemp -d "${TMPDIR:-/tmp}/vcompress-train.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failed=0

say() { # SAYS CONDITION-STATUS
    if [ "$2" -eq 0 ]; then
        echo "passed: $1"
    else
        echo "FAILED: $1"
        failed=1
    fi
}

# near A B FIELDS [SLACK]: the fields of both logs, line by line; SLACK: of figures that are printed rounded
near() {
    awk -v a="$1" -v b="$2" -v fields="$3" -v slack="${4:-0}" '
        function value(line, field) {
            if (!match(line, field "\"?:? [-+0-9][-+0-9.e]*")) { return "none" }
            line = substr(line, RSTART, RLENGTH)
            sub(/.* /, "", line)
            return line
        }
        BEGIN {
            n_fields = split(fields, field, " ")
            while ((getline x < a) > 0) {
                if ((getline y < b) <= 0) { print "lines are missing"; exit 1 }
                for (k = 1; k <= n_fields; k++) {
                    p = value(x, field[k]); q = value(y, field[k])
                    d = p - q; d = d < 0 ? -d : d
                    if ((p == "none") != (q == "none") || d > 1e-5 * (p < 0 ? -p : p) + slack) {
                        print field[k] ": " p " and " q; exit 1
                    }
                    n += p != "none"
                }
            }
            exit n == 0
        }' </dev/null
}

# train DEVICE NAME OPTION...
train() {
    device=$1 name=$2
    shift 2
    case $* in
    --width* | --student*) ;;
    *) set -- --student "$folder/pruned.npz" "$@" ;;
    esac
    "$program" distill -q --device "$device" --teacher "$digits/digits.npz" \
        --graph "$digits/digits.layers.txt" --data "$digits/images.npz" --array test_images=train_images \
        --log "$folder/$name.log" -o "$folder/$name.npz" --force "$@" >"$folder/$name.out" 2>&1 || {
        cat "$folder/$name.out"
        return 1
    }
}

# both LABEL OPTION...: the same run on both; the fields of all steps are near
fields="loss kd ce grad_norm"
slack=0
both() {
    label=$1
    shift
    outcome=0
    train cpu cpu "$@" && train cuda cuda "$@" &&
        near "$folder/cpu.log" "$folder/cuda.log" "$fields" "$slack" || outcome=1
    say "$label" "$outcome"
}

"$program" prune -q --sparsity 0.9 "$digits/digits.npz" -o "$folder/pruned.npz"
both "Adam, with masks" --steps 2 --batch 3 --keep-sparsity
both "momentum, labels, two batches a step, clipped" --steps 2 --batch 2 --accum 2 --optimizer momentum --nesterov \
    --lr 0.01 --clip 1 --alpha 0.5 --array y=train_labels
both "squared error, recomputation" --steps 2 --batch 2 --loss mse --optimizer momentum --lr 0.0001 --recompute every:1
# A logit of one of 4 rows that rounds the other way: logits below 16 are 2^-4 apart in bf16, and 2^-7 in fp16.
fields="loss kd"
slack=0.02
both "values of bf16" --steps 1 --batch 4 --precision bf16 --keep-sparsity
both "values of fp16, two batches a step" --steps 1 --batch 2 --accum 2 --precision fp16 --loss-scale 1024 --match Relu_29=Relu_29:mse:0.1
fields="scale" # steps that are left out: 65536, 32768, ...
slack=0
both "the scale of fp16" --steps 8 --batch 1 --precision fp16 --optimizer sgd --lr 1e-6
fields="loss kd ce grad_norm"
both "8-bit Adam" --steps 2 --batch 2 --optimizer adam8bit --eps 0.01
both "values inside: plain, in place of each other, the answers" --steps 2 --batch 2 --match Relu_29=Relu_29:mse:0.1 \
    --match Relu_20=Relu_20:attention --match Flatten_31=Flatten_31:cosine --match MaxPool_30=MaxPool_30:mse \
    --match fc2=fc2:mse:0.5 --optimizer momentum --lr 0.0001
both "values inside through maps, two batches a step" --width 0.5 --steps 2 --batch 2 --accum 2 \
    --match Relu_29=Relu_29:mse:0.1 --json="$folder/mapped.json"

both "for codes, masks that grow" --steps 3 --batch 2 --fake-quant int8/group:32 --sparsity 0.95 --prune-steps 0:2:1 \
    --optimizer momentum --lr 0.0001
for scheme in int4/group:32 nvfp4; do
    both "for codes of $scheme, whose scales are searched" --steps 3 --batch 2 --fake-quant "$scheme" --optimizer momentum --lr 0.0001
done
"$program" quantize -q --int8 --asymmetric "$digits/digits.npz" -o "$folder/coded.npz"
both "a student of codes" --student "$folder/coded.npz" --steps 2 --batch 2 --optimizer momentum --lr 0.0001

# A loss that is NaN: losses come with the norm of a step, and the batch that has none is computed again for the reason.
outcome=0
for device in cpu cuda; do
    train "$device" "$device.nan" --steps 3 --batch 2 --optimizer momentum --lr 100000 >/dev/null && outcome=1
done
grep -q "the loss is NaN" "$folder/cpu.nan.out" && cmp "$folder/cpu.nan.out" "$folder/cuda.nan.out" || outcome=1
say "the sentence of a loss that is NaN" "$outcome"

# A run in two parts, on the device: the checkpoint is that behind step 2 of 3.
outcome=0
train cuda whole --steps 3 --batch 1 && train cuda first --steps 3 --batch 1 --checkpoint "$folder/run.ckpt" \
    --checkpoint-every 2 && mv "$folder/run.ckpt" "$folder/at.ckpt" &&
    train cuda second --steps 3 --batch 1 --resume "$folder/at.ckpt" && cmp "$folder/whole.npz" "$folder/first.npz" &&
    cmp "$folder/whole.npz" "$folder/second.npz" || outcome=1
say "a run that was resumed" "$outcome"
outcome=0
set -- --steps 3 --batch 1 --fake-quant int8 --optimizer adam8bit
train cuda whole "$@" && train cuda first "$@" --checkpoint "$folder/run.ckpt" --checkpoint-every 2 &&
    mv "$folder/run.ckpt" "$folder/at.ckpt" && train cuda second "$@" --resume "$folder/at.ckpt" &&
    cmp "$folder/whole.npz" "$folder/first.npz" && cmp "$folder/whole.npz" "$folder/second.npz" || outcome=1
say "a run for codes that was resumed" "$outcome"

# Steps as graphs, which are captured in the second step, and one by one.
outcome=0
set -- --steps 5 --batch 2 --accum 2 --keep-sparsity
train cuda graphs "$@" && VC_EMU_GRAPHS=0 train cuda single "$@" && cmp "$folder/graphs.npz" "$folder/single.npz" || outcome=1
say "steps as graphs" "$outcome"

# planned NAME: device memory as planned, to the byte, by the report NAME.json
planned() {
    planned=$(sed -n 's/^.*"device_planned": \([0-9]*\).*$/\1/p' "$folder/$1.json")
    peak=$(sed -n 's/^.*"device_peak": \([0-9]*\).*$/\1/p' "$folder/$1.json")
    echo "device memory: $planned planned, $peak taken"
    [ "${planned:-0}" -gt 0 ] && [ "$planned" = "$peak" ]
}

outcome=0
planned mapped || outcome=1
say "planned device memory, with values inside" "$outcome"
outcome=0
train cuda planned --steps 1 --batch 3 --accum 2 --json="$folder/planned.json" && planned planned || outcome=1
say "planned device memory" "$outcome"

# evaluated FIELDS STUDENT TEACHER ARGUMENTS...: the figures, of four digits, from both
evaluated() {
    fields=$1 student=$2 teacher=$3
    shift 3
    outcome=0
    for device in cpu cuda; do
        "$program" evaluate --device "$device" "$student" --teacher "$teacher" "$@" >"$folder/$device.out" 2>&1 || {
            cat "$folder/$device.out"
            outcome=1
        }
    done
    near "$folder/cpu.out" "$folder/cuda.out" "$fields" 0.000101 || outcome=1
    say "evaluate $(basename "$teacher")" "$outcome"
}

# answers TEACHER ARGUMENTS...: the logits of a file from both
answers() {
    teacher=$1
    shift
    outcome=0
    for device in cpu cuda; do
        "$program" logits -q --device "$device" "$teacher" "$@" --force -o "$folder/$device.logits.npz" || outcome=1
    done
    "$program" diff --min-sqnr 100 "$folder/cpu.logits.npz" "$folder/cuda.logits.npz" --json="$folder/diff.json" >"$folder/diff.out" 2>&1 || true
    # the digest of the answers differs where their last digits do
    if ! grep -q '"name": "logits", .*"within": true' "$folder/diff.json" ||
        grep '"within": false' "$folder/diff.json" | grep '"name"' | grep -qv '"name": "digest"'; then
        cat "$folder/diff.out"
        outcome=1
    fi
    say "logits of $(basename "$teacher")" "$outcome"
}

set -- --graph "$digits/digits.layers.txt" --data "$digits/images.npz" --array test_images=train_images --rows 7
evaluated "accuracy cross-entropy teacher divergence" "$folder/pruned.npz" "$digits/digits.npz" "$@" \
    --array y=train_labels
answers "$digits/digits.npz" "$@"

# transformer NAME FIELDS OPTION...: a model of the goldens pruned by half learns from itself; its rows are the golden's
transformer() {
    name=$1 fields=$2
    shift 2
    "$program" prune -q --sparsity 0.5 --min-elements 1 --force "$goldens/$name" -o "$folder/$name"
    outcome=0
    for device in cpu cuda; do
        "$program" distill -q --device "$device" --teacher "$goldens/$name" --student "$folder/$name" --keep-sparsity \
            --data "$goldens/$name.safetensors" --array input_ids=input.input_ids --steps 3 --batch 2 "$@" \
            --log "$folder/$device.log" --json="$folder/$name.json" --force -o "$folder/$name.$device" \
            >"$folder/$device.out" 2>&1 || {
            cat "$folder/$device.out"
            outcome=1
        }
    done
    near "$folder/cpu.log" "$folder/cuda.log" "$fields" && planned "$name" || outcome=1
    say "$name: $(echo "$*" | sed "s|$goldens/||g")" "$outcome"
}

if [ -n "$goldens" ]; then
    transformer bert-mask "loss kd grad_norm" --loss kd --array attention_mask=input.attention_mask
    transformer llama "loss kd grad_norm" --fake-quant bf16 --include '*' --eval "$goldens/llama.safetensors" --eval-every 1 \
        --eval-array input_ids=input.input_ids
    transformer bert-sequence "loss kd grad_norm" --loss mse --accum 2 --batch 1
    transformer bert-mask "loss kd grad_norm" --loss cosine --array attention_mask=input.attention_mask
    transformer llama "loss kd ce grad_norm" --alpha 0.5 --optimizer adamw
    transformer llama-left-mask "loss kd ce grad_norm" --optimizer momentum --recompute sqrt
    for name in llama bert-sequence; do
        evaluated "cross-entropy perplexity teacher divergence" "$folder/$name" "$goldens/$name" \
            --data "$goldens/$name.safetensors" --array input_ids=input.input_ids
    done
    answers "$goldens/bert-sequence" --data "$goldens/bert-sequence.safetensors" --array input_ids=input.input_ids
fi
exit $failed
