#!/usr/bin/env python3
"""train_launches.py VCOMPRESS: what a training step asks of the device, counted from the emulated card's log
(VCOMPRESS_BACKEND_PATH): launches (of graphs, too), kernels and products of
cuBLAS in them, copies, and waits of the host. The networks of
bench/train_bench_nets.py, narrower and with shorter rows, which asks for the same work; a step is what lies between two norms of
gradients. Bounded, too: how many loads a kernel makes one after the other (VC_CUDA_CHAIN), which depends on those sizes.
Exit 77 without NumPy."""
import collections
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
try:
    import train_bench_nets as nets
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)

# launches, kernels in graphs and outside, waits of the host, copies up, copies down, loads in a row
BOUNDS = {"cnn": (7, 55, 1, 4, 1, 256), "encoder": (7, 204, 1, 10, 1, 256), "decoder": (7, 180, 1, 8, 1, 256)}


def log(program, net, folder):
    name = os.path.join(folder, "log")
    subprocess.run([os.path.abspath(program), "distill", *nets.OPTIONS[net], "--data", "data.npz", "--temperature", "4",
                    "--optimizer", "adam", "--batch", str(nets.BATCH[net]), "--order", "file", "-q", "--force", "--device", "cuda",
                    "--lr", "1e-6", "--threads", "1", "--steps", "3"],
                   cwd=folder, check=True, env=dict(os.environ, VC_EMU_LOG=name, VC_EMU_EAGER="1"))
    with open(name) as lines:
        return [line.split() for line in lines]


def main():
    failed = 0
    nets.WORDS, nets.WIDE, nets.LENGTH, nets.ROWS, nets.SIDE = 64, 32, 8, 64, 8
    for config in (nets.BERT, nets.LLAMA):
        config.update(vocab_size=nets.WORDS, hidden_size=nets.WIDE, max_position_embeddings=nets.LENGTH)
    for net, bounds in BOUNDS.items():
        with tempfile.TemporaryDirectory() as folder:
            nets.make(net, folder)
            lines = log(sys.argv[1], net, folder)
        norms = [k for k, line in enumerate(lines) if line[:2] == ["launch", "measure_kernel"]]
        step = collections.Counter((line[0], line[1]) for line in lines[norms[1]:norms[2]])
        chain = max((int(line[2]), line[1]) for line in lines if line[0] == "chain")
        launches = sum(n for key, n in step.items() if key[0] == "launch")
        kernels = sum(n for key, n in step.items() if key[0] in ("launch", "node")) - step[("launch", "graph")]
        products = sum(n for key, n in step.items() if key[0] in ("launch", "node") and "cublas" in key[1])
        waits = sum(n for key, n in step.items() if key[0] == "wait")
        seen = (launches, kernels, waits, step[("copy", "up")], step[("copy", "down")], chain[0])
        bad = any(a > b for a, b in zip(seen, bounds))
        failed |= bad
        print("%s: %d launches (%d graphs) of %d kernels (%d products), %d waits, %d copies up, %d down, %d loads in a row at most (%s)%s" %
              (net, launches, step[("launch", "graph")], kernels, products, waits, seen[3], seen[4], *chain, "; FAILED: %s are the most" % (bounds,) if bad else ""))
        if "-v" in sys.argv:
            print(sorted(step.items(), key=lambda item: -item[1]))
    return failed


sys.exit(main())
