"""test_gguf_types.py - quantize --gguf: types, bytes and metadata of every mixture against llama-quantize's own output (digests
of its data, made once with llama.cpp of October 2026: the same generator of weights), values against the package gguf."""
import hashlib
import itertools
import os
import struct
import unittest

import numpy as np

from judge_support import Judge
from test_gguf import ARCHITECTURE, F16, U32, gguf_read, gguf_write, pair_string, pair_u32, string

try:
    import gguf
except ImportError:
    gguf = None

NUMBERS = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12, "q5_k": 13,
           "q6_k": 14, "iq4_nl": 20, "iq4_xs": 23, "tq1_0": 34, "tq2_0": 35, "mxfp4": 39, "q1_0": 41, "q2_0": 42}
NAMES = {n: name for name, n in NUMBERS.items()}
FILE_TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14,
              "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38,
              "Q1_0": 40, "Q2_0": 41}


STREAMS = 2048


def sums(name, n):
    """n weights of a bell, the same on every machine: sums of four uniform numbers of a generator that the name starts."""
    state = sum(name.encode()) * 2654435761 % 2**32
    lanes, jump_a, jump_c = [], 1, 0
    for _ in range(STREAMS):  # streams side by side, so that NumPy makes them at once
        state = (state * 1664525 + 1013904223) % 2**32
        lanes.append(state)
        jump_a, jump_c = jump_a * 1664525 % 2**32, (jump_c * 1664525 + 1013904223) % 2**32
    lanes = np.array(lanes, "u4")
    out = np.empty(4 * n, "u4")
    for i in range(0, 4 * n, STREAMS):
        out[i:i + STREAMS] = lanes[:4 * n - i]
        lanes = lanes * np.uint32(jump_a) + np.uint32(jump_c)
    return ((out >> 16).astype("i8").reshape(n, 4).sum(1) - 131072).astype("f4") * np.float32(2.0**-22)


def weight(name, shape, dtype):
    w = sums(name, int(np.prod(shape))).reshape(shape)
    w = w * np.exp2(np.arange(shape[-2]) % 3 - 1).astype("f4")[:, None] if len(shape) > 1 else w + np.float32(1)
    return w.astype(dtype)


# What is told apart: layers enough for eighths and sixteenths, groups of query heads, tied embeddings, experts, odd rows.
MODELS = {
    "llama": dict(hidden=256, inner=256, layers=8, heads=4, kv=1, experts=0, tied=False, dtype="f2"),
    "deep": dict(hidden=256, inner=256, layers=16, heads=2, kv=2, experts=0, tied=False, dtype="f2"),
    "tied": dict(hidden=288, inner=544, layers=2, heads=4, kv=4, experts=0, tied=True, dtype="f4"),
    "moe": dict(hidden=256, inner=256, layers=2, heads=4, kv=2, experts=8, tied=False, dtype="f4"),
}
MIXTURES = {"llama": tuple(m for m in FILE_TYPES if m not in ("IQ4_NL", "IQ4_XS")), "deep": ("Q3_K_M", "Q4_K_S", "Q2_K"), "tied": ("Q4_0", "Q4_K_M", "Q3_K_L", "IQ4_XS", "TQ1_0", "Q2_0"),
            "moe": ("Q4_K_M", "Q2_K", "Q5_K_S", "MXFP4_MOE", "Q3_K_S")}
PURE = {("llama", "Q4_K_M"), ("tied", "IQ4_XS"), ("moe", "Q6_K")}


def runs():
    """(model, mixture, pure) of every run."""
    return [(m, x, False) for m in MODELS for x in MIXTURES[m]] + [(m, x, True) for m, x in sorted(PURE)]


def model(name):
    """[(name, number, shape, bytes)] in the order of a converter, and the metadata."""
    m = MODELS[name]
    h, f, kv = m["hidden"], m["inner"], m["hidden"] * m["kv"] // m["heads"]
    number = {"f2": F16, "f4": 0}[m["dtype"]]
    out = []

    def add(tensor, *shape):
        one = len(shape) == 1 or "gate_inp" in tensor
        w = weight(tensor, shape, "f4" if one else m["dtype"])
        out.append((tensor, 0 if one else number, shape, w.tobytes()))

    add("token_embd.weight", 96, h)
    for i in range(m["layers"]):
        p = "blk.%d." % i
        add(p + "attn_norm.weight", h)
        add(p + "attn_q.weight", h, h)
        add(p + "attn_k.weight", kv, h)
        add(p + "attn_v.weight", kv, h)
        add(p + "attn_output.weight", h, h)
        add(p + "ffn_norm.weight", h)
        if m["experts"]:
            add(p + "ffn_gate_inp.weight", m["experts"], h)
            add(p + "ffn_gate_exps.weight", m["experts"], f, h)
            add(p + "ffn_up_exps.weight", m["experts"], f, h)
            add(p + "ffn_down_exps.weight", m["experts"], h, f)
        else:
            add(p + "ffn_gate.weight", f, h)
            add(p + "ffn_up.weight", f, h)
            add(p + "ffn_down.weight", h, f)
    add("output_norm.weight", h)
    if not m["tied"]:
        add("output.weight", 96, h)
    epsilon = string("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)
    pairs = [ARCHITECTURE, pair_u32("llama.block_count", m["layers"]), pair_u32("llama.context_length", 64),
             pair_u32("llama.embedding_length", h), pair_u32("llama.feed_forward_length", f),
             pair_u32("llama.attention.head_count", m["heads"]), pair_u32("llama.attention.head_count_kv", m["kv"]), epsilon,
             pair_u32("llama.vocab_size", 96), pair_string("tokenizer.ggml.model", "no_vocab"),
             pair_u32("general.file_type", 1 if m["dtype"] == "f2" else 0)]
    if m["experts"]:
        pairs += [pair_u32("llama.expert_count", m["experts"]), pair_u32("llama.expert_used_count", 2)]
    return out, tuple(pairs)


def digest(tensors):
    """Names, types and bytes of all tensors, in the order of names."""
    h = hashlib.sha256()
    for name in sorted(tensors):
        number, _, content = tensors[name]
        h.update(b"%s %d " % (name.encode(), number))
        h.update(content)
    return h.hexdigest()[:16]


# digest() of what llama-quantize wrote.
GOLDEN = {
    ("llama", "Q4_0", False): "ee3ed1879485960e", ("llama", "Q4_1", False): "17b769072364750c",
    ("llama", "Q8_0", False): "f09cdef80e31c8f8", ("llama", "Q5_0", False): "996804a30f5fef37",
    ("llama", "Q5_1", False): "9f485d43fdf5a4bf", ("llama", "Q2_K", False): "946e451c14e64b19",
    ("llama", "Q3_K_S", False): "9eadb47054fa7d76", ("llama", "Q3_K_M", False): "93ec544bbb1938fe",
    ("llama", "Q3_K_L", False): "47b68a9862db3a2d", ("llama", "Q4_K_S", False): "86026e4ea9540279",
    ("llama", "Q4_K_M", False): "f499e75886c00953", ("llama", "Q5_K_S", False): "f9f203455370d9e5",
    ("llama", "Q5_K_M", False): "01a020b831fba3e2", ("llama", "Q6_K", False): "9976f2f7637847eb",
    ("llama", "TQ1_0", False): "e8093e42b4da5a22", ("llama", "TQ2_0", False): "89e41824e66b3d0b",
    ("llama", "MXFP4_MOE", False): "f09cdef80e31c8f8", ("llama", "Q1_0", False): "54e9d611edf2e0c3",
    ("llama", "Q2_0", False): "8be3a5b94f19f75c", ("deep", "Q3_K_M", False): "717e0e02d0e3c5c2",
    ("deep", "Q4_K_S", False): "1a8cdd911f1f795b", ("deep", "Q2_K", False): "9a1ef1a373b7c459",
    ("tied", "Q4_0", False): "75b078905d6cc5f0", ("tied", "Q4_K_M", False): "3fc7450dd9e48319",
    ("tied", "Q3_K_L", False): "ecf7361674b24a76", ("tied", "IQ4_XS", False): "8b9f5d4f045167c0",
    ("tied", "TQ1_0", False): "75b078905d6cc5f0", ("tied", "Q2_0", False): "75b078905d6cc5f0",
    ("moe", "Q4_K_M", False): "e7ea597d92d14799", ("moe", "Q2_K", False): "bb9c69af10fc42b1",
    ("moe", "Q5_K_S", False): "817674237374baa9", ("moe", "MXFP4_MOE", False): "92e15351bacc2a3d",
    ("moe", "Q3_K_S", False): "dcbfbf534efe6066", ("llama", "Q4_K_M", True): "018851d0eb2940b1",
    ("moe", "Q6_K", True): "d23facf29add6e71", ("tied", "IQ4_XS", True): "86f8e43fee17a48a",
}


# With statistics: llama-quantize --imatrix of the file that `statistics` writes.
CALIBRATED = {
    ("llama", "Q4_K_M"): "f6ebdaa1d9a0065f",
    ("llama", "Q4_0"): "bc1baa11fc668f41",
    ("llama", "IQ4_XS"): "33dddb64e0e2caf8",
    ("llama", "Q2_K"): "78be70092e6cbf7f",
    ("llama", "Q3_K_M"): "498ce950be0e225a",
    ("llama", "Q6_K"): "c40315413c599c96",
    ("tied", "Q5_0"): "b14b75082c3c0fbe",
    ("tied", "IQ4_XS"): "ee0306b8e7ab50ea",
    ("moe", "Q4_K_M"): "794e3ed243fc2dbc",
    ("moe", "Q5_K_S"): "5b2a7c7849400d46",
}


def statistics(path, tensors):
    """A file as llama-imatrix writes it, of all matrices of the model; expert 1 was never called."""
    out = []
    for name, _, shape, _ in tensors:
        if len(shape) > 1:
            n_matrices = int(np.prod(shape[:-2]))
            sums_2 = (sums("statistics of " + name, n_matrices * shape[-1]) * np.float32(2**6)) ** 2 + np.float32(0.125)
            sums_2 = sums_2.astype("f4").reshape(n_matrices, shape[-1])
            counts = np.full((n_matrices, 1), 4, "f4")
            sums_2[1:2], counts[1:2] = 0, 0
            out += [(name + ".in_sum2", 0, sums_2.shape, sums_2.tobytes()), (name + ".counts", 0, counts.shape, counts.tobytes())]
    gguf_write(path, out, [pair_string("general.type", "imatrix"), string("imatrix.datasets") + struct.pack("<IIQ", 9, 8, 1) + string("text"),
                           pair_u32("imatrix.chunk_count", 4), pair_u32("imatrix.chunk_size", 512)])


def before_gguf(path, source):
    """The same statistics as llama-imatrix wrote them before GGUF; llama-quantize divides values by calls, too."""
    arrays, _ = gguf_read(source)
    names = [n[:-8] for n in arrays if n.endswith(".in_sum2")]
    out = struct.pack("<i", len(names))
    for name in names:
        content = arrays[name + ".in_sum2"][2]
        calls = int(np.frombuffer(arrays[name + ".counts"][2], "f4")[0])
        out += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", calls, len(content) // 4) + content
    with open(path, "wb") as f:
        f.write(out + struct.pack("<ii", 4, 4) + b"text")


class GgufTypes(Judge):
    def write(self, name):
        tensors, pairs = model(name)
        gguf_write(self.path(name + ".gguf"), tensors, pairs)
        return self.path(name + ".gguf")

    def test_llama_quantize(self):
        """Type and bytes of every tensor of every mixture are those of llama-quantize."""
        paths = {name: self.write(name) for name in MODELS}
        for name, mixture, pure in runs():
            out = self.path("out.gguf")
            self.vc("quantize", "--gguf", mixture, "--encoder", "llama", *(["--pure"] if pure else []), "--force", paths[name], "-o", out)
            tensors, pairs = gguf_read(out)
            said = {n: NAMES[t[0]] for n, t in tensors.items()}
            self.assertEqual(digest(tensors), GOLDEN[name, mixture, pure], (name, mixture, pure, said))
            self.assertEqual(pairs["general.file_type"], (U32, struct.pack("<I", FILE_TYPES[mixture])))
            self.assertEqual(pairs["general.quantization_version"], (U32, struct.pack("<I", 2)))

    def test_calibrated(self):
        """With statistics: the types and bytes of llama-quantize; `best` has less of the error that they weigh."""
        for name in ("llama", "tied", "moe"):
            tensors, _ = model(name)
            path = self.write(name)
            statistics(self.path("im.gguf"), tensors)
            for mixture in [m for n, m in CALIBRATED if n == name]:
                out = self.path("out.gguf")
                self.vc("quantize", "--gguf", mixture, "--encoder", "llama", "--calibration", self.path("im.gguf"), "--force", path,
                        "-o", out)
                self.assertEqual(digest(gguf_read(out)[0]), CALIBRATED[name, mixture], (name, mixture))
        path = self.write("llama")
        tensors, _ = model("llama")
        statistics(self.path("im.gguf"), tensors)
        stats, _ = gguf_read(self.path("im.gguf"))
        error = {}
        for encoder, extra in (("none", []), ("llama", ["--encoder", "llama"]), ("best", [])):
            extra = extra if encoder == "none" else [*extra, "--calibration", self.path("im.gguf")]
            self.vc("quantize", "--gguf", "Q4_K_S", "--pure", *extra, "--force", path, "-o", self.path("out.gguf"))
            self.vc("dequantize", "--force", self.path("out.gguf"), "-o", self.path("out.npz"))
            y = self.load(self.path("out.npz"))
            for n, _, shape, content in tensors:
                if n.endswith("ffn_up.weight"):
                    h = np.frombuffer(stats[n + ".in_sum2"][2], "f4").astype("f8")
                    x = np.frombuffer(content, "<f2").astype("f8").reshape(shape)
                    error.setdefault(n, []).append(float((h * (x - y[n]) ** 2).sum()))
        for n, (none, llama, best) in error.items():
            self.assertLess(best, llama, n)
            self.assertLess(llama, none, n)

    def test_statistics_before_gguf(self):
        """imatrix.dat: the bytes that its GGUF gives; cut or changed, a sentence."""
        path = self.write("llama")
        statistics(self.path("im.gguf"), model("llama")[0])
        dat, out = self.path("imatrix.dat"), self.path("out.gguf")
        before_gguf(dat, self.path("im.gguf"))
        run = ["quantize", "--gguf", "Q4_K_M", "--encoder", "llama", "--force", "--calibration", dat, path, "-o", out]
        self.vc(*run)
        self.assertEqual(digest(gguf_read(out)[0]), CALIBRATED["llama", "Q4_K_M"])
        with open(dat, "rb") as f:
            whole = f.read()
        ends = (len(whole) - 4, len(whole) - 8, len(whole) - 12)  # with the data's name; chunks alone; entries alone
        for n in (*ends, ends[0] + 1, ends[1] + 1, ends[2] - 1, len(whole) // 2, 31, 12):
            with open(dat, "wb") as f:
                f.write(whole[:n])
            if n in ends[1:]:
                self.vc(*run)
            else:
                self.refuse(3, *run)
        n_values = 8 + whole[4] + 4
        for at, number in ((0, -1), (0, 0), (0, 1 << 30), (4, 0), (4, 1 << 20), (n_values, 1 << 29), (n_values, -1)):
            with open(dat, "wb") as f:
                f.write(whole[:at] + struct.pack("<i", number) + whole[at + 4:])
            self.refuse(3, *run)

    def test_wrong_statistics(self):
        """Of another model, damaged, or none at all: refused, and nothing written."""
        path = self.write("llama")
        tensors, _ = model("llama")
        run = ["quantize", "--gguf", "Q4_K_M", "--calibration", self.path("im.gguf"), path, "-o", self.path("no.gguf")]
        statistics(self.path("im.gguf"), model("tied")[0])
        self.assertIn("the statistics are those of another model", self.refuse(3, *run))
        gguf_write(self.path("im.gguf"), [("a", 0, (4,), bytes(16))])
        self.assertIn("has statistics of no tensor of this model", self.refuse(3, *run))
        gguf_write(self.path("im.gguf"), [("model.layers.0.self_attn.q_proj.weight.in_sum2", 0, (256,), bytes(1024))])
        self.assertIn("has statistics of no tensor of this model", self.refuse(3, *run))
        for bad in (np.nan, -1.0, np.inf):
            h = np.ones(256, "f4")
            h[7] = bad
            gguf_write(self.path("im.gguf"), [("blk.0.attn_q.weight.in_sum2", 0, (1, 256), h.tobytes())])
            self.assertIn("has NaN, infinite or negative numbers", self.refuse(3, *run))
        gguf_write(self.path("im.gguf"), [("blk.0.attn_q.weight.in_sum2", 0, (1, 256), np.ones(256, "f4").tobytes())])
        report = self.vc(*run, "--json").json()
        why = {r["name"]: r["reason"] for r in report["tensors"]}
        self.assertEqual((why["blk.0.attn_q.weight"], why["blk.1.attn_q.weight"]), (None, "no statistics"))
        np.savez(self.path("im.npz"), **{"blk.0.attn_q.weight.in_sum2": np.ones(256, "f4")})
        run[4] = self.path("im.npz")
        self.vc(*run, "--force")

    def test_best(self):
        """The other encoder: the same types and sizes, no tensor with more error, values as the package reads them."""
        path = self.write("llama")
        source, _ = gguf_read(path)
        for mixture in ("Q4_K_M", "Q2_K", "TQ2_0"):
            error = {}
            for encoder in ("llama", "best"):
                out = self.path("by_" + encoder + ".gguf")
                report = self.vc("quantize", "--gguf", mixture.lower(), "--encoder", encoder, "--force", "--json", path, "-o", out).json()
                tensors, _ = gguf_read(out)
                rows = {r["name"]: r for r in report["tensors"]}
                for name, (number, shape, content) in tensors.items():
                    if NAMES[number] == "f32" or gguf is None:
                        continue
                    y = gguf.quants.dequantize(np.frombuffer(content, np.uint8).reshape(int(np.prod(shape[:-1])), -1),
                                               gguf.GGMLQuantizationType(number)).reshape(shape).astype("f8")
                    x = np.frombuffer(source[name][2], "<f2").astype("f8").reshape(shape)
                    e = ((x - y)**2).sum()
                    self.close(rows[name]["measured"]["sqnr_db"], float(10 * np.log10((x * x).sum() / e)), name)
                    error.setdefault(name, []).append((number, e))
            for name, ((a, e_llama), (b, e_best)) in error.items():
                self.assertEqual(a, b, name)
                self.assertLessEqual(e_best, e_llama, (mixture, name))

    def test_nvfp4(self):
        """NVFP4: which tensors get it, the number beside them, the blocks of ggml's quantizer, values as the package reads them."""
        small = np.float32(2.0**-12)
        shapes = {"token_embd.weight": (96, 256), "output.weight": (96, 256), "blk.0.attn_q.weight": (64, 256), "blk.0.attn_k_b.weight": (64, 256),
                  "blk.0.ffn_up_exps.weight": (4, 64, 128), "blk.0.ffn_gate_up_exps.weight": (4, 64, 256), "blk.0.ffn_down.weight": (64, 96),
                  "blk.0.ffn_gate.weight": (64, 192)}
        x = {n: weight(n, s, "f4") * small for n, s in shapes.items()}
        x["blk.0.ffn_up_exps.weight"][1] *= np.float32(2.0**20)
        x["blk.0.ffn_up_exps.weight"][2] = 0
        x["blk.0.ffn_gate.scale"] = np.ones(1, "f4")  # something else: no number can be beside it
        types = {"token_embd.weight": "q4_k", "output.weight": "q6_k", "blk.0.attn_k_b.weight": "q4_k", "blk.0.ffn_gate_up_exps.weight": "q4_k",
                 "blk.0.ffn_down.weight": "q4_0", "blk.0.ffn_gate.weight": "q5_0", "blk.0.ffn_gate.scale": "f32", "blk.0.attn_q.weight": "nvfp4",
                 "blk.0.attn_q.scale": "f32", "blk.0.ffn_up_exps.weight": "nvfp4", "blk.0.ffn_up_exps.scale": "f32"}
        source, out = self.path("in.gguf"), self.path("out.gguf")
        gguf_write(source, [(n, 0, a.shape, a.tobytes()) for n, a in x.items()], [ARCHITECTURE])
        for encoder in ("llama", "best"):
            self.vc("quantize", "--gguf", "NVFP4", "--encoder", encoder, "--force", source, "-o", out)
            tensors, pairs = gguf_read(out)
            self.assertEqual({n: {40: "nvfp4", **NAMES}[t[0]] for n, t in tensors.items()}, types)
            self.assertEqual(pairs["general.file_type"], (U32, struct.pack("<I", 39)))
            self.vc("dequantize", "--force", out, "-o", self.path("out.npz"))
            self.vc("run", "--force", "--pass", "quantize --gguf NVFP4 --encoder " + encoder, "--pass", "dequantize", source, "-o", self.path("run.gguf"))
            y, run = self.load(self.path("out.npz")), gguf_read(self.path("run.gguf"))[0]
            for name in ("blk.0.attn_q", "blk.0.ffn_up_exps"):
                w = x[name + ".weight"].reshape(-1, *shapes[name + ".weight"][-2:])
                scale = np.frombuffer(tensors[name + ".scale"][2], "f4")
                top = np.abs(w).max((1, 2)) / np.float32(2688)
                np.testing.assert_array_equal(scale, np.where(top == 0, np.float32(1), top))
                self.assertEqual(run[name + ".weight"][2], y[name + ".weight"].tobytes())
                error = ((w - y[name + ".weight"].reshape(w.shape)).astype("f8")**2).sum((1, 2)) / (w.astype("f8")**2).sum((1, 2)).clip(1e-300)
                self.assertTrue((error < (0.012 if encoder == "llama" else 0.0075)).all(), (name, encoder, error))
                if gguf is None:
                    continue
                blocks = np.frombuffer(tensors[name + ".weight"][2], np.uint8).reshape(-1, 36)
                value = gguf.quants.NVFP4.dequantize_blocks(blocks).astype("f4").reshape(w.shape) * scale[:, None, None]
                np.testing.assert_array_equal(value, y[name + ".weight"].reshape(w.shape))
                if encoder == "llama":
                    v = (w / scale[:, None, None]).reshape(-1, 16)
                    byte = gguf.quants.NVFP4.fp32_to_ue4m3(np.abs(v).max(1) / np.float32(6))
                    step = gguf.quants.NVFP4.ue4m3_to_fp32(byte).astype("f4")
                    code = np.abs(step[:, None, None] * np.float32(gguf.quants.NVFP4.kvalues) - v[:, :, None]).argmin(2).astype("u1")
                    np.testing.assert_array_equal(blocks[:, :4].reshape(-1), byte)
                    np.testing.assert_array_equal(blocks[:, 4:].reshape(-1, 8), code[:, :8] | code[:, 8:] << 4)

    def test_aims(self):
        """--aim-sqnr and --aim-bytes choose among block types what --pure makes of each tensor."""
        w = {n: weight(n, (rows, cols), "f2") for n, rows, cols in
             (("blk.0.a.weight", 64, 512), ("blk.0.b.weight", 200, 256), ("blk.0.c.weight", 96, 96))}
        source = self.path("in.gguf")
        gguf_write(source, [(n, 1, a.shape, a.tobytes()) for n, a in w.items()], [pair_u32("general.file_type", 1)])
        size = {n: {"f16": (a.nbytes, 0.0)} for n, a in w.items()}
        for name in ("Q2_K", "Q3_K", "Q4_K", "Q4_0", "Q5_K", "Q5_0", "Q6_K", "Q8_0"):
            report = self.vc("quantize", "--gguf", name, "--pure", "--json", "--force", source, "-o", self.path("pure.gguf")).json()
            for t in report["tensors"]:
                if t["scheme"] == name.lower():
                    size[t["name"]][t["scheme"]] = (t["bytes_after"], t["measured"]["sum_e2"])
        self.assertEqual([len(s) for s in size.values()], [9, 9, 4])
        energy = {n: float((a.astype("f8")**2).sum()) for n, a in w.items()}
        for db in (9, 16, 20, 21.5, 25, 29, 33, 40, 60):
            report = self.vc("quantize", "--aim-sqnr", db, "--json", "-n", source).json()
            for t in report["tensors"]:
                able = [(b, e, s) for s, (b, e) in size[t["name"]].items()
                        if e == 0 or 10 * np.log10(energy[t["name"]] / e) >= db]
                self.assertEqual(t["scheme"] or "f16", min(able)[2], (t["name"], db))
        for room in (36000, 44000, 55000, 70000, 90000, 120000):
            out = self.path("out.gguf")
            self.vc("quantize", "--aim-bytes", room, "--force", source, "-o", out)
            self.assertLessEqual(os.path.getsize(out), room)
            tensors, _ = gguf_read(out)
            types = {n: NAMES[number] for n, (number, _, _) in tensors.items()}
            spent = sum(size[n][t][0] for n, t in types.items())
            error = sum(size[n][t][1] for n, t in types.items())
            room -= os.path.getsize(out) - spent
            best = min(sum(size[n][t][1] for n, t in zip(size, some)) for some in itertools.product(*size.values())
                       if sum(size[n][t][0] for n, t in zip(size, some)) <= room)
            self.close(error, best, (room, types))

    def test_again(self):
        """A file that has the types already stays as it is; blocks of other types need --requantize."""
        path = self.write("tied")
        self.vc("quantize", "--gguf", "q8_0", path, "-o", self.path("q8.gguf"))
        self.vc("quantize", "--gguf", "Q8_0", self.path("q8.gguf"), "-o", self.path("q8b.gguf"))
        self.assertEqual(gguf_read(self.path("q8.gguf")), gguf_read(self.path("q8b.gguf")))
        said = self.refuse(3, "quantize", "--gguf", "Q4_0", self.path("q8.gguf"), "-o", self.path("no.gguf"))
        self.assertIn("is quantized to q8_0 already", said)
        self.vc("quantize", "--gguf", "Q4_0", "--requantize", self.path("q8.gguf"), "-o", self.path("q4.gguf"))
        self.assertEqual({t[0] for t in gguf_read(self.path("q4.gguf"))[0].values()}, {0, NUMBERS["q4_0"], NUMBERS["q8_0"]})
        self.vc("dequantize", self.path("q4.gguf"), "-o", self.path("f.npz"))
        self.vc("verify", self.path("q4.gguf"))

    def test_odd_rows(self):
        """Rows that the blocks do not divide: smaller blocks, in the end f16, each with the reason."""
        w = {n: weight(n, (64, n_cols), "f4") for n, n_cols in (("blk.0.a.weight", 256), ("blk.0.b.weight", 96), ("blk.0.c.weight", 100))}
        gguf_write(self.path("in.gguf"), [(n, 0, a.shape, a.tobytes()) for n, a in w.items()])
        report = self.vc("quantize", "--gguf", "Q4_K_S", "--json", self.path("in.gguf"), "-o", self.path("out.gguf")).json()
        tensors, _ = gguf_read(self.path("out.gguf"))
        self.assertEqual([NAMES[t[0]] for t in tensors.values()], ["q4_k", "q5_0", "f16"])
        why = {r["name"]: r["reason"] for r in report["tensors"]}
        self.assertEqual(why["blk.0.b.weight"], "q4_k does not divide the last axis")

    def test_chain(self):
        """Behind a pass that drops layers the mixture counts those that are left, as it does in a file of that pass."""
        path = self.write("llama")
        drop = "prune --drop-layers 1,2,5 --layers blk"
        self.vc("run", "--pass", drop, "--pass", "quantize --gguf Q4_K_M --encoder llama", path, "-o", self.path("chain.gguf"))
        self.vc(*drop.split(), path, "-o", self.path("slim.gguf"))
        self.vc("quantize", "--gguf", "Q4_K_M", "--encoder", "llama", self.path("slim.gguf"), "-o", self.path("two.gguf"))
        self.assertEqual(gguf_read(self.path("chain.gguf")), gguf_read(self.path("two.gguf")))

    def test_shapes(self):
        """What a rule asks for by name: vectors, stacks of stacks; scalars and empty tensors stay."""
        arrays = {"a.weight": np.arange(256, dtype="f4"), "s.weight": np.float32(3), "e.weight": np.zeros((0, 256), "f4"),
                  "c.weight": weight("c", (2, 3, 4, 256), "f4"), "f.weight": np.asfortranarray(weight("f", (64, 256), "f4"))}
        np.savez(self.path("in.npz"), **arrays)
        report = self.vc("quantize", "--gguf", "Q4_K", "--include", "*", "--json", self.path("in.npz"), "-o", self.path("out.gguf")).json()
        self.assertEqual({r["name"]: (r["dtype_after"], r["reason"]) for r in report["tensors"]},
                         {"a.weight": ("q4_k", None), "s.weight": ("f32", "0-D"), "e.weight": ("f32", "empty"), "c.weight": ("q4_k", None),
                          "f.weight": ("q4_k", None)})
        self.vc("dequantize", self.path("out.gguf"), "-o", self.path("out.npz"))
        out = self.load(self.path("out.npz"))
        for name, a in arrays.items():
            self.assertEqual(out[name].shape, np.shape(a), name)
            if np.size(a):
                self.assertLess(np.abs(out[name] - a).max(), 0.1 * np.abs(a).max() + 1e-6, name)

    def test_refused(self):
        w = weight("x", (8, 256), "f4")
        np.savez(self.path("in.npz"), w=w)
        self.assertIn("need an output that is a GGUF file", self.refuse(2, "quantize", "--gguf", "Q4_0", self.path("in.npz"), "-o", self.path("o.npz")))
        self.assertIn("no mixture of block types that can be made is called 'Q9'", self.refuse(2, "quantize", "--gguf", "Q9", self.path("in.npz"), "-o", self.path("o.gguf")))
        for option in (["--rest", "fp16"], ["--min-elements", "5"], ["--granularity", "tensor"], ["--overflow", "inf"]):
            self.refuse(2, "quantize", "--gguf", "Q4_0", *option, self.path("in.npz"), "-o", self.path("o.gguf"))
        self.refuse(2, "quantize", "--int8", "--pure", self.path("in.npz"), "-o", self.path("o.npz"))
        w[1, 3], w[2, 7], w[5, 0] = np.nan, np.inf, 1e30
        np.savez(self.path("bad.npz"), w=w)
        self.assertIn("w: 2 of 2048 values are not finite", self.refuse(3, "quantize", "--gguf", "Q4_K_S", self.path("bad.npz"), "-o", self.path("o.gguf")))
        w[1, 3], w[2, 7] = 0, 0
        np.savez(self.path("large.npz"), **{"w.weight": w})
        self.assertIn("too large for q4_k", self.refuse(3, "quantize", "--gguf", "Q4_K_S", self.path("large.npz"), "-o", self.path("o.gguf")))
        w[1, 3], w[5, 0] = np.nan, 0
        np.savez(self.path("bad.npz"), **{"w.weight": w})
        self.vc("quantize", "--gguf", "Q4_K_S", "--nonfinite", "zero", self.path("bad.npz"), "-o", self.path("o.gguf"))
        self.vc("quantize", "--gguf", "Q4_K_S", "--nonfinite", "keep", "--force", self.path("bad.npz"), "-o", self.path("o.gguf"))


if __name__ == "__main__":
    unittest.main()
