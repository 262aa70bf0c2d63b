#!/usr/bin/env python3
"""train_bench.py - CPU time of a distillation step against PyTorch's, SimpleCNN from 64 rows, float32, Adam.

usage: train_bench.py VCOMPRESS TORCH_PYTHON [ROUNDS]

The network: convolutions of 16 and 32 filters of 3 x 3, each with Relu and a pool of 2 x 2, then 128 and 10 units; the
teacher is another one of the same shape. Both programs read the same rows and weights and take turns, with one thread each.
A step's time is that of STEPS steps without the beginning, user and system; the ratio is taken within a round. PyTorch is told to
keep memory that it frees (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_), which makes it faster.
"""
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = 100
GRAPH = """input x [batch, 1, 28, 28]
conv conv1 16 kernel=3 pad=1
relu
maxpool kernel=2
conv conv2 32 kernel=3 pad=1
relu
maxpool kernel=2
flatten
linear fc1 128
relu
linear fc2 10
"""


def torch_steps(folder):
    """In TORCH_PYTHON: prints the CPU seconds and the wall seconds of STEPS steps."""
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    def network(name):
        layers = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                               nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                               nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(inplace=True), nn.Linear(128, 10))
        with np.load(os.path.join(folder, name)) as f, torch.no_grad():
            for layer, of in zip((0, 3, 7, 9), ("conv1", "conv2", "fc1", "fc2")):
                layers[layer].weight.copy_(torch.from_numpy(f[of + ".weight"]))
                layers[layer].bias.copy_(torch.from_numpy(f[of + ".bias"]))
        return layers

    torch.set_num_threads(1)
    teacher, student = network("t.npz"), network("s.npz")
    rows = torch.from_numpy(np.load(os.path.join(folder, "x.npz"))["x"])
    adam = torch.optim.Adam(student.parameters(), lr=1e-3)

    def step(k):
        x = rows[k * 64 % len(rows):][:64]
        with torch.no_grad():
            p = F.softmax(teacher(x) / 4, 1)
        loss = F.kl_div(F.log_softmax(student(x) / 4, 1), p, reduction="batchmean") * 16
        adam.zero_grad()
        loss.backward()
        adam.step()

    for k in range(10):
        step(k)
    cpu, wall = time.process_time(), time.perf_counter()
    for k in range(STEPS):
        step(k)
    print(time.process_time() - cpu, time.perf_counter() - wall)


def make(folder):
    import numpy as np
    random = np.random.default_rng(1)
    np.savez(os.path.join(folder, "x.npz"), x=random.standard_normal((6400, 1, 28, 28)).astype("f4"))
    shapes = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "fc1": (128, 1568), "fc2": (10, 128)}
    for name in ("t.npz", "s.npz"):
        tensors = {}
        for layer, shape in shapes.items():
            tensors[layer + ".weight"] = (random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype("f4")
            tensors[layer + ".bias"] = np.zeros(shape[0], "f4")
        np.savez(os.path.join(folder, name), **tensors)
    with open(os.path.join(folder, "net.txt"), "w") as f:
        f.write(GRAPH)


def seconds(command, env=None):
    """CPU and wall seconds of a process, and what it printed."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env).stdout.decode()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - wall, said)


def ours(program, folder, threads):
    command = [program, "distill", "--graph", "net.txt", "--teacher", "t.npz", "--student", "s.npz", "--data", "x.npz",
               "--optimizer", "adam", "--order", "file", "--threads", str(threads), "-q", "--force", "-o", "o.npz"]
    command = ["env", "-C", folder] + command
    few, many = seconds(command + ["--steps", "1"]), seconds(command + ["--steps", str(STEPS + 1)])
    return many[0] - few[0], many[1] - few[1]


def main():
    if sys.argv[1] == "--torch":
        torch_steps(sys.argv[2])
        return
    program, python = os.path.abspath(sys.argv[1]), sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    env = dict(os.environ, MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="8589934592")
    folder = tempfile.mkdtemp(prefix="vcompress-bench-")
    pairs = []
    try:
        make(folder)
        for _ in range(rounds):
            a, two = ours(program, folder, 1), ours(program, folder, 2)
            b = [float(x) for x in seconds([python, os.path.abspath(__file__), "--torch", folder], env)[2].split()]
            pairs.append((a, two, b))
            print("ms per step, CPU (wall): 1 thread %.2f (%.2f), 2 threads %.2f (%.2f); torch, 1 thread %.2f (%.2f)" %
                  tuple(1000 * x / STEPS for x in (*a, *two, *b)), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for at, what in ((0, "CPU"), (1, "wall")):
        ratios = sorted(p[2][at] / p[0][at] for p in pairs)
        print("torch / vcompress, one thread, %s: %.2f (%.2f to %.2f)" %
              (what, statistics.median(ratios), ratios[0], ratios[-1]))
    print("load %.1f, %d processors" % (os.getloadavg()[0], len(os.sched_getaffinity(0))))


main()
