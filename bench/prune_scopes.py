#!/usr/bin/env python3
"""prune_scopes.py - what each way to share out zeros costs: prune --sparsity by --scope tensor, --scope global, --score lamp.

usage: prune_scopes.py VCOMPRESS FOLDER [--nets cnn,encoder,decoder] [--seeds N] [--sparsity 0.5,0.7,0.8,0.9] [--steps N]
                       [--forms tensor,global,lamp] [--lr RATE]

cnn      the convolutional network of examples/digits, as it is there (one seed); its share of right answers
encoder  a BERT of 2 layers, 64 wide: says of 64 bytes whether they are C, Python, Markdown, shell or CMake
decoder  a Llama of 2 layers, 48 wide: the next byte, in windows of 32, of this repository's documents; perplexity, and the share of bytes
         that it gives the highest logit

Encoder and decoder are trained here with PyTorch (transformers 5 makes the networks), once for each seed, from files of this
repository; rows to judge by are of files (encoder) or of parts of files (decoder) that the training does not see. FOLDER keeps
what was trained. Then VCOMPRESS prunes, evaluates, distils from the unpruned network for --steps steps of 32 rows (the
digits: of 64) with the zeros held, and evaluates again. Prints a line of Markdown per network, seed and sparsity.
"""
import argparse
import json
import math
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WORDS, LAYERS, HEADS = 128, 2, 4
WIDE = {"encoder": 64, "decoder": 48}
LENGTH = {"encoder": 64, "decoder": 32}
KINDS = [("c", (".c", ".h")), ("python", (".py",)), ("markdown", (".md",)), ("shell", (".sh",)), ("cmake", (".cmake", "CMakeLists.txt"))]
WAYS = {"tensor": ["--scope", "tensor"], "global": ["--scope", "global"], "lamp": ["--score", "lamp"]}


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


def encoder_rows(rng):
    learn, judge = [], []
    for kind, (_, ends) in enumerate(KINDS):
        files = texts(ends)
        held = files[::5]
        kept = [f for k, f in enumerate(files) if k % 5]
        learn.append((windows(rng, kept, 4000, LENGTH["encoder"]), np.full(4000, kind)))
        judge.append((windows(rng, held, 400, LENGTH["encoder"]), np.full(400, kind)))
    rows = []
    for part in (learn, judge):
        x, y = (np.concatenate(a) for a in zip(*part))
        order = rng.permutation(len(x))
        rows.append((x[order], y[order]))
    return rows


def decoder_rows(rng):
    parts = [t[k * len(t) // 5:(k + 1) * len(t) // 5] for t in texts((".md",)) for k in range(5)]
    judge = windows(rng, parts[2::5], 500, LENGTH["decoder"])
    learn = windows(rng, [p for k, p in enumerate(parts) if k % 5 != 2], 20000, LENGTH["decoder"])
    return [(learn, None), (judge, None)]


def encoder_net():
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig(
        vocab_size=WORDS, hidden_size=WIDE["encoder"], num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=4 * WIDE["encoder"],
        max_position_embeddings=LENGTH["encoder"], num_labels=len(KINDS), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def decoder_net():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDE["decoder"], num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS,
        intermediate_size=128, max_position_embeddings=LENGTH["decoder"], tie_word_embeddings=False, bos_token_id=1, eos_token_id=2))


def train(net, rows, folder, steps):
    """Adam with a rate that rises for a tenth of the steps and then falls to 0; the folder gets model and rows."""
    import torch

    torch.set_num_threads(1)
    (x, y), (judge_x, judge_y) = rows
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01)
    rng = np.random.default_rng(7)
    net.train()
    for step in range(steps):
        rate = min(1.0, (step + 1) / (0.1 * steps)) * (1 - step / steps)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * rate
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


def made(net, seed, folder, steps):
    """The folder of the trained network."""
    at = os.path.join(folder, "%s.%d" % (net, seed))
    if not os.path.exists(os.path.join(at, "judge.npz")):
        import torch

        torch.manual_seed(seed)
        rng = np.random.default_rng(100 + seed)
        rows, made_net = (encoder_rows(rng), encoder_net()) if net == "encoder" else (decoder_rows(rng), decoder_net())
        train(made_net, rows, at, steps)
    return at


class Judge:
    """One network: its model and the options that evaluate and distill take."""

    def __init__(self, program, net, model, graph, learn, judge, recover):
        self.program, self.net, self.model = program, net, model
        self.graph, self.learn, self.judge, self.recover = graph, learn, judge, recover

    def run(self, *args):
        done = subprocess.run([self.program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit("%s: %s" % (" ".join(args), done.stderr.decode().strip()))
        return done.stdout.decode()

    def figure(self, model):
        """What `evaluate` says of the rows to judge by, in a cell."""
        quality = json.loads(self.run("evaluate", "--json", *self.graph, *self.judge, model))["quality"]
        more = " (perplexity %.3g)" % math.exp(quality["cross_entropy"]) if self.net == "decoder" else ""
        return "%.2f %%%s" % (100 * quality["accuracy"], more)

    def row(self, seed, sparsity, ways, folder, steps):
        cells = []
        for way in ways:
            pruned = os.path.join(folder, "pruned" + os.path.splitext(self.model)[1])
            tuned = os.path.join(folder, "tuned" + os.path.splitext(self.model)[1])
            self.run("prune", "--sparsity", sparsity, *WAYS[way], "-q", "-f", self.model, "-o", pruned)
            before = self.figure(pruned)
            self.run("distill", *self.graph, *self.learn, *self.recover, "--teacher", self.model, "--student", pruned, "--seed",
                     str(seed), "--keep-sparsity", "--steps", str(steps), "-q", "-f", "-o", tuned)
            cells.append("%s, then %s" % (before, self.figure(tuned)))
        print("| %s %d | %s | %s |" % (self.net, seed, sparsity, " | ".join(cells)), flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--nets", default="cnn,encoder,decoder")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sparsity", default="0.5,0.7,0.8,0.9")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--train-steps", type=int, default=1500)
    parser.add_argument("--lr", default="0.001", help="of encoder and decoder while they recover")
    parser.add_argument("--forms", default=",".join(WAYS))
    options = parser.parse_args()
    program, ways = os.path.abspath(options.program), options.forms.split(",")
    os.makedirs(options.folder, exist_ok=True)
    print("| network, seed | sparsity | %s |\n|---|---|%s" % (" | ".join(ways), "---|" * len(ways)), flush=True)
    for net in options.nets.split(","):
        for seed in range(options.seeds):
            if net == "cnn":
                digits = os.path.join(ROOT, "examples", "digits") + "/"
                judge = Judge(program, net, digits + "digits.npz", ["--graph", digits + "digits.layers.txt"],
                              ["--data", digits + "images.npz", "--array", "test_images=train_images"],
                              ["--data", digits + "images.npz", "--array", "y=test_labels"],
                              ["--batch", "64", "--lr", "0.003", "--optimizer", "adam"])
            else:
                at = made(net, seed, options.folder, options.train_steps)
                judge = Judge(program, net, at, [], ["--data", at + "/learn.npz"], ["--data", at + "/judge.npz"],
                              ["--batch", "32", "--lr", options.lr, "--optimizer", "adam"])
            if options.sparsity:
                print("| %s %d | 0 | %s |" % (net, seed, " | ".join([judge.figure(judge.model)] * len(ways))), flush=True)
            for sparsity in filter(None, options.sparsity.split(",")):
                judge.row(seed, sparsity, ways, options.folder, options.steps)


if __name__ == "__main__":
    main()
