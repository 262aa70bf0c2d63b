#!/usr/bin/env python3
"""bench.py - how fast vcompress is, as ratios. Method and goals: docs/performance.md.

usage: bench.py VCOMPRESS [--dir /dev/shm/vcompress-bench] [--rounds 7] [--only REGEX] [--wait] [--keep]

Every group of commands runs round robin (A B C, A B C, ...): a warm-up round that does not count, then --rounds of
them. What is printed is the median over the rounds of the ratio to another command in the same round, so that a slow
moment of the machine slows both. Wall time, user and system time and peak memory are GNU time's. The output is removed
before each run; input and output lie in a RAM disk. Memory that nobody used for a while is touched before each run: a
virtual machine may have given it back to its host, and whoever gets it first would pay for that. "others" is how much of the processors somebody else used
meanwhile; with --wait a round in which that was more than a tenth is repeated, up to five times the rounds.
Groups: stored, safetensors, gguf, searched, pruning, removal, deflated-in, deflated-out, memory, start. The deflated groups take minutes
(NumPy's share). Needs python3 with NumPy and GNU time (/usr/bin/time); torch with safetensors (--torch-python) and llama-quantize
(--llama-quantize) are compared where they are given.
"""
import argparse
import mmap
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TIME = "/usr/bin/time"
OUTPUTS = ["out.npz", "out.safetensors", "out.gguf", "between.npz"]
WARM_BYTES = 3 << 30  # more than any of the jobs takes, output included


def busy_ticks():
    """Time that the processors of the machine spent on anything, in clock ticks."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return sum(v) - v[3] - v[4]


def warm_memory():
    """Has the kernel (and below it the host) find and clear that much memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0x8000)
    mmap.mmap(-1, WARM_BYTES, flags=flags).close()


class Run:
    """One timed process."""

    def __init__(self, command, log):
        before = busy_ticks()
        start = time.perf_counter()
        self.code = subprocess.call([TIME, "-o", log, "-f", "%U %S %M"] + command, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        self.wall = time.perf_counter() - start
        with open(log) as f:
            user, system, rss = f.read().split()[-3:]
        self.user, self.system, self.rss_mib = float(user), float(system), int(rss) / 1024
        busy = (busy_ticks() - before) / os.sysconf("SC_CLK_TCK")
        self.others = max(0.0, busy - self.user - self.system) / (self.wall * os.cpu_count())


class Bench:
    def __init__(self, args):
        self.args = args
        self.program = os.path.abspath(args.program)
        self.results = []

    def path(self, name):
        return os.path.join(self.args.dir, name)

    def quantize(self, source, *options):
        return self.write("quantize", source, *options)

    def write(self, command, source, *options):
        kind = os.path.splitext(source)[1]
        return [self.program, command, *options, "-q", "--force", self.path(source), "-o", self.path("out" + kind)]

    def numpy(self, job, source, *options):
        return [self.args.python, os.path.join(HERE, "numpy_script.py"), job, self.path(source),
                self.path("out.npz"), *options]

    def base(self, source, of_size):
        """The bytes of the job moved by coreutils: the input read, a file of the output's size written."""
        return ["sh", "-c", 'cat "$0" >/dev/null && cp "$1" "$2"', self.path(source), self.path(of_size),
                self.path("out.npz")]

    def make(self, name, *options):
        if not os.path.exists(self.path(name)):
            print("making %s" % name, flush=True)
            subprocess.check_call([self.args.python, os.path.join(HERE, "make_checkpoint.py"), self.path(name),
                                   *options])

    def remove(self, *names):
        for n in names:
            if os.path.exists(self.path(n)):
                os.unlink(self.path(n))

    def round(self, commands):
        """One run of each; {name: Run}."""
        runs = {}
        for name, command in commands.items():
            self.remove(*OUTPUTS)
            warm_memory()
            runs[name] = Run(command, self.path("time.log"))
            if runs[name].code != 0:
                sys.exit("%s: exit status %d: %s" % (name, runs[name].code, " ".join(command)))
        self.remove(*OUTPUTS)
        return runs

    def interleave(self, title, commands, rounds=None):
        """{name: command} round robin; returns {name: [Run, ...]} without the warm-up."""
        rounds = rounds or self.args.rounds
        self.round(commands)
        kept, disturbed = [], []
        while len(kept) < rounds and len(kept) + len(disturbed) < 5 * rounds:
            r = self.round(commands)
            quiet = not self.args.wait or max(x.others for x in r.values()) < 0.1
            (kept if quiet else disturbed).append(r)
        if len(kept) < rounds:
            print("note: only %d of %d rounds were undisturbed" % (len(kept), len(kept) + len(disturbed)))
            disturbed.sort(key=lambda r: max(x.others for x in r.values()))
            kept += disturbed[:rounds - len(kept)]
        runs = {n: [r[n] for r in kept] for n in commands}
        print("\n%s (%d rounds)" % (title, rounds))
        print("%-28s %8s %8s %8s %9s %8s" % ("", "wall s", "user s", "sys s", "RSS MiB", "others"))
        for name, rs in runs.items():
            print("%-28s %8.3f %8.3f %8.3f %9.1f %7.0f%%" % (
                name, statistics.median(r.wall for r in rs), statistics.median(r.user for r in rs),
                statistics.median(r.system for r in rs), max(r.rss_mib for r in rs),
                100 * statistics.median(r.others for r in rs)), flush=True)
        return runs

    def ratio(self, runs, a, b, must, reach, what=None):
        all_of_them = sorted(x.wall / y.wall for x, y in zip(runs[a], runs[b]))
        self.goal(what or "%s / %s" % (a, b), statistics.median(all_of_them), must, reach, "%.3f",
                  " (%.3f to %.3f)" % (all_of_them[0], all_of_them[-1]))

    def goal(self, what, value, must, reach, form="%.3f", note=""):
        grade = "reach" if value <= reach else "must" if value <= must else "MISSED"
        line = ("%-52s " + form + "   must %g, reach %g: %s%s") % (what, value, must, reach, grade, note)
        self.results.append(line)
        print(line, flush=True)

    # ---- groups -----------------------------------------------------------------------------------------------------
    def stored(self):
        self.make("model.npz")
        for option, name in [("--int8", "size8"), ("--fp16", "size16")]:
            subprocess.check_call(self.quantize("model.npz", option))
            os.replace(self.path("out.npz"), self.path(name))
        runs = self.interleave("int8, stored npz", {
            "base": self.base("model.npz", "size8"),
            "int8, 2 threads": self.quantize("model.npz", "--int8", "--threads", "2"),
            "int8, 1 thread": self.quantize("model.npz", "--int8", "--threads", "1"),
            "numpy": self.numpy("int8", "model.npz")})
        self.ratio(runs, "int8, 2 threads", "base", 1.15, 0.75)
        self.ratio(runs, "int8, 1 thread", "base", 1.7, 1.3)
        self.ratio(runs, "int8, 2 threads", "numpy", 0.20, 0.10)
        rss = max(r.rss_mib for r in runs["int8, 2 threads"])
        runs = self.interleave("fp16, stored npz", {
            "base": self.base("model.npz", "size16"),
            "fp16, 2 threads": self.quantize("model.npz", "--fp16", "--threads", "2")})
        self.ratio(runs, "fp16, 2 threads", "base", 1.15, 0.80)
        self.goal("peak RSS of int8, 1.47 GB, 2 threads (MiB)", rss, 64, 16, "%.1f")
        self.remove("size8", "size16")

    def plain_file(self, source, int8_peers, fp16_peers, must, reach, two_threads):
        """int8 and fp16 of a format without checksums; peers: {name: command}, and the goals against them; two_threads:
        the goals of both jobs against base."""
        self.make(source)
        out = self.path("out" + os.path.splitext(source)[1])
        for option, name in [("--int8", "size8"), ("--fp16", "size16")]:
            subprocess.check_call(self.quantize(source, option))
            os.replace(out, self.path(name))
        for job, size, peers in [("int8", "size8", int8_peers), ("fp16", "size16", fp16_peers)]:
            commands = {"base": self.base(source, size)}
            for n in (2, 1):
                commands["%s, %d threads" % (job, n)] = self.quantize(source, "--" + job, "--threads", str(n))
            commands.update(peers)
            runs = self.interleave("%s, %s" % (job, source), commands)
            what = source.split(".")[1] + ": %s, %d threads / %s"
            self.ratio(runs, job + ", 2 threads", "base", 1.15, two_threads[job], what % (job, 2, "base"))
            self.ratio(runs, job + ", 1 threads", "base", 1.7, 1.25, what % (job, 1, "base"))
            for peer in peers:
                self.ratio(runs, job + ", 2 threads", peer, must, reach, what % (job, 2, peer))
        self.remove("size8", "size16")

    def safetensors(self):
        peers = [{}, {}]
        for k, job in enumerate(("int8", "fp16")):
            if self.args.torch_python:
                peers[k]["torch"] = [self.args.torch_python, os.path.join(HERE, "torch_script.py"), job,
                                     self.path("model.safetensors"), self.path("out.safetensors")]
        self.plain_file("model.safetensors", *peers, 0.20, 0.10, {"int8": 0.60, "fp16": 0.65})

    def gguf(self):
        peers = [{}, {}]
        for k, kind in enumerate(("Q8_0", "F16")):
            if self.args.llama_quantize:
                peers[k]["llama-quantize"] = [self.args.llama_quantize, self.path("model.gguf"), self.path("out.gguf"),
                                              kind, "2"]
        self.plain_file("model.gguf", *peers, 0.50, 0.30, {"int8": 0.70, "fp16": 0.80})

    def searched(self):
        """Schemes whose scales are searched: user time of one thread for each weight; beside llama-quantize's."""
        runs, weights = {}, {}
        times = {"Q4_K": 8, "Q5_K": 8, "Q6_K": 4, "Q2_K": 4, "Q3_K": 4, "IQ4_XS": 1, "Q4_0": 1, "Q8_0": 1}  # --encoder llama
        encoders = {"%s %s" % (k, e): ["--gguf", k, "--pure", "--encoder", e]
                    for k in [*times, "NVFP4"] for e in ("best", "llama")}
        for source, options in [("searched.safetensors", {k: ["--" + k] for k in ("int4", "nf4", "nvfp4")}),
                                ("searched.gguf", encoders)]:
            self.make(source, "--layers", "1")
            commands = {k: self.quantize(source, *o, "--threads", "1") for k, o in options.items()}
            if self.args.llama_quantize and options is encoders:
                commands.update({"%s llama-quantize" % k: [self.args.llama_quantize, "--pure", self.path(source),
                                                           self.path("out.gguf"), k, "1"] for k in times})
            runs.update(self.interleave("searched scales, one thread", commands))
            weights.update(dict.fromkeys(commands, os.path.getsize(self.path(source)) / 4))
            self.remove(source)
        for name, rs in runs.items():
            rate = weights[name] / min(r.user for r in rs) / 1e6
            print("%-52s %.1f million weights a second and core" % (name, rate), flush=True)
            if name == "int4":
                self.goal("int4: microseconds for 1,000 weights", 1000 / rate, 25, 16.7, "%.1f")
        for name in times if self.args.llama_quantize else ():
            theirs = min(r.user for r in runs[name + " llama-quantize"])
            for encoder, faster in [("best", 0.5), ("llama", times[name])]:
                self.goal("%s, %s: user time / llama-quantize" % (name, encoder),
                          min(r.user for r in runs["%s %s" % (name, encoder)]) / theirs, 1 / faster, 1 / faster)

    def pruning(self):
        """Global and N:M pruning against cp of the file, and a chain against the two runs through a file."""
        two = ["--threads", "2"]
        half = ["--sparsity", "0.5", "--scope", "global"]
        self.make("model.safetensors")
        runs = self.interleave("pruning, safetensors", {
            "cp": ["cp", self.path("model.safetensors"), self.path("out.safetensors")],
            "default 50 %": self.write("prune", "model.safetensors", "--sparsity", "0.5", *two),
            "global 50 %": self.write("prune", "model.safetensors", *half, *two)})
        for name in ("default 50 %", "global 50 %"):
            self.ratio(runs, name, "cp", 2.0, 0.9, "safetensors: %s / cp" % name)
        self.remove("model.safetensors")
        self.make("model.npz")
        runs = self.interleave("pruning, stored npz", {
            "cp": ["cp", self.path("model.npz"), self.path("out.npz")],
            "default 50 %": self.write("prune", "model.npz", "--sparsity", "0.5", *two),
            "global 50 %": self.write("prune", "model.npz", *half, *two),
            "tensor 50 %": self.write("prune", "model.npz", "--sparsity", "0.5", "--scope", "tensor", *two),
            "2:4": self.write("prune", "model.npz", "--pattern", "2:4", *two),
            "numpy": self.numpy("prune", "model.npz")})
        self.ratio(runs, "default 50 %", "cp", 2.0, 1.3)
        self.ratio(runs, "global 50 %", "cp", 2.0, 1.3)
        self.ratio(runs, "global 50 %", "numpy", 0.10, 0.05)
        self.ratio(runs, "2:4", "cp", 1.3, 1.0)
        for name in ("global 50 %", "tensor 50 %", "2:4"):
            self.goal("peak RSS of pruning, %s (MiB)" % name, max(r.rss_mib for r in runs[name]), 64, 16, "%.1f")
        through = '"$0" prune --sparsity 0.5 --scope global --threads 2 -q "$1" -o "$2" && ' \
                  '"$0" quantize --int8 --threads 2 -q "$2" -o "$3"'
        runs = self.interleave("a chain", {
            "prune + int8, one run": self.write("run", "model.npz", "--pass", " ".join(["prune", *half]), "--pass",
                                                "quantize --int8", *two),
            "prune, then int8": ["sh", "-c", through, self.program, self.path("model.npz"),
                                 self.path("between.npz"), self.path("out.npz")]})
        self.ratio(runs, "prune + int8, one run", "prune, then int8", 0.70, 0.55)
        self.goal("peak RSS of the chain (MiB)", max(r.rss_mib for r in runs["prune + int8, one run"]), 64, 16,
                  "%.1f")

    def removal(self):
        """30 % of the neurons and heads of every layer removed, against cp of the file."""
        self.make("model.npz")
        with open(self.path("couplings.txt"), "w") as f:
            for k in range(24):
                p = "transformer.h.%d." % k
                f.write("{0}mlp.up.weight:0 = {0}mlp.up.bias:0 = {0}mlp.down.weight:1\n".format(p))
                f.write("heads 16: " + " = ".join(["%sattn.qkv.%s:0*64+%d%s" % (p, name, at, "!" * (name == "weight"))
                                                   for name in ("weight", "bias") for at in (0, 1024, 2048)] +
                                                  [p + "attn.proj.weight:1*64"]) + "\n")
        cut = ["--structured", "0.3", "--dims", "neurons,heads", "--couplings", self.path("couplings.txt")]
        runs = self.interleave("units removed, stored npz", {
            "cp": ["cp", self.path("model.npz"), self.path("out.npz")],
            "30 % removed": self.write("prune", "model.npz", *cut, "--threads", "2")})
        self.ratio(runs, "30 % removed", "cp", 1.6, 1.1)
        self.goal("peak RSS of removing (MiB)", max(r.rss_mib for r in runs["30 % removed"]), 64, 16, "%.1f")
        self.remove("couplings.txt")

    def deflated_in(self):
        self.make("deflated.npz", "--compressed")
        runs = self.interleave("int8 from a deflated npz", {
            "int8, 2 threads": self.quantize("deflated.npz", "--int8", "--threads", "2"),
            "int8, 1 thread": self.quantize("deflated.npz", "--int8", "--threads", "1"),
            "numpy": self.numpy("int8", "deflated.npz")}, min(5, self.args.rounds))
        self.ratio(runs, "int8, 2 threads", "numpy", 0.40, 0.22, "deflated in: int8, 2 threads / numpy")
        self.ratio(runs, "int8, 1 thread", "numpy", 0.75, 0.45, "deflated in: int8, 1 thread / numpy")
        self.remove("deflated.npz")

    def deflated_out(self):
        self.make("model.npz")
        sizes = {}
        for name, command in [("auto", self.quantize("model.npz", "--int8", "--deflate")),
                              ("zlib", self.quantize("model.npz", "--int8", "--deflate=zlib")),
                              ("isal", self.quantize("model.npz", "--int8", "--deflate=isal")),
                              ("numpy", self.numpy("int8", "model.npz", "--compressed"))]:
            self.remove("out.npz")
            if subprocess.call(command, stderr=subprocess.DEVNULL) == 0:
                sizes[name] = os.path.getsize(self.path("out.npz"))
        commands = {"%s, 2 threads" % how: self.quantize("model.npz", "--int8", how, "--threads", "2")
                    for how in ("--deflate", "--deflate=zlib")}
        if "isal" in sizes:
            commands["--deflate=isal, 2 threads"] = self.quantize("model.npz", "--int8", "--deflate=isal",
                                                                  "--threads", "2")
        commands["numpy"] = self.numpy("int8", "model.npz", "--compressed")
        runs = self.interleave("int8 into a deflated npz", commands, min(5, self.args.rounds))
        for name, key in [("--deflate, 2 threads", "auto"), ("--deflate=zlib, 2 threads", "zlib"),
                          ("--deflate=isal, 2 threads", "isal")]:
            if key in sizes:
                self.ratio(runs, name, "numpy", 0.20, 0.06, "deflated out: %s / numpy" % name)
                self.goal("deflated out: size with %s / numpy's" % key, sizes[key] / sizes["numpy"], 1.005, 1.0,
                          "%.4f")

    def memory(self):
        self.make("model.npz")
        print()
        cases = [("1.47 GB", "model.npz", []), ("1.47 GB, --max-memory 64MiB", "model.npz", ["--max-memory", "64MiB"])]
        for what, source, options in cases:
            self.peak(what, source, options)
        self.remove("model.npz")
        for what, name, option in [("6 GB (sparse)", "six.npz", ["--zeros", "6"]),
                                   ("one tensor of 4 GB (sparse)", "one.npz", ["--one", "4"])]:
            self.make(name, *option)
            for extra in ([], ["--max-memory", "64MiB"]):
                self.peak(what + "".join(", " + " ".join(extra) for _ in extra[:1]), name, extra)
            self.remove(name)

    def peak(self, what, source, options):
        for job in ("--int8", "--fp16"):
            self.remove("out.npz")
            r = Run(self.quantize(source, job, "--threads", "2", *options), self.path("time.log"))
            if r.code != 0:
                sys.exit("%s: exit status %d" % (what, r.code))
            self.goal("peak RSS, %s, %s (MiB)" % (job[2:], what), r.rss_mib, 64, 16, "%.1f")
        self.remove("out.npz")

    def start(self):
        self.make("model.npz")
        print()
        dry = [self.program, "quantize", "--int8", "--dry-run", self.path("model.npz")]
        for what, command, must, reach in [("--dry-run of 1.47 GB (ms)", dry, 20, 5),
                                           ("--version (ms)", [self.program, "--version"], 10, 3)]:
            walls, read = self.spawn(command, 41)
            self.goal(what, statistics.median(walls) * 1000, must, reach, "%.2f",
                      " (fastest %.2f)" % (min(walls) * 1000))
            if "dry" in what:
                self.goal("--dry-run: bytes read, loader included (MiB)", read / 2 ** 20, 1, 1, "%.3f")

    def spawn(self, command, n):
        """Wall times without a shell or GNU time in between, and the bytes one run reads (rchar)."""
        null = os.open(os.devnull, os.O_RDWR)
        walls, read = [], 0
        for _ in range(n):
            before = self.characters_read()
            t = time.perf_counter()
            pid = os.posix_spawn(command[0], command, dict(os.environ), file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
            status = os.waitpid(pid, 0)[1]
            walls.append(time.perf_counter() - t)
            read = self.characters_read() - before
            if status != 0:
                sys.exit("fails: " + " ".join(command))
        os.close(null)
        return walls, read

    @staticmethod
    def characters_read():
        """Of this process and of all that it waited for; reading the figure itself adds some hundred bytes."""
        with open("/proc/self/io") as f:
            return int(f.readline().split()[1])


def describe():
    model = ""
    try:
        with open("/proc/cpuinfo") as f:
            model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "")
    except OSError:
        pass
    print("%s, %d processors usable, Linux %s, load %.2f" % (
        model or platform.machine(), len(os.sched_getaffinity(0)), platform.release().split("-")[0],
        os.getloadavg()[0]))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("program")
    p.add_argument("--dir", default="/dev/shm/vcompress-bench")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--only", default=".", help="regular expression for the names of groups")
    p.add_argument("--python", default=sys.executable, help="an interpreter with NumPy")
    p.add_argument("--torch-python", metavar="PYTHON", help="an interpreter with torch and safetensors")
    p.add_argument("--llama-quantize", metavar="PROGRAM", help="llama.cpp's quantizer")
    p.add_argument("--wait", action="store_true", help="repeat rounds that others disturbed")
    p.add_argument("--keep", action="store_true", help="leave the inputs for the next time")
    a = p.parse_args()
    if not os.path.exists(TIME):
        sys.exit("GNU time is missing (Debian: time)")
    os.makedirs(a.dir, exist_ok=True)
    b = Bench(a)
    describe()
    subprocess.call([b.program, "--version"])
    try:
        for name, group in [("stored", b.stored), ("safetensors", b.safetensors), ("gguf", b.gguf), ("searched", b.searched),
                            ("pruning", b.pruning), ("removal", b.removal),
                            ("start", b.start), ("deflated-out", b.deflated_out), ("deflated-in", b.deflated_in), ("memory", b.memory)]:
            if re.search(a.only, name):
                group()
    finally:
        if not a.keep:
            shutil.rmtree(a.dir, ignore_errors=True)
    print("\n" + "\n".join(b.results))


if __name__ == "__main__":
    main()
