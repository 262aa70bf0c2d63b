"""test_written_words.py - folders for MLX, GPTQ and AWQ as vcompress writes them: decoded here with NumPy by the formats' rules, they have
the values of `dequantize` and those of the same codes in compressed-tensors, bit for bit; codes come back unchanged from each layout. Where
mlx_lm can be imported it loads MLX's folders and AWQ's, and its outputs are those of a folder of the decoded weights.
"""
import json
import os
import unittest

from judge_support import Judge, main, np
import definition as d
from test_safetensors import st_read, st_write

try:
    import mlx.core as mx
    from mlx_lm.utils import load_model
    from pathlib import Path
except ImportError as missing:
    mx = None
    print("mlx_lm does not judge: %s" % missing)

HIDDEN, INNER, WORDS, LAYERS = 256, 512, 64, 2
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": INNER,
          "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": WORDS, "rms_norm_eps": 1e-5,
          "tie_word_embeddings": False, "max_position_embeddings": 64, "rope_theta": 10000.0}
LINEAR = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (128, HIDDEN), "self_attn.v_proj": (128, HIDDEN),
          "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
          "mlp.down_proj": (HIDDEN, INNER)}
PATHS = ["model.layers.%d.%s" % (i, n) for i in range(LAYERS) for n in LINEAR]
KINDS = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "I32": "<i4", "U32": "<u4", "U8": "u1", "F8_E4M3": "u1"}


def floats(kind, a):
    return d.bf16_to_f32(a) if kind == "BF16" else a.astype("f4")


def undense(words, bits, n):
    """n codes side by side along the last axis, from the lowest bits on, in words of 32 bits."""
    b = np.unpackbits(np.ascontiguousarray(words).view("u1").reshape(words.shape[:-1] + (-1,)), axis=-1, bitorder="little")
    b = b[..., :n * bits].reshape(words.shape[:-1] + (n, bits)).astype("i4")
    return (b << np.arange(bits)).sum(-1)


def awq_codes(words):
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    out = np.zeros(words.shape + (8,), "i4")
    for i, column in enumerate(order):
        out[..., column] = words.view("u4") >> np.uint32(4 * i) & 15
    return out.reshape(words.shape[0], -1)


class Written(Judge):
    def model(self, name, kind="BF16", seed=1):
        rng = np.random.default_rng(seed)
        shapes = {"model.embed_tokens.weight": (WORDS, HIDDEN), "model.norm.weight": (HIDDEN,), "lm_head.weight": (WORDS, HIDDEN)}
        for i in range(LAYERS):
            shapes.update({"model.layers.%d.%s.weight" % (i, n): s for n, s in LINEAR.items()})
            shapes.update({"model.layers.%d.%s.weight" % (i, n): (HIDDEN,) for n in ("input_layernorm", "post_attention_layernorm")})
        arrays = {n: (rng.standard_normal(s) * (0.1 if len(s) == 2 else 1)).astype("f4") for n, s in shapes.items()}
        self.folder(name, {n: (kind, d.f32_to_bf16(a) if kind == "BF16" else a.astype(KINDS[kind])) for n, a in arrays.items()}, CONFIG)
        return self.path(name)

    def folder(self, name, tensors, config):
        os.makedirs(self.path(name), exist_ok=True)
        st_write(self.path(name + "/model.safetensors"), [(n, k, a.shape, a.tobytes()) for n, (k, a) in tensors.items()])
        with open(self.path(name + "/config.json"), "w") as f:
            json.dump(config, f)

    def read(self, name):
        tensors, _ = st_read(self.path(name + "/model.safetensors"))
        with open(self.path(name + "/config.json")) as f:
            config = json.load(f)
        return {n: (k, np.frombuffer(b, KINDS[k]).reshape(s)) for n, (k, s, b) in tensors.items()}, config

    def decoded(self, name):
        out = self.path("values.npz")
        self.vc("dequantize", "--force", "--f32", self.path(name), "-o", out)
        return self.load(out)

    def gptq(self, tensors, path, config):
        bits, n = config["bits"], tensors[path + ".qweight"][1].shape[1]
        words = tensors[path + ".qweight"][1]
        k = words.shape[0] * 32 // bits
        q = undense(np.ascontiguousarray(words.T), bits, k)
        kind, s = tensors[path + ".scales"]
        z = undense(tensors[path + ".qzeros"][1], bits, n).T + (0 if config["checkpoint_format"] == "gptq_v2" else 1)
        index = tensors[path + ".g_idx"][1]
        size = config["group_size"] if config["group_size"] > 0 else k
        self.assertEqual(index.tolist(), [i // size for i in range(k)])
        if config["sym"]:
            self.assertTrue((z == 2**(bits - 1)).all())
        return (q - z[:, index]).astype("f4") * floats(kind, s).T[:, index]

    def awq(self, tensors, path, config):
        q = awq_codes(tensors[path + ".qweight"][1]).T
        z = awq_codes(tensors[path + ".qzeros"][1]).T
        kind, s = tensors[path + ".scales"]
        index = np.arange(q.shape[1]) // config["group_size"]
        return (q - z[:, index]).astype("f4") * floats(kind, s).T[:, index]

    def mlx(self, tensors, path, config):
        said = config.get(path, config)
        kind, words = tensors[path + ".weight"]
        self.assertEqual(kind, "U32")
        bits = said["bits"]
        q = undense(words, bits, words.shape[1] * 32 // bits)
        index = np.arange(q.shape[1]) // said["group_size"]
        kind, s = tensors[path + ".scales"]
        if said["mode"] == "affine":
            kind_b, b = tensors[path + ".biases"]
            self.assertEqual(kind_b, kind)
            return q.astype("f4") * floats(kind, s)[:, index] + floats(kind, b)[:, index]
        self.assertNotIn(path + ".biases", tensors)
        return d.float_value(said["mode"], q.astype("u1"), d.e8m0(s), 32)

    def values(self, layout, name):
        tensors, config = self.read(name)
        said = config["quantization" if layout == "mlx" else "quantization_config"]
        if layout == "mlx":
            self.assertEqual(config["quantization_config"], said)
        else:
            self.assertEqual(said["quant_method"], layout)
        return {p: getattr(self, layout)(tensors, p, said) for p in PATHS if p + ".scales" in tensors}, tensors, said

    def check(self, layout, name):
        """NumPy's values are those of dequantize."""
        values, tensors, said = self.values(layout, name)
        got = self.decoded(name)
        for p, v in values.items():
            self.same_bits(np.ascontiguousarray(v), got[p + ".weight"], p)
        self.vc("verify", "--data", self.path(name))
        return values, tensors, said

    CASES = [("gptq", ["--int4"]), ("gptq", ["--int4", "--granularity", "group:32"]), ("gptq", ["--int4", "--granularity", "group:64", "--asymmetric"]),
             ("gptq", ["--int8"]), ("gptq", ["--int8", "--granularity", "group:128", "--asymmetric"]), ("gptq", ["--int3"]),
             ("gptq", ["--int3", "--asymmetric", "--granularity", "group:32"]), ("gptq", ["--int2", "--granularity", "group:32"]),
             ("awq", ["--int4"]), ("awq", ["--int4", "--granularity", "group:32", "--asymmetric"]), ("awq", ["--int4", "--granularity", "group:64"]),
             ("mlx", ["--int4"]), ("mlx", ["--int4", "--granularity", "group:64"]), ("mlx", ["--int8"]), ("mlx", ["--int4", "--type", "*proj*=int6/group:128"]), ("mlx", ["--int4", "--type", "*proj*=int5/group:32"]),
             ("mlx", ["--int3"]), ("mlx", ["--int2", "--granularity", "group:32"]), ("mlx", ["--mxfp4"]), ("mlx", ["--mxfp8"])]

    def test_codes(self):
        """The same codes and scales as compressed-tensors has, and back to it; copies keep every byte; threads do not count."""
        for kind in ("BF16", "F16"):
            self.model("in", kind)
            for layout, options in self.CASES if kind == "BF16" else self.CASES[:2] + self.CASES[8:13]:
                what = "%s %s %s" % (kind, layout, options)
                some = ("--min-elements", "1")
                groups = options if layout != "mlx" or options != ["--int8"] else options + ["--granularity", "group:64"]
                self.vc("quantize", "--force", *options, *some, "--layout", layout, self.path("in"), "-o", self.path("out"))
                values, tensors, said = self.check(layout, "out")
                self.assertEqual(sorted(values), sorted(PATHS), what)
                self.assertEqual(tensors["lm_head.weight"][0], kind)
                ct = ("--layout", "compressed-tensors")
                self.vc("quantize", "--force", *groups, *some, *ct, self.path("in"), "-o", self.path("ct"))
                want, got = self.decoded("ct"), self.decoded("out")
                for p in PATHS:
                    self.same_bits(got[p + ".weight"], want[p + ".weight"], what)
                # From compressed-tensors: the same file. And back.
                self.vc("convert", "--force", "--layout", layout, self.path("ct"), "-o", self.path("again"))
                self.assertEqual(st_read(self.path("out/model.safetensors"))[0], st_read(self.path("again/model.safetensors"))[0], what)
                if layout != "mlx" or options[0].startswith("--mx"):
                    self.vc("convert", "--force", *ct, self.path("out"), "-o", self.path("back"))
                    self.assertEqual(st_read(self.path("ct/model.safetensors"))[0], st_read(self.path("back/model.safetensors"))[0], what)
                for name in ("config.json", "model.safetensors"):
                    self.vc("convert", "--force", self.path("out"), "-o", self.path("copy"))
                    with open(self.path("out/" + name), "rb") as a, open(self.path("copy/" + name), "rb") as b:
                        self.assertEqual(a.read(), b.read(), what)
                self.vc("quantize", "--force", *options, *some, "--layout", layout, "--threads", "1", "--max-memory", "64M", self.path("in"), "-o", self.path("one"))
                self.assertEqual(st_read(self.path("out/model.safetensors"))[0], st_read(self.path("one/model.safetensors"))[0], what)

    def test_kept_layers(self):
        """Layers that stay: GPTQ and AWQ name them; MLX's have no scales. Kinds of codes: MLX has any, the others one."""
        self.model("in")
        some = ("--int4", "--min-elements", "1", "--exclude", "*layers.0.mlp.gate_proj*", self.path("in"), "-o")
        for layout in ("gptq", "awq", "mlx"):
            self.vc("quantize", "--layout", layout, *some, self.path(layout))
            values, tensors, said = self.check(layout, layout)
            self.assertNotIn("model.layers.0.mlp.gate_proj", values)
            self.assertEqual(len(values), len(PATHS) - 1)
        self.assertEqual(self.values("gptq", "gptq")[2]["dynamic"], {"-:^model\\.layers\\.0\\.mlp\\.gate_proj$": {}})
        self.assertEqual(sorted(self.values("awq", "awq")[2]["modules_to_not_convert"]), ["lm_head", "model.layers.0.mlp.gate_proj"])
        two = ("--int4", "--min-elements", "1", "--type", "*down_proj*=int8/group:64", self.path("in"), "-o")
        for layout in ("gptq", "awq"):
            self.refuse(3 if layout == "gptq" else 2, "quantize", "--layout", layout, *two, self.path("no"))
        self.vc("quantize", "--layout", "mlx", "--granularity", "group:64", *two, self.path("two"))
        values, tensors, said = self.check("mlx", "two")
        self.assertEqual((said["bits"], said["model.layers.1.mlp.down_proj"]), (4, {"group_size": 64, "bits": 8, "mode": "affine"}))
        self.vc("quantize", "--layout", "gptq", "--int4", "--min-elements", "1", "--include", "lm_head.weight", self.path("in"), "-o", self.path("head"))
        self.assertTrue(self.values("gptq", "head")[2]["lm_head"])

    def test_new_codes_of_mlx(self):
        """MLX's folder gets MLX's codes without being asked; decoded weights leave no word of it in config.json."""
        self.model("in")
        self.vc("quantize", "--layout", "mlx", "--int8", "--min-elements", "1", self.path("in"), "-o", self.path("eight"))
        self.vc("quantize", "--int4", "--granularity", "group:64", "--requantize", "--min-elements", "1", self.path("eight"), "-o", self.path("four"))
        self.assertEqual(self.check("mlx", "four")[2]["bits"], 4)
        self.vc("dequantize", "--source-dtype", self.path("four"), "-o", self.path("floats"))
        config = self.read("floats")[1]
        self.assertFalse({"quantization", "quantization_config"} & set(config))
        self.vc("quantize", "--int4", "--granularity", "group:64", "--requantize", "--min-elements", "1", "--exclude", "*.0.*", self.path("eight"), "-o", self.path("mixed"))
        self.assertEqual({(v["bits"]) for k, v in self.check("mlx", "mixed")[2].items() if "." in k} | {self.values("mlx", "mixed")[2]["bits"]}, {4, 8})

    def test_refused(self):
        self.model("in", "F32")
        out = self.path("no")
        for layout, options, sentence in (
                ("gptq", ["--int4", "--granularity", "group:16"], "groups of 32, 64 or 128"), ("awq", ["--int4", "--granularity", "channel"], "groups of 32, 64 or 128"),
                ("awq", ["--int8"], "awq"), ("mlx", ["--int4", "--granularity", "channel"], "groups of 32, 64 or 128"),
                ("mlx", ["--int4", "--asymmetric"], "no zero points"), ("mlx", ["--nvfp4"], "mlx"), ("gptq", ["--nf4"], "has no place")):
            self.assertIn(sentence, self.refuse(2, "quantize", *options, "--layout", layout, self.path("in"), "-o", out))
        for layout in ("gptq", "awq", "mlx"):
            one = (self.path("in/model.safetensors"), "-o", self.path("one.safetensors"))
            self.assertIn("config.json", self.refuse(3, "quantize", "--int4", "--layout", layout, *one))
        self.vc("quantize", "--int4", "--layout", "compressed-tensors", "--min-elements", "1", self.path("in"), "-o", self.path("ct"))
        self.assertIn("scales of f32", self.refuse(3, "convert", "--layout", "awq", self.path("ct"), "-o", out))
        self.vc("quantize", "--int4", "--layout", "awq", "--min-elements", "1", self.path("in"), "-o", self.path("awq"))
        self.assertEqual(self.check("awq", "awq")[1][PATHS[0] + ".scales"][0], "F16")
        self.assertIn("cannot hold", self.refuse(3, "convert", "--layout", "mlx", self.asymmetric(), "-o", out))
        # A scale of f16 whose bias is beyond it.
        big = np.full((64, 64), 65500, "f2")
        big[:, ::2] *= -1
        self.folder("big", {"model.layers.0.self_attn.q_proj.weight": ("F16", big)}, CONFIG)
        self.assertIn("beyond what f16 holds", self.refuse(3, "quantize", "--int8", "--layout", "mlx", "--min-elements", "1", self.path("big"), "-o", out))
        self.assertFalse(os.path.exists(out))
        self.no_strays("asym", "awq", "big", "ct", "in", "values.npz")

    def asymmetric(self):
        self.vc("quantize", "--int4", "--asymmetric", "--layout", "compressed-tensors", "--min-elements", "1", self.path("in"), "-o", self.path("asym"))
        return self.path("asym")

    def logits(self, name):
        model, _ = load_model(Path(self.path(name)))
        return np.array(model(mx.array([[1, 5, 9, 33, 2, 60]])).astype(mx.float32))

    @unittest.skipIf(mx is None, "no mlx_lm")
    def test_mlx_lm(self):
        self.model("in", "F32")
        for layout, options in [c for c in self.CASES if c[0] != "gptq"]:
            self.vc("quantize", "--force", *options, "--min-elements", "1", "--layout", layout, self.path("in"), "-o", self.path("out"))
            self.vc("dequantize", "--force", "--f32", self.path("out"), "-o", self.path("floats"))
            got, want = self.logits("out"), self.logits("floats")
            bound = 1e-5 if layout == "mlx" else 2e-2  # mlx_lm casts an AWQ model to the type of its scales
            self.assertLess(np.linalg.norm(got - want) / np.linalg.norm(want), bound, "%s %s" % (layout, options))
            print("mlx_lm", layout, options, np.linalg.norm(got - want) / np.linalg.norm(want))


if __name__ == "__main__":
    main()
