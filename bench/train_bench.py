#!/usr/bin/env python3
"""train_bench.py - time of a distillation step against PyTorch's: a CNN, an encoder, a decoder, an LSTM, a GRU; float32, Adam.

usage: train_bench.py VCOMPRESS --peer COMMAND [--peer COMMAND ...] [--nets cnn,encoder,decoder,lstm,gru] [--threads 1,2] [--rounds N]

COMMAND runs a Python that has torch: /usr/bin/python3, or 'env LD_LIBRARY_PATH=DIR /usr/bin/python3' with another BLAS, or
'env OMP_WAIT_POLICY=passive /usr/bin/python3', whose threads do not spin while they wait for each other. The networks, in train_bench_nets.py, have a teacher of the same shape. All programs read the same rows and weights and take
turns; what they say of the first step's loss must agree. A step's time is that of STEPS steps without the beginning.
PyTorch is told to keep memory that it frees (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_), which makes it faster. Of
several peers the one with the least median is the one to compare with; the ratio is taken within a round.
"""
import argparse
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time

import train_bench_nets as nets

STEPS = {"cnn": 100, "encoder": 20, "decoder": 20, "lstm": 20, "gru": 20}


def run(command, env=None):
    """CPU and wall seconds of a process, and what it printed."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env).stdout.decode()
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, said


def ours(program, folder, net, threads):
    """CPU and wall seconds of a step, and the loss of the first one."""
    command = ["env", "-C", os.path.join(folder, net), program, "distill", *nets.OPTIONS[net], "--data", "data.npz", "--temperature",
               "4", "--optimizer", "adam", "--batch", str(nets.BATCH[net]), "--order", "file", "--threads", str(threads), "-q",
               "--force", "--log", "log"]
    few, many = run(command + ["--steps", "1"]), run(command + ["--steps", str(STEPS[net] + 1)])
    with open(os.path.join(folder, net, "log")) as f:
        loss = json.loads(f.readline())["loss"]
    return (many[0] - few[0]) / STEPS[net], (many[1] - few[1]) / STEPS[net], loss


def peers(command, folder, net, threads):
    env = dict(os.environ, MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="8589934592", OMP_NUM_THREADS=str(threads))
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train_bench_torch.py")
    said = run(shlex.split(command) + [script, os.path.join(folder, net), net, str(threads), str(STEPS[net])], env)[2]
    return tuple(float(x) for x in said.split())


def spread(values):
    return "%.2f (%.2f to %.2f)" % (statistics.median(values), min(values), max(values))


def summary(net, threads, rounds):
    """rounds: of each a list of (CPU, wall, loss), ours first."""
    for at, what in ((0, "CPU"), (1, "wall")):
        best = min(range(1, len(rounds[0])), key=lambda k: statistics.median(r[k][at] for r in rounds))
        print("%s, %d thread%s, %s: %s ms per step, %.0f rows/s; peer %d %s ms; peer / vcompress %s" %
              (net, threads, "s" if threads > 1 else "", what, spread([1000 * r[0][at] for r in rounds]),
               nets.BATCH[net] / statistics.median(r[0][at] for r in rounds), best, spread([1000 * r[best][at] for r in rounds]),
               spread([r[best][at] / r[0][at] for r in rounds])), flush=True)


def main():
    say = argparse.ArgumentParser()
    say.add_argument("program")
    say.add_argument("--peer", action="append", required=True)
    say.add_argument("--nets", default="cnn,encoder,decoder,lstm,gru")
    say.add_argument("--threads", default="1,2")
    say.add_argument("--rounds", type=int, default=5)
    args = say.parse_args()
    program, folder = os.path.abspath(args.program), tempfile.mkdtemp(prefix="vcompress-bench-")
    threads = [int(n) for n in args.threads.split(",")]
    for k, command in enumerate(args.peer):
        print("peer %d: %s" % (k + 1, command))
    try:
        for net in args.nets.split(","):
            os.mkdir(os.path.join(folder, net))
            nets.make(net, os.path.join(folder, net))
            found = {n: [] for n in threads}
            for _ in range(args.rounds):
                for n in threads:
                    row = [ours(program, folder, net, n)] + [peers(p, folder, net, n) for p in args.peer]
                    found[n].append(row)
                    print("%s, %d thread(s): ms per step, CPU (wall): vcompress %s" %
                          (net, n, "; ".join("%.1f (%.1f)" % (1000 * r[0], 1000 * r[1]) for r in row)), flush=True)
                    for r in row[1:]:
                        if abs(r[2] - row[0][2]) > 1e-3 * abs(r[2]):
                            raise SystemExit("%s: the first loss is %r here and %r there" % (net, row[0][2], r[2]))
            for n in threads:
                summary(net, n, found[n])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("load %.1f, %d processors" % (os.getloadavg()[0], len(os.sched_getaffinity(0))))


main()
