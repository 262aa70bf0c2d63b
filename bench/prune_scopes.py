#!/usr/bin/env python3
"""prune_scopes.py - what each way to share out zeros costs: prune --sparsity by --scope tensor, --scope global, --score lamp.

usage: prune_scopes.py VCOMPRESS FOLDER [--nets cnn,encoder,decoder] [--seeds N] [--sparsity 0.5,0.7,0.8,0.9] [--steps N]
                       [--forms tensor,global,lamp] [--lr RATE]

cnn      the convolutional network of examples/digits, as it is there (one seed); its share of right answers
encoder  a BERT of 2 layers, 64 wide: says of 64 bytes whether they are C, Python, Markdown, shell or CMake
decoder  a Llama of 2 layers, 48 wide: the next byte, in windows of 32, of this repository's documents; perplexity, and the share of bytes
         that it gives the highest logit

Encoder and decoder are those of examples/text_nets.py, trained once for each seed; FOLDER keeps what was trained. Then
VCOMPRESS prunes, evaluates, distils from the unpruned network for --steps steps of 32 rows (the digits: of 64) with the
zeros held, and evaluates again. Prints a line of Markdown per network, seed and sparsity.
"""
import argparse
import json
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "examples"))
import text_nets  # noqa: E402

WAYS = {"tensor": ["--scope", "tensor"], "global": ["--scope", "global"], "lamp": ["--score", "lamp"]}


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
                at = text_nets.make(net, os.path.join(options.folder, "%s.%d" % (net, seed)), seed, options.train_steps)
                judge = Judge(program, net, at, [], ["--data", at + "/learn.npz"], ["--data", at + "/judge.npz"],
                              ["--batch", "32", "--lr", options.lr, "--optimizer", "adam"])
            if options.sparsity:
                print("| %s %d | 0 | %s |" % (net, seed, " | ".join([judge.figure(judge.model)] * len(ways))), flush=True)
            for sparsity in filter(None, options.sparsity.split(",")):
                judge.row(seed, sparsity, ways, options.folder, options.steps)


if __name__ == "__main__":
    main()
