"""make_inputs.py FOLDER CORPUS - small checkpoints of every format and of odd contents, for compare.sh, and files made of
the inputs of the fuzzers (tests/fuzz/corpus). They are the same on every run and machine. Python's standard library only, no NumPy and no PyTorch: a bare machine gets the same inputs as any other.

    npz       a zip of <name>.npy: magic, header as text, values
    st        u64 length, JSON header, values
    GGUF      "GGUF", version, counts, pairs, tensor entries, values at multiples of an alignment
    ONNX      protobuf: ModelProto{graph: GraphProto{node, initializer}}
    PyTorch   a zip of <folder>/data.pkl and <folder>/data/<n>, or the older run of pickles with the storages behind
"""
import collections
import io
import json
import os
import pickle
import random
import struct
import sys
import types
import warnings
import zipfile
import zlib

# type: (NumPy's descr, safetensors', GGUF's number, ONNX's number, PyTorch's storage, bytes)
TYPES = {"f64": ("<f8", "F64", 28, 11, "DoubleStorage", 8), "f32": ("<f4", "F32", 0, 1, "FloatStorage", 4),
         "f16": ("<f2", "F16", 1, 10, "HalfStorage", 2), "bf16": ("|V2", "BF16", 30, 16, "BFloat16Storage", 2),
         "i64": ("<i8", "I64", 27, 7, "LongStorage", 8), "i32": ("<i4", "I32", 26, 6, "IntStorage", 4),
         "i16": ("<i2", "I16", 25, 5, "ShortStorage", 2), "i8": ("|i1", "I8", 24, 3, "CharStorage", 1),
         "u8": ("|u1", "U8", None, 2, "ByteStorage", 1), "bool": ("|b1", "BOOL", None, 9, "BoolStorage", 1)}
# GGUF's block types: number: (elements of a block, bytes, offsets of the f16 scales in it)
BLOCKS = {"q4_0": (2, 32, 18, (0,)), "q4_1": (3, 32, 20, (0, 2)), "q5_0": (6, 32, 22, (0,)), "q5_1": (7, 32, 24, (0, 2)),
          "q8_0": (8, 32, 34, (0,)), "q2_k": (10, 256, 84, (80, 82)), "q3_k": (11, 256, 110, (108,)),
          "q4_k": (12, 256, 144, (0, 2)), "q5_k": (13, 256, 176, (0, 2)), "q6_k": (14, 256, 210, (208,))}
WHEN = (1980, 1, 1, 0, 0, 0)
Array = collections.namedtuple("Array", "name type shape data")


# ---- values ---------------------------------------------------------------------------------------------------------
DICE = random.Random(8)
NOISE = [DICE.gauss(0.0, 1.0) for _ in range(8191)]


def count(shape):
    n = 1
    for dim in shape:
        n *= dim
    return n


def packed(values, kind):
    """The values as they lie in a file, little-endian."""
    if kind == "bf16":  # the upper half of an f32, cut off
        b = struct.pack("<%df" % len(values), *values)
        out = bytearray(len(values) * 2)
        out[0::2], out[1::2] = b[2::4], b[3::4]
        return bytes(out)
    code = {"f64": "d", "f32": "f", "f16": "e", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "u8": "B", "bool": "B"}[kind]
    if kind[0] in "iu":
        low, high = {"i8": (-128, 127), "u8": (0, 255)}.get(kind, (-30000, 30000))
        values = [min(max(int(v * 100), low), high) for v in values]
    elif kind == "bool":
        values = [int(v > 0) for v in values]
    return struct.pack("<%d%s" % (len(values), code), *values)


def normal(shape, seed, scale=0.05):
    """Numbers around 0, each row with a size of its own."""
    n = count(shape)
    row = max(1, n // shape[0]) if shape and shape[0] else max(1, n)
    out = []
    for i in range(0, n, row):
        size = scale * 2.0 ** ((seed + i // row) * 7 % 9 - 4)
        at = (seed * 1009 + i // row * 131) % len(NOISE)
        noise = NOISE[at:at + row]
        while len(noise) < row:
            noise = noise + NOISE[:row - len(noise)]
        out += [size * v for v in noise]
    return out


def array(name, shape, kind="f32", seed=None, values=None):
    if values is None:
        values = normal(shape, zlib.crc32(name.encode()) if seed is None else seed)
    return Array(name, kind, tuple(shape), packed(values, kind))


def plain(kind="f32"):
    """An ordinary small model, with shapes that have an end: no element, no dimension, one row, rows of one."""
    return [array("fc1.weight", (64, 128), kind), array("fc1.bias", (64,), kind), array("conv.weight", (16, 8, 3, 3), kind),
            array("ein\u00fc/x.weight", (33, 129), kind), array("steps", (), "i64"), array("none.weight", (0, 16), kind),
            array("one.row", (1, 4101), kind), array("rows.of.one", (4200, 1), kind), array("tiny", (3, 5), kind),
            array("deep", (2, 3, 4, 5, 6), kind), array("flag", (4, 3), "bool"), array("ids", (70, 64), "i32"),
            array("scalar", (), kind)]


def long_rows():
    """Rows longer than a tile of 2^18 elements, several tiles of short rows, one long row of one dimension."""
    return [array("wide", (2, 262144 + 777)), array("tall", (9001, 33)), array("line", (270001,)),
            array("short", (80, 64), "f16")]


def mixed():
    return [array("w.%s" % kind, (65, 70), kind) for kind in TYPES] + [array("b.%s" % kind, (65,), kind) for kind in TYPES]


def hard(kind="f32"):
    """Rows that are hard on a quantizer: zeros, -0, denormals, ties, one sign, the largest values, one outlier."""
    top = {"f16": 65504.0, "f64": 1e300}.get(kind, 3e38)
    rows = [[0.0] * 96, [-0.0] * 96, [v * 1e-41 for v in NOISE[:96]], [v * 2.0 ** -120 for v in NOISE[:96]],
            [i % 254 - 127 + 0.5 for i in range(95)] + [127.0], [(-1) ** i * top for i in range(96)],
            [abs(v) + 1 for v in NOISE[:96]], [-abs(v) - 1 for v in NOISE[:96]], [0.1] * 96, [0.001] * 95 + [100.0],
            [-1e-30] + [0.0] * 95]
    rows += [[v * 0.02 for v in NOISE[k * 96:k * 96 + 96]] for k in range(40)]
    values = [v for row in rows for v in row]
    return [array("hard", (51, 96), kind, values=values), array("zeros", (64, 64), kind, values=[0.0] * 4096),
            array("soft", (64, 64), kind)]


def nonfinite():
    out = [array("fine", (64, 64))]
    for k, (name, special) in enumerate([("nan", float("nan")), ("inf", float("inf")), ("minus", float("-inf")),
                                         ("big", 70000.0), ("huge", 3.4e38)]):
        values = normal((64, 64), k)
        values[k * 700 + 3] = values[4000] = special
        out.append(array(name, (64, 64), values=values))
    half = normal((64, 64), 7)
    half[9] = float("inf")
    return out + [array("half", (64, 64), "f16", values=half), array("bias", (8,), values=[float("nan")] * 8)]


def layers(kind="bf16", n=2):
    """The weights of a small Llama, under Hugging Face's names."""
    out = [array("model.embed_tokens.weight", (96, 64), kind)]
    for k in range(n):
        at = "model.layers.%d." % k
        out += [array(at + "self_attn.%s_proj.weight" % p, (64, 64), kind, seed=41 * k + 3 * ord(p)) for p in "qkvo"]
        out += [array(at + "mlp.gate_proj.weight", (128, 64), kind), array(at + "mlp.up_proj.weight", (128, 64), kind),
                array(at + "mlp.down_proj.weight", (64, 128), kind)]
        out += [array(at + "input_layernorm.weight", (64,), kind), array(at + "post_attention_layernorm.weight", (64,), kind)]
    return out + [array("model.norm.weight", (64,), kind), array("lm_head.weight", (96, 64), kind)]


def statistics(model):
    """What vcompress calibrate would have found for the layers of a model: sums over 200 rows of small integers."""
    columns = [[(i * i + 7 * j * (i + 3) + j * j) % 17 - 6 for i in range(200)] for j in range(128)]
    products = [[sum(x * y for x, y in zip(c, d)) for d in columns] for c in columns]
    out = []
    for a in model:
        if a.name.endswith("_proj.weight"):
            k = a.shape[1]
            out += [array(a.name + ".counts", (1,), "f64", values=[200]),
                    array(a.name + ".in_sum", (k,), "f64", values=[sum(c) for c in columns[:k]]),
                    array(a.name + ".in_sum2", (k,), "f64", values=[products[j][j] for j in range(k)]),
                    array(a.name + ".in_xtx", (k, k), "f64", values=[x for row in products[:k] for x in row[:k]])]
    return out


# ---- npy, npz -------------------------------------------------------------------------------------------------------
def npy(a, fortran=False, version=1, big=False):
    descr = TYPES[a.type][0]
    data = a.data
    if big:
        size = TYPES[a.type][5]
        descr = ">" + descr[1:]
        data = b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': %r, }" % (descr, fortran, a.shape)
    head = 10 if version == 1 else 12
    text += " " * (-(len(text) + head + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def npz(path, arrays, method=zipfile.ZIP_STORED, extra=(), how=lambda a: {}):
    with zipfile.ZipFile(path, "w") as z:
        for a in arrays:
            z.writestr(zipfile.ZipInfo(a.name + ".npy", WHEN), npy(a, **how(a)), method)
        for name, data in extra:
            z.writestr(zipfile.ZipInfo(name, WHEN), data, method)


def numpy_files(at):
    npz(at + "plain.npz", plain())
    npz(at + "deflated.npz", plain(), zipfile.ZIP_DEFLATED)
    npz(at + "long.npz", long_rows())
    npz(at + "mixed.npz", mixed())
    npz(at + "nonfinite.npz", nonfinite())
    npz(at + "hf.npz", layers("f32", 1))
    npz(at + "layers-statistics.npz", statistics(layers("f32")))
    for kind in ("f64", "f32", "f16", "bf16"):
        npz(at + "hard-%s.npz" % kind, hard(kind))
    npz(at + "odd.npz", plain(), extra=[("notes.txt", b"no array"), ("sub/more.bin", bytes(300)), ("empty", b"")],
        how=lambda a: {"fortran": len(a.shape) > 1, "version": 1 + len(a.name) % 2, "big": a.type in ("f32", "i32")})
    npz(at + "names.npz", [array(n, (64, 64)) for n in ("a b", "w\u202eird", 'quo"te', "per%cent", "x" * 300, "dot.", "[1]")])
    npz(at + "nothing.npz", [])
    npz(at + "scales.npz", [Array("w", "i8", (64, 64), packed(normal((64, 64), 3, 5.0), "i8")),
                            array("w.scale", (64, 1), values=[0.01 * (i + 1) for i in range(64)]), array("v", (64, 64))])
    for a in (array("x", (64, 70)), array("x", (), seed=1), array("x", (5000,), "f16"), array("x", (64, 64), "i8")):
        save(at + "%s-%d.npy" % (a.type, len(a.shape)), npy(a))
    save(at + "fortran.npy", npy(array("x", (64, 70)), fortran=True))
    save(at + "big.npy", npy(array("x", (64, 70), "f64"), big=True))


def save(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


# ---- safetensors ----------------------------------------------------------------------------------------------------
def safetensors(path, arrays, metadata=None, pad=0):
    head, at = {}, 0
    if metadata is not None:
        head["__metadata__"] = metadata
    for a in arrays:
        head[a.name] = {"dtype": TYPES[a.type][1], "shape": list(a.shape), "data_offsets": [at, at + len(a.data)]}
        at += len(a.data)
    text = json.dumps(head).encode() + b" " * pad
    save(path, struct.pack("<Q", len(text)) + text + b"".join(a.data for a in arrays))


def model_folder(at, kind, model, n_shards, config):
    """A folder as transformers writes it: shards, their index, config.json and files that only go along."""
    arrays = layers(kind) if model == "llama" else [array("h.%d.attn.c_attn.weight" % k, (64, 192), kind) for k in range(4)]
    config = dict({"model_type": model, "torch_dtype": {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}[kind],
                   "hidden_size": 64, "eps": 1e-06, "architectures": ["X"]}, **config)
    index = {"metadata": {"total_size": sum(len(a.data) for a in arrays)}, "weight_map": {}}
    step = -(-len(arrays) // n_shards)
    for k in range(n_shards):
        name = "model-%05d-of-%05d.safetensors" % (k + 1, n_shards) if n_shards > 1 else "model.safetensors"
        own = arrays[k * step:(k + 1) * step]
        safetensors(at + name, own, {"format": "pt"})
        index["weight_map"].update({a.name: name for a in own})
    if n_shards > 1:
        save(at + "model.safetensors.index.json", json.dumps(index, indent=2).encode())
    save(at + "config.json", json.dumps(config, indent=2).encode() + b"\n")
    save(at + "tokenizer.json", b"{}")
    save(at + "README.md", b"a model\n")
    save(at + "1_Pooling/config.json", b'{"b": 2}')


def safetensors_files(at):
    safetensors(at + "plain.safetensors", plain(), {"format": "pt", "who": "m\u00fc"})
    safetensors(at + "bare.safetensors", plain(), None, 3)
    safetensors(at + "mixed.safetensors", mixed(), {"format": "pt"})
    safetensors(at + "nonfinite.safetensors", nonfinite(), {"format": "pt"})
    for kind in ("f32", "f16", "bf16"):
        safetensors(at + "layers-%s.safetensors" % kind, layers(kind), {"format": "pt"})
        safetensors(at + "hard-%s.safetensors" % kind, hard(kind), {"format": "pt"})
    safetensors(at + "nothing.safetensors", [])
    model_folder(at + "llama/", "bf16", "llama", 3, {})
    model_folder(at + "llama-tied/", "f16", "llama", 1, {"tie_word_embeddings": True})
    model_folder(at + "gpt2/", "f32", "gpt2", 2, {})
    model_folder(at + "no-map/", "f32", "llama", 2, {})
    os.remove(at + "no-map/model.safetensors.index.json")


# ---- GGUF -----------------------------------------------------------------------------------------------------------
def gguf_string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def gguf_pair(key, kind, data):
    return gguf_string(key) + struct.pack("<I", kind) + data


def gguf_pairs(architecture="llama"):
    words = b"".join(gguf_string(w) for w in ("<s>", "a", "\u00e4"))
    return [gguf_pair("general.architecture", 8, gguf_string(architecture)), gguf_pair("general.file_type", 4, struct.pack("<I", 0)),
            gguf_pair("llama.rope.freq_base", 6, struct.pack("<f", 1e4)), gguf_pair("a.flag", 7, b"\1"),
            gguf_pair("tokenizer.tokens", 9, struct.pack("<IQ", 8, 3) + words)]


def gguf(path, arrays, pairs, align=32, version=3):
    head = b"GGUF" + struct.pack("<IQQ", version, len(arrays), len(pairs)) + b"".join(pairs)
    data = b""
    for a in arrays:
        number = BLOCKS[a.type][0] if a.type in BLOCKS else TYPES[a.type][2]
        head += gguf_string(a.name) + struct.pack("<I", len(a.shape)) + b"".join(struct.pack("<Q", n) for n in a.shape[::-1])
        head += struct.pack("<IQ", number, len(data))
        data += a.data + bytes(-len(a.data) % align)
    save(path, head + bytes(-len(head) % align) + data)


def blocks(name, kind, rows, cols):
    _, elems, size, scales = BLOCKS[kind]
    r = random.Random(kind)
    data = bytearray()
    for _ in range(rows * cols // elems):
        block = bytearray(r.getrandbits(8) for _ in range(size))
        for at in scales:
            block[at:at + 2] = struct.pack("<e", r.uniform(-0.01, 0.01))
        data += block
    return Array(name, kind, (rows, cols), bytes(data))


def gguf_model(n=2):
    out = [array("token_embd.weight", (96, 64))]
    for k in range(n):
        out += [array("blk.%d.attn_q.weight" % k, (64, 64)), array("blk.%d.ffn_up.weight" % k, (128, 64), "f16"),
                array("blk.%d.attn_norm.weight" % k, (64,)), array("blk.%d.odd.weight" % k, (64, 70))]
    return out + [array("rope_freqs.weight", (16,)), array("output.weight", (96, 64), "bf16")]


def gguf_files(at):
    gguf(at + "plain.gguf", gguf_model(), gguf_pairs())
    gguf(at + "aligned.gguf", gguf_model(1), gguf_pairs() + [gguf_pair("general.alignment", 4, struct.pack("<I", 128))], 128)
    gguf(at + "blocks.gguf", [blocks("blk.0.%s.weight" % k, k, 24, 256) for k in BLOCKS] + gguf_model(1), gguf_pairs())
    gguf(at + "version2.gguf", gguf_model(1), gguf_pairs("gpt2"), version=2)
    gguf(at + "hard.gguf", [a for a in hard() + nonfinite()], gguf_pairs())
    gguf(at + "wide.gguf", [array("wide.weight", (2, 262144 + 1024)), array("tall.weight", (9001, 32), "f16")], gguf_pairs())
    model = gguf_model(3)
    parts = [model[:5], model[5:6], model[6:]]
    for k, own in enumerate(parts):
        split = [gguf_pair("split.no", 2, struct.pack("<H", k)), gguf_pair("split.count", 2, struct.pack("<H", 3)),
                 gguf_pair("split.tensors.count", 5, struct.pack("<i", len(model)))]
        gguf(at + "several/m-%05d-of-00003.gguf" % (k + 1), own, (gguf_pairs() if k == 0 else []) + split)


# ---- ONNX -----------------------------------------------------------------------------------------------------------
def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, v):
    if isinstance(v, int):
        return varint(number << 3) + varint(v)
    v = v.encode() if isinstance(v, str) else v
    return varint(number << 3 | 2) + varint(len(v)) + v


def onnx_tensor(a, how="raw", where=None):
    """TensorProto: dims 1, data_type 2, float_data 4, name 8, raw_data 9, external_data 13, data_location 14."""
    out = b"".join(field(1, n) for n in a.shape) + field(2, TYPES[a.type][3])
    if how == "list":
        out += field(4, a.data)
    out += field(8, a.name)
    if how == "raw":
        out += field(9, a.data)
    for key, v in where or ():
        out += field(13, field(1, key) + field(2, v))
    return out + (field(14, 1) if where else b"")


def node(op, inputs, outputs, **attributes):
    out = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(4, op)
    for key, v in attributes.items():
        out += field(5, field(1, key) + (field(3, v) + field(20, 2) if isinstance(v, int) else field(5, v) + field(20, 4)))
    return out


def value_info(name, dims, number=1):
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, number) + field(2, shape)))


def onnx(path, nodes, inits, ins, outs, opset=17, ir=8, more=b""):
    graph = b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, t) for t in inits)
    graph += b"".join(field(11, i) for i in ins) + b"".join(field(12, o) for o in outs) + more
    save(path, field(1, ir) + field(2, "inputs") + field(7, graph) + field(8, field(1, "") + field(2, opset)))


def perceptron(kind="f32"):
    """MatMul, Gemm with and without transB, a weight that two nodes share, a Constant node, a convolution."""
    nodes = [node("MatMul", ["x", "w1"], ["h0"]), node("Add", ["h0", "b1"], ["h1"]), node("Relu", ["h1"], ["h2"]),
             node("Gemm", ["h2", "w2", "b2"], ["h3"], transB=1), node("MatMul", ["h3", "shared"], ["h4"]),
             node("MatMul", ["h4", "shared"], ["h5"]), node("Gemm", ["h5", "w3"], ["h6"]),
             node("Constant", [], ["c"], value=onnx_tensor(array("in a node", (10, 10), kind))),
             node("MatMul", ["h6", "c"], ["y"]), node("Conv", ["image", "conv"], ["z"]),
             node("ConvTranspose", ["z", "up"], ["zz"]), node("Gather", ["table", "ids"], ["row"])]
    arrays = [array("w1", (48, 64), kind), array("b1", (64,), kind), array("w2", (40, 64), kind), array("b2", (40,), kind),
              array("shared", (40, 40), kind), array("w3", (40, 10), kind), array("conv", (16, 3, 3, 3), kind),
              array("up", (16, 8, 2, 2), kind), array("table", (100, 64), kind), array("ids", (3,), "i64"),
              array("unused", (64, 64), kind)]
    number = TYPES[kind][3]
    ins = [value_info("x", ["n", 48], number), value_info("image", [1, 3, 12, 12], number)]
    outs = [value_info(n, ["n", 10], number) for n in ("y", "zz", "row")]
    return nodes, arrays, ins, outs


def onnx_files(at):
    for kind in ("f32", "f16"):
        nodes, arrays, ins, outs = perceptron(kind)
        onnx(at + "plain-%s.onnx" % kind, nodes, [onnx_tensor(a) for a in arrays], ins, outs)
    nodes, arrays, ins, outs = perceptron()
    onnx(at + "lists.onnx", nodes, [onnx_tensor(a, "list" if a.type == "f32" else "raw") for a in arrays], ins, outs)
    onnx(at + "old.onnx", nodes, [onnx_tensor(a) for a in arrays], ins + [value_info(a.name, a.shape) for a in arrays], outs,
         opset=9, ir=3, more=field(13, value_info("h0", ["n", 64])))
    inits, blob = [], b""
    for a in arrays:
        inits.append(onnx_tensor(a, "elsewhere", (("location", "weights.bin"), ("offset", str(len(blob))),
                                                  ("length", str(len(a.data))))))
        blob += a.data + bytes(-len(a.data) % 4096)
    onnx(at + "external/model.onnx", nodes, inits, ins, outs)
    save(at + "external/weights.bin", blob)
    wide = array("wide", (2, 262144 + 777))
    onnx(at + "wide.onnx", [node("MatMul", ["x", "wide"], ["y"])], [onnx_tensor(wide)], [value_info("x", ["n", 2])],
         [value_info("y", ["n", 262144 + 777])])


# ---- PyTorch --------------------------------------------------------------------------------------------------------
class Storage:
    """The memory that one or several tensors look at."""

    def __init__(self, a):
        self.type, self.data, self.n = TYPES[a.type][4], a.data, len(a.data) // TYPES[a.type][5]


class Tensor:
    def __init__(self, storage, shape, offset=0, strides=None):
        if strides is None:
            strides, step = [], 1
            for dim in shape[::-1]:
                strides.insert(0, step)
                step *= dim
        self.parts = (storage, offset, tuple(shape), tuple(strides), False, collections.OrderedDict())

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.parts


def pretend_torch():
    """Modules of PyTorch's names, so that pickle writes these names; nothing of them is ever called."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for kind in TYPES.values():
        setattr(torch, kind[4], type(kind[4], (), {"__module__": "torch"}))

    def _rebuild_tensor_v2():
        return None
    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    sys.modules.update({"torch": torch, "torch._utils": utils})


class Pickler(pickle.Pickler):
    def __init__(self, f, legacy):
        super().__init__(f, 2)
        self.legacy, self.keys, self.storages = legacy, {}, []

    def persistent_id(self, thing):
        if not isinstance(thing, Storage):
            return None
        if id(thing) not in self.keys:
            self.keys[id(thing)] = str(len(self.storages))
            self.storages.append(thing)
        found = ("storage", getattr(sys.modules["torch"], thing.type), self.keys[id(thing)], "cpu", thing.n)
        return found + ((None,) if self.legacy else ())


def torch_zip(path, thing):
    f = io.BytesIO()
    p = Pickler(f, False)
    p.dump(thing)
    with zipfile.ZipFile(path, "w") as z:
        for name, data in [("data.pkl", f.getvalue()), ("byteorder", b"little")] + \
                [("data/%d" % k, s.data) for k, s in enumerate(p.storages)] + [("version", b"3\n")]:
            z.writestr(zipfile.ZipInfo("archive/" + name, WHEN), data)


def torch_legacy(path, thing):
    with open(path, "wb") as f:
        pickle.dump(0x1950a86a20f9469cfc6c, f, 2)
        pickle.dump(1001, f, 2)
        pickle.dump({"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}, f, 2)
        p = Pickler(f, True)
        p.dump(thing)
        pickle.dump([str(k) for k in range(len(p.storages))], f, 2)
        for s in p.storages:
            f.write(struct.pack("<q", s.n) + s.data)


def state(arrays):
    return collections.OrderedDict((a.name, Tensor(Storage(a), a.shape)) for a in arrays)


def views():
    """Tied tensors, a transposed one, every other row, a part, an expanded one."""
    s = Storage(array("w", (128, 96)))
    out = collections.OrderedDict(w=Tensor(s, (128, 96)), tied=Tensor(s, (128, 96)), t=Tensor(s, (96, 128), 0, (1, 96)),
                                  rows=Tensor(s, (64, 96), 0, (192, 1)), part=Tensor(s, (37, 45), 293, (96, 1)))
    out["expanded"] = Tensor(Storage(array("e", (6,))), (70, 6), 0, (0, 1))
    out.update(state([array("last", (8, 64, 5, 5), "bf16"), array("none", (0, 3)), array("scalar", (), "f64")]))
    return out


def training():
    model = state(plain()[:4])
    moments = {k: {"step": 5, "exp_avg": Tensor(Storage(array("m%d" % k, (64, 128))), (64, 128))} for k in range(2)}
    return {"epoch": 3, "model_state_dict": model, "optimizer": {"state": moments, "param_groups": [{"lr": 0.1}]},
            "ema": {"fc1.weight": Tensor(Storage(array("ema", (64, 128))), (64, 128))}, "names": ["a", "\u00e4", None],
            "rng": Tensor(Storage(array("rng", (500,), "u8")), (500,)), "big": 2 ** 40, "nets": [state(plain()[:2])]}


def torch_files(at):
    pretend_torch()
    for name, thing in (("plain", state(plain())), ("mixed", state(mixed())), ("views", views()), ("training", training()),
                        ("layers", state(layers("bf16")))):
        torch_zip(at + name + ".pt", thing)
        torch_legacy(at + name + "-legacy.pt", thing)
    torch_zip(at + "long.pt", state(long_rows()))
    torch_zip(at + "empty.pt", {})


# ---- damage ---------------------------------------------------------------------------------------------------------
def damage(at):
    """Small files of every format, cut and with single bytes changed, in FOLDER/damaged."""
    small = [array("w", (8, 64)), array("v", (5, 7), "f16"), array("n", (), "i64")]
    npz(at + "seed.npz", small)
    npz(at + "seed-deflated.npz", small, zipfile.ZIP_DEFLATED)
    save(at + "seed.npy", npy(small[0]))
    safetensors(at + "seed.safetensors", small, {"format": "pt"})
    gguf(at + "seed.gguf", [small[0], blocks("q", "q4_k", 1, 256)], gguf_pairs())
    onnx(at + "seed.onnx", [node("MatMul", ["x", "w"], ["y"])], [onnx_tensor(a) for a in small], [value_info("x", ["n", 8])],
         [value_info("y", ["n", 64])])
    torch_zip(at + "seed.pt", state(small))
    torch_legacy(at + "seed-legacy.pt", state(small))
    for name in sorted(os.listdir(at)):
        with open(at + name, "rb") as f:
            whole = f.read()
        r = random.Random(name)
        for k in range(10):
            save(at + "cut%d-%s" % (k, name), whole[:len(whole) * k // 10])
        for k in range(30):
            changed = bytearray(whole)
            # Headers are at the beginning or the end of a file, so that most changes go there.
            where = r.choice((r.randrange(min(300, len(whole))), r.randrange(len(whole)), -1 - r.randrange(min(400, len(whole)))))
            changed[where] ^= r.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
            save(at + "changed%d-%s" % (k, name), bytes(changed))


# ---- the corpus of the fuzzers --------------------------------------------------------------------------------------
MEMBERS = ["w.npy", "w.scale.npy", "w.zero_point.npy", "h.npy", "v.npy", "v.scale.npy", "vcompress.json", "note", "w",
           "h.scale.npy", "vcompress.json.npy"]


def member_list(data):
    """fuzz_members.c: u8 kind, u8 name, u8 extra, u16 n, n bytes, repeated; as an archive. Streams that are no deflate
    streams of zlib's become stored members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        at = 0
        while len(data) - at >= 5 and len(z.namelist()) < 12:
            kind, name, extra, n = data[at] & 3, MEMBERS[data[at + 1] % len(MEMBERS)], data[at + 2], data[at + 3] | data[at + 4] << 8
            part = data[at + 5:at + 5 + n]
            at += 5 + len(part)
            if kind == 3:
                shape = tuple((part[k] & 7) if k < len(part) else 1 for k in range(extra >> 3 & 3))
                descr, size = [("|i1", 1), ("<f4", 4), ("<u2", 2), ("<f2", 2), ("<f8", 8), (">f4", 4), ("|V2", 2), ("|i1", 1)][extra & 7]
                text = "{'descr': '%s', 'fortran_order': %s, 'shape': %r, }\n" % (descr, bool(extra & 32), shape)
                part = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + bytes(count(shape) * size)
            info = zipfile.ZipInfo(name, WHEN)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # names may occur twice
                z.writestr(info, part, zipfile.ZIP_DEFLATED if kind == 1 or extra & 64 else zipfile.ZIP_STORED)
    return out.getvalue()


def pickle_archive(data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, content in [("data.pkl", data)] + [("data/%d" % k, bytes(2048)) for k in range(4)]:
            z.writestr(zipfile.ZipInfo("archive/" + name, WHEN), content)
    return out.getvalue()


def corpus(at, source):
    """Each input as the file that its fuzz program makes of it."""
    for kind in sorted(os.listdir(source)):
        for name in sorted(os.listdir(os.path.join(source, kind))):
            with open(os.path.join(source, kind, name), "rb") as f:
                data = f.read()
            path = at + kind + "/" + name
            if kind == "index":  # the index, a byte 0, config.json
                index, _, config = data.partition(b"\0")
                save(path + "/model.safetensors.index.json", index)
                save(path + "/config.json", config)
                safetensors(path + "/a.safetensors", layers("f16", 1), {"format": "pt"})
                safetensors(path + "/other.safetensors", [])
                continue
            if kind == "members":
                data = member_list(data)
            elif kind == "pickle":
                data = pickle_archive(data)
            elif kind == "safetensors" and data[:1] == b"{" and data[8:9] != b"{":
                data = struct.pack("<Q", max(data.rfind(b"}") + 1, 1)) + data
            elif kind == "gguf" and data[:4] != b"GGUF":
                data = b"GGUF\3\0\0\0" + data
            elif kind == "onnx" and data[:1] != b"\x08":
                data = b"\x08\x08" + data
            save(path, data)


def main():
    at = os.path.join(sys.argv[1], "")
    os.makedirs(at, exist_ok=True)
    for make in (numpy_files, safetensors_files, gguf_files, onnx_files, torch_files):
        make(at)
    os.makedirs(at + "damaged", exist_ok=True)
    damage(at + "damaged/")
    corpus(at + "corpus/", sys.argv[2])


main()
