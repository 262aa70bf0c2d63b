"""pass_speed.py - time of whole passes over bf16 weights on the CPU and on the device, as a Markdown table: what the model of
`--device auto` (kernels/rates.inc) is filled with.

    pass_speed.py VCOMPRESS [FOLDER] [--device cpu] [--weights MILLIONS] [--seconds 80] [--only q4_k,int8]

FOLDER has room for 4 GiB, best in memory (default: $TMPDIR). --device cpu: no device is asked for. --weights: at most so
many millions (the emulated card, 1). Fast types get more weights than slow ones, and fewer processors than 16 fewer. The least
of three times counts, of fewer where --seconds (default 80) are over; what has not begun then is left out.

Needs nothing but Python. The outputs of both devices are compared byte for byte; exit status 1 where any differ."""
import argparse
import array
import filecmp
import json
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time

ROW = 4096
# name: options, million weights of a pass on 16 processors, output. Most valuable first: the time may be over.
TYPES = {
    "q4_k": (["--gguf", "q4_k"], 403, "gguf"),
    "q3_k": (["--gguf", "q3_k"], 403, "gguf"),
    "iq4_xs": (["--gguf", "iq4_xs"], 201, "gguf"),
    "q6_k": (["--gguf", "q6_k"], 403, "gguf"),
    "int4": (["--int4"], 503, "safetensors"),
    "nvfp4": (["--nvfp4"], 503, "safetensors"),
    "nf4": (["--nf4"], 503, "safetensors"),
    "int8": (["--int8"], 503, "safetensors"),
}


def make(path, millions):
    """Normal bf16 weights of sigma 0.02 in square tensors; at least one, of fewer rows where millions are few. The same 2^20
    weights again and again, which no kernel can tell. Returns their number."""
    rng = random.Random(1)
    raw = array.array("f", (rng.gauss(0, 0.02) for _ in range(1 << 20))).tobytes()
    block = bytearray(len(raw) // 2)
    block[0::2], block[1::2] = raw[2::4], raw[3::4]
    rows = min(ROW, max(256, int(millions * 1e6) // ROW // 256 * 256))
    n = max(1, int(millions * 1e6 / (ROW * rows) + 0.5))
    size = ROW * rows * 2
    header = {"model.layers.%d.mlp.down_proj.weight" % i: {"dtype": "BF16", "shape": [rows, ROW],
                                                          "data_offsets": [i * size, (i + 1) * size]} for i in range(n)}
    text = json.dumps(header).encode()
    with open(path, "wb") as to:
        to.write(struct.pack("<Q", len(text)) + text)
        for _ in range(n * size // len(block)):
            to.write(block)
    return n * ROW * rows


class Bench:
    def __init__(self, program, folder, args):
        self.program, self.folder, self.args = program, folder, args
        self.end = time.perf_counter() + args.seconds
        self.cores = len(os.sched_getaffinity(0))
        self.files = {}

    def input(self, millions):
        millions = min(millions * min(1, self.cores / 16), self.args.weights or millions)
        if millions not in self.files:
            path = os.path.join(self.folder, "w%g.safetensors" % millions)
            self.files[millions] = (path, make(path, millions))
        return self.files[millions]

    def once(self, options, source, output, device):
        """Seconds of the process, its seconds of processors, or None where it fails."""
        command = [self.program, "quantize", *options, "--device", device, "--force", "-q", "-o", output, source]
        begin = time.perf_counter()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if subprocess.run(command).returncode != 0:
            return None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter() - begin, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def best(self, *what):
        runs = [self.once(*what)]
        while runs[-1] is not None and len(runs) < 3 and time.perf_counter() < self.end:
            runs.append(self.once(*what))
        return None if runs[-1] is None else min(runs)

    def chosen(self, options, source, output):
        """What `auto` says of the job, which is not run."""
        done = subprocess.run([self.program, "quantize", *options, "--device", "auto", "-n", "--json", "-o", output, source],
                              stdout=subprocess.PIPE)
        return json.loads(done.stdout)["run"]["device"] if done.returncode == 0 else "failed"

    def row(self, name, options, millions, kind):
        """Prints a row of the table; false where the outputs differ or a run failed."""
        if time.perf_counter() > self.end:
            print("| %s | the time is over |" % name, flush=True)
            return True
        source, n = self.input(millions)
        times = {}
        outputs = []
        for device in ("cpu", "cuda")[:1 if self.args.device == "cpu" else 2]:
            outputs.append(os.path.join(self.folder, "%s.%s" % (device, kind)))
            times[device] = self.best(options, source, outputs[-1], device)
        chosen = self.chosen(options, source, outputs[0])
        auto = self.best(options, source, outputs[0], "auto") if chosen.startswith("cuda") else None
        same = len(outputs) == 2 and None not in times.values() and filecmp.cmp(*outputs, shallow=False)
        cpu, cuda = times["cpu"], times.get("cuda")
        cells = [name, "%.1f" % (n / 1e6)]
        cells += ["failed"] * 3 if cpu is None else ["%.3f" % cpu[0], "%.1f" % (n / 1e6 / cpu[0] / self.cores),
                                                     "%.1f" % (n / 1e6 / cpu[1])]
        cells += ["-"] * 2 if cuda is None else ["%.3f" % cuda[0], "%.0f" % (n / 1e6 / cuda[0])]
        cells += ["card, %.3f" % auto[0] if auto else chosen.split(" ")[0], "-" if len(outputs) < 2 else "yes" if same else "**no**"]
        print("| %s |" % " | ".join(cells), flush=True)
        for output in outputs:
            if os.path.exists(output):
                os.remove(output)
        return same if len(outputs) == 2 else cpu is not None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--weights", type=float, help="millions, at most")
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--only", default=",".join(TYPES))
    args = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        bench = Bench(os.path.abspath(args.program), folder, args)
        print("\nWhole passes over bf16 weights of safetensors, the least of three, %d processors:\n" % bench.cores)
        print("| type | million weights | CPU s | Mw/s/processor | Mw/s of processor time | CUDA s | Mw/s | auto takes, s | same bytes |")
        print("|---|---:|---:|---:|---:|---:|---:|---|---|")
        # What no weights take: process, context and blocks of the card.
        good = bench.row("start", ["--int8"], 1.1, "safetensors")
        for name in args.only.split(","):
            good = bench.row(name, *TYPES[name]) and good
    sys.exit(0 if good else 1)


main()
