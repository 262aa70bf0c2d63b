#!/usr/bin/env python3
"""scheme_errors.py - what each scheme changes of the answers of a network, without and with statistics of its inputs.

usage: scheme_errors.py VCOMPRESS FOLDER [--nets decoder,encoder] [--wide N] [--steps N] [--seed N] [--rows N]

The networks are those of examples/text_nets.py, 256 wide, so that blocks of 256 fit; FOLDER keeps what was trained. Each scheme is
applied to the folder (codes with --layout plain --rest fp16), as it is and with second moments of --rows windows of the training
data, and evaluated on windows that neither training nor statistics saw. Prints a line of Markdown per network and scheme:

    bits        of the output per weight, all tensors together
    same        the share of positions (encoder: windows) with the answer of the network as it was
    divergence  of the answers from those of the network as it was (Kullback-Leibler, nats)
    perplexity  of the decoder
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

SCHEMES = ["--fp16", "--bf16", "--int8", "--scheme int6", "--scheme int5", "--int4", "--int4 --asymmetric", "--int4 --granularity group:32", "--int3", "--int2",
           "--scheme ternary", "--fp8", "--mxfp8", "--nvfp4", "--mxfp4", "--nf4", "--fp4"]
BLOCKS = ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS", "Q3_K_M", "Q2_K"]


def run(*args):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(args), done.stderr.decode().strip()))
    return done.stdout.decode()


def size(path):
    """Bytes of a model, which may be a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(path, n)) for n in os.listdir(path) if n.endswith(".safetensors"))


class Net:
    def __init__(self, program, net, folder):
        self.program, self.net, self.folder = program, net, folder

    def cells(self, made):
        quality = json.loads(run(self.program, "evaluate", "--json", "--temperature", "1", "--teacher", self.folder, "--data",
                                 self.folder + "/judge.npz", made))["quality"]
        cells = ["%.2f %%" % (100 * quality["agreement"]), "%.2g" % quality["divergence"]]
        return cells + (["%.3f" % math.exp(quality["cross_entropy"])] if self.net == "decoder" else [])

    def row(self, options, out, statistics, n_weights):
        cells = []
        for more in ([], ["--calibration", statistics]):
            if more and options.split()[0] in ("--fp16", "--bf16", "--int8"):  # which statistics do not change
                cells += ["", "", ""][:len(cells) - 1]
                continue
            run(self.program, "quantize", *options.split(), *more, "-q", "-f", self.folder, "-o", out)
            cells += [] if more else ["%.2f" % (8 * size(out) / n_weights)]
            cells += self.cells(out)
        print("| `%s` | %s |" % (options.partition(" --layout")[0].replace(" --no-vocab", ""), " | ".join(cells)), flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--nets", default="decoder,encoder")
    parser.add_argument("--wide", type=int, default=256)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", default="512")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    for net in options.nets.split(","):
        at = text_nets.make(net, os.path.join(options.folder, net), options.seed, options.steps, options.wide)
        judged = Net(program, net, at)
        statistics = os.path.join(options.folder, net + ".stats.npz")
        run(program, "calibrate", "--second-moments", "--rows", options.rows, "--data", at + "/learn.npz", "-f", "-q", at, "-o", statistics)
        names = ["same", "divergence"] + ["perplexity"] * (net == "decoder")
        print("\n| %s, 32 bits: %s | bits | %s |\n|---|---|%s" %
              (net, ", ".join(judged.cells(at)), " | ".join(names + [n + " with statistics" for n in names]), "---|" * 2 * len(names)), flush=True)
        n_weights = size(at) / 4
        for scheme in SCHEMES:
            more = "" if "16" in scheme else " --layout plain --rest fp16"
            judged.row(scheme + more, os.path.join(options.folder, "out") + "/", statistics, n_weights)
        for blocks in BLOCKS if net == "decoder" else []:
            judged.row("--gguf %s --no-vocab" % blocks, os.path.join(options.folder, "out.gguf"), statistics, n_weights)


if __name__ == "__main__":
    main()
