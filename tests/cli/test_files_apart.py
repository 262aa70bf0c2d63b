#!/usr/bin/env python3
"""test_files_apart.py PROGRAM - no command replaces a file that it reads, with -f neither.

Takes the options that name files from --help of every command, and gives each pair of one that is read and one that is
written the same file: by its name, by a symbolic and a hard link, and through ../ . Every pair has to be refused with
the sentence that names both, before anything is read; the file stays as it is. What the tables of options do not say,
that is files which inputs speak of (shards, external data), comes behind it. Standard library only."""
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
WRITTEN = {"output", "emit", "json", "html", "markdown", "svg", "log", "dump-gradients", "checkpoint", "mask-out", "outputs", "recipe"}
MADE = {}
# What a command needs beside the pair, so that nothing is refused for another reason; the last words are its operands.
BASE = {
    "shrink": ["--bytes", "1KiB", "--data", "d.npz", "--graph", "g.txt", "-o", "n.npz", "w.npz"],
    "quantize": ["--int8", "w.npz"],
    "prune": ["--sparsity", "0.5", "w.npz"],
    "distill": ["--teacher", "t.npz", "--student", "w.npz", "--graph", "g.txt", "--data", "d.npz", "-o", "n.npz"],
    "run": ["--pass", "quantize --int8", "w.npz"],
    "dequantize": ["w.npz"],
    "merge": ["--lora", "a.npz", "w.npz"],
    "convert": ["w.npz", "-o", "n.safetensors"],
    "inspect": ["w.npz"],
    "graph": ["g.txt"],
    "evaluate": ["--data", "d.npz", "--graph", "g.txt", "w.npz"],
    "logits": ["--data", "d.npz", "--graph", "g.txt", "-o", "n.npz", "w.npz"],
    "calibrate": ["--data", "d.npz", "--graph", "g.txt", "-o", "n.npz", "w.npz"],
    "sensitivity": ["--data", "d.npz", "--graph", "g.txt", "w.npz"],
    "diff": ["w.npz", "t.npz"],
    "verify": ["w.npz"],
    "estimate": ["g.txt"],
    "fit": ["--memory", "8GiB", "g.txt"],
    "plan": ["--memory", "8GiB", "w.npz"],
}
WITH = {("prune", "remove"): ["--graph", "g.txt"], ("prune", "couplings"): ["--structured", "0.5"],
        ("prune", "graph"): ["--structured", "0.5"], **{(c, "graph"): ["--target-gpu", "T4"] for c in ("quantize", "convert", "dequantize", "run", "merge")}, ("prune", "data"): ["--drop-layers", "least:2"], ("distill", "eval-teacher"): ["--eval", "d.npz"],
        ("distill", "eval-labels"): ["--eval", "d.npz"], ("graph", "data"): ["--outputs", "n.npz"],
        ("graph", "outputs"): ["--data", "d.npz"], ("evaluate", "teacher-graph"): ["--teacher", "t.npz"],
        ("shrink", "gpus-file"): ["--fit", "T4"], ("shrink", "eval-labels"): ["--eval", "d.npz"]}
WITH.update({(c, "gpus-file"): ["--target-gpu", "T4"] for c in ("quantize", "prune", "run", "dequantize", "convert", "merge")})
INSTEAD = {("prune", "remove"): ["w.npz"], ("prune", "couplings"): ["w.npz"], ("prune", "graph"): ["w.npz"],
           ("prune", "mask"): ["w.npz"], ("prune", "calibration"): ["--sparsity", "0.5", "--reconstruct", "w.npz"], ("quantize", "calibration"): ["--gguf", "Q8_0", "-o", "n.gguf", "w.npz"],
           ("quantize", "sensitivity"): ["--aim-bytes", "1KiB", "w.npz"]}
READ_WITH_OPTIONS = {"remove": "fc.weight:0 1\n", "type-file": "fc*=fp16\n",
                     "gates": json.dumps({**{c: {"max_bytes": 1 << 30} for c in ("quantize", "prune", "run", "dequantize", "convert", "merge")},
                                          "evaluate": {"min_accuracy": 0.1}, "distill": {"max_drop": 0.5}, "fit": {"baseline": "t.npz", "max_growth": 0.5}, "diff": {"min_sqnr": 1}})}
# --resume may be the file of --checkpoint; the others exclude each other.
LEFT_OUT = {("resume", "checkpoint"), ("remove", "mask-out"), ("couplings", "mask-out"), ("graph", "mask-out")}


def run(*args):
    p = subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return p.returncode, p.stderr.decode("utf-8", "replace").strip()


def options(command):
    text = subprocess.run([PROGRAM, command, "--help=all"], capture_output=True, check=True).stdout.decode()
    found = re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)(?:\[=|\s+)FILE", text, re.M)
    return [x for x in found if x not in WRITTEN], [x for x in found if x in WRITTEN]


def npz(path, *specs):
    """As make_npz.py makes it, once for all of the same arrays."""
    if specs not in MADE:
        subprocess.run([sys.executable, os.path.join(HERE, "make_npz.py"), path, *specs], check=True)
        with open(path, "rb") as f:
            MADE[specs] = f.read()
    with open(path, "wb") as f:
        f.write(MADE[specs])


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def spelled(name, path):
    return [f"--{name}={path}"] if name == "json" else [f"--{name}", path]


def make_files():
    npz("w.npz", "fc.weight:f4:4x6", "fc.bias:f4:4")
    npz("t.npz", "fc.weight:f4:4x6", "fc.bias:f4:4")
    npz("d.npz", "x:f4:8x6")
    with open("g.txt", "w", encoding="utf-8") as f:
        f.write("input x [batch, 6]\nlinear fc 4\n")
    os.mkdir("sub")


def is_forced(command, written):
    """graph writes one file that -f is about."""
    return command in FORCED and (command != "graph" or written == "outputs")


def pair(command, read, written, wrong):
    """All names of one file."""
    if read in READ_WITH_OPTIONS:
        with open("v.npz", "w", encoding="utf-8") as f:
            f.write(READ_WITH_OPTIONS[read])
    else:
        npz("v.npz", "v:f4:3x5")
    os.symlink("v.npz", "soft.npz")
    os.link("v.npz", "hard.npz")
    before = digest("v.npz")
    base = INSTEAD.get((command, read), BASE[command])
    for name in ("soft.npz", "hard.npz", "sub/../v.npz"):
        more = WITH.get((command, read), []) + WITH.get((command, written), [])
        force = ["-f"] if is_forced(command, written) else []
        rc, err = run(command, *more, *spelled(read, "v.npz"), *spelled(written, name), *force, *base)
        told = f"is the file of --{read}, too" in err or f"is the file of {'-o' if written == 'output' else '--' + written}, too" in err
        if rc != 2 or not told:
            wrong.append(f"{command} --{read} v.npz --{written} {name}: exit {rc}: {err}")
        if digest("v.npz") != before or digest("hard.npz") != before:
            wrong.append(f"{command} --{read} v.npz --{written} {name}: v.npz was replaced")
    for name in ("v.npz", "soft.npz", "hard.npz"):
        os.unlink(name)


def operand(command, written, wrong):
    """The operand itself as what is written."""
    at = BASE[command][0 if command == "convert" else -1]
    if command == "distill":
        return
    soft, hard = "soft." + at.split(".")[1], "hard." + at.split(".")[1]
    os.symlink(at, soft)
    os.link(at, hard)
    before = digest(at)
    for name in (at, soft, hard, "sub/../" + at):
        more = WITH.get((command, written), [])
        rc, err = run(command, *more, *spelled(written, name), *(["-f"] if is_forced(command, written) else []), *BASE[command])
        if rc != 2 or "is the input itself" not in err and "is the file of" not in err:
            wrong.append(f"{command} --{written} {name} of {at}: exit {rc}: {err}")
        if digest(at) != before or digest(hard) != before:
            wrong.append(f"{command} --{written} {name}: {at} was replaced")
    os.unlink(soft)
    os.unlink(hard)


def safetensors(path, name):
    head = json.dumps({name: {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + bytes(256))


def files_of_inputs(wrong):
    """Files that an input speaks of: shards, their index and their configuration."""
    os.mkdir("m")
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for i, name in enumerate(names):
        safetensors("m/" + name, f"w{i}.weight")
    with open("m/model.safetensors.index.json", "w", encoding="utf-8") as f:
        json.dump({"metadata": {"total_size": 512}, "weight_map": {f"w{i}.weight": n for i, n in enumerate(names)}}, f)
    for name in names:
        before = digest("m/" + name)
        for args in (["quantize", "--int8", "m", "-o", "m/" + name, "-f", "--format", "npz"],
                     ["quantize", "--int8", "m", "-o", "n.npz", "--emit", "m/" + name, "-f", "--format", "npz"],
                     ["distill", "--teacher", "m", "--student", "w.npz", "--graph", "g.txt", "--data", "d.npz", "-o",
                      "m/" + name, "-f"]):
            rc, err = run(*args)
            if rc == 0 or digest("m/" + name) != before:
                wrong.append(f"{' '.join(args)}: exit {rc}: {err}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    make_files()
    bad = []
    n_pairs = 0
    overview = subprocess.run([PROGRAM, "--help"], capture_output=True, check=True).stdout.decode()
    commands = re.findall(r"^  ([a-z]+)  ", overview, re.M)
    FORCED = {c for c in commands
              if "--force" in subprocess.run([PROGRAM, c, "--help=all"], capture_output=True, check=False).stdout.decode()}
    for c in commands:
        reads, writes = options(c)
        if c not in BASE and reads and writes:
            if c != "gpus":
                bad.append(f"{c} reads and writes files, and this test does not know it")
            continue
        for w in writes:
            if c in BASE:
                operand(c, w, bad)
                n_pairs += 1
            for r in reads:
                if (r, w) not in LEFT_OUT:
                    pair(c, r, w, bad)
                    n_pairs += 1
    files_of_inputs(bad)
    print("\n".join(bad))
    print(f"{n_pairs} pairs, {len(bad)} wrong")
    os.chdir("/")
    sys.exit(1 if bad or n_pairs < 100 else 0)
