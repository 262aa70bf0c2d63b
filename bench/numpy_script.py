#!/usr/bin/env python3
"""numpy_script.py - the same job in NumPy, as one writes it by hand: the yardstick of the benchmarks.

usage: numpy_script.py int8|fp16|prune IN.npz OUT.npz [--compressed]

prune: half of the weights of all matrices together become zero, those of least magnitude (ties: more than half).
"""
import sys

import numpy as np


def prune(source):
    with np.load(source) as z:
        out = {name: z[name] for name in z.files}
    magnitudes = np.concatenate([np.abs(w).ravel() for w in out.values() if w.ndim >= 2])
    k = magnitudes.size // 2
    threshold = np.partition(magnitudes, k - 1)[k - 1]
    for w in out.values():
        if w.ndim >= 2:
            w[np.abs(w) <= threshold] = 0
    return out


def main():
    job, source, target = sys.argv[1:4]
    save = np.savez_compressed if "--compressed" in sys.argv else np.savez
    if job == "prune":
        save(target, **prune(source))
        return
    out = {}
    with np.load(source) as z:
        for name in z.files:
            w = z[name]
            if w.ndim < 2:
                out[name] = w
            elif job == "fp16":
                out[name] = w.astype(np.float16)
            else:
                scale = np.abs(w).max(axis=1, keepdims=True) / np.float32(127)
                out[name] = np.clip(np.rint(w / scale), -127, 127).astype(np.int8)
                out[name + ".scale"] = scale
    save(target, **out)


main()
