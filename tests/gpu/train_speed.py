"""train_speed.py - time of a distillation step on the CPU and on the device, beside PyTorch's on the same device where
there is one, as a Markdown table: the networks of bench/train_bench_nets.py, float32, Adam.

    train_speed.py VCOMPRESS

A step's time is that of many steps less that of one, over their difference; the least of three."""
import os
import subprocess
import sys
import tempfile
import time

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
import train_bench_nets as nets  # noqa: E402

STEPS = {"cpu": 40, "cuda": 400}


def seconds(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def ours(program, folder, net, device):
    command = ["env", "-C", folder, program, "distill", *nets.OPTIONS[net], "--data", "data.npz", "--temperature", "4",
               "--optimizer", "adam", "--batch", str(nets.BATCH[net]), "--order", "file", "-q", "--force", "--device", device]
    few = min(seconds(command + ["--steps", "1"]) for _ in range(3))
    return (min(seconds(command + ["--steps", str(STEPS[device] + 1)]) for _ in range(3)) - few) / STEPS[device]


def torchs(folder, net):
    command = [sys.executable, os.path.join(BENCH, "train_bench_torch.py"), folder, net, "1", str(STEPS["cuda"]), "cuda"]
    said = [subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.split() for _ in range(3)]
    return min((float(s[1]) for s in said if len(s) == 3), default=None)


def main():
    program = os.path.abspath(sys.argv[1])
    print("\nms per step of distillation, batches of %s:\n" % ", ".join("%d (%s)" % (n, k) for k, n in nets.BATCH.items()))
    print("| network | vcompress, %d processors | vcompress, CUDA | PyTorch, CUDA |\n|---|---:|---:|---:|" %
          len(os.sched_getaffinity(0)))
    for net in nets.BATCH:
        with tempfile.TemporaryDirectory() as folder:
            nets.make(net, folder)
            peer = torchs(folder, net)
            print("| %s | %.2f | %.2f | %s |" % (net, 1000 * ours(program, folder, net, "cpu"),
                                                 1000 * ours(program, folder, net, "cuda"),
                                                 "none" if peer is None else "%.2f" % (1000 * peer)), flush=True)


main()
