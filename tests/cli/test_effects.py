#!/usr/bin/env python3
"""test_effects.py PROGRAM [COMMAND ...] - an option that changes nothing in what it is given to is refused.

Takes the options from --help of every command, and gives each of them to the command lines of MODES, one for each way in
which the command works. What is written, printed and returned has to be other than without the option, or the command
line has to be refused (exit 2). Options that may change nothing stand in MAY_DO_NOTHING, with the reason, and are left out. Those under
"Running" and "Report" say how every command runs and prints, and are not walked. Standard library only."""
import hashlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

PROGRAM = os.path.abspath(sys.argv[1])
ONLY = sys.argv[2:]  # commands; all where none is named

EVAL = ["--data", "d.npz", "--graph", "g.txt", "w.npz"]
DISTILL = ["--data", "d.npz", "--graph", "g.txt", "--student", "w.npz", "--steps", "3", "--batch", "4", "-o", "out.npz"]
MODES = {
    "evaluate": {"labels": ["--json", *EVAL], "teacher": ["--json", "--teacher", "t.npz", *EVAL],
                 "mse": ["--json", "--teacher", "t.npz", "--loss", "mse", *EVAL], "no labels": ["--json", "--teacher", "t.npz", "--data", "x.npz", *EVAL[2:]]},
    "logits": {"all": ["-o", "out.npz", *EVAL], "topk": ["--topk", "2", "-o", "out.npz", *EVAL]},
    "calibrate": {"sums": ["-o", "out.npz", *EVAL]},
    "shrink": {"weights": ["--bytes", "16KiB", "w.npz", "-o", "out.npz"],
               "data": ["--bytes", "6KiB", "--data", "x.npz", "--graph", "g.txt", "--steps", "6", "w.npz", "-o", "out.npz"]},
    "graph": {"table": ["g.txt"], "full": ["--full", "g.txt"], "text": ["--text", "g.txt"],
              "couplings": ["--couplings", "g.txt"],
              "data": ["--data", "d.npz", "--weights", "w.npz", "--outputs", "out.npz", "g.txt"]},
    "sensitivity": {"weights": ["w.npz"], "data": ["--data", "d.npz", "--graph", "g.txt", "w.npz"]},
    "verify": {"file": ["w.npz"], "against": ["--against", "w.npz", "q.npz"], "pattern": ["--pattern", "2:4", "p.npz"]},
    "diff": {"two": ["w.npz", "t.npz"]},
    "inspect": {"headers": ["w.npz"], "stats": ["--stats", "w.npz"]},
    "quantize": {"int8": ["--int8", "w.npz", "-o", "out.npz"], "fp16": ["--fp16", "w.npz", "-o", "out.npz"],
                 "bf16": ["--bf16", "w.npz", "-o", "out.safetensors"],
                 "int4": ["--int4", "w.npz", "-o", "out.npz"],
                 "scheme": ["--scheme", "int3/group:32", "w.npz", "-o", "out.npz"],
                 **{scheme: ["--" + scheme, "w.npz", "-o", "out.npz"] for scheme in ("fp8", "mxfp8", "mxfp4", "nvfp4", "nf4", "fp4")},
                 "bnb": ["--nf4", "--granularity", "group:32", "--layout", "bitsandbytes", "hf/model.safetensors", "-o", "out.safetensors"],
                 "gguf": ["--gguf", "Q3_K_M", "blk.npz", "-o", "out.gguf"],
                 "folder": ["--gguf", "Q4_0", "hf", "-o", "out.gguf"],
                 "aim-sqnr": ["--aim-sqnr", "30", "w.npz", "-o", "out.npz"],
                 "aim-bytes": ["--aim-bytes", "12000", "w.npz", "-o", "out.npz"], "aim-bpw": ["--aim-bpw", "14", "w.npz", "-o", "out.npz"],
                 "aim-loss": ["--aim-loss", "5%", "--sensitivity", "s.json", "w.npz", "-o", "out.npz"]},
    "prune": {"sparsity": ["--sparsity", "0.5", "w.npz", "-o", "out.npz"],
              "global": ["--sparsity", "0.5", "--scope", "global", "w.npz", "-o", "out.npz"],
              "pattern": ["--pattern", "2:4", "w.npz", "-o", "out.npz"],
              "structured": ["--structured", "0.25", "--graph", "g.txt", "w.npz", "-o", "out.npz"],
              "lsq": ["--structured", "0.25", "--reconstruct", "--calibration", "st.npz", "--graph", "g.txt", "w.npz", "-o", "out.npz"],
              "obs": ["--structured", "0.25", "--score", "obs", "--calibration", "st.npz", "--graph", "g.txt", "w.npz", "-o", "out.npz"],
              "remove": ["--remove", "r.txt", "--graph", "g.txt", "w.npz", "-o", "out.npz"],
              "mask": ["--mask", "m.npz", "w.npz", "-o", "out.npz"],
              "wanda": ["--sparsity", "0.5", "--score", "wanda", "--calibration", "st.npz", "w.npz", "-o", "out.npz"],
              "sparsegpt": ["--pattern", "2:4", "--score", "sparsegpt", "--calibration", "st.npz", "w.npz", "-o", "out.npz"],
              "drop-layers": ["--drop-layers", "1", "l.npz", "-o", "out.npz"],
              "least": ["--drop-layers", "least:1", "--data", "ids.npz", "hf2", "-o", "out"]},
    "dequantize": {"int8": ["q.npz", "-o", "out.npz"], "fp16": ["--fp16", "q.npz", "-o", "out.npz"]},
    "convert": {"npz": ["w.npz", "-o", "out.npz"], "safetensors": ["w.npz", "-o", "out.safetensors"],
                "folder": ["hf", "-o", "out.gguf"]},
    "merge": {"lora": ["--lora", "lora.npz", "w.npz", "-o", "out.npz"]},
    "run": {"int8": ["--pass", "quantize --int8", "w.npz", "-o", "out.npz"],
            "prune": ["--pass", "prune --sparsity 0.5", "w.npz", "-o", "out.npz"]},
    "distill": {"kd": ["--teacher", "t.npz", *DISTILL], "labels": ["--alpha", "0", *DISTILL],
                "mse": ["--loss", "mse", "--teacher", "t.npz", *DISTILL],
                "momentum": ["--optimizer", "momentum", "--teacher", "t.npz", *DISTILL],
                "sgd": ["--optimizer", "sgd", "--teacher", "t.npz", *DISTILL],
                "eval": ["--eval", "d.npz", "--teacher", "t.npz", *DISTILL],
                "dry": ["--dry-run", "--teacher", "t.npz", *DISTILL]},
    "estimate": {"infer": ["--weights", "w.npz", "g.txt"], "train": ["--mode", "train", "--weights", "w.npz", "g.txt"],
                 "distill": ["--mode", "distill", "--teacher", "g.txt", "g.txt"],
                 "decoder": ["cfg/config.json"], "decoder train": ["--mode", "train", "cfg/config.json"]},
    "fit": {"infer": ["--memory", "1GiB", "cfg/config.json"], "train": ["--mode", "train", "--memory", "8GiB", "cfg/config.json"],
            "gpu": ["--gpu", "RTX 4090", "cfg/config.json"], "weights": ["--weights-only", "--memory", "1GiB", "w.npz"]},
    "plan": {"infer": ["--memory", "1GiB", "cfg/config.json"], "train": ["--mode", "train", "--memory", "8GiB", "cfg/config.json"]},
    "gpus": {"all": []},
}
# Commands without options of their own that change what is made.
NOT_WALKED = {"index", "devices", "selftest", "completion", "help"}
VALUES = {
    "output": "out2.npz", "output-dir": "dir", "format": "safetensors", "emit": "e.safetensors", "deflate": None,
    "max-bytes": "1", "target-gpu": "RTX 4090", "must-fit": "RTX 4090", "gpus-file": "gpus.csv", "max-shard-size": "1KiB",
    "shard": "0/2", "drop": "optimizer", "key": "model", "void-as": "bf16", "min-sqnr": "200", "expect-sparsity": "0.9",
    "include": "*", "exclude": "*", "graph": "g2.txt", "data": "d2.npz", "array": "x=z", "labels": "y.npz", "rows": "5", "part": "0-50", "part-seed": "5",
    "length": "4", "token-bits": "32", "scale": "0.5", "mean": "0.25", "std": "2", "batch": "3", "temperature": "3",
    "device-kind": "mcu", "loss": "cosine", "task": "regression", "huber-delta": "2", "label-smoothing": "0.1", "class-weights": "1,2,1,1,3", "ignore-label": "4", "within": "accuracy:0", "precision": "f64", "min-accuracy": "1", "min-agreement": "1.5", "min-f1": "1.5", "min-r2": "1.5", "min-cosine": "1.5", "min-iou": "1.5", "max-cross-entropy": "1e-9",
    "max-mae": "1e-9", "max-mse": "1e-9", "teacher": "t2.npz", "teacher-graph": "g2.txt", "topk": "1",
    "dtype": "f16", "svg": "s.svg", "size": "batch=5", "known": "batch=5", "weights": "t.npz", "outputs": "o2.npz", "value": "y",
    "tolerance": "100", "against": "w.npz", "pattern": "2:4", "granularity": "tensor", "axis": "1", "layout": "plain",
    "rest": "fp16", "min-elements": "1000", "min-row": "80", "nonfinite": "keep", "overflow": "sat", "aim-sqnr": "30",
    "aim-bytes": "3000", "aim-bpw": "14", "aim-loss": "5%", "sensitivity": "s.json", "gguf": "Q4_0", "encoder": "llama", "calibration": "im.npz", "saturation": "all", "ranges": "error", "smooth": "0.5", "scope": "global", "score": "lamp", "structured": "0.25", "remove": "r.txt", "dims": "neurons",
    "round-to": "4", "couplings": "c.txt", "mask": "m.npz", "mask-out": "mo.npz", "set": "*=0.9", "min-keep": "0.9",
    "sparsity": "0.5", "drop-layers": "0", "keep-layers": "0", "layers": "h", "pass": "quantize --fp16",
    "student": "t.npz", "width": "0.5", "eval": "d.npz", "eval-array": "x=z", "eval-teacher": "a.npz",
    "eval-labels": "y.npz", "steps": "2", "epochs": "1", "accum": "2", "optimizer": "sgd", "lr": "0.1", "momentum": "0.5",
    "betas": "0.5,0.9", "eps": "0.1", "weight-decay": "0.5", "schedule": "cosine", "warmup": "2", "step-every": "1",
    "step-factor": "0.3", "clip": "0.0001", "alpha": "0.5", "alpha-end": "0.25", "temperature-end": "7", "classes": "common", "match": "h1=h1:mse", "seed": "5",
    "order": "file", "loss-scale": "8", "recompute": "sqrt", "budget": "1GiB", "device-memory": "1GiB", "freeze": "fc2*",
    "prune-steps": "0:2:1", "fake-quant": "int8", "ranks": "none", "all-reduce": "host", "log": "log.json",
    "dump-gradients": "gr.npz", "eval-every": "1", "early-stop": "1", "keep": "last", "checkpoint": "ck.npz",
    "checkpoint-every": "1", "resume": "ck0.npz", "max-drop": "0.0001", "seq": "64", "kv-dtype": "f16", "ctx": "256",
    "runtime": "native", "mode": "train", "trainer": "vcompress", "teacher-dtype": "f16", "amp": "autocast", "attention": "eager",
    "allocator": "cuda", "lora": "4", "lora-targets": "all", "grad-dtype": "f16", "im2col": "1", "workspace": "1MiB",
    "context-overhead": "1MiB", "dp": "2", "zero": "1", "tp": "2", "pp": "2", "chunks": "2", "stage": "0", "bucket": "1000",
    "offload": "optimizer", "gpu": "RTX 4080", "memory": "2GiB", "baseline": "w.npz", "max-growth": "0.0001",
    "bytes": "8KiB", "ratio": "4", "fit": "RTX 4090", "max-loss": "0", "time": "0.000001", "recipe": "re.txt", "ecc": "on", "slice": "1/2", "activations": "1MiB", "margin": "1MiB", "used": "1MiB", "without": "int8", "pre": "smollm", "type": "fc1*=keep",
    "type-file": "types.txt", "gates": "gates.json", "lora": "lora2.npz", "n-cpu-moe": "1", "min-ratio": "90", "max-sqnr-drop": "0.001", "c-prefix": "net", "metadata": "author=me", "c-align": "8",
}
BY_MODE = {("graph", "batch"): "2", ("graph", "value"): "h1", ("sensitivity", "batch"): "1", ("estimate", "teacher"): "g2.txt", ("estimate", "schedule"): "gpipe",
           ("fit", "schedule"): "gpipe", ("plan", "schedule"): "gpipe", ("estimate", "batch"): "3", ("fit", "teacher"): "g2.txt", ("plan", "teacher"): "g2.txt",
           ("fit", "optimizer"): "sgd", ("verify", "min-sqnr"): "200", ("estimate","weights"): "w.npz", ("fit","weights"): "w.npz", ("plan","weights"): "w.npz",
           ("prune", "graph"): "g.txt", ("prune", "data"): "d.npz", ("prune", "rows"): "2", ("prune", "layout"): "plain", ("prune", "scope"): "global", ("prune", "calibration"): "st.npz", ("sensitivity", "min-elements"): "1000",
           ("quantize", "activations"): "static"}
SKIP = {"help", "force", "force-foreign", "output", "output-dir"}
# What may change nothing here, and why.
OF_FILES = "files that have none of what it is about are like others to it"
SAME = "that is what happens without it, too"
TRAINS = "of what these weights have not: ties, normalizations, zeros"
MAY_DO_NOTHING = {
    "drop": OF_FILES, "remote": OF_FILES, "void-as": OF_FILES, "key": OF_FILES, "nonfinite": OF_FILES, "requantize": OF_FILES, "dequantize": OF_FILES,
    "strict": OF_FILES, "casts": OF_FILES, "source-dtype": OF_FILES, "overflow": OF_FILES, "im2col": OF_FILES, "attention": OF_FILES,
    "in-place": OF_FILES, "no-reuse": OF_FILES, "dropout": OF_FILES, "no-dropout": OF_FILES, "min-row": "casts take rows of any length", "foreach": OF_FILES, "no-foreach": OF_FILES, "activations": OF_FILES, "weights": OF_FILES,
    ("shrink", "dry-run"): SAME, ("shrink", "keep-going"): SAME, ("shrink", "resume"): OF_FILES, ("shrink weights", "time"): SAME,
    ("calibrate", "labels"): "no label is read", ("calibrate", "ignore-label"): "no label is read",
    ("distill", "ignore-label"): "of labels that are told, and not learned from", "layers": OF_FILES, "layout": OF_FILES, "round-to": OF_FILES,
    "allow-tied": TRAINS, "frozen-norm": TRAINS, "keep-sparsity": TRAINS, "no-keep-sparsity": TRAINS, "classes": TRAINS,
    "partial": OF_FILES, "known": "it is about inputs of ONNX files", "calibration-anyway": SAME, "format": SAME, "include": SAME, "dims": SAME, "symmetric": SAME, "runtime": SAME, "f32": SAME, "data": SAME, "against": SAME,
    "max-drop": SAME, "ranks": SAME, "all-reduce": SAME,
    "batch": "how many rows are computed at a time is no matter for what comes out",
    "recompute": "the bits are the same", "checkpoint": "written where a run is interrupted",
    "gpus-file": "has other GPUs than the one that is named", "size": "counts where shapes are computed",
    ("prune structured", "scope"): "there is one group of neurons", ("prune lsq", "scope"): "there is one group of neurons", ("prune obs", "scope"): "there is one group of neurons", ("prune sparsity", "score"): SAME, ("dequantize", "min-sqnr"): "codes decode exactly",
    ("distill dry", "*"): "nothing is trained", ("distill eval", "gates"): SAME, ("estimate", "accum"): "the parts come one after the other",
    ("fit", "accum"): "the parts come one after the other", ("estimate", "teacher"): "it is as large", ("estimate", "allocator"): "all sizes are multiples",
    ("quantize bnb", "min-elements"): "its layers are larger",
    ("fit weights", "*"): "the table of a known graph has them",
}


def run(*args):
    p = subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    return p.returncode, p.stdout, p.stderr.decode("utf-8", "replace").strip()


def options(command):
    """Names of options, and whether they take a value, from --help, without those of running and printing."""
    text = subprocess.run([PROGRAM, command, "--help=all"], capture_output=True, check=True).stdout.decode()
    found = []
    group = None
    for line in text.splitlines():
        m = re.match(r"^([A-Z][A-Za-z ]*):$", line)
        if m:
            group = m.group(1)
        m = re.match(r"^ {2,6}(?:-\w, )?--([a-z0-9-]+)(\[=|=|\s\S)?", line)
        if m and group not in (None, "Running", "Report", "Help") and m.group(1) not in SKIP:
            takes = bool(re.match(r"^ {2,6}(?:-\w, )?--[a-z0-9-]+ [A-Za-z0-9]", line))
            optional = bool(re.match(r"^ {2,6}(?:-\w, )?--[a-z0-9-]+\[=", line))
            found.append((m.group(1), takes and not optional))
    return found


def outputs(before):
    found = []
    for folder, _, names in sorted(os.walk(".")):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            if before is None or before.get(path) != digest:
                found.append((path, digest))
    return found


def clean(before):
    for path, _ in outputs(before):
        if path not in before:
            os.unlink(path)
    for folder, _, names in os.walk(".", topdown=False):
        if folder != "." and not os.listdir(folder):
            os.rmdir(folder)


def quiet_noise(text):
    return re.sub(rb"\d+(\.\d+)? m?s\b", b"T", text)


def must(*args):
    rc, _, err = run(*args)
    if rc != 0:
        raise SystemExit(f"{' '.join(args)}: exit {rc}: {err}")


def npy(descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * (-(11 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data


def write_npz(path, arrays):
    with zipfile.ZipFile(path, "w") as z:
        for name, (descr, shape, data) in arrays.items():
            z.writestr(name + ".npy", npy(descr, shape, data))


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def make_files():
    r = random.Random(3)

    def floats(n):
        return struct.pack("<%df" % n, *[r.gauss(0, 1) for _ in range(n)])

    def net(path):
        write_npz(path, {"fc1.weight": ("<f4", (64, 96), floats(6144)), "fc1.bias": ("<f4", (64,), floats(64)),
                         "fc2.weight": ("<f4", (5, 64), floats(320)), "fc2.bias": ("<f4", (5,), floats(5))})
    for p in ("w.npz", "t.npz", "t2.npz"):
        net(p)
    x, z = floats(1152), floats(1152)
    y = struct.pack("<12q", *[r.randrange(5) for _ in range(12)])
    write_npz("d.npz", {"x": ("<f4", (12, 96), x), "y": ("<i8", (12,), y), "z": ("<f4", (12, 96), z)})
    write_npz("d2.npz", {"x": ("<f4", (12, 96), z), "y": ("<i8", (12,), y)})
    write_npz("x.npz", {"x": ("<f4", (12, 96), x)})
    write_npz("y.npz", {"y": ("<i8", (12,), struct.pack("<12q", *[(k * 2) % 3 for k in range(12)]))})
    for p in ("lora.npz", "lora2.npz"):
        write_npz(p, {"fc1.lora_A.weight": ("<f4", (2, 96), floats(192)), "fc1.lora_B.weight": ("<f4", (64, 2), floats(128))})
    write("g.txt", "input x [batch, 96]\nlinear fc1 64\nrelu\nlinear fc2 5\n")
    write("g2.txt", "input x [batch, 96]\nlinear fc1 64\ntanh\nlinear fc2 5\n")
    write_npz("blk.npz", {"blk.0.attn_v.weight": ("<f4", (64, 256), floats(16384)), "blk.0.ffn_up.weight": ("<f4", (64, 256), floats(16384))})
    write_npz("im.npz", {"blk.0.ffn_up.weight.in_sum2": ("<f4", (256,), struct.pack("<256f", *range(256)))})
    write_npz("l.npz", {"h.%d.w" % k: ("<f4", (4, 4), floats(16)) for k in range(3)})
    write("r.txt", "fc1.weight:0 1\n")
    write("types.txt", "fc1*=keep\n")
    gates = {**{c: {"max_bytes": 1} for c in ("quantize", "prune", "run", "dequantize", "convert", "merge")}, "evaluate": {"min_accuracy": 1}, "distill": {"max_drop": 0.0001}, "fit": {"must_fit": True}, "diff": {"min_sqnr": 200}}
    write("gates.json", json.dumps(gates))
    write("c.txt", "fc1.weight:0 = fc1.bias:0 = fc2.weight:1\n")
    write("gpus.csv", run("gpus", "--csv", "RTX 4090")[1].decode().replace("RTX 4090", "RTX 4091"))
    for folder, n_layers in (("hf", 1), ("hf2", 2)):
        os.mkdir(folder)
        tensors = {"model.embed_tokens.weight": ("<f4", (64, 64), floats(4096)), "model.norm.weight": ("<f4", (64,), floats(64))}
        for h in ("model.layers.%d." % k for k in range(n_layers)):
            tensors.update({h + n + ".weight": ("<f4", (64,), floats(64)) for n in ("input_layernorm", "post_attention_layernorm")})
            tensors.update({h + n + "_proj.weight": ("<f4", (64, 64), floats(4096)) for n in
                            ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down")})
        write_npz("h.npz", tensors)
        must("convert", "h.npz", "-o", folder + "/model.safetensors", "--force")
        write(folder + "/config.json", '{"model_type":"llama","hidden_size":64,"intermediate_size":64,"num_hidden_layers":%d,"num_attention_heads":4,'
              '"num_key_value_heads":4,"vocab_size":64,"max_position_embeddings":512,"rms_norm_eps":1e-5,"tie_word_embeddings":true}' % n_layers)
    write_npz("ids.npz", {"input_ids": ("<i8", (6, 8), struct.pack("<48q", *[r.randrange(64) for _ in range(48)]))})
    write("hf/tokenizer.json", '{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},'
          '"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"decoder":{"type":"ByteLevel"}}')
    os.mkdir("cfg")
    write("cfg/config.json", '{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":128,'
        '"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":256,"max_position_embeddings":512,'
        '"rms_norm_eps":1e-5,"tie_word_embeddings":false,"torch_dtype":"float32"}')
    must("quantize", "--int8", "w.npz", "-o", "q.npz")
    must("prune", "--pattern", "2:4", "--include", "fc*.weight", "w.npz", "-o", "p.npz")
    must("prune", "--sparsity", "0.5", "w.npz", "-o", "n.npz", "--mask-out", "m.npz")
    os.unlink("n.npz")
    must("logits", *EVAL[:-1], "t.npz", "-o", "a.npz")
    must("calibrate", *EVAL, "--second-moments", "-o", "st.npz")
    must("sensitivity", "--graph", "g.txt", "--data", "d.npz", "--json=s.json", "w.npz")


def may_do_nothing(command, mode, name):
    keys = (name, (command, name), (command, "*"), (f"{command} {mode}", name), (f"{command} {mode}", "*"))
    return any(k in MAY_DO_NOTHING for k in keys)


def walk(command, mode, base, wrong):
    before = dict(outputs(None))
    names = options(command)

    def one(extra):
        rc, out, err = run(command, *base, "--diffable", *extra)
        made = outputs(before)
        clean(before)
        return rc, quiet_noise(out), made, err
    rc, out, made, err = one([])
    if rc not in (0, 1):
        wrong.append(f"{command} {mode}: exit {rc}: {err}")
        return 0
    n = 0
    for name, takes in names:
        value = BY_MODE.get((command, name), VALUES.get(name, "?"))
        extra = ["--" + name] + ([value] if takes else [])
        if takes and value == "?":
            wrong.append(f"{command} --{name}: no value is known")
            continue
        if may_do_nothing(command, mode, name):
            continue
        rc2, out2, made2, err2 = one(extra)
        n += 1
        given = extra[0] in base and (len(extra) == 1 or base[base.index(extra[0]) + 1] == extra[1])  # twice the same
        if (rc2, out2, made2) == (rc, out, made) and not given:
            wrong.append(f"{command} {mode}: {' '.join(extra)} changes nothing")
    return n


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    make_files()
    listed = {row["command"] for row in json.loads(run("help", "--options")[1])}
    bad = [f"{c}: neither walked nor left out" for c in sorted(listed ^ (set(MODES) | NOT_WALKED))]
    n_walked = 0
    for c, modes in MODES.items():
        if ONLY and c not in ONLY:
            continue
        for m, line in modes.items():
            n_walked += walk(c, m, line, bad)
    print("\n".join(bad))
    print(f"{n_walked} options, {len(bad)} wrong")
    os.chdir("/")
    sys.exit(1 if bad else 0)
