"""train_speed.py - time of a distillation step on the CPU and on the device, beside PyTorch's on the same device where
there is one, as a Markdown table: the networks of bench/train_bench_nets.py, float32, Adam.

    train_speed.py --prepare FOLDER                     makes the networks, and lets PyTorch compile them
    train_speed.py [--alone] VCOMPRESS FOLDER           the table; --alone: of the device only, and the least of two
    train_speed.py --trace LIBRARY VCOMPRESS FOLDER     how long each kernel of a step takes (trace_kernels.c)

A step's time is that of many steps less that of one, over their difference; the least of three; PyTorch's is of one run."""
import os
import subprocess
import sys
import time

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
import train_bench_nets as nets  # noqa: E402

NETS = ("cnn", "encoder", "decoder", "lstm")
STEPS = {"cpu": 20, "cuda": 400}
MODES = {net: ("eager",) if net == "lstm" else ("eager", "graph", "compile") for net in NETS}


def seconds(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def distill(program, folder, net, device, steps, before=()):
    return ["env", "-C", os.path.join(folder, net), *before, program, "distill", *nets.OPTIONS[net], "--data", "data.npz",
            "--temperature", "4", "--optimizer", "adam", "--batch", str(nets.BATCH[net]), "--order", "file", "-q", "--force",
            "--device", device, "--steps", str(steps)]


def ours(program, folder, net, device, times):
    few = min(seconds(distill(program, folder, net, device, 1)) for _ in range(times))
    return (min(seconds(distill(program, folder, net, device, STEPS[device] + 1)) for _ in range(times)) - few) / STEPS[device]


def start_peer(folder, net, modes, steps):
    command = [sys.executable, os.path.join(BENCH, "train_bench_torch.py"), os.path.join(folder, net), net, "1", str(steps),
               "cuda", ",".join(modes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def peers(folder, net):
    """Milliseconds of PyTorch's step in each mode, as text; "failed" from the first that fails on."""
    out, err = start_peer(folder, net, MODES[net], STEPS["cuda"]).communicate()
    said = ["%.2f" % (1000 * float(line.split()[1])) for line in out.splitlines()]
    if len(said) != len(MODES[net]):
        sys.stderr.write(err)
    return said + ["failed"] * (len(MODES[net]) - len(said))


def make(folder):
    for net in NETS:
        if not os.path.isdir(os.path.join(folder, net)):
            os.makedirs(os.path.join(folder, net))
            nets.make(net, os.path.join(folder, net))


def prepare(folder):
    make(folder)
    started = [start_peer(folder, net, MODES[net], 10) for net in NETS]
    for p in started:
        out, err = p.communicate()
        print(out, err[-300:] if p.returncode else "")
    return max(p.returncode for p in started)


def main():
    if sys.argv[1] == "--prepare":
        sys.exit(prepare(sys.argv[2]))
    if sys.argv[1] == "--trace":
        library, program, folder = sys.argv[2], os.path.abspath(sys.argv[3]), sys.argv[4]
        for net in NETS:
            table = os.path.join(folder, net + ".md")
            subprocess.run(distill(program, folder, net, "cuda", 101, (
                "CUDA_INJECTION64_PATH=" + library, "TRACE_KERNELS=" + table, "TRACE_ROWS=24")), check=True)
            with open(table) as f:
                print("%s, 101 steps: %s" % (net, f.read()), flush=True)
        return
    alone = sys.argv[1] == "--alone"
    program, folder = os.path.abspath(sys.argv[1 + alone]), sys.argv[2 + alone]
    make(folder)
    print("ms for each step, batches of %s:\n" % ", ".join("%d (%s)" % (nets.BATCH[net], net) for net in NETS))
    print("| network | vcompress, CUDA | vcompress, %d processors | PyTorch, eager | CUDA graph by hand | compiled |\n"
          "|---|---:|---:|---:|---:|---:|" % len(os.sched_getaffinity(0)))
    for net in NETS:
        cells = ["%.2f" % (1000 * ours(program, folder, net, "cuda", 2 if alone else 3))]
        if not alone:
            cells += ["%.2f" % (1000 * ours(program, folder, net, "cpu", 1))] + peers(folder, net)
        print("| %s | %s |" % (net, " | ".join(cells)), flush=True)


main()
