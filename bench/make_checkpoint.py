#!/usr/bin/env python3
"""make_checkpoint.py - deterministic inputs for the benchmarks. Needs NumPy for real values.

usage: make_checkpoint.py OUT.npz [--layers N] [--compressed]   a decoder-only transformer, f32: 1.47 GB with 24 layers
       make_checkpoint.py OUT.safetensors [--layers N]          the same
       make_checkpoint.py OUT.gguf [--layers N]                 shapes, names and metadata as llama.cpp wants them
       make_checkpoint.py OUT.npz --zeros GB                    the same shapes repeated up to GB, values zero
       make_checkpoint.py OUT.npz --one GB                      a single matrix of GB, values zero

The files of zeros are sparse, so that memory use can be measured on sizes that would not fit into a RAM disk; their
checksums are right.
"""
import argparse
import json
import struct
import zipfile
import zlib

WIDTH, HIDDEN, VOCABULARY = 1024, 4096, 32000


def shapes(layers):
    yield "transformer.wte.weight", (VOCABULARY, WIDTH)
    for k in range(layers):
        p = "transformer.h.%d." % k
        for name, shape in [("ln_1.weight", (WIDTH,)), ("ln_1.bias", (WIDTH,)), ("attn.qkv.weight", (3 * WIDTH, WIDTH)),
                            ("attn.qkv.bias", (3 * WIDTH,)), ("attn.proj.weight", (WIDTH, WIDTH)),
                            ("attn.proj.bias", (WIDTH,)), ("ln_2.weight", (WIDTH,)), ("ln_2.bias", (WIDTH,)),
                            ("mlp.up.weight", (HIDDEN, WIDTH)), ("mlp.up.bias", (HIDDEN,)),
                            ("mlp.down.weight", (WIDTH, HIDDEN)), ("mlp.down.bias", (WIDTH,))]:
            yield p + name, shape
    yield "transformer.ln_f.weight", (WIDTH,)
    yield "lm_head.weight", (VOCABULARY, WIDTH)


def generator():
    """A function from shapes to values."""
    import numpy as np
    r = np.random.default_rng(1618)

    def make(shape):
        if len(shape) == 1:
            return (r.standard_normal(shape, dtype="f4") * np.float32(0.1) + np.float32(1)).astype("f4")
        w = r.standard_normal(shape, dtype="f4")  # rows of different size, as training leaves them
        w *= np.exp(np.float32(0.25) * r.standard_normal((shape[0], 1), dtype="f4")) * np.float32(0.02)
        return w

    return make


def count(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def npz(path, layers, compressed):
    import numpy as np
    make = generator()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as z:
        for name, shape in shapes(layers):
            with z.open(zipfile.ZipInfo(name + ".npy") if not compressed else name + ".npy", "w",
                        force_zip64=True) as f:
                np.lib.format.write_array(f, make(shape))


def safetensors(path, layers):
    make, header, at = generator(), {}, 0
    for name, shape in shapes(layers):
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count(shape)]}
        at += 4 * count(shape)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, shape in shapes(layers):
            f.write(make(shape).data)


def llama_shapes(layers):
    ffn = 2816
    yield "token_embd.weight", (VOCABULARY, WIDTH)
    for k in range(layers):
        for name, shape in [("attn_norm", (WIDTH,)), ("attn_q", (WIDTH, WIDTH)), ("attn_k", (WIDTH, WIDTH)),
                            ("attn_v", (WIDTH, WIDTH)), ("attn_output", (WIDTH, WIDTH)), ("ffn_norm", (WIDTH,)),
                            ("ffn_gate", (ffn, WIDTH)), ("ffn_up", (ffn, WIDTH)), ("ffn_down", (WIDTH, ffn))]:
            yield "blk.%d.%s.weight" % (k, name), shape
    yield "output_norm.weight", (WIDTH,)
    yield "output.weight", (VOCABULARY, WIDTH)


def gguf(path, layers):
    """All f32: type 0, offsets to multiples of 32, dimensions from the fastest to the slowest."""
    def text(t):
        return struct.pack("<Q", len(t)) + t.encode()

    u32 = {"context_length": 2048, "embedding_length": WIDTH, "block_count": layers, "feed_forward_length": 2816,
           "attention.head_count": 16, "attention.head_count_kv": 16, "rope.dimension_count": 64,
           "vocab_size": VOCABULARY}
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    pairs += [text("llama." + k) + struct.pack("<II", 4, v) for k, v in u32.items()]
    pairs += [text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
    pairs += [text("general.file_type") + struct.pack("<II", 4, 0)]
    tensors, at = list(llama_shapes(layers)), 0
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    for name, shape in tensors:
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack("<%dQ" % len(shape), *reversed(shape))
        head += struct.pack("<IQ", 0, at)
        at += -(-4 * count(shape) // 32) * 32
    make = generator()
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for _, shape in tensors:
            f.write(make(shape).data)
            f.write(bytes(-4 * count(shape) % 32))


def npy_header(shape):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % (", ".join(map(str, shape)) + ",")
    text += " " * (-(11 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()


def crc_of(header, n):
    crc, block = zlib.crc32(header), bytes(1 << 24)
    for k in range(0, n, len(block)):
        crc = zlib.crc32(block[:min(len(block), n - k)], crc)
    return crc


def zeros(path, tensors):
    """Stored members with zip64 sizes, written by hand so that the values stay holes in the file."""
    directory, known, n_members = [], {}, 0
    with open(path, "wb") as f:
        for name, shape in tensors:
            header, n = npy_header(shape), 4 * count(shape)
            if shape not in known:
                known[shape] = crc_of(header, n)
            raw, size, at = (name + ".npy").encode(), len(header) + n, f.tell()
            sizes = struct.pack("<HHQQ", 1, 16, size, size)
            f.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, 0, 0, 0, 33, known[shape], 0xFFFFFFFF, 0xFFFFFFFF,
                                len(raw), len(sizes)) + raw + sizes + header)
            f.seek(n, 1)
            extra = struct.pack("<HHQQQ", 1, 24, size, size, at)
            directory.append(struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 45, 45, 0, 0, 0, 33, known[shape],
                                         0xFFFFFFFF, 0xFFFFFFFF, len(raw), len(extra), 0, 0, 0, 0, 0xFFFFFFFF)
                             + raw + extra)
            n_members += 1
        at = f.tell()
        f.write(b"".join(directory))
        end = f.tell()
        f.write(struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, n_members, n_members, end - at, at))
        f.write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        f.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


def many(gigabytes):
    total, k = 0, 0
    while True:
        for name, shape in shapes(24):
            yield "part%d.%s" % (k, name), shape
            total += 4 * count(shape)
            if total >= gigabytes * 1e9:
                return
        k += 1


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("out")
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--compressed", action="store_true")
    p.add_argument("--zeros", type=float, metavar="GB")
    p.add_argument("--one", type=float, metavar="GB")
    a = p.parse_args()
    if a.zeros:
        zeros(a.out, many(a.zeros))
    elif a.one:
        zeros(a.out, [("huge.weight", (int(a.one * 1e9 / 4 / 8192), 8192))])
    elif a.out.endswith(".safetensors"):
        safetensors(a.out, a.layers)
    elif a.out.endswith(".gguf"):
        gguf(a.out, a.layers)
    else:
        npz(a.out, a.layers, a.compressed)


if __name__ == "__main__":
    main()
