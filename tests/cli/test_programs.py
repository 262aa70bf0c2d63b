"""The program that runs a model decides what it takes: which one estimate and fit name for each kind of file, what they say of it, and
that the figures follow its rules. Figures are computed here from the sizes of the models. Python's standard library alone.
Usage: test_programs.py PROGRAM"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

from made_models import folder, llama

PROGRAM = sys.argv.pop(1)
MIB = 1 << 20
HIDDEN, MIDDLE, LAYERS, HEADS, KV, WORDS = 256, 512, 2, 8, 4, 6007
HEAD = HIDDEN // HEADS


# ---- an ONNX file, as protobuf ----

def number(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(k, value):
    if isinstance(value, int):
        return number(k << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(k << 3 | 2) + number(len(value)) + value


def value_info(name, shape):
    dims = b"".join(field(1, field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def tensor(name, shape):
    n = 1
    for size in shape:
        n *= size
    data = struct.pack("<%df" % n, *[0.01 * (k % 7) for k in range(n)])
    return field(5, b"".join(field(1, d) for d in shape) + field(2, 1) + field(8, name) + field(9, data))


def convolution(path, names):
    """y = Relu(Conv(x, weight, bias)), with these names of both."""
    nodes = [field(1, "x") + field(1, names[0]) + field(1, names[1]) + field(2, "c") + field(4, "Conv"),
             field(1, "c") + field(2, "y") + field(4, "Relu")]
    graph = b"".join(field(1, node) for node in nodes) + field(2, "g") + tensor(names[0], (16, 3, 1, 1)) + tensor(names[1], (16,))
    graph += field(11, value_info("x", (4, 3, 32, 32))) + field(12, value_info("y", (4, 16, 32, 32)))
    with open(path, "wb") as f:
        f.write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))


# ---- GGUF files of architectures without a graph: headers, and a hole for the data ----

def gguf(path, architecture, keys, tensors):
    """Keys are integers, or lists of integers or truth values; tensors are f16 of [rows, columns], or more, vectors f32."""
    def string(word):
        return struct.pack("<Q", len(word)) + word.encode()

    def pair(key, value):
        if isinstance(value, str):
            return string(key) + struct.pack("<I", 8) + string(value)
        if isinstance(value, list):
            kind, form = (7, "?") if isinstance(value[0], bool) else (4, "I")
            return string(key) + struct.pack("<IIQ", 9, kind, len(value)) + struct.pack("<%d%s" % (len(value), form), *value)
        return string(key) + struct.pack("<II", 4, value)

    body = pair("general.architecture", architecture) + b"".join(pair(architecture + "." + k, v) for k, v in keys.items())
    infos, at = b"", 0
    for name, shape in tensors:
        n = 4 if len(shape) == 1 else 2
        for size in shape:
            n *= size
        infos += string(name) + struct.pack("<I%dQIQ" % len(shape), len(shape), *reversed(shape), 0 if len(shape) == 1 else 1, at)
        at += (n + 31) // 32 * 32
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys) + 1) + body + infos
    with open(path, "wb") as f:
        f.write(data)
        f.truncate((len(data) + 31) // 32 * 32 + at)
    return at


def tables(words, hidden):
    return [("token_embd.weight", (words, hidden)), ("output.weight", (words, hidden)), ("output_norm.weight", (hidden,))]


def attention(layer, hidden, heads, kv, head):
    at = "blk.%d." % layer
    return [(at + "attn_norm.weight", (hidden,)), (at + "attn_q.weight", (heads * head, hidden)), (at + "attn_k.weight", (kv * head, hidden)),
            (at + "attn_v.weight", (kv * head, hidden)), (at + "attn_output.weight", (hidden, heads * head))]


def sizes(layers, hidden, heads, kv, context, **more):
    keys = {"block_count": layers, "embedding_length": hidden, "attention.head_count": heads, "attention.head_count_kv": kv, "context_length": context}
    return dict(keys, **{k.replace("__", "."): v for k, v in more.items()})


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        folder(os.path.join(cls.dir.name, "f16"), *llama(HIDDEN, MIDDLE, LAYERS, HEADS, KV, WORDS, False), dtype="F16")
        folder(os.path.join(cls.dir.name, "tied"), *llama(HIDDEN, MIDDLE, LAYERS, HEADS, KV, WORDS, True), dtype="F16")
        for words in (["--gguf", "Q8_0", "--no-vocab", "f16", "-o", "m.gguf"], ["--gguf", "Q8_0", "--no-vocab", "tied", "-o", "t.gguf"],
                      ["--nf4", "--layout", "bitsandbytes", "f16", "-o", "nf4"], ["--int4", "f16", "-o", "packed"]):
            cls.run_program("quantize", "-q", "--threads", "1", *words)
        convolution(os.path.join(cls.dir.name, "conv.onnx"), ("onnx::Conv_12", "onnx::Conv_13"))
        convolution(os.path.join(cls.dir.name, "own.onnx"), ("stem.weight", "stem.bias"))

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    @classmethod
    def run_program(cls, *words, codes=(0,)):
        done = subprocess.run([PROGRAM, *words], cwd=cls.dir.name, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            raise AssertionError("%s: %d: %s" % (" ".join(words), done.returncode, done.stderr))
        return done

    def estimate(self, *words):
        return json.loads(self.run_program("estimate", "--json", *words).stdout)

    def fit(self, *words):
        return json.loads(self.run_program("fit", "--memory", "3GiB", "--json", *words, codes=(0, 1)).stdout)

    def test_names(self):
        for words, program, runtime in ((["m.gguf"], "llama.cpp", "native"), (["conv.onnx"], "onnxruntime", "layerwise"),
                                        (["nf4"], "bitsandbytes", "native"), (["packed"], "transformers", "dequantize"),
                                        (["f16"], "pytorch", "native"), (["f16/config.json"], "pytorch", "native"),
                                        (["--dtype", "q4_k_m", "f16"], "llama.cpp", "native"),
                                        (["--dtype", "nf4", "f16/config.json"], "bitsandbytes", "native"),
                                        (["--mode", "train", "f16"], "pytorch", "native"),
                                        (["--runtime", "vllm", "packed"], "vllm", "native"),
                                        (["--runtime", "pytorch", "m.gguf"], "pytorch", "native"),
                                        (["--runtime", "layerwise", "m.gguf"], None, "layerwise")):
            for answer in (self.estimate(*words), self.fit(*words)):
                self.assertEqual((answer["program"], answer["options"]["runtime"]), (program, runtime), words)
                self.assertEqual(answer["notes"] == [], program is None, words)

    def test_llama_cpp(self):
        ctx = 1000
        a = self.estimate("--ctx", str(ctx), "m.gguf")
        part = {name: row["bytes"] for name, row in a["components"].items()}
        self.assertEqual(a["sizes"]["sequence"], 512)
        self.assertEqual((a["options"]["activations"], a["options"]["kv_dtype"]), ("f32", "f16"))
        self.assertEqual(part["kv_cache"], 2 * LAYERS * KV * HEAD * 1024 * 2)  # blocks of 256 positions, f16
        self.assertEqual(part["activations"], 512 * (WORDS + HIDDEN) * 4)     # f32: logits, and the values they are made of
        table = WORDS * HIDDEN // 32 * 34
        self.assertEqual((a["host_bytes"], a["host_weight_bytes"]), (table, table))
        self.assertEqual(a["moments"]["load"]["bytes"], part["parameters"] - table)
        self.assertEqual(a["moments"]["peak"]["bytes"], sum(part[k] for k in ("parameters", "activations", "kv_cache", "transient", "inputs")) - table)
        row = self.fit("--ctx", str(ctx), "m.gguf")["devices"][0]
        self.assertEqual((row["peak_bytes"], row["slack_bytes"]), (a["moments"]["peak"]["bytes"], 0))
        self.assertEqual(self.fit("--weights-only", "m.gguf")["devices"][0]["peak_bytes"], a["moments"]["load"]["bytes"])
        self.assertEqual(self.estimate("t.gguf")["host_bytes"], 0)  # the output layer reads the same table
        # what is given stays as it is
        b = self.estimate("--ctx", "1024", "--seq", "100", "--kv-dtype", "q8_0", "m.gguf")
        self.assertEqual(b["sizes"]["sequence"], 100)
        self.assertEqual(b["components"]["kv_cache"]["bytes"], 2 * LAYERS * KV * HEAD // 32 * 34 * 1024)
        self.assertEqual(self.estimate("--ctx", "300", "m.gguf")["sizes"]["sequence"], 300)
        self.assertEqual(self.estimate("--batch", "4", "m.gguf")["sizes"]["sequence"], 128)
        # without flash attention there is a matrix of f32 for each head
        long = ["--ctx", "40960", "m.gguf"]
        less, more = self.estimate(*long), self.estimate("--attention", "eager", *long)
        self.assertGreaterEqual(more["components"]["activations"]["bytes"], (HEADS + 1) * 512 * 40960 * 4)
        self.assertLess(less["components"]["activations"]["bytes"], 512 * 40960 * 8)
        self.assertGreaterEqual(less["components"]["activations"]["bytes"], 512 * 40960 * 6)  # the mask, and its copy of f16

    def test_words_without_a_program(self):
        """native, dequantize and layerwise mean what they did before programs had names."""
        a = self.estimate("--ctx", "1000", "--runtime", "native", "m.gguf")
        self.assertEqual(a["sizes"]["sequence"], 128)
        self.assertEqual(a["components"]["kv_cache"]["bytes"], 2 * LAYERS * KV * HEAD * 1000 * 4)
        self.assertEqual(a["host_bytes"], 0)

    def test_bitsandbytes(self):
        largest = MIDDLE * HIDDEN * 2
        native = self.estimate("--runtime", "native", "--attention", "auto", "nf4")
        own = self.estimate("nf4")
        self.assertEqual(own["components"]["parameters"], native["components"]["parameters"])
        for rows, decodes in ((2, True), (1, False)):  # there are kernels for one row
            a = self.estimate("--seq", str(rows), "nf4")
            self.assertEqual(a["moments"]["peak"]["bytes"] - a["components"]["parameters"]["bytes"] >= largest, decodes)

    def test_transformers_decodes(self):
        floats = self.estimate("f16")["components"]["parameters"]["bytes"]
        self.assertEqual(self.estimate("packed")["components"]["parameters"]["bytes"], floats)
        self.assertLess(self.estimate("--runtime", "vllm", "packed")["components"]["parameters"]["bytes"], floats)

    def test_onnxruntime(self):
        a = self.fit("conv.onnx")
        row = a["devices"][0]
        self.assertEqual(row["peak_bytes"], a["moments"]["peak"]["bytes"])
        self.assertLess(row["peak_bytes"], a["eager"]["bytes"])
        self.assertEqual((a["options"]["allocator"], row["slack_bytes"]), ("onnxruntime", 64 * MIB))
        self.assertGreaterEqual(self.fit("--runtime", "pytorch", "conv.onnx")["devices"][0]["peak_bytes"], a["eager"]["bytes"])

    def test_sizes_that_are_stated(self):
        """A range of positions has a size without a name, as has a shape that is computed, and so has what follows, unless the file states its
        sizes; onnxruntime uses a buffer again, and keeps it in between, where it knows the size. [n, 64] x, a | [n, 512] h, g | [n, 64] y."""
        places = """zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  axis = Constant <value_ints = [1]> ()
  shape = Shape <end = 1> (x)
  n = Squeeze (shape)
  range = Range (zero, n, one)
  column = Unsqueeze (range, axis)
  places = Cast <to = 1> (column)
  a = Add (x, places)"""
        computed = """width = Constant <value_ints = [64]> ()
  shape = Shape <end = 1> (x)
  whole = Concat <axis = 0> (shape, width)
  more = Exp (x)
  a = Reshape (more, whole)"""
        for lines in (places, computed):
            peaks = [self.values_of("""metadata_props: ["vcompress.parameter:u" : "u", "vcompress.parameter:w" : "w"]>
graph (float[n, 64] x, float[64, 512] u, float[512, 64] w) => (float[n, 64] y) %s
{ %s
  h = MatMul (a, u)
  g = Softmax (h)
  b = MatMul (g, w)
  y = Softmax (b) }""" % (said, lines)) for said in ("", "<float[n, 64] a, float[n, 512] h, float[n, 512] g, float[n, 64] b>")]
            self.assertEqual(peaks[1] - peaks[0], 4096 * 64 * 4)  # a's buffer, which b is to have

    def values_of(self, text):
        with open(os.path.join(self.dir.name, "net.txt"), "w") as f:
            f.write('<ir_version: 11, opset_import: ["" : 23], ' + text)
        return self.estimate("--runtime", "onnxruntime", "--size", "n=4096", "net.txt")["components"]["activations"]["bytes"]

    def test_both_sides_of_where(self):
        """onnxruntime's Where has what it takes of either side, each with the condition's shape, beside its result."""
        for side in ("x", "r", "s"):
            values = self.values_of("""producer_name: "test"> graph (float[n, 64] x, float[1, 64] r, float[1] s) => (float[n, 64] y)
{ m = IsNaN (x)
  y = Where (m, %s, x) }""" % side)
            self.assertEqual(values, 4096 * 64 + 3 * 4 * 4096 * 64)
        self.assertEqual(self.values_of("""producer_name: "test"> graph (float[n, 64] x, float[1, 64] r, float[1] s) => (float[n, 64] y)
{ m = IsNaN (r)
  y = Where (m, s, x) }"""), 64 + 4 * 64 + 2 * 4 * 4096 * 64)  # of the first side as many as the condition has

    def test_vllm(self):
        a = self.estimate("--runtime", "vllm", "--ctx", "1000", "f16")
        self.assertEqual(a["components"]["kv_cache"]["bytes"], 2 * LAYERS * KV * HEAD * 1008 * 2)  # blocks of 16 positions

    def test_who_keeps_codes(self):
        """plan names who keeps codes that the usual loader decodes, by whose rules fit and shrink count them as plan does."""
        for layout, kept, keeper in (("compressed-tensors", "vLLM", "vllm"), ("gptq", "vLLM", "vllm"), ("awq", "vLLM", "vllm"),
                                     ("mlx", "a program of your own", "native")):
            self.run_program("quantize", "-q", "--int4", "--layout", layout, "f16", "-o", layout)
            fit = self.fit("--runtime", keeper, layout)["devices"][0]
            decoded = self.fit("--runtime", "dequantize", layout)["devices"][0]
            self.assertLess(fit["need_bytes"], decoded["need_bytes"], layout)
            device = ["--memory", "%dB" % ((fit["need_bytes"] + decoded["need_bytes"]) // 2 + 256 * MIB)]
            plan = json.loads(self.run_program("plan", *device, "--json", layout).stdout)
            codes = [recipe for recipe in plan["recipes"] if "codes kept by " in recipe["what"]]
            self.assertEqual([(r["what"], r["verdict"], r["need_bytes"]) for r in codes], [("codes kept by " + kept, "fits", fit["need_bytes"])], layout)
            answer = self.run_program("shrink", *device, "--native", "-n", layout, "-o", layout + ".small", codes=(0, 1, 2))
            self.assertIn("nothing to do", answer.stdout + answer.stderr, layout)

    def test_codes_that_fit(self):
        """Where fit says that a folder in a layout fits, plan and shrink name such a recipe, and what they make fits. No neurons go."""
        folder(os.path.join(self.dir.name, "wide"), *llama(768, 3072, 2, 8, 8, 1001, False), dtype="BF16")
        self.run_program("quantize", "-q", "--int8", "--layout", "bitsandbytes", "wide", "-o", "wide8")
        need = self.fit("wide8")["devices"][0]["need_bytes"]
        device = ["--memory", "%dB" % (need + 256 * MIB)]
        self.assertIn("fits", self.run_program("fit", *device, "--porcelain", "wide8").stdout)
        plan = json.loads(self.run_program("plan", *device, "--json", "wide").stdout)
        best = plan["recipes"][plan["best"]]
        self.assertEqual((best["pruned"], best["verdict"]), (0, "fits"))
        self.assertLess(best["error"], 0.1)
        self.assertLessEqual(best["need_bytes"], need)
        answer = json.loads(self.run_program("shrink", *device, "--json", "-q", "wide", "-o", "small").stdout)
        self.assertIn("int8 in bitsandbytes", json.dumps(answer))
        self.assertIn("fits", self.run_program("fit", *device, "--porcelain", "small").stdout)
        # of a configuration alone: whatever fits as a scheme of --dtype fits by plan
        for scheme in ("int4-g128", "nf4", "q4_k_m"):
            need = self.fit("--dtype", scheme, "--ctx", "2048", "wide/config.json")["devices"][0]["need_bytes"]
            plan = json.loads(self.run_program("plan", "--memory", "%dB" % (need + 257 * MIB), "--ctx", "2048", "--json", "wide/config.json").stdout)
            best = plan["recipes"][plan["best"]]
            self.assertEqual((best["pruned"], best["verdict"], best["does_less"]), (0, "fits", False), scheme)
            self.assertLessEqual(best["need_bytes"], need + MIB, scheme)

    def by_metadata(self, name, *made, ctx=8192):
        data = gguf(os.path.join(self.dir.name, name), *made)
        a = self.estimate("--ctx", str(ctx), name)
        self.assertEqual(a["unknown"], None)
        self.assertEqual([a["components"][k]["known"] for k in ("parameters", "kv_cache", "activations")], ["exact", "exact", "assumed"])
        self.assertLess(data - a["components"]["parameters"]["bytes"], 32 * len(made[2]))  # all of the file, without what aligns it
        self.assertIn("activations a bound", a["notes"][-1])
        return a

    def test_metadata(self):
        """Keys and values of architectures without a graph, counted by hand or as llama.cpp's log has them."""
        # gpt-oss-20b: 12 layers of 8,192 cells and 12 of 768, 192 and 18 MiB; 398.38 MiB of values
        layers = [t for k in range(24) for t in attention(k, 2880, 64, 8, 64)]
        a = self.by_metadata("oss.gguf", "gpt-oss", sizes(24, 2880, 64, 8, 131072, attention__key_length=64, attention__value_length=64,
                                                          attention__sliding_window=128), tables(201088, 2880) + layers)
        self.assertEqual(a["components"]["kv_cache"]["bytes"], (192 + 18) * MIB)
        self.assertAlmostEqual(a["components"]["activations"]["bytes"] / MIB, 398.38, delta=0.01)
        self.assertEqual(a["max_positions"], 131072)
        # each layer says whether it slides; the last ones have no keys of their own; wider heads where none slides
        slides = [True, True, False, True, True, False]
        layers = [t for k in range(6) for t in attention(k, 512, 4, 1, 128 if slides[k] else 256)]
        a = self.by_metadata("g4.gguf", "gemma4", sizes(6, 512, 4, [1] * 6, 32768, attention__key_length=256, attention__sliding_window=512,
                                                        attention__sliding_window_pattern=slides, attention__shared_kv_layers=2),
                             tables(1000, 512) + layers)
        self.assertEqual(a["components"]["kv_cache"]["bytes"], (3 * 2 * 128 * 1024 + 2 * 256 * 8192) * 2)
        # most layers keep a state of f32, of a convolution and of the recurrence
        layers = attention(3, 1024, 16, 2, 256) + [("blk.%d.%s" % (k, n), s) for k in range(3) for n, s in (
            ("attn_norm.weight", (1024,)), ("attn_qkv.weight", (4096, 1024)), ("ssm_conv1d.weight", (4096, 4)), ("ssm_out.weight", (1024, 2048)))]
        a = self.by_metadata("q.gguf", "qwen35", sizes(4, 1024, 16, 2, 262144, attention__key_length=256, attention__value_length=256, ssm__conv_kernel=4,
                                                       ssm__inner_size=2048, ssm__state_size=128, ssm__group_count=8), tables(1000, 1024) + layers)
        self.assertEqual(a["components"]["kv_cache"]["bytes"], 2 * 512 * 8192 * 2 + 3 * (3 * (2048 + 2 * 8 * 128) + 2048 * 128) * 4)
        # latent keys, one row for all heads; and as files had them before, for each head
        mla = [("blk.0.attn_norm.weight", (1024,)), ("blk.0.attn_kv_a_mqa.weight", (576, 1024))]
        keys = sizes(1, 1024, 16, 1, 163840, attention__kv_lora_rank=512, rope__dimension_count=64)
        a = self.by_metadata("d.gguf", "deepseek2", dict(keys, **{"attention.key_length": 576, "attention.value_length": 512}),
                             tables(1000, 1024) + mla + [("blk.0.attn_k_b.weight", (16, 512, 128))])
        self.assertEqual(a["components"]["kv_cache"]["bytes"], (512 + 64) * 8192 * 2)
        a = self.by_metadata("e.gguf", "deepseek2", dict(keys, **{"attention.key_length": 192, "attention.value_length": 128}),
                             tables(1000, 1024) + mla)
        self.assertEqual(a["components"]["kv_cache"]["bytes"], 16 * (192 + 128) * 8192 * 2)
        # one product of queries, keys and values; blocks of types are of a head
        layers = [("blk.0.attn_norm.weight", (4544,)), ("blk.0.attn_qkv.weight", (73 * 64, 4544))]
        made = "falcon", sizes(1, 4544, 71, 1, 2048), tables(1000, 4544) + layers
        self.assertEqual(self.by_metadata("f.gguf", *made)["components"]["kv_cache"]["bytes"], 2 * 64 * 8192 * 2)
        self.assertEqual(self.estimate("--ctx", "256", "--kv-dtype", "q8_0", "f.gguf")["components"]["kv_cache"]["bytes"], 2 * 64 // 32 * 34 * 256)
        # the largest context is at most what the model was made for; fit, plan and the first answer have one need
        row = self.fit("--max-ctx", "--ctx", "512", "f.gguf")["devices"][0]
        self.assertEqual((row["verdict"], row["max_ctx"]), ("fits", 2048))
        self.assertEqual(self.run_program("fit", "--memory", "3GiB", "--max-batch", "f.gguf", codes=(3,)).stdout, "")
        plan = json.loads(self.run_program("plan", "--memory", "3GiB", "--json", "--ctx", "512", "f.gguf").stdout)
        self.assertAlmostEqual(plan["recipes"][plan["best"]]["need_bytes"] / row["need_bytes"], 1, delta=0.001)
        self.assertIn("activations are a bound by the metadata", self.run_program("f.gguf").stdout)
        # sizes of inputs that are not known change nothing
        for command in (["estimate"], ["fit", "--memory", "3GiB"], ["plan", "--memory", "3GiB"]):
            for option in ("--batch", "--seq"):
                done = self.run_program(*command, option, "4", "f.gguf", codes=(2,))
                self.assertIn(option + " is a size of the model's inputs, and what f.gguf computes is not known", done.stderr)
                self.assertEqual(done.stdout, "")
        # another program than llama.cpp computes something that is not known
        self.assertIsNotNone(self.estimate_of("--runtime", "pytorch", "f.gguf")["unknown"])

    def estimate_of(self, *words):
        return json.loads(self.run_program("estimate", "--json", *words, codes=(0, 3)).stdout)

    def check_open(self, name):
        """Layers with a state: no command says "fits" of weights as they are; of weights alone, with
        a size of what is not known, and in llama.cpp, whose scan is one operator, it is answered; too little is too little."""
        for more, verdict in ((["--gpu", "B200"], "unknown"), (["--gpu", "B200", "--weights-only"], "weights fit"),
                              (["--gpu", "B200", "--activations", "1GiB"], "fits"), (["--gpu", "B200", "--runtime", "llama.cpp"], "fits"), (["--memory", "300MiB"], "does not fit")):
            done = self.run_program("fit", "--json", name, *more, codes=(0, 1))
            self.assertEqual(json.loads(done.stdout)["devices"][0]["verdict"], verdict, (name, more))
            self.assertEqual(done.returncode, verdict not in ("fits", "weights fit"), (name, more))
        row = json.loads(self.run_program("fit", "--gpu", "B200", "--json", "--max-batch", "--max-ctx", name, codes=(1,)).stdout)["devices"][0]
        self.assertEqual((row["max_batch"], row["max_ctx"]), (None, None))  # not 0, which is an answer
        self.assertTrue(self.run_program("fit", "--gpu", "B200", "--max-batch", "--porcelain", name, codes=(1,)).stdout.endswith("\tunknown\t?\n"))
        table = self.run_program("plan", "--gpu", "B200", name, codes=(0, 1)).stdout.split("\n")
        self.assertIn("unknown", [line for line in table if line.endswith("as it is")][0])
        self.assertIn("the need is not known: what its layers with a state", self.run_program(name).stdout)

    def check_scans(self):
        """Scans that PyTorch writes out, beside weights: as live tensors of transformers 5.24 were counted (2 sequences of 256 and 512 positions, 2 to
        4 layers, f32, 30 November 2026), and at most 1.1 of it; in whole chunks; with states where sequences are continued."""
        own = dict(hidden_size=512, num_hidden_layers=2, vocab_size=2000, torch_dtype="float32")
        heads = dict(own, num_heads=16, head_dim=64, state_size=64, n_groups=1, chunk_size=256, expand=2)
        for kind, live, keys in (("mamba", (60066, 60018), dict(own, state_size=16, expand=2)), ("mamba2", (28258, 28002), heads)):
            path = "scan-" + kind
            os.mkdir(os.path.join(self.dir.name, path))
            with open(os.path.join(self.dir.name, path, "config.json"), "w") as f:
                json.dump(dict(keys, model_type=kind), f)
            need = {}
            for n in (1, 256, 300, 512):
                for more in ((), ("--ctx", "512")):
                    a = self.estimate("--batch", "2", "--seq", str(n), *more, path)
                    need[n, len(more)] = a["eager"]["bytes"] - a["components"]["parameters"]["bytes"] - a["components"]["kv_cache"]["bytes"]
            self.assertEqual(a["moments"]["peak"]["known"], "assumed")
            for n, numbers in zip((256, 512), live):
                self.assertLessEqual(numbers * 2 * n * 4, need[n, 0], kind)
                self.assertLessEqual(need[n, 0], 1.1 * numbers * 2 * n * 4, kind)
            if kind == "mamba2":
                self.assertEqual((need[1, 0], need[300, 0]), (need[256, 0], need[512, 0]))
            self.assertEqual(need[512, 2] - need[512, 0], 2 * 4 * 2 * 1024 * keys["state_size"], kind)

    def test_sizes_alone(self):
        """Configurations of architectures that are not known here: weights as transformers counts them (to 2.5 %), keys and values by hand, all
        of it assumed; the same beside weights, which are counted then; not for commands that compute, and not for pictures."""
        llama4 = [["chunked_attention", "full_attention"][k % 4 == 3] for k in range(48)]
        slides = [["sliding_attention", "full_attention"][k % 2] for k in range(36)]
        linear = [["linear_attention", "full_attention"][k % 4 == 3] for k in range(32)]
        for kind, params, cache, keys in (
                ("falcon", 6.922e9, 32 * 2 * 64 * 4096, dict(vocab_size=65024, hidden_size=4544, num_hidden_layers=32, num_attention_heads=71, multi_query=True)),
                ("gpt_neox", 20.555e9, 44 * 2 * 6144 * 4096, dict(vocab_size=50432, hidden_size=6144, num_hidden_layers=44, num_attention_heads=64, intermediate_size=24576)),
                ("deepseek_v3", 671.026e9, 61 * 128 * 320 * 4096, dict(
                    vocab_size=129280, hidden_size=7168, intermediate_size=18432, moe_intermediate_size=2048, num_hidden_layers=61, num_attention_heads=128,
                    num_key_value_heads=128, n_shared_experts=1, n_routed_experts=256, kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, v_head_dim=128,
                    qk_nope_head_dim=128, num_experts_per_tok=8, first_k_dense_replace=3)),
                ("gpt_oss", 116.829e9, 36 * 1024 * 4096 // 2 + 18 * 1024 * 128, dict(
                    vocab_size=201088, hidden_size=2880, intermediate_size=2880, num_hidden_layers=36, num_attention_heads=64, num_key_value_heads=8, head_dim=64,
                    num_local_experts=128, num_experts_per_tok=4, sliding_window=128, layer_types=slides)),
                ("llama4", 108.225e9, 48 * 2 * 1024 * 4096, dict(
                    text_config=dict(model_type="llama4_text", vocab_size=202048, hidden_size=5120, intermediate_size=8192, intermediate_size_mlp=16384,
                                     num_hidden_layers=48, num_attention_heads=40, num_key_value_heads=8, head_dim=128, num_local_experts=16,
                                     num_experts_per_tok=1, interleave_moe_layer_step=1, attention_chunk_size=8192, layer_types=llama4),
                    vision_config=dict(hidden_size=768, num_hidden_layers=34, num_attention_heads=16, intermediate_size=5632))),
                ("qwen3_5_text", 8.954e9, 8 * 2 * 1024 * 4096, dict(
                    vocab_size=248320, hidden_size=4096, intermediate_size=12288, num_hidden_layers=32, num_attention_heads=16, num_key_value_heads=4, head_dim=256,
                    linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32, layer_types=linear)),
                ("gpt_neox_japanese", 2.599e9, 32 * 2 * 2560 * 4096, dict(vocab_size=32000, hidden_size=2560, num_hidden_layers=32, num_attention_heads=32)),
                ("bamba", 9.993e9, None, dict(vocab_size=128000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                                           num_key_value_heads=8, mamba_d_state=256, mamba_expand=2, mamba_n_groups=1, attn_layer_indices=None)),
                ("helium", 6.738e9, 32 * 2 * 4096 * 4096, dict(vocab_size=32000, hidden_size=4096, intermediate_size=[8256, 13760] * 16,
                                                               num_hidden_layers=32, num_attention_heads=32)),
                ("nemotron_h", 1.968e9, 2 * 1024 * 4096, dict(vocab_size=131072, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                                                              intermediate_size=21504, mamba_num_heads=128, mamba_head_dim=64, ssm_state_size=128, n_groups=8,
                                                              n_routed_experts=8, n_shared_experts=1, moe_intermediate_size=7688, num_experts_per_tok=2,
                                                              moe_shared_expert_intermediate_size=7688,
                                                              layers_block_type=["linear_attention", "moe", "full_attention", "mlp"])),
                ("rwkv", 7.393e9, 0, dict(vocab_size=50277, hidden_size=4096, num_hidden_layers=32, attention_hidden_size=4096, intermediate_size=16384)),
                ("recurrent_gemma", 2.010e9, 8 * 2 * 2560 * (2048 + 128), dict(
                    vocab_size=256000, hidden_size=2560, num_hidden_layers=26, intermediate_size=7680, num_attention_heads=10, num_key_value_heads=10, head_dim=256,
                    lru_width=2560, attention_window_size=2048, block_types=["recurrent", "recurrent", "attention"], tie_word_embeddings=True)),
                ("m2m_100", 0.484e9, 12 * 2 * 1024 * (4096 + 128), dict(
                    vocab_size=128112, d_model=1024, encoder_layers=12, decoder_layers=12, encoder_ffn_dim=4096, decoder_ffn_dim=4096, encoder_attention_heads=16,
                    decoder_attention_heads=16, is_encoder_decoder=True, max_position_embeddings=1024)),
                ("modernbert", 0.150e9, 0, dict(vocab_size=50368, hidden_size=768, intermediate_size=1152, num_hidden_layers=22, num_attention_heads=12,
                                                hidden_activation="gelu", architectures=["ModernBertForMaskedLM"])),
                ("mamba", 0.159e9, 0, dict(vocab_size=50280, hidden_size=768, state_size=16, num_hidden_layers=32, expand=2, intermediate_size=1536,
                                           tie_word_embeddings=True))):
            path = os.path.join(self.dir.name, "of-" + kind)
            os.mkdir(path)
            with open(path + "/config.json", "w") as f:
                json.dump(dict(keys, model_type=kind, torch_dtype="bfloat16"), f)
            a = self.estimate("--ctx", "4096", "of-%s/config.json" % kind)
            c = a["components"]
            self.assertLess(abs(c["parameters"]["bytes"] / 2 / params - 1), 0.025, kind)
            if cache is not None:  # Bamba's states are of another size than the positions that stand for them
                self.assertLess(abs(c["kv_cache"]["bytes"] - 2 * cache), 0.03 * cache + 32 * 2 * 4096 * 64, kind)
            self.assertEqual({c[k]["known"] for k in ("parameters", "kv_cache")}, {"assumed"}, kind)
            open_kind = kind in ("bamba", "nemotron_h", "rwkv", "recurrent_gemma")  # what their scans take; the first two state no chunks
            self.assertEqual({c["activations"]["known"], a["moments"]["peak"]["known"]}, {"unknown" if open_kind else "assumed"}, kind)
            self.assertIn("model of the sizes that its configuration states", a["notes"][-1])
            self.assertIn(self.fit("--ctx", "4096", "of-%s" % kind)["devices"][0]["verdict"], ("unknown" if open_kind else "fits", "does not fit"))
            if kind == "rwkv":
                self.check_open("of-%s" % kind)
            self.run_program("graph", "of-%s/config.json" % kind, codes=(3,))
        self.check_scans()
        latent = self.estimate("--ctx", "4096", "--dtype", "q4_k_m", "of-deepseek_v3/config.json")["components"]["kv_cache"]["bytes"]
        self.assertLess(abs(latent - 61 * 576 * 2 * 4096), 1 << 20)
        # beside weights these are counted; what is kept and computed is that of the sizes
        config, tensors = llama(256, 512, 2, 8, 4, 6007, False)
        folder(os.path.join(self.dir.name, "other"), dict(config, model_type="helium", architectures=["HeliumForCausalLM"]), tensors)
        own, other = self.estimate("--ctx", "512", "f16"), self.estimate("--ctx", "512", "other")
        self.assertEqual((other["components"]["parameters"]["known"], other["components"]["kv_cache"]["known"]), ("exact", "assumed"))
        self.assertEqual(other["unknown"], None)
        self.assertEqual(own["components"]["kv_cache"]["known"], "exact")
        trained = self.run_program("fit", "--gpu", "B200", "--mode", "train", "--seq", "64", "other", codes=(1, 3))  # never "fits"
        self.assertIn("model_type is 'helium'", trained.stderr)
        bytes_of = {}
        for positions in (1024, 2048):  # all layers share one mask of all positions, of bytes
            os.makedirs(os.path.join(self.dir.name, f"mask-{positions}"))
            with open(os.path.join(self.dir.name, f"mask-{positions}", "config.json"), "w") as f:
                json.dump(dict(model_type="gpt_bigcode", n_embd=256, n_layer=3, n_head=4, n_positions=positions, vocab_size=1000), f)
            bytes_of[positions] = self.estimate(f"mask-{positions}")["components"]["parameters"]["bytes"]
        self.assertEqual(bytes_of[2048] - bytes_of[1024], 4 * 256 * 1024 + 2048 ** 2 - 1024 ** 2)
        os.makedirs(os.path.join(self.dir.name, "of-siglip"))
        with open(os.path.join(self.dir.name, "of-siglip", "config.json"), "w") as f:
            json.dump(dict(model_type="siglip", hidden_size=768, num_hidden_layers=12, num_attention_heads=12, vocab_size=50000, projection_size=768), f)
        self.assertIn("model_type is", self.run_program("estimate", "of-siglip/config.json", codes=(3,)).stderr)

    def test_experts_on_the_host(self):
        """--n-cpu-moe: experts of the first layers are in no need; fit and plan say with how many a model fits, and not with fewer."""
        experts = 3 * 8 * 512 * 1024 * 2  # gate, up and down of 8, f16
        layers = [t for k in range(4) for t in attention(k, 512, 4, 1, 128) + [
            ("blk.%d.ffn_gate_inp.weight" % k, (8, 512)), ("blk.%d.ffn_gate_exps.weight" % k, (8, 1024, 512)),
            ("blk.%d.ffn_up_exps.weight" % k, (8, 1024, 512)), ("blk.%d.ffn_down_exps.weight" % k, (8, 512, 1024))]]
        gguf(os.path.join(self.dir.name, "moe.gguf"), "gpt-oss", sizes(4, 512, 4, 1, 4096, expert_count=8, expert_used_count=2), tables(1000, 512) + layers)
        whole = self.estimate("moe.gguf")
        need = self.fit("moe.gguf")["devices"][0]["need_bytes"]
        for n in range(5):
            less = self.estimate("--n-cpu-moe", str(n), "moe.gguf")
            self.assertEqual(less["host_weight_bytes"] - whole["host_weight_bytes"], n * experts)
            self.assertEqual(whole["moments"]["peak"]["bytes"] - less["moments"]["peak"]["bytes"], n * experts)
            self.assertEqual(less["components"]["parameters"], whole["components"]["parameters"])
        for room, n in ((0, None), (-1, 1), (-experts, 1), (-experts - 1, 2), (-3 * experts - 1, 4), (-4 * experts - 1, None)):
            memory = "%dB" % (need + 256 * MIB + room)
            answer = json.loads(self.run_program("fit", "--memory", memory, "--json", "moe.gguf", codes=(0, 1)).stdout)["devices"][0]
            self.assertEqual(answer.get("n_cpu_moe"), n, room)
            if n is not None:
                self.assertIn("fits with --n-cpu-moe %d: the experts of %d of 4 layers" % (n, n),
                              self.run_program("fit", "--memory", memory, "moe.gguf", codes=(1,)).stdout)
                self.run_program("fit", "--memory", memory, "--n-cpu-moe", str(n), "moe.gguf")
                self.run_program("fit", "--memory", memory, "--n-cpu-moe", str(n - 1), "moe.gguf", codes=(1,))
            plan = json.loads(self.run_program("plan", "--memory", memory, "--without", "weights", "--json", "moe.gguf", codes=(0, 1)).stdout)
            said = [recipe["commands"][-1].split(" --n-cpu-moe ")[1].split()[0] for recipe in plan["recipes"] if "n-cpu-moe" in recipe["commands"][-1]]
            self.assertEqual(said, [str(n or 4)] if room != 0 else [])
            self.assertEqual(plan["best"] is None, room == -4 * experts - 1)
        self.assertIn("--n-cpu-moe is an option of llama.cpp", self.run_program("fit", "--memory", "1GiB", "--n-cpu-moe", "1", "f16", codes=(2,)).stderr)

    def test_exports_for_inference(self):
        text = self.run_program("estimate", "--mode", "train", "conv.onnx").stdout
        self.assertIn("note: the file was exported for inference: its normalizations are folded into the convolutions", text)
        for words in (["estimate", "conv.onnx"], ["estimate", "--mode", "train", "own.onnx"]):
            self.assertNotIn("folded", self.run_program(*words).stdout)

    def test_refused(self):
        for words, sentence in ((["--mode", "train", "--runtime", "llama.cpp", "f16"], "--runtime llama.cpp runs models and trains none"),
                                (["--runtime", "llama", "f16"], "--runtime: 'llama' is not native, dequantize, layerwise, llama.cpp")):
            done = self.run_program("fit", "--memory", "1GiB", *words, codes=(2,))
            self.assertIn(sentence, done.stderr)


if __name__ == "__main__":
    unittest.main()
