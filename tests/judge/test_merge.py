"""test_merge.py - adapters that become part of weights. NumPy computes in f64 what each element should be; peft, where it can
be imported, merges the same adapters into the same models.

The bound of an element: the products and sums of the rank in f32, (rank + 2) * 2^-24 * sum |b a|, and half a unit of the
type of the file.
"""
import json
import os
import shutil
import unittest

from judge_support import Judge, main, np, sha
import definition as d
import original_layouts
from test_safetensors import st_read, st_write

try:
    import peft
    import torch
    import transformers
except ImportError:
    peft = None

try:
    import torch
    from diffusers.loaders import single_file_utils
except (ImportError, RuntimeError):
    single_file_utils = None

CODES = {"f8": "F64", "f4": "F32", "f2": "F16", "u2": "BF16"}
NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
UNIT = {"f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}


def to_f64(array, dtype):
    return d.bf16_to_f32(array).astype("f8") if dtype == "bf16" else array.astype("f8")


def stored(array, dtype):
    return d.f32_to_bf16(array.astype("f4")) if dtype == "bf16" else array.astype({"f64": "f8", "f32": "f4", "f16": "f2"}[dtype])


class Merge(Judge):
    def write(self, name, arrays, config=None):
        """A file, or with a config a folder of PEFT."""
        path = self.path(name)
        if config is not None:
            os.makedirs(path)
            with open(os.path.join(path, "adapter_config.json"), "w") as f:
                json.dump(config, f)
            path = os.path.join(path, "adapter_model.safetensors")
        st_write(path, [(n, CODES[a.dtype.str[1:]], a.shape, a.tobytes()) for n, a in arrays.items()])
        return os.path.dirname(path) if config is not None else path

    def read(self, path):
        """name -> (array, type as here); bf16 as uint16."""
        return {n: (np.frombuffer(data, NUMPY[dtype]).reshape(shape), dtype.lower())
                for n, (dtype, shape, data) in st_read(path)[0].items()}

    def near(self, found, expected, sums, rank, dtype, what):
        """Within the bound of the products and half a unit of the type."""
        bound = (rank + 2) * 2.0 ** -24 * (sums + np.abs(expected)) + UNIT[dtype] * np.abs(expected) + 1e-37
        if dtype == "f16":
            bound = bound + 2.0 ** -25
        worst = np.max(np.abs(to_f64(found, dtype) - expected) - bound)
        self.assertLessEqual(worst, 0, what)


CONFIG = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "base_model_name_or_path": "someone/base"}
PEFT = "base_model.model."


def factors(rng, name, out, inputs, rank, wrapped=PEFT):
    """A and B of a linear layer."""
    return {wrapped + name + ".lora_A.weight": rng.standard_normal((rank, inputs)).astype("f4") * 0.1,
            wrapped + name + ".lora_B.weight": rng.standard_normal((out, rank)).astype("f4") * 0.1}


class Definition(Merge):
    def test_linear_in_each_type(self):
        for dtype in ("f32", "f16", "bf16"):
            for rank in (1, 3, 8, 16):
                with self.subTest(dtype=dtype, rank=rank):
                    rng = np.random.default_rng(rank)
                    w = stored(rng.standard_normal((70, 1100)), dtype)
                    other = stored(rng.standard_normal((5, 5)), dtype)
                    base = self.write("m-%s-%d.safetensors" % (dtype, rank), {"model.a.weight": w, "model.b.weight": other})
                    parts = factors(rng, "model.a", 70, 1100, rank)
                    adapter = self.write("a-%s-%d" % (dtype, rank), parts, config=dict(CONFIG, r=rank))
                    out = self.path("o-%s-%d.safetensors" % (dtype, rank))
                    self.vc("merge", "-q", "--lora", adapter, base, "-o", out)
                    got = self.read(out)
                    a, b = (parts[PEFT + "model.a.lora_%s.weight" % c].astype("f8") for c in "AB")
                    scale = 16 / rank
                    self.near(got["model.a.weight"][0], to_f64(w, dtype) + scale * b @ a, scale * np.abs(b) @ np.abs(a), rank,
                              dtype, "model.a.weight")
                    self.same_bits(got["model.b.weight"][0], other)

    def test_scales(self):
        """alpha / r, alpha / sqrt(r), patterns, the weight of the command line."""
        rng = np.random.default_rng(1)
        w = rng.standard_normal((24, 32)).astype("f4")
        base = self.write("m.safetensors", {"layers.%d.%s.weight" % (k, n): w for k in range(2) for n in ("q", "up")})
        parts = {}
        for k in range(2):
            for n in ("q", "up"):
                parts.update(factors(rng, "layers.%d.%s" % (k, n), 24, 32, 4))
        for number, (config, weight, expected) in enumerate((
                ({}, None, {}),
                ({"use_rslora": True}, None, {"": 16 / 4 ** 0.5}),
                ({"alpha_pattern": {"up": 2}}, None, {"up": 0.5}),
                ({"alpha_pattern": {r"layers\.[01]\.q": 8, "q": 100}}, None, {"q": 2.0}),
                ({"alpha_pattern": {r"layers.\d.(?:q|up)": 1}}, None, {"": 0.25}),
                ({"alpha_pattern": {"p": 2}}, "0.5", {"": 2.0}),
                ({}, "-1", {"": -4.0}))):
            with self.subTest(config=config, weight=weight):
                adapter = self.write("a%d" % number, parts, config=dict(CONFIG, **config))
                out = self.path("o%d.safetensors" % number)
                self.vc("merge", "-q", "--lora", adapter + ("=" + weight if weight else ""), base, "-o", out)
                for name, (got, _) in self.read(out).items():
                    module = name[:-len(".weight")]
                    a, b = (parts[PEFT + module + ".lora_%s.weight" % c].astype("f8") for c in "AB")
                    scale = expected.get(module.rsplit(".", 1)[1], expected.get("", 4.0))
                    self.near(got, w + scale * b @ a, abs(scale) * np.abs(b) @ np.abs(a), 4, "f32", name)

    def test_embeddings_convolutions_and_turned_weights(self):
        rng = np.random.default_rng(2)
        emb = rng.standard_normal((50, 12)).astype("f4")
        conv = rng.standard_normal((9, 5, 3, 3)).astype("f4")
        turned = rng.standard_normal((20, 60)).astype("f4")
        base = self.write("m.safetensors", {"wte.weight": emb, "conv.weight": conv, "c_attn.weight": turned})
        ea, eb = rng.standard_normal((4, 50)).astype("f4"), rng.standard_normal((12, 4)).astype("f4")
        ca, cb = rng.standard_normal((4, 5, 3, 3)).astype("f4"), rng.standard_normal((9, 4, 1, 1)).astype("f4")
        ta, tb = rng.standard_normal((4, 20)).astype("f4"), rng.standard_normal((60, 4)).astype("f4")
        adapter = self.write("a", {PEFT + "wte.lora_embedding_A": ea, PEFT + "wte.lora_embedding_B": eb,
                                   PEFT + "conv.lora_A.weight": ca, PEFT + "conv.lora_B.weight": cb,
                                   PEFT + "c_attn.lora_A.weight": ta, PEFT + "c_attn.lora_B.weight": tb},
                             config=dict(CONFIG, r=4, lora_alpha=4))
        out = self.path("o.safetensors")
        self.vc("merge", "-q", "--lora", adapter, base, "-o", out)
        got = self.read(out)
        f8 = lambda *arrays: [x.astype("f8") for x in arrays]
        for name, w, a, b in (("wte.weight", emb, eb.T, ea), ("c_attn.weight", turned, tb.T, ta)):
            a, b = f8(a, b)
            self.near(got[name][0], w + (a.T @ b).T, np.abs(b).T @ np.abs(a), 4, "f32", name)
        a, b = f8(ca.reshape(4, -1), cb.reshape(9, 4))
        self.near(got["conv.weight"][0].reshape(9, -1), conv.reshape(9, -1) + b @ a, np.abs(b) @ np.abs(a), 4, "f32", "conv")

    def test_several_adapters(self):
        rng = np.random.default_rng(3)
        w = stored(rng.standard_normal((40, 48)), "bf16")
        base = self.write("m.safetensors", {"x.weight": w})
        first, second = factors(rng, "x", 40, 48, 4), factors(rng, "x", 40, 48, 8)
        one = self.write("one", first, config=dict(CONFIG, r=4))
        two = self.write("two", second, config=CONFIG)
        out = self.path("o.safetensors")
        report = self.vc("merge", "--json", "--lora", one + "=0.75", "--lora", two + "=0.25", base, "-o", out).json()
        row, = report["tensors"]
        self.assertEqual((row["action"], row["scheme"]), ("merged", "2 loras"))
        expected, sums = to_f64(w, "bf16"), 0
        for parts, scale in ((first, 3.0), (second, 0.5)):
            a, b = (parts[PEFT + "x.lora_%s.weight" % c].astype("f8") for c in "AB")
            expected = expected + scale * b @ a
            sums = sums + scale * np.abs(b) @ np.abs(a)
        self.near(self.read(out)["x.weight"][0], expected, sums, 12, "bf16", "x")

    def test_dora(self):
        """Rows and columns of tiles of any number: 1,100 rows of 300, and one row of more than a tile."""
        rng = np.random.default_rng(4)
        shapes = {"a": (1100, 300), "wide": (2, 262144 + 500), "turned": (700, 512)}
        base = {n + ".weight": rng.standard_normal(s).astype("f4") for n, s in shapes.items()}
        parts = {}
        for n, (rows, cols) in shapes.items():
            out, inputs = (cols, rows) if n == "turned" else (rows, cols)
            parts.update(factors(rng, n, out, inputs, 4))
            parts[PEFT + n + ".lora_magnitude_vector"] = rng.uniform(0.5, 2, out).astype("f4")
        model = self.write("m.safetensors", base)
        adapter = self.write("a", parts, config=dict(CONFIG, r=4, use_dora=True))
        outs = [self.path("o%d.safetensors" % t) for t in (1, 3)]
        for threads, out in zip((1, 3), outs):
            self.vc("merge", "-q", "--threads", threads, "--lora", adapter, model, "-o", out)
        with open(outs[0], "rb") as f, open(outs[1], "rb") as g:
            self.assertEqual(f.read(), g.read(), "threads")
        for name, (got, _) in self.read(outs[0]).items():
            n = name[:-len(".weight")]
            a, b, m = (parts[PEFT + n + "." + c].astype("f8") for c in ("lora_A.weight", "lora_B.weight", "lora_magnitude_vector"))
            w = base[name].astype("f8")
            w = w.T if n == "turned" else w
            v = w + 4 * b @ a
            norm = np.linalg.norm(v, axis=1, keepdims=True)
            expected = m[:, None] * v / norm
            got = got.T if n == "turned" else got
            np.testing.assert_allclose(got, expected, rtol=3e-6, atol=3e-6 * float(np.max(np.abs(expected))), err_msg=n)
        self.assertIn("DoRA", self.refuse(2, "merge", "--lora", adapter + "=0.5", model, "-o", self.path("no.safetensors")))

    def test_biases_and_whole_tensors(self):
        rng = np.random.default_rng(5)
        base = {"x.weight": rng.standard_normal((6, 4)).astype("f4"), "x.bias": rng.standard_normal(6).astype("f4"),
                "head.weight": stored(rng.standard_normal((10, 6)), "bf16"), "norm.bias": rng.standard_normal(6).astype("f4")}
        model = self.write("m.safetensors", base)
        parts = factors(rng, "x", 6, 4, 2)
        parts[PEFT + "x.lora_B.bias"] = rng.standard_normal(6)
        parts[PEFT + "head.weight"] = rng.standard_normal((10, 6)).astype("f4")
        parts[PEFT + "norm.bias"] = rng.standard_normal(6).astype("f4")
        adapter = self.write("a", parts, config=dict(CONFIG, r=2, lora_alpha=1))
        out = self.path("o.safetensors")
        self.vc("merge", "-q", "--lora", adapter, model, "-o", out)
        got = self.read(out)
        expected = base["x.bias"].astype("f8") + 0.5 * parts[PEFT + "x.lora_B.bias"]
        np.testing.assert_allclose(got["x.bias"][0], expected, rtol=1e-6)
        self.same_bits(got["head.weight"][0], d.f32_to_bf16(parts[PEFT + "head.weight"]))
        self.same_bits(got["norm.bias"][0], parts[PEFT + "norm.bias"])
        parts[PEFT + "head.weight"] = np.zeros((12, 6), "f4")
        resized = self.write("resized", parts, config=dict(CONFIG, r=2))
        self.assertIn("[12, 6]", self.refuse(3, "merge", "--lora", resized, model, "-o", self.path("no.safetensors")))

    def test_differences(self):
        """What is added as it is (diff, diff_b; w_norm, b_norm) or takes the place (set_weight), beside factors, by weight and without alpha:
        within half a unit of the sum that is rounded once."""
        rng = np.random.default_rng(14)
        shapes = {"q.weight": (40, 2100), "q.bias": (40,), "norm.weight": (2100,), "norm.bias": (2100,), "ln.weight": (9,), "ln.bias": (9,),
                  "patch.weight": (8, 4, 1, 2, 2), "table.weight": (6, 5), "mod.modulation": (1, 6, 8)}
        begin = "diffusion_model."
        for base_type in ("f32", "bf16", "f16"):
            for own_type in ("f32", "bf16", "f16", "f64"):
                set_type = "f32" if own_type == "f64" else own_type
                base = {begin + "blocks.0." + n: stored(rng.standard_normal(s), base_type) for n, s in shapes.items()}
                model = self.write("m-%s-%s.safetensors" % (base_type, own_type), base)
                wanted = {n: to_f64(a, base_type) for n, a in base.items()}
                sums, words = dict.fromkeys(base, 0.0), []
                for number, weight in enumerate((0.75, -0.5)):
                    block, parts = begin + "blocks.0.", {}
                    added = {"q.diff_b": "q.bias", "norm.diff": "norm.weight", "norm.diff_b": "norm.bias", "patch.diff": "patch.weight",
                             "ln.w_norm": "ln.weight", "ln.b_norm": "ln.bias", "mod.modulation.diff": "mod.modulation"}
                    if number == 0:
                        parts = {block + "table.set_weight": stored(rng.standard_normal((6, 5)), set_type)}
                        wanted[block + "table.weight"] = to_f64(parts[block + "table.set_weight"], set_type)
                        low = factors(rng, block + "q", 40, 2100, 3, "")
                        parts.update({**low, block + "q.alpha": np.float32(6).reshape(()), block + "norm.alpha": np.float32(9).reshape(())})
                        a, b = (low[block + "q.lora_%s.weight" % c].astype("f8") for c in "AB")
                        wanted[block + "q.weight"] = wanted[block + "q.weight"] + 2 * weight * b @ a
                        sums[block + "q.weight"] = sums[block + "q.weight"] + 2 * weight * np.abs(b) @ np.abs(a)
                    else:
                        added["q.diff"] = "q.weight"  # of the weight that the first adapter has factors for
                    for key, name in added.items():
                        x = stored(rng.standard_normal(shapes[name]), own_type)
                        parts[block + key] = x
                        wanted[block + name] = wanted[block + name] + weight * to_f64(x, own_type)
                        sums[block + name] = sums[block + name] + abs(weight * to_f64(x, own_type))
                    words += ["--lora", self.write("a-%s-%s-%d.safetensors" % (base_type, own_type, number), parts) + "=%g" % weight]
                out = self.path("o.safetensors")
                self.vc("merge", "-q", "-f", *words, model, "-o", out)
                for name, (got, _) in self.read(out).items():
                    with self.subTest(name=name, base=base_type, own=own_type):
                        self.near(got, wanted[name], sums[name] + np.abs(to_f64(base[name], base_type)), 3, base_type, name)

    def test_differences_by_other_names(self):
        """An adapter of differences alone, by names of kohya, of Wan's original files and of diffusers; and rows of a joined matrix."""
        rng = np.random.default_rng(15)
        f4 = lambda *shape: rng.standard_normal(shape).astype("f4")  # noqa: E731
        names = {"blocks.0.norm3": "blocks.0.norm2", "blocks.0.self_attn.norm_q": "blocks.0.attn1.norm_q", "blocks.0.cross_attn.norm_k_img": "blocks.0.attn2.norm_added_k",
                 "blocks.0.cross_attn.k": "blocks.0.attn2.to_k", "img_emb.proj.4": "condition_embedder.image_embedder.norm2", "ffn.0": "ffn.0"}
        for way, (held, said) in enumerate((([*names], [*names.values()]), ([*names.values()], [*names]), ([*names], [*names]))):
            for style in ("transformer.", "diffusion_model.", "lora_unet_"):
                base = {n + end: f4(8) for n in held for end in (".weight", ".bias")}
                parts = {style + (n.replace(".", "_") if style == "lora_unet_" else n) + end: f4(8) for n in said for end in (".diff", ".diff_b")}
                out = self.path("o.safetensors")
                self.vc("merge", "-q", "-f", "--lora", self.write("a%d%s.safetensors" % (way, style), parts), self.write("m%d%s.safetensors" % (way, style), base), "-o", out)
                self.assertEqual(len(parts), len(base))
                for (name, (got, _)), wanted in zip(((n, self.read(out)[n]) for n in base), parts.values()):
                    self.same_bits(got, base[name] + wanted)
        h, out = 8, self.path("o.safetensors")
        joined, rows, halves = f4(7 * h, h), f4(h, h), f4(2 * h, h)
        last = "model.diffusion_model.final_layer.adaLN_modulation.1.weight"
        model = self.write("joined.safetensors", {"model.diffusion_model.single_blocks.0.linear1.weight": joined, last: np.zeros((2 * h, h), "f4")})
        parts = {"transformer.single_transformer_blocks.0.attn.to_k.diff": rows, "transformer.norm_out.linear.diff": halves}
        self.vc("merge", "-q", "-f", "--lora", self.write("rows.safetensors", parts), model, "-o", out)
        got = self.read(out)
        joined[h:2 * h] += rows
        self.same_bits(got["model.diffusion_model.single_blocks.0.linear1.weight"][0], joined)
        self.same_bits(got[last][0], np.concatenate([halves[h:], halves[:h]]))
        cut = self.write("cut.safetensors", {"single_transformer_blocks.0.%s.weight" % n: np.zeros((4 * h if n == "proj_mlp" else h, h), "f4") for n in ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")})
        self.vc("merge", "-q", "-f", "--lora", self.write("whole.safetensors", {"diffusion_model.single_blocks.0.linear1.diff": joined}), cut, "-o", out)
        for name, (x, _) in self.read(out).items():
            first = ("q", "k", "v", "p").index(name.split(".to_")[-1][0] if ".to_" in name else "p") * h
            self.same_bits(x, joined[first:first + len(x)])

    def test_differences_refused(self):
        rng = np.random.default_rng(16)
        f4 = lambda *shape: rng.standard_normal(shape).astype("f4")  # noqa: E731
        x = "diffusion_model.x"
        base = {"x.weight": f4(8, 4), "x.bias": f4(8), "y.weight": f4(8, 4), "single_blocks.0.linear1.weight": f4(28, 4), "single_blocks.0.linear1.bias": f4(28)}
        model = self.write("m.safetensors", base)
        low = factors(rng, x, 8, 4, 2, "")
        to_k = "transformer.single_transformer_blocks.0.attn.to_k"
        for number, (parts, words) in enumerate((
                ({x + ".diff": f4(4, 8)}, ["x.diff is [4, 8]", "[8, 4]"]),
                ({x + ".diff": f4(32)}, ["x.diff is [32]"]),
                ({x + ".diff": f4(8, 4, 1)}, ["x.diff is [8, 4, 1]"]),
                ({x + ".diff": f4(9, 4)}, ["x.diff is [9, 4]"]),
                ({x + ".diff": f4(0, 4)}, ["x.diff is [0, 4]"]),
                ({x + ".set_weight": f4(8, 5)}, ["x.set_weight is [8, 5]"]),
                ({x + ".diff_b": f4(9)}, ["none of that length"]),
                ({x + ".diff_b": f4(8), "diffusion_model.y.diff_b": f4(8)}, ["diffusion_model.y has a bias"]),
                ({x + ".diff": f4(8, 4), "diffusion_model.z.diff": f4(8)}, ["another model", "diffusion_model.z", "1 of 2"]),
                ({x + ".diff": f4(8, 4), "diffusion_model.z.diff_b": f4(8)}, ["another model", "diffusion_model.z", "1 of 2"]),
                ({x + ".diff": f4(8, 4), "diffusion_model.blocks.0.diff_m": f4(8)}, ["another model", "diff_m"]),
                ({x + ".diff": f4(8, 4), x + ".w_norm": f4(8, 4)}, ["are the same factor"]),
                ({x + ".diff": f4(8, 4), "transformer.x.diff": f4(8, 4)}, ["are both of x.weight"]),
                ({x + ".diff": f4(8, 4), **low}, ["are both of x.weight", "lora_A.weight and diffusion_model.x.diff "]),
                ({x + ".set_weight": f4(8, 4), **low}, ["replaces x.weight"]),
                ({x + ".set_weight": f4(8, 4), "transformer.x.diff": f4(8, 4)}, ["x.weight"]),
                ({x + ".diff": f4(8, 4), "transformer.x.set_weight": f4(8, 4)}, ["x.weight"]),
                ({x + ".diff_b": f4(8), x + ".lora_B.bias": f4(8), **low}, ["are both of x.bias"]),
                ({x + ".diff": f4(8, 4), x + ".lora_magnitude_vector": f4(8)}, ["one of two factors"]),
                ({x + ".diff": f4(8, 4), "diffusion_model.y.alpha": f4(1)}, ["one of two factors"]),
                ({to_k + ".diff": f4(4, 5)}, ["to_k.diff is [4, 5]"]),
                ({to_k + ".diff": f4(5, 4)}, ["to_k.diff is [5, 4]"]),
                ({to_k + ".diff_b": f4(4)}, ["none of that length"]),
                ({to_k + ".set_weight": f4(4, 4)}, ["to_k.set_weight", "other matrices"]))):
            with self.subTest(number=number):
                said = self.refuse(3, "merge", "--lora", self.write("bad%d.safetensors" % number, parts), model, "-o", self.path("no.safetensors"))
                for word in words:
                    self.assertIn(word, said)
                self.assertFalse(os.path.exists(self.path("no.safetensors")))
        st_write(self.path("ints.safetensors"), [(x + ".diff", "I32", (8, 4), bytes(128))])
        self.assertIn("no floats", self.refuse(3, "merge", "--lora", self.path("ints.safetensors"), model, "-o", self.path("no.safetensors")))
        f8 = {x + ".set_weight": rng.standard_normal((8, 4))}
        self.assertIn("x.set_weight is f64", self.refuse(3, "merge", "--lora", self.write("f8.safetensors", f8), model, "-o", self.path("no.safetensors")))
        rows = self.write("vectors.safetensors", {"single_transformer_blocks.0.%s.weight" % n: f4(4) for n in ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")})
        vector = self.write("vector.safetensors", {"diffusion_model.single_blocks.0.linear1.diff": f4(16)})
        self.assertIn("linear1.diff is [16]", self.refuse(3, "merge", "--lora", vector, rows, "-o", self.path("no.safetensors")))
        wide = self.write("wide.safetensors", {"x.weight": np.full((2, 2), 60000, "f2")})
        self.assertIn("f16 does not have", self.refuse(3, "merge", "--lora", self.write("up.safetensors", {x + ".diff": np.full((2, 2), 9000, "f4")}), wide, "-o", self.path("no.safetensors")))

    def test_names(self):
        """A prefix more or less, kohya's names, those of diffusers in a file of stable-diffusion's own."""
        rng = np.random.default_rng(6)
        w = rng.standard_normal((8, 8)).astype("f4")
        kohya = lambda name: {name + ".lora_down.weight": down, name + ".lora_up.weight": up, name + ".alpha": np.float32(2.0).reshape(())}
        down, up = rng.standard_normal((4, 8)).astype("f4"), rng.standard_normal((8, 4)).astype("f4")
        peft_style = lambda name: {name + ".lora_A.weight": down, name + ".lora_B.weight": up}
        ldm = "model.diffusion_model."
        for number, (tensor, parts, scale) in enumerate((
                ("h.0.attn.c.weight", peft_style(PEFT + "transformer.h.0.attn.c"), 1),
                ("bert.layer.0.q.weight", peft_style(PEFT + "layer.0.q"), 1),
                ("language_model.model.layers.0.q.weight", peft_style(PEFT + "model.language_model.layers.0.q"), 1),
                ("model.layers.0.q.weight", peft_style(PEFT + "model.language_model.layers.0.q"), 1),
                (ldm + "input_blocks.4.1.proj_in.weight", peft_style("unet.down_blocks.1.attentions.0.proj_in"), 1),
                (ldm + "time_embed.2.weight", peft_style("time_embedding.linear_2"), 1),
                ("cond_stage_model.transformer.text_model.encoder.layers.0.mlp.fc1.weight", peft_style("text_encoder.text_model.encoder.layers.0.mlp.fc1"), 1),
                ("double_blocks.0.img.weight", peft_style("diffusion_model.double_blocks.0.img"), 1),
                (ldm + "double_blocks.0.img.weight", peft_style("diffusion_model.double_blocks.0.img"), 1),
                ("blocks.0.img_attn.weight", kohya("lora_unet_blocks_0_img_attn"), 0.5),
                (ldm + "input_blocks.4.1.transformer_blocks.0.attn1.to_q.weight",
                 kohya("lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_q"), 0.5),
                (ldm + "input_blocks.4.1.proj_in.weight", kohya("lora_unet_input_blocks_4_1_proj_in"), 0.5),
                ("down_blocks.1.attentions.0.proj_in.weight", kohya("lora_unet_input_blocks_4_1_proj_in"), 0.5),
                ("up_blocks.0.upsamplers.0.conv.weight", kohya("lora_unet_output_blocks_2_2_conv"), 0.5),
                (ldm + "output_blocks.7.0.in_layers.2.weight", kohya("lora_unet_up_blocks_2_resnets_1_conv1"), 0.5),
                (ldm + "output_blocks.2.1.conv.weight", kohya("lora_unet_up_blocks_0_upsamplers_0_conv"), 0.5),
                (ldm + "middle_block.1.proj_out.weight", kohya("lora_unet_mid_block_attentions_0_proj_out"), 0.5),
                ("cond_stage_model.transformer.text_model.encoder.layers.0.mlp.fc1.weight",
                 kohya("lora_te_text_model_encoder_layers_0_mlp_fc1"), 0.5))):
            with self.subTest(tensor=tensor):
                model = self.write("m%d.safetensors" % number, {tensor: w, "else.weight": w})
                adapter = self.write("a%d.safetensors" % number, parts)
                out = self.path("o%d.safetensors" % number)
                self.vc("merge", "-q", "--lora", adapter, model, "-o", out)
                got = self.read(out)
                expected = w + scale * up.astype("f8") @ down.astype("f8")
                self.near(got[tensor][0], expected, np.abs(up) @ np.abs(down), 4, "f32", tensor)
                self.same_bits(got["else.weight"][0], w)

    def test_text_encoders(self):
        """CLIP's names with "text_model." in front and without, in files and in adapters; and OpenCLIP's in single files, whose queries, keys
        and values are one matrix."""
        rng = np.random.default_rng(7)
        clip = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (8, 8), "self_attn.v_proj": (8, 8), "self_attn.out_proj": (8, 8), "mlp.fc1": (12, 8), "mlp.fc2": (8, 12)}
        other = {"self_attn.out_proj": "attn.out_proj", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}
        ways = (("cond_stage_model.transformer.", "lora_te_", "text_encoder."), ("cond_stage_model.transformer.", "lora_te1_", "text_encoder."),
                ("conditioner.embedders.0.transformer.", "lora_te1_", "text_encoder."), ("text_encoders.clip_g.transformer.", "lora_te2_", "text_encoder_2."),
                ("", "lora_te1_", "text_encoder."), ("conditioner.embedders.1.model.", "lora_te2_", "text_encoder_2."), ("cond_stage_model.model.", "lora_te_", "text_encoder."))
        number = 0
        for place, flat, dotted in ways:
            for said in ("text_model.", ""):
                for held in ("text_model.", "") if "model.model" not in place and "1.model" not in place else (None,):
                    number += 1
                    base, wanted, parts = {}, {}, {}
                    for i in range(2):
                        for name, (outputs, inputs) in clip.items():
                            module, rank = "encoder.layers.%d.%s" % (i, name), int(rng.integers(1, 5))
                            w = rng.standard_normal((outputs, inputs)).astype("f4")
                            down, up = rng.standard_normal((rank, inputs)).astype("f4"), rng.standard_normal((outputs, rank)).astype("f4")
                            alpha, chosen = float(rng.integers(1, 9)), rng.random() < 0.7
                            if number % 2:
                                key = flat + (said + module).replace(".", "_")
                                own = {".lora_down.weight": down, ".lora_up.weight": up, ".alpha": np.float32(alpha).reshape(())}
                            else:
                                key, alpha, own = dotted + said + module, rank, {".lora_A.weight": down, ".lora_B.weight": up}
                            parts.update({key + end: x for end, x in own.items()} if chosen else {})
                            after = w.astype("f8") + (alpha / rank * up.astype("f8") @ down.astype("f8") if chosen else 0)
                            tensor = place + (held + module if held is not None else "transformer.resblocks.%d.%s" % (i, other.get(name, "attn.in_proj_"))) + ".weight"
                            if tensor.endswith("in_proj_.weight"):
                                tensor = tensor.replace("_.", "_")
                                w, after = (np.concatenate([x[tensor], y]) if tensor in x else y for x, y in ((base, w), (wanted, after)))
                            base[tensor], wanted[tensor] = w, after
                    model = self.write("m%d.safetensors" % number, {"model.diffusion_model.x.weight": np.ones((2, 2), "f4"), **base} if place else base)
                    out = self.path("o%d.safetensors" % number)
                    self.vc("merge", "-q", "--lora", self.write("a%d.safetensors" % number, parts), model, "-o", out)
                    for name, (x, _) in self.read(out).items():
                        np.testing.assert_allclose(x, wanted.get(name, 1), rtol=2e-5, atol=2e-5, err_msg=str((place, said, held, name)))

    def test_text_names(self):
        """A model with both of CLIP's names gets each adapter under its own; OpenCLIP's matrix under its own name has all rows."""
        rng = np.random.default_rng(8)
        w, both = np.zeros((8, 8), "f4"), ("text_model.encoder.layers.0.mlp.fc1", "encoder.layers.0.mlp.fc1")
        model = self.write("m.safetensors", {name + ".weight": w for name in both})
        for number, name in enumerate(both):
            parts = {"lora_te_" + key.replace(name, name.replace(".", "_")): a for key, a in self.kohya(rng, name, 8, 8).items()}
            self.vc("merge", "-q", "-f", "--lora", self.write("a%d.safetensors" % number, parts), model, "-o", self.path("o.safetensors"))
            self.assertEqual([n for n, (x, _) in self.read(self.path("o.safetensors")).items() if x.any()], [name + ".weight"])
        model = self.write("n.safetensors", {both[1] + ".weight": w})  # a model with one of them has it for one adapter
        parts = {key: a for name in both for key, a in self.kohya(rng, "lora_te_" + name.replace(".", "_"), 8, 8).items()}
        self.assertIn("are both of " + both[1], self.refuse(3, "merge", "-q", "-f", "--lora", self.write("t.safetensors", parts), model, "-o", self.path("o.safetensors")))
        name = "transformer.resblocks.0.attn.in_proj"
        model = self.write("j.safetensors", {name + "_weight": np.zeros((24, 8), "f4")})
        for rows in (24, 8):
            parts = self.kohya(rng, "lora_te2_" + name.replace(".", "_"), rows, 8)
            words = ["merge", "-q", "-f", "--lora", self.write("b%d.safetensors" % rows, parts), model, "-o", self.path("o.safetensors")]
            if rows == 8:
                self.assertIn("another model", self.refuse(3, *words))
            else:
                self.vc(*words)
                self.assertTrue(self.read(self.path("o.safetensors"))[name + "_weight"][0].any(1).all())

    @staticmethod
    def kohya(rng, module, outputs, inputs):
        return {module + end: rng.standard_normal(shape).astype("f4") for end, shape in ((".lora_down.weight", (2, inputs)), (".lora_up.weight", (outputs, 2)))}

    def test_rows_of_joined_matrices(self):
        """Queries, keys, values and what is beside them in one matrix of a file and in several of the adapter, and the other way round. Rows
        without an adapter keep their bits, -0.0, too."""
        rng = np.random.default_rng(9)
        h, single, names = 8, "single_blocks.0.linear1.weight", ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")
        joined = -np.zeros((7 * h, h), "f4")
        model = self.write("joined.safetensors", {"model.diffusion_model." + single: joined, "model.diffusion_model.final_layer.adaLN_modulation.1.weight": np.zeros((2 * h, h), "f4")})
        out = self.path("o.safetensors")
        for number, (name, first, last) in enumerate(zip(names, (0, h, 2 * h, 3 * h), (h, 2 * h, 3 * h, 7 * h))):
            module = "transformer.single_transformer_blocks.0." + name
            parts = factors(rng, module, last - first, h, 2, "")
            self.vc("merge", "-q", "-f", "--lora", self.write("r%d.safetensors" % number, parts), model, "-o", out)
            got = self.read(out)["model.diffusion_model." + single][0]
            wanted = joined.copy()
            wanted[first:last] = parts[module + ".lora_B.weight"] @ parts[module + ".lora_A.weight"]
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
            self.same_bits(np.delete(got, np.s_[first:last], 0), np.delete(joined, np.s_[first:last], 0))
        parts = factors(rng, "norm_out.linear", 2 * h, h, 2, "transformer.")
        self.vc("merge", "-q", "-f", "--lora", self.write("h.safetensors", parts), model, "-o", out)
        b, a = parts["transformer.norm_out.linear.lora_B.weight"], parts["transformer.norm_out.linear.lora_A.weight"]
        np.testing.assert_allclose(self.read(out)["model.diffusion_model.final_layer.adaLN_modulation.1.weight"][0], np.concatenate([b[h:], b[:h]]) @ a, rtol=1e-5, atol=1e-6)
        cut = {"single_transformer_blocks.0.%s.weight" % name: np.zeros((4 * h if name == "proj_mlp" else h, h), "f4") for name in names}
        folder = self.write("cut.safetensors", cut)
        parts = factors(rng, single[:-len(".weight")], 7 * h, h, 2, "diffusion_model.")
        self.vc("merge", "-q", "-f", "--lora", self.write("w.safetensors", parts), folder, "-o", out)
        np.testing.assert_allclose(np.concatenate([self.read(out)[name][0] for name in cut]), parts["diffusion_model.single_blocks.0.linear1.lora_B.weight"] @ parts["diffusion_model.single_blocks.0.linear1.lora_A.weight"], rtol=1e-5, atol=1e-6)
        for number, (parts, base, words) in enumerate((
                ({**factors(rng, "transformer.single_transformer_blocks.0.attn.to_k", h, h, 2, ""), **factors(rng, "diffusion_model.single_blocks.0.linear1", 7 * h, h, 2, "")}, model, "are both of"),
                ({**factors(rng, "single_transformer_blocks.0.attn.to_k", h, h, 2, ""), **factors(rng, "transformer.single_transformer_blocks.0.attn.to_k", h, h, 2, "")}, model, "are both of"),
                (factors(rng, "transformer.single_transformer_blocks.0.attn.to_k", h + 1, h, 2, ""), model, "another model"),
                (factors(rng, "single_blocks.0.linear1", 7 * h + 1, h, 2, ""), folder, "another model"),
                ({**factors(rng, "transformer.single_transformer_blocks.0.attn.to_k", h, h, 2, ""), "transformer.single_transformer_blocks.0.attn.to_k.lora_magnitude_vector": np.ones(h, "f4")}, model, "has a magnitude"))):
            self.assertIn(words, self.refuse(3, "merge", "-f", "--lora", self.write("bad_rows%d.safetensors" % number, parts), base, "-o", out))

    @unittest.skipIf(single_file_utils is None, "diffusers cannot be imported")
    def test_original_layouts(self):
        """An adapter with names of diffusers on an original file makes the model that diffusers converts to the sum in its own layout, and
        one with original names on diffusers' layout the other way round."""
        rng = np.random.default_rng(10)
        for number, (family, make) in enumerate(original_layouts.ORIGINALS.items()):
            name, shapes = make()
            if not hasattr(single_file_utils, name):
                continue
            own = original_layouts.converter(single_file_utils, name)
            convert = lambda arrays: {n: a.numpy() for n, a in own({n: torch.from_numpy(a.copy()) for n, a in arrays.items()}).items()}
            original = {n: rng.standard_normal(shape).astype("f4") for n, shape in shapes.items()}
            ours = {n: np.ascontiguousarray(a) for n, a in convert(original).items()}
            for way, (base, begin, of, turned) in enumerate(((original, "model.diffusion_model.", ours, False), (ours, "", original, True))):
                for style, share in (("transformer.", 1), ("lora_unet_", 0.5), ("diffusion_model.", 0.3)):
                    parts, wanted = {}, dict(of)
                    for n, w in of.items():
                        if n.endswith(".weight") and w.ndim >= 2 and rng.random() < share:
                            rank, module = int(rng.integers(1, 5)), n[:-len(".weight")]
                            a, b = rng.standard_normal((rank, *w.shape[1:])).astype("f4"), rng.standard_normal((len(w), rank) + (1,) * (w.ndim - 2)).astype("f4")
                            key = style + (module.replace(".", "_") if style == "lora_unet_" else module)
                            parts.update({key + ".lora_A.weight": a, key + ".lora_B.weight": b})
                            wanted[n] = (w + (b.reshape(len(w), rank).astype("f8") @ a.reshape(rank, -1)).reshape(w.shape)).astype("f4")
                    out = self.path("o.safetensors")
                    self.vc("merge", "-q", "-f", "--lora", self.write("a%d%d%s.safetensors" % (number, way, style), parts),
                            self.write("m%d%d%s.safetensors" % (number, way, style), {begin + n: a for n, a in base.items()}), "-o", out)
                    got = {n[len(begin):]: a for n, (a, _) in self.read(out).items()}
                    got, wanted = (got, convert(wanted)) if turned else (convert(got), wanted)
                    self.assertEqual(sorted(got), sorted(wanted))
                    for n, a in wanted.items():
                        np.testing.assert_allclose(got[n], a, rtol=1e-5, atol=1e-5, err_msg="%s %s %s" % (family, style, n))

    def test_refused(self):
        rng = np.random.default_rng(7)
        w = rng.standard_normal((8, 8)).astype("f4")
        model = self.write("m.safetensors", {"model.layers.0.q.weight": w, "vision.layers.0.q.weight": w})
        good = factors(rng, "model.layers.0.q", 8, 8, 2)
        number = 0
        for parts, config, words in (
                (dict(good, **factors(rng, "model.layers.1.q", 8, 8, 2)), CONFIG, ["another model", "someone/base", "layers.1.q", "1 of 2"]),
                (factors(rng, "model.layers.0.q", 9, 8, 2), CONFIG, ["another model", "[9, 2]", "[8, 8]"]),
                (factors(rng, "layers.0.q", 8, 8, 2), CONFIG, ["several parts"]),
                ({k: a for k, a in good.items() if "lora_A" in k}, CONFIG, ["one of two factors"]),
                (dict(good, **{PEFT + "x.hada_w1_a": w}), CONFIG, ["LoHa"]),
                (dict(good, **{PEFT + "model.layers.0.q.dora_scale": w[:1]}), CONFIG, ["LyCORIS"]),
                ({"a": w}, CONFIG, ["no low-rank adapter"]),
                (good, dict(CONFIG, peft_type="IA3"), ["IA3"]),
                (good, dict(CONFIG, init_lora_weights="pissa_niter_4"), ["pissa_niter_4", "path_initial_model_for_weight_conversion"]),
                (good, dict(CONFIG, kasa_config={"beta": 1}), ["kasa_config"]),
                (dict(good, **{PEFT + "e.token_adapter.trainable_tokens_delta": w}), CONFIG, ["trainable_token_indices"]),
                (good, dict(CONFIG, target_parameters=[3]), ["target_parameters"]),
                (good, dict(CONFIG, trainable_token_indices=[-1]), ["trainable_token_indices"]),
                (good, dict(CONFIG, alpha_pattern={"(": 1}), ["regular expression"]),
                (good, dict(CONFIG, lora_alpha=None), ["lora_alpha"])):
            with self.subTest(words=words):
                number += 1
                adapter = self.write("bad%d" % number, parts, config=config)
                said = self.refuse(3, "merge", "--lora", adapter, model, "-o", self.path("no.safetensors"))
                for word in words:
                    self.assertIn(word, said)
                self.assertFalse(os.path.exists(self.path("no.safetensors")))
        self.assertIn("--lora", self.refuse(2, "merge", model, "-o", self.path("no.safetensors")))

    def test_parameters_refused(self):
        """What peft does not make: a parameter's magnitudes and biases, experts of three axes or none, rows of a vector."""
        rng = np.random.default_rng(9)
        f4 = lambda *shape: rng.standard_normal(shape).astype("f4")  # noqa: E731
        name, config = "model.layers.0.mlp.experts", dict(CONFIG, target_parameters=["mlp.experts.down_proj"])
        wide, cut = {name + ".down_proj": f4(64, 8, 16)}, {name + ".0.down_proj.weight": f4(8, 16), name + ".0.down_proj.bias": f4(8)}
        for number, (tensors, parts, said) in enumerate((
                (wide, dict(factors(rng, name, 8, 16, 128), **{PEFT + name + ".lora_magnitude_vector": f4(8)}), "a magnitude or a bias"),
                (cut, dict(factors(rng, name, 8, 16, 2), **{PEFT + name + ".lora_B.bias": f4(8)}), "a magnitude or a bias"),
                ({name + ".0.down_proj.weight": f4(8, 8, 16)}, factors(rng, name, 8, 16, 2), "down_proj"),
                ({name + ".down_proj": f4(0, 8, 16), "w": f4(2, 2)}, factors(rng, name, 8, 16, 2), "another model"),
                ({"model.norm.weight": f4(16)}, dict(factors(rng, "model.q", 8, 8, 2), **{PEFT + "model.norm.token_adapter.trainable_tokens_delta": f4(1)}), "norm"))):
            with self.subTest(number=number):
                adapter = self.write("bad%d" % number, parts, config=dict(config, trainable_token_indices={"norm": [5]}) if number == 4 else config)
                self.assertIn(said, self.refuse(3, "merge", "--partial", "--lora", adapter, self.write("m%d.safetensors" % number, tensors), "-o", self.path("no.safetensors"), "-f"))

    def test_output_of_another_name(self):
        """A head that is not called lm_head is one: both are replaced. Without it the embedding is the output, too."""
        rng = np.random.default_rng(11)
        words, out, q = (rng.standard_normal((40, 8)).astype("f4"), rng.standard_normal((40, 8)).astype("f4"), rng.standard_normal((8, 8)).astype("f4"))
        os.makedirs(self.path("base"))
        model = {"model.tok_embeddings.weight": words, "model.layers.0.attention.wo.weight": q}
        with open(self.path("base/config.json"), "w") as f:
            json.dump({"model_type": "internlm2", "architectures": ["InternLM2ForCausalLM"], "vocab_size": 40, "hidden_size": 8}, f)
        parts = dict(factors(rng, "model.layers.0.attention.wo", 8, 8, 2), **{PEFT + "model.tok_embeddings.weight": words + 1})
        for output in ("output.weight", None):
            self.write(os.path.join("base", "model.safetensors"), dict(model, **({output: out} if output else {})))
            adapter = self.write("a%s" % output, dict(parts, **({PEFT + output: out + 1} if output else {})), config=CONFIG)
            if output is None:
                self.assertIn("the model's output, too", self.refuse(3, "merge", "--lora", adapter, self.path("base"), "-o", self.path("no")))
                continue
            self.vc("merge", "-q", "--lora", adapter, self.path("base"), "-o", self.path("merged"))
            got = self.read(self.path("merged/model.safetensors"))
            self.same_bits(got["model.tok_embeddings.weight"][0], words + 1)
            self.same_bits(got[output][0], out + 1)

    def test_partial(self):
        rng = np.random.default_rng(8)
        w = rng.standard_normal((8, 8)).astype("f4")
        model = self.write("m.safetensors", {"model.diffusion_model.a.weight": w})
        parts = {}
        for name in ("lora_unet_a", "lora_te1_text_model_b"):
            parts.update({name + ".lora_down.weight": w[:2], name + ".lora_up.weight": w[:, :2]})
        adapter = self.write("a.safetensors", parts)
        out = self.path("o.safetensors")
        self.assertIn("--partial", self.refuse(3, "merge", "--lora", adapter, model, "-o", out))
        report = self.vc("merge", "--json", "--partial", "--lora", adapter, model, "-o", out).json()
        self.assertIn("1 of 2 modules", json.dumps(report))
        none = self.write("none.safetensors", {k: a for k, a in parts.items() if "te1" in k})
        self.refuse(3, "merge", "--partial", "--lora", none, model, "-o", self.path("no.safetensors"))

    def test_then_quantize(self):
        """A chain equals two files; codes are merged into floats first."""
        rng = np.random.default_rng(9)
        model = self.write("m.safetensors", {"a.weight": rng.standard_normal((96, 128)).astype("f4")})
        adapter = self.write("a", factors(rng, "a", 96, 128, 8), config=CONFIG)
        one, two, merged = (self.path(n + ".safetensors") for n in ("one", "two", "merged"))
        self.vc("run", "-q", "--pass", "merge --lora '%s'" % adapter, "--pass", "quantize --int8", model, "-o", one)
        self.vc("merge", "-q", "--lora", adapter, model, "-o", merged)
        self.vc("quantize", "-q", "--int8", merged, "-o", two)
        self.assertEqual(st_read(one)[0], st_read(two)[0])
        self.assertIn("dequantize", self.refuse(3, "merge", "--lora", adapter, two, "-o", self.path("no.safetensors")))
        self.vc("run", "-q", "--pass", "dequantize", "--pass", "merge --lora '%s'" % adapter, two, "-o", self.path("back.safetensors"))

    def test_behind_other_passes(self):
        """An adapter is made for the weights as they are: zeros would fill, units and layers would be others."""
        rng = np.random.default_rng(11)
        base = {"layers.%d.%s.weight" % (k, n): rng.standard_normal(s).astype("f4") for k in range(3) for n, s in (("up", (32, 16)), ("down", (16, 32)))}
        model = self.write("m.safetensors", base)
        parts = {}
        for k in range(2):
            parts.update(factors(rng, "layers.%d.up" % k, 32, 16, 2))
        adapter = self.write("a", parts, config=CONFIG)
        with open(self.path("couplings.txt"), "w") as f:
            f.write("".join("layers.%d.up.weight:0 = layers.%d.down.weight:1\n" % (k, k) for k in range(3)))
        merge = ("--pass", "merge --lora '%s'" % adapter)
        out = self.path("no.safetensors")
        for first in ("prune --sparsity 0.5", "prune --pattern 2:4", "prune --drop-layers 0 --layers layers",
                      "prune --structured 0.25 --couplings '%s'" % self.path("couplings.txt")):
            with self.subTest(first=first):
                self.assertIn("merge first", self.refuse(3, "run", "--pass", first, *merge, model, "-o", out))
                self.vc("run", "-q", "--force", *merge, "--pass", first, model, "-o", self.path("o.safetensors"))
        self.vc("run", "-q", *merge, *merge, model, "-o", self.path("twice.safetensors"))
        self.assertFalse(os.path.exists(out))

    def test_configurations(self):
        """That of a folder speaks of adapter_model.safetensors, and of no other file that lies there."""
        rng = np.random.default_rng(12)
        w = rng.standard_normal((8, 8)).astype("f4")
        model = self.write("m.safetensors", {"x.weight": w})
        parts = factors(rng, "x", 8, 8, 2, wrapped="")
        folder = self.write("a", parts, config=dict(CONFIG, r=2))
        other = self.write("a/style.safetensors", parts)
        delta = parts["x.lora_B.weight"].astype("f8") @ parts["x.lora_A.weight"]
        for path, scale in ((other, 1), (os.path.join(folder, "adapter_model.safetensors"), 8)):
            self.vc("merge", "-q", "--force", "--lora", path, model, "-o", self.path("o.safetensors"))
            self.near(self.read(self.path("o.safetensors"))["x.weight"][0], w + scale * delta, scale * np.abs(delta), 2, "f32", path)
        os.remove(other)
        for text in ("{", "[]", '{"peft_type": "LORA"}'):
            with open(os.path.join(folder, "adapter_config.json"), "w") as f:
                f.write(text)
            said = self.refuse(3, "merge", "--lora", folder, model, "-o", self.path("no.safetensors"))
            self.assertIn(folder + ": adapter_config.json", said)

    def test_diffusers_metadata(self):
        """A single file of diffusers has the configuration of each model of the pipeline in its metadata."""
        rng = np.random.default_rng(13)
        os.makedirs(self.path("pipe/unet"))
        os.makedirs(self.path("pipe/text_encoder"))
        w = rng.standard_normal((8, 8)).astype("f4")
        for part, name, config in (("unet", "diffusion_pytorch_model", '{"_class_name": "UNet2DConditionModel"}'), ("text_encoder", "model", '{"model_type": "clip_text_model"}')):
            self.write("pipe/%s/%s.safetensors" % (part, name), {"a.to_q.weight": w, "b.to_q.weight": w})
            with open(self.path("pipe/%s/config.json" % part), "w") as f:
                f.write(config)
        with open(self.path("pipe/model_index.json"), "w") as f:
            json.dump({"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"], "text_encoder": ["transformers", "CLIPTextModel"]}, f)
        parts = {}
        for module in ("unet.a.to_q", "unet.b.to_q", "text_encoder.a.to_q"):
            parts.update(factors(rng, module, 8, 8, 4, wrapped=""))
        said = {"unet.peft_type": "LORA", "unet.lora_alpha": 12, "unet.alpha_pattern": {"b.to_q": 2}, "unet.r": 4, "unet.target_modules": ["to_q"],
                "text_encoder.lora_alpha": 6, "text_encoder.use_rslora": True, "text_encoder.target_modules": None}
        path = self.path("lora.safetensors")
        st_write(path, [(n, "F32", a.shape, a.tobytes()) for n, a in parts.items()], {"format": "pt", "lora_adapter_metadata": json.dumps(said)})
        self.vc("merge", "-q", "--lora", path, self.path("pipe"), "-o", self.path("out"))
        for file, name, scale in (("unet/diffusion_pytorch_model", "a.to_q", 3), ("unet/diffusion_pytorch_model", "b.to_q", 0.5), ("text_encoder/model", "a.to_q", 3)):
            module = file.split("/")[0] + "." + name
            delta = parts[module + ".lora_B.weight"].astype("f8") @ parts[module + ".lora_A.weight"]
            got = self.read(self.path("out/%s.safetensors" % file))[name + ".weight"][0]
            self.near(got, w + scale * delta, scale * np.abs(delta), 4, "f32", module)
        self.same_bits(self.read(self.path("out/text_encoder/model.safetensors"))["b.to_q.weight"][0], w)
        for text in ("{", json.dumps(dict(said, **{"unet.lora_alpha": "x"})), json.dumps(dict(said, **{"unet.peft_type": "LOHA"}))):
            st_write(path, [(n, "F32", a.shape, a.tobytes()) for n, a in parts.items()], {"lora_adapter_metadata": text})
            self.assertIn("lora.safetensors: ", self.refuse(3, "merge", "--lora", path, self.path("pipe"), "-o", self.path("no")))

    def test_gguf_of_a_folder(self):
        """The GGUF model of a folder has other names: adapters come before it, and are refused behind another pass."""
        rng = np.random.default_rng(10)
        shapes = {"model.embed_tokens.weight": (40, 64), "model.norm.weight": (64,), "model.layers.0.input_layernorm.weight": (64,),
                  "model.layers.0.post_attention_layernorm.weight": (64,), "model.layers.0.mlp.gate_proj.weight": (96, 64),
                  "model.layers.0.mlp.up_proj.weight": (96, 64), "model.layers.0.mlp.down_proj.weight": (64, 96)}
        shapes.update({"model.layers.0.self_attn.%s_proj.weight" % n: (64, 64) for n in "qkvo"})
        os.makedirs(self.path("base"))
        self.write(os.path.join("base", "model.safetensors"), {n: rng.standard_normal(s).astype("f4") for n, s in shapes.items()})
        with open(self.path("base/config.json"), "w") as f:
            json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 64, "intermediate_size": 96,
                       "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64,
                       "rms_norm_eps": 1e-6, "tie_word_embeddings": True}, f)
        adapter = self.write("a", factors(rng, "model.layers.0.self_attn.q_proj", 64, 64, 2), config=CONFIG)
        said = self.refuse(3, "run", "--pass", "prune --sparsity 0.5", "--pass", "merge --lora '%s'" % adapter, "--no-vocab", self.path("base"),
                           "-o", self.path("no.gguf"))
        self.assertIn("write what is merged first", said)
        self.vc("merge", "-q", "--lora", adapter, self.path("base"), "-o", self.path("merged"))
        self.vc("quantize", "-q", "--gguf", "Q8_0", "--no-vocab", self.path("merged"), "-o", self.path("x.gguf"))
        self.vc("run", "-q", "--pass", "merge --lora '%s'" % adapter, "--pass", "quantize --gguf Q8_0", "--no-vocab", self.path("base"), "-o", self.path("y.gguf"))
        self.assertEqual(sha(self.path("x.gguf")), sha(self.path("y.gguf")))

    def test_too_large_for_its_type(self):
        w = np.full((4, 4), 60000, "f2")
        model = self.write("m.safetensors", {"a.weight": w})
        adapter = self.write("a", {PEFT + "a.lora_A.weight": np.full((1, 4), 100, "f4"),
                                   PEFT + "a.lora_B.weight": np.full((4, 1), 100, "f4")}, config=dict(CONFIG, r=1))
        self.assertIn("f16", self.refuse(3, "merge", "--lora", adapter, model, "-o", self.path("no.safetensors")))


@unittest.skipIf(peft is None, "peft, torch or transformers cannot be imported")
class Peft(Merge):
    """Small random models of several families, an adapter with random factors, merge_and_unload."""

    def check(self, model, **options):
        torch.manual_seed(0)
        folder = self.path("base")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.path("adapter"), ignore_errors=True)
        shutil.rmtree(self.path("out"), ignore_errors=True)
        model.save_pretrained(folder)
        wrapped = peft.get_peft_model(type(model).from_pretrained(folder, torch_dtype=model.dtype), peft.LoraConfig(r=4, lora_alpha=8, **options))
        with torch.no_grad():
            for name, p in wrapped.named_parameters():
                if "lora_" in name and "magnitude" not in name or "modules_to_save" in name or "trainable_tokens" in name:
                    p.copy_(torch.randn_like(p) * 0.05)
                if "magnitude" in name:
                    p.mul_(1.1)
        wrapped.save_pretrained(self.path("adapter"))
        again = peft.PeftModel.from_pretrained(type(model).from_pretrained(folder, torch_dtype=model.dtype), self.path("adapter"))
        merged = again.merge_and_unload()
        self.vc("merge", "-q", "--lora", self.path("adapter"), folder, "-o", self.path("out"))
        ours = type(model).from_pretrained(self.path("out"), torch_dtype=model.dtype).state_dict()
        changed = 0
        start = model.state_dict()
        for name, theirs in merged.state_dict().items():
            a, b = ours[name].double(), theirs.double()
            unit = 2.0 ** -7 if theirs.dtype == torch.bfloat16 else 2.0 ** -21
            changed += not torch.equal(start[name].double(), b)
            moved = (b - start[name].double()).abs() # peft rounds some sums to the type before it adds them
            worst = ((a - b).abs() - unit * (b.abs() + moved) - 1e-6).max().item()
            self.assertLessEqual(worst, 0, name)
        self.assertGreater(changed, 0)

    def test_llama(self):
        config = transformers.LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                                          num_attention_heads=4, num_key_value_heads=2)
        for dtype in (torch.float32, torch.bfloat16):
            model = transformers.LlamaForCausalLM(config).to(dtype)
            self.check(model, target_modules=["q_proj", "v_proj"])
            self.check(model, target_modules="all-linear", use_rslora=True, alpha_pattern={"down_proj": 3}, rank_pattern={"up_proj": 2})
            self.check(model, target_modules=["q_proj", "embed_tokens"], modules_to_save=["lm_head"])
            self.check(model, target_modules=["o_proj", "down_proj"], use_dora=True)

    def test_parameters_and_rows(self):
        """Experts in one tensor and cut, square ones, tokens, an output that is the embedding."""
        if "target_parameters" not in peft.LoraConfig.__dataclass_fields__ or not hasattr(transformers, "GptOssConfig"):
            self.skipTest("peft or transformers is too old for target_parameters")
        sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)
        experts = dict(target_modules=[], target_parameters=["experts.gate_up_proj", "experts.down_proj"], alpha_pattern={"down_proj": 3}, rank_pattern={".*gate_up_proj": 2})
        self.check(transformers.GptOssForCausalLM(transformers.GptOssConfig(**sizes, num_local_experts=3, num_experts_per_tok=2, head_dim=16)), **experts)
        if int(transformers.__version__.split(".")[0]) >= 5:
            model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**sizes, num_local_experts=3))
            self.check(model, **experts)
            self.check(model, target_modules="all-linear", use_rslora=True)
            vit = transformers.ViTForImageClassification(transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48, image_size=16, patch_size=8))
            self.check(vit, target_modules=["q_proj", "fc2"], bias="all")
        tied = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, tie_word_embeddings=True))
        self.check(tied, target_modules=["q_proj"], trainable_token_indices=[3, 60, 5])
        if "ensure_weight_tying" in peft.LoraConfig.__dataclass_fields__:
            self.check(tied, target_modules=["q_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True)
        with self.assertRaises(AssertionError) as said:
            self.check(tied, target_modules=["q_proj"], modules_to_save=["embed_tokens"])
        self.assertIn("the model's output, too", str(said.exception))

    def test_gpt2(self):
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2, n_positions=32))
        self.check(model, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)
        self.check(model, target_modules=["c_attn"])
        self.check(model, target_modules=["c_attn"], use_dora=True, fan_in_fan_out=True)
        self.check(model, target_modules=["c_fc"], lora_bias=True)
        self.check(model, target_modules=["c_attn"], bias="all", modules_to_save=["ln_f"])

    def test_bert(self):
        model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, num_labels=3))
        self.check(model, target_modules=["query", "value"], modules_to_save=["classifier"])
        self.check(model, target_modules=["query"], bias="all")
        self.check(model, target_modules=["word_embeddings"], use_dora=True)

    def test_vision(self):
        model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_labels=4))
        self.check(model, target_modules=["convolution"])
        self.check(model, target_modules=["convolution"], use_dora=True)


if __name__ == "__main__":
    main()
