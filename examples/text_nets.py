#!/usr/bin/env python3
"""text_nets.py - trains a small Llama or BERT on the files of this repository, in minutes: folders of Hugging Face to try the passes on.

usage: text_nets.py decoder|encoder FOLDER [--seed N] [--steps N] [--wide N] [--layers N] [--length N]

decoder  a Llama that says the next byte, in windows of the documents (*.md)
encoder  a BERT that says of a window whether it is C, Python, Markdown, shell or CMake

Needs PyTorch and transformers 5, one thread. FOLDER gets config.json, model.safetensors, and rows: learn.npz is what the network was
trained on, judge.npz are windows of files (encoder) or of parts of files (decoder) that the training does not see.

    text_nets.py decoder net/
    vcompress quantize --int4 net/ -o net-int4/
    vcompress evaluate --data net/judge.npz net-int4/        # perplexity
"""
import argparse
import os
import subprocess
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORDS = 128  # bytes above are token 1
LENGTH = {"encoder": 64, "decoder": 32}
KINDS = [("c", (".c", ".h")), ("python", (".py",)), ("markdown", (".md",)), ("shell", (".sh",)), ("cmake", (".cmake", "CMakeLists.txt"))]


def texts(ends):
    """The text files with such an end, in the order of their names."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], check=True, stdout=subprocess.PIPE).stdout.decode().split("\n")
    found = []
    for name in sorted(listed):
        if name.endswith(ends):
            with open(os.path.join(ROOT, name), "rb") as f:
                found.append(f.read())
    return found


def as_tokens(text):
    tokens = np.frombuffer(text, np.uint8).astype(np.int64)
    return np.where(tokens < WORDS, tokens, 1)


def windows(rng, files, n, length):
    """n windows from places drawn by chance."""
    joined = as_tokens(b"\n".join(files))
    starts = rng.integers(0, len(joined) - length, n)
    return joined[starts[:, None] + np.arange(length)]


def encoder_rows(rng, length):
    learn, judge = [], []
    for kind, (_, ends) in enumerate(KINDS):
        files = texts(ends)
        held = files[::5]
        kept = [f for k, f in enumerate(files) if k % 5]
        learn.append((windows(rng, kept, 4000, length), np.full(4000, kind)))
        judge.append((windows(rng, held, 400, length), np.full(400, kind)))
    rows = []
    for part in (learn, judge):
        x, y = (np.concatenate(a) for a in zip(*part))
        order = rng.permutation(len(x))
        rows.append((x[order], y[order]))
    return rows


def decoder_rows(rng, length):
    parts = [t[k * len(t) // 5:(k + 1) * len(t) // 5] for t in texts((".md",)) for k in range(5)]
    judge = windows(rng, parts[2::5], 500, length)
    learn = windows(rng, [p for k, p in enumerate(parts) if k % 5 != 2], 20000, length)
    return [(learn, None), (judge, None)]


def encoder_net(wide, layers, length):
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig(
        vocab_size=WORDS, hidden_size=wide, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=4 * wide,
        max_position_embeddings=length, num_labels=len(KINDS), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def decoder_net(wide, layers, length):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=wide, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=4,
        intermediate_size=3 * wide // 64 * 64, max_position_embeddings=length, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2))


def train(net, rows, folder, steps, most):
    """Adam with a rate that rises to `most` for a tenth of the steps and then falls to 0; the folder gets model and rows."""
    import torch

    torch.set_num_threads(1)
    (x, y), (judge_x, judge_y) = rows
    optimizer = torch.optim.AdamW(net.parameters(), lr=most, weight_decay=0.01)
    rng = np.random.default_rng(7)
    net.train()
    for step in range(steps):
        rate = min(1.0, (step + 1) / (0.1 * steps)) * (1 - step / steps)
        for group in optimizer.param_groups:
            group["lr"] = most * rate
        at = rng.integers(0, len(x), 32)
        tokens = torch.from_numpy(x[at])
        loss = net(input_ids=tokens, labels=tokens if y is None else torch.from_numpy(y[at])).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0 or step == steps - 1:
            print("  step %d: loss %.3f" % (step, loss.item()), file=sys.stderr, flush=True)
    net.save_pretrained(folder)
    for name, (a, b) in (("learn", (x, y)), ("judge", (judge_x, judge_y))):
        np.savez(os.path.join(folder, name + ".npz"), **({"input_ids": a} if b is None else {"input_ids": a, "y": b}))


def make(net, folder, seed=0, steps=1500, wide=None, layers=2, length=None):
    """The folder of the trained network, which is made if it is not there."""
    if not os.path.exists(os.path.join(folder, "judge.npz")):
        import torch

        torch.manual_seed(seed)
        rng = np.random.default_rng(100 + seed)
        wide, length = wide or {"encoder": 64, "decoder": 48}[net], length or LENGTH[net]
        rows, of = (encoder_rows, encoder_net) if net == "encoder" else (decoder_rows, decoder_net)
        made = rows(rng, length)
        train(of(wide, layers, length), made, folder, steps, 2e-3 * min(1.0, 64 / wide))
    return folder


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("net", choices=("decoder", "encoder"))
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--wide", type=int)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--length", type=int)
    options = parser.parse_args()
    make(options.net, options.folder, options.seed, options.steps, options.wide, options.layers, options.length)


if __name__ == "__main__":
    main()
