"""make_npz.py FILE [--deflate] SPEC... - small inputs with fixed contents, with Python's standard library alone.

SPEC is NAME:DTYPE:SHAPE[:KIND], for instance fc1.weight:f4:64x128 or steps:i8:scalar. DTYPE is NumPy's (f2 f4 f8 i1 i4
i8 u1 u2 V2), or raw: then SHAPE is the text of a member that is no array; or U: an array of that one text; or O: an array of a
Python object, None. KIND: random (default, from -1 to 1, the same
on every machine), zeros, nan or inf (random with one of those at index 3), big (random, 70000 at index 3), tiny (random,
below 2^-34), scaled (rows of very different size), +X (random plus X at index 3), %N (integers below N), or ends (1 where a row of tokens has
one, and 0 where it has ended). A FILE that ends in .npy takes one SPEC without a name.
"""

import struct
import sys
import zipfile

FORMATS = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "V2": "H"}


def values(dtype, shape, kind):
    n = 1
    for dim in shape:
        n *= dim
    state = 12345
    out = []
    for i in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        if kind == "zeros":
            x = 0.0
        else:
            x = (state >> 7) / 2.0**23 - 1.0
        if kind == "tiny":
            x *= 2.0**-34
        if kind == "scaled":
            x *= 2.0 ** (i // shape[-1] % 16 - 8)
        out.append(int(x * 100) if dtype[0] in "iu" else x)
    if dtype == "V2" or dtype[0] == "u":
        out = [abs(int(x * 100)) % (256 if dtype == "u1" else 65536) for x in out]
    if kind.startswith("%"):
        out = [abs(int(x * 2**20)) % int(kind[1:]) for x in out]
    if kind == "ends":
        out = [int(i % shape[-1] < 2 + i // shape[-1] * 5 % (shape[-1] - 1)) for i in range(n)]
    if kind in ("nan", "inf", "big"):
        out[3] = {"nan": float("nan"), "inf": float("inf"), "big": 70000.0}[kind]
    elif kind.startswith("+"):
        out[3] += float(kind[1:])
    return out


def npy_of(descr, shape, data):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % (descr, shape)
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def npy(dtype, shape_text, kind):
    if dtype == "U":
        return npy_of("<U%d" % len(shape_text), (1,), shape_text.encode("utf-32-le"))
    if dtype == "O":
        return npy_of("|O", (), b"\x80\x04N.")
    shape = () if shape_text == "scalar" else tuple(int(dim) for dim in shape_text.split("x"))
    descr = "|" + dtype if dtype in ("i1", "u1", "V2") else "<" + dtype
    data = values(dtype, shape, kind)
    return npy_of(descr, shape, struct.pack("<%d%s" % (len(data), FORMATS[dtype]), *data))


def main():
    path, specs = sys.argv[1], sys.argv[2:]
    method = zipfile.ZIP_STORED
    if specs and specs[0] == "--deflate":
        method, specs = zipfile.ZIP_DEFLATED, specs[1:]
    if path.endswith(".npy"):
        dtype, shape, kind = (specs[0] + ":random").split(":")[:3]
        with open(path, "wb") as f:
            f.write(npy(dtype, shape, kind))
        return
    with zipfile.ZipFile(path, "w", method) as z:
        for spec in specs:
            name, dtype, shape, kind = (spec + ":random").split(":")[:4]
            when = (1980, 1, 1, 0, 0, 0)
            if dtype == "raw":
                z.writestr(zipfile.ZipInfo(name, when), shape, method)
            else:
                z.writestr(zipfile.ZipInfo(name + ".npy", when), npy(dtype, shape, kind), method)


main()
