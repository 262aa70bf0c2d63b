"""weights.py - arrays that are hard on a quantizer, the same on every run. Not a test itself.

Every tensor mixes normal rows of very different size with rows of zeros, denormals, ties, huge values and -0.
"""
import zlib

import numpy as np

import definition as d

DTYPES = ("f32", "f64", "f16", "bf16")

# name: shape. Tiles have 262,144 elements: `wide` has rows longer than a tile, `tiles` and `tall` several tiles.
SHAPES = {
    "lin.odd": (37, 129),
    "one/row": (1, 4101),
    "conv3x3.weight": (16, 24, 3, 3),
    "conv1x1": (40, 40, 1, 1),
    "wide": (2, 262144 + 777),
    "tall": (9001, 33),
    "tiles": (700, 513),
    "cube": (7, 11, 64),
    "ein\u00fcmlaut": (65, 100),
    "chunky": (3, 4096 * 2 + 1),
}


def generator(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def normal(name, shape, spread=1.0):
    """float64, every row with its own size."""
    r = generator(name)
    x = r.standard_normal(shape)
    rows = shape[:1] + (1,) * (len(shape) - 1)
    return x * (0.02 * np.exp(spread * r.standard_normal(rows)))


def hard(name, shape, largest):
    """As normal, with special rows and single values mixed in; everything finite in a type that holds `largest`."""
    r = generator(name + "!")
    x = normal(name, shape).reshape(shape[0], -1)
    n_rows, n_cols = x.shape
    specials = [
        lambda n: np.zeros(n),
        lambda n: np.full(n, -0.0),
        lambda n: r.standard_normal(n) * 1e-41,                       # float32 denormals: the rule for tiny scales
        lambda n: r.standard_normal(n) * 127 * 2.0 ** -126,           # scales around the smallest normal
        lambda n: np.append(r.integers(-127, 127, n - 1) + 0.5, 127.0)[:n],  # scale 1: every element a tie
        lambda n: np.append(r.integers(-254, 254, n - 1) / 4.0, -63.5)[:n],  # scale 1/2
        lambda n: np.where(np.arange(n) % 2, largest, -largest),      # the range itself overflows
        lambda n: np.where(np.arange(n) % 3, largest, largest / 3),
        lambda n: np.abs(r.standard_normal(n)) + 1,                   # one sign only
        lambda n: -np.abs(r.standard_normal(n)) - 1,
        lambda n: np.full(n, 0.1),
        lambda n: np.append(np.full(n - 1, -0.0), -1e-30)[-n:],
    ]
    if n_rows > len(specials):
        for k, special in enumerate(specials):
            x[(k * 3 + 1) % n_rows] = special(n_cols)
    flat = x.reshape(-1)
    flat[r.integers(0, flat.size, max(1, flat.size // 50))] = 0.0
    flat[r.integers(0, flat.size, max(1, flat.size // 100))] = -0.0
    return x.reshape(shape)


LARGEST = {"f16": 65504.0, "bf16": float(d.bf16_to_f32(np.uint16([0x7F7F]))[0]), "f32": float(np.finfo("f4").max),
           "f64": float(np.finfo("f4").max)}  # f64 for int8 goes through f32; larger values have their own tests


def stored(x, dtype):
    """x (float64) in that type, as it lies in a file; bf16 as uint16."""
    if dtype == "bf16":
        return d.f64_to_bf16(x)
    with np.errstate(over="ignore"):
        return x.astype({"f16": "f2", "f32": "f4", "f64": "f8"}[dtype])


def value(a, dtype):
    """The numbers that a stored array stands for: float16, float32 or float64."""
    return d.bf16_to_f32(a) if dtype == "bf16" else a


def model(dtype, shapes=None, spread_only=False):
    """{name: stored array} of every shape."""
    shapes = SHAPES if shapes is None else shapes
    make = (lambda n, s: normal(n, s)) if spread_only else (lambda n, s: hard(n, s, LARGEST[dtype]))
    return {n: stored(make(n, s), dtype) for n, s in shapes.items()}


def save(path, arrays, dtype, compressed=False, bf16_as="V2"):
    """np.savez of a model. bf16 goes as raw void (to be read with --void-as bf16)."""
    if dtype == "bf16" and bf16_as == "V2":
        arrays = {n: a.view("V2") for n, a in arrays.items()}
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
