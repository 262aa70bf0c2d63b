"""Writes npz files that cover what the CUDA kernels do differently: row lengths around every limit of theirs, every
input type, ties, signed zeros, denormals, large magnitudes. Usage: make_inputs.py FOLDER"""
import os
import sys

import numpy as np


def odd_shapes(rng):
    arrays = {}
    for row_len in (33, 64, 100, 1024, 1025, 4096, 4097, 32768, 32769, 131072, 131073, 262144, 300000):
        rows = max(2, 300000 // row_len)
        arrays[f"r{row_len}"] = (rng.standard_normal((rows, row_len)) * 0.02).astype(np.float32)
    arrays["conv"] = rng.standard_normal((64, 32, 3, 3)).astype(np.float32)
    arrays["ties"] = ((np.arange(200000) % 509 - 254) * 0.5).astype(np.float32).reshape(100, 2000)
    small = rng.integers(0, 1 << 23, 100000, dtype=np.uint32)
    arrays["denormal"] = (small | rng.integers(0, 2, 100000, dtype=np.uint32) << 31).view(np.float32).reshape(50, 2000)
    arrays["large"] = np.clip(rng.standard_normal((40, 5000)) * 5e37, -1.6e38, 1.6e38).astype(np.float32)
    arrays["zeros"] = np.where(rng.random((30, 3000)) < 0.5, 0.0, -0.0).astype(np.float32)
    return arrays


def types(rng):
    values = rng.standard_normal((70, 3000)) * 0.1
    return {"f64": values, "f32": values.astype(np.float32), "f16": values.astype(np.float16),
            "tall": values.T.copy(), "f64_small": values * 1e-40}


def main():
    folder = sys.argv[1]
    rng = np.random.default_rng(1)
    np.savez(os.path.join(folder, "shapes.npz"), **odd_shapes(rng))
    np.savez(os.path.join(folder, "types.npz"), **types(rng))


main()
