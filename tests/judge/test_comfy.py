"""test_comfy.py - files for ComfyUI: which layers become codes, what lies beside them, and where comfy-kitchen can be imported
(the library with which ComfyUI computes on codes) what its layouts make of them, in the way of ComfyUI's loader: the text
m.comfy_quant names the format, and m.weight_scale is the scale."""
import json
import os
import unittest

from judge_support import Judge, main, np, run, sha
import definition as d
from test_safetensors import st_read, st_write

try:
    import torch
    import comfy_kitchen.tensor as kitchen
except ImportError as missing:
    kitchen = None
    print("comfy_kitchen does not judge: %s" % missing)

LAYOUTS = {"float8_e4m3fn": "TensorCoreFP8Layout", "int8_tensorwise": "TensorWiseINT8Layout"}
FLUX = {"img_in.weight": (64, 64), "time_in.in_layer.weight": (64, 96), "final_layer.linear.weight": (64, 64),
        "double_blocks.0.img_attn.proj.weight": (96, 128), "double_blocks.0.img_attn.proj.bias": (96,),
        "double_blocks.0.img_attn.norm.query_norm.scale": (32,), "single_blocks.0.linear1.weight": (300, 64)}
CODES = ["double_blocks.0.img_attn.proj.weight", "single_blocks.0.linear1.weight"]


def model(shapes, seed=1, dtype="bf16"):
    rng = np.random.default_rng(seed)
    return {n: d.f32_to_bf16(rng.standard_normal(s).astype("f4")) if dtype == "bf16" else rng.standard_normal(s).astype("f4")
            for n, s in shapes.items()}


class Comfy(Judge):
    def write(self, name, arrays, prefix="", metadata=None):
        path = self.path(name)
        st_write(path, [(prefix + n, {"u2": "BF16", "f2": "F16", "f4": "F32"}[a.dtype.str[1:]], a.shape, a.tobytes()) for n, a in arrays.items()],
                 metadata or {})
        return path

    def check(self, path, arrays, fmt, prefix="", others=()):
        """The file has CODES and floats for all others of the network; what it has beside them, and its values. others: of other networks, floats, too."""
        tensors, _ = st_read(path)
        values = {}
        for n, a in arrays.items():
            kind, shape, data = tensors.pop(prefix + n)
            self.assertEqual(shape, a.shape)
            if n not in CODES:
                self.assertEqual(data, a.tobytes(), n)
                continue
            stem = prefix + n[:-len("weight")]
            self.assertEqual(kind, {"float8_e4m3fn": "F8_E4M3", "int8_tensorwise": "I8"}[fmt])
            mark = tensors.pop(stem + "comfy_quant")
            self.assertEqual((mark[0], json.loads(mark[2])), ("U8", {"format": fmt}))
            t, s_shape, scale = tensors.pop(stem + "weight_scale")
            self.assertEqual(t, "F32")
            scale = np.frombuffer(scale, "f4").reshape(s_shape)
            q = np.frombuffer(data, "u1" if kind == "F8_E4M3" else "i1").reshape(shape)
            values[n] = (q, scale)
        self.assertEqual({n: t[0] for n, t in tensors.items()}, {n: "BF16" for n in others})
        return values

    def near(self, values, arrays, decibels):
        for n, (q, scale) in values.items():
            w = d.bf16_to_f32(arrays[n]).astype("f8")
            y = (d.float_value("fp8", q.reshape(1, -1), np.full((1, 1), scale.reshape(-1)[0], "f4"), q.size).reshape(q.shape)
                 if q.dtype == np.uint8 else q.astype("f4") * scale)
            self.assertGreater(10 * np.log10(np.sum(w * w) / np.sum((w - y) ** 2)), decibels, n)
            if kitchen is not None:
                fmt = "float8_e4m3fn" if q.dtype == np.uint8 else "int8_tensorwise"
                layout = getattr(kitchen, LAYOUTS[fmt])
                data = torch.from_numpy(q.copy())
                data = data.view(torch.float8_e4m3fn) if q.dtype == np.uint8 else data
                params = layout.Params(scale=torch.from_numpy(scale.copy()), orig_dtype=torch.float32, orig_shape=tuple(q.shape))
                np.testing.assert_array_equal(layout.dequantize(data, params).numpy(), y.astype("f4"), n)
                x = torch.randn(5, q.shape[1], generator=torch.Generator().manual_seed(0))
                out = torch.nn.functional.linear(x, kitchen.QuantizedTensor(data, LAYOUTS[fmt], params))
                expected = x.double().numpy() @ y.T.astype("f8")
                self.assertLess(np.linalg.norm(out.double().numpy() - expected) / np.linalg.norm(expected), 0.02, n)

    def test_flux(self):
        """Alone and in a checkpoint with other models; the layout is chosen without being asked for."""
        arrays = model(FLUX)
        for prefix in ("", "model.diffusion_model.", "diffusion_model."):
            others = {"first_stage_model.post.weight": (64, 64), "text_encoders.clip_l.transformer.q.weight": (64, 64)} if prefix else {}
            path = self.write("m.safetensors", {**{prefix + n: a for n, a in arrays.items()}, **model(others)})
            for option, fmt, decibels in (("--fp8", "float8_e4m3fn", 30), ("--int8", "int8_tensorwise", 38)):
                self.vc("quantize", "-q", "--force", option, path, "-o", self.path("q.safetensors"))
                values = self.check(self.path("q.safetensors"), arrays, fmt, prefix, others)
                self.near(values, arrays, decibels)
                self.assertEqual({n: s.shape for n, (_, s) in values.items()},
                                 {n: () if fmt[0] == "f" else (arrays[n].shape[0], 1) for n in CODES})
                self.vc("verify", "-q", self.path("q.safetensors"))
                self.vc("dequantize", "-q", "--force", "--source-dtype", self.path("q.safetensors"), "-o", self.path("back.safetensors"))
                self.assertEqual(set(st_read(self.path("back.safetensors"))[0]), set(st_read(path)[0]))

    def test_type_before(self):
        """No mark names the type that codes were made from: it is the half that more tensors of their network have."""
        rng = np.random.default_rng(3)
        for kind, net, other in (("F16", "f2", "u2"), ("BF16", "u2", "f2")):
            make = lambda dtype: d.f32_to_bf16(rng.standard_normal((64, 64)).astype("f4")) if dtype == "u2" else rng.standard_normal((64, 64)).astype(dtype)
            names = ["model.diffusion_model." + n for n in FLUX]
            arrays = {**{n: make(net) for n in names}, **{"text_encoders.t5xxl.transformer.%d.weight" % i: make(other) for i in range(2 * len(names))}}
            for scheme in ("fp8", "int8", "nvfp4"):
                self.vc("quantize", "-q", "--force", "--" + scheme, "--layout", "comfyui", self.write("m.safetensors", arrays), "-o", self.path("q.safetensors"))
                self.vc("dequantize", "-q", "--force", "--source-dtype", self.path("q.safetensors"), "-o", self.path("back.safetensors"))
                self.assertEqual({n: t[0] for n, t in st_read(self.path("back.safetensors"))[0].items() if n in names}, {n: kind for n in names})
        # two networks with codes, one tensor of each after the other in the file
        arrays = {"scaled_fp8": ("F8_E4M3", (0,), b"")}
        for i in range(4):
            for net, half in (("first", "F16"), ("second", "BF16")):
                arrays["%s.%d.weight" % (net, i)] = ("F8_E4M3", (16, 16), rng.integers(0, 120, 256, dtype="u1").tobytes())
                arrays["%s.%d.scale_weight" % (net, i)] = ("F32", (1,), np.float32(0.5).tobytes())
                arrays["%s.%d.bias" % (net, i)] = (half, (16,), bytes(32))
        st_write(self.path("two.safetensors"), [(n, *t) for n, t in arrays.items()])
        self.vc("dequantize", "-q", "--force", "--source-dtype", self.path("two.safetensors"), "-o", self.path("back.safetensors"))
        types = {n: t[0] for n, t in st_read(self.path("back.safetensors"))[0].items() if n.endswith(".weight")}
        self.assertEqual(types, {"%s.%d.weight" % (net, i): half for i in range(4) for net, half in (("first", "F16"), ("second", "BF16"))})

    def test_networks(self):
        """Each known network keeps its ends; without one of them the layout has to be asked for."""
        for tensor, kept, coded in (
                ("joint_blocks.0.context_block.attn.qkv.weight", "x_embedder.proj.weight", "joint_blocks.0.x_block.mlp.fc1.weight"),
                ("head.modulation", "head.head.weight", "blocks.0.ffn.0.weight"),
                ("txt_norm.weight", "time_text_embed.timestep_embedder.linear_1.weight",
                 "transformer_blocks.0.attn.to_q.weight"),
                ("patchify_proj.weight", "adaln_single.linear.weight", "transformer_blocks.0.ff.net.2.weight"),
                ("label_emb.0.0.weight", "time_embed.0.weight", "input_blocks.4.1.transformer_blocks.0.ff.net.2.weight"),
                ("input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight", "time_embed.0.weight", "middle_block.1.proj_in.weight"),
                ("txt_in.individual_token_refiner.blocks.0.norm1.weight", "vector_in.in_layer.weight", "single_blocks.0.linear1.weight")):
            with self.subTest(tensor=tensor):
                arrays = model({tensor: (64, 64), kept: (64, 64), coded: (64, 64)})
                path = self.write("m.safetensors", arrays)
                self.vc("quantize", "-q", "--force", "--fp8", path, "-o", self.path("q.safetensors"))
                tensors, _ = st_read(self.path("q.safetensors"))
                self.assertEqual((tensors[kept][0], tensors[coded][0]), ("BF16", "F8_E4M3"))
                self.vc("quantize", "-q", "--force", "--fp8", "--include", kept, path, "-o", self.path("q.safetensors"))
                self.assertEqual(st_read(self.path("q.safetensors"))[0][kept][0], "F8_E4M3")
        for tensors in (["transformer_blocks.0.attn.norm_added_q.weight", "x_embedder.weight"], ["adaln_single.emb.timestep_embedder.linear_2.weight"]):
            path = self.write("diffusers.safetensors", model({n: (64, 64) for n in tensors + ["transformer_blocks.0.attn.to_q.weight"]}))
            self.vc("quantize", "-q", "--force", "--fp8", path, "-o", self.path("q.safetensors"))
            self.assertFalse([n for n in st_read(self.path("q.safetensors"))[0] if n.endswith("comfy_quant")], "the names of diffusers are not ComfyUI's")
        for known, table in (("head.modulation", "blocks.0.modulation"), ("patchify_proj.weight", "transformer_blocks.0.scale_shift_table")):
            path = self.write("m.safetensors", model({known: (64, 64), table: (64, 96), "blocks.0.ffn.0.weight": (64, 64)}))
            self.vc("quantize", "-q", "--force", "--scheme", "f8_e4m3", path, "-o", self.path("q.safetensors"))
            self.assertEqual([st_read(self.path("q.safetensors"))[0][n][0] for n in (known, table, "blocks.0.ffn.0.weight")], ["BF16", "BF16", "F8_E4M3"])
        path = self.write("other.safetensors", model({"a.b.weight": (64, 64)}))
        self.vc("quantize", "-q", "--fp8", path, "-o", self.path("plain.safetensors"))
        self.assertNotIn("a.b.comfy_quant", st_read(self.path("plain.safetensors"))[0])
        self.vc("quantize", "-q", "--fp8", "--layout", "comfyui", path, "-o", self.path("asked.safetensors"))
        self.assertIn("a.b.comfy_quant", st_read(self.path("asked.safetensors"))[0])

    def test_blocks(self):
        """nvfp4 and mxfp8: scales in blocks of 128 rows and 4 columns, written and read; nvfp4's first code is the high half."""
        arrays = model({"a.weight": (320, 96), "b.weight": (32, 64), "c.weight": (40, 64), "d.weight": (64, 40)}, dtype="f32")
        arrays["b.weight"][3, :16] = 0
        path = self.write("m.safetensors", arrays)
        for scheme, group, pairs in (("nvfp4", 16, True), ("mxfp8", 32, False)):
            out = self.path(scheme + ".safetensors")
            self.vc("quantize", "-q", "--scheme", scheme, "--layout", "comfyui", "--min-elements", "1", path, "-o", out)
            self.vc("verify", "-q", "--data", out)
            self.vc("dequantize", "-q", out, "-o", self.path(scheme + "d.safetensors"))
            back = st_read(self.path(scheme + "d.safetensors"))[0]
            tensors = st_read(out)[0]
            coded = [n for n in arrays if n[:-6] + "comfy_quant" in tensors]
            self.assertEqual(coded, ["a.weight", "b.weight"], "40 is no multiple")
            for n in coded:
                rows, columns = arrays[n].shape
                stem = n[:-len("weight")]
                self.assertEqual(json.loads(tensors[stem + "comfy_quant"][2]), {"format": scheme})
                q = np.frombuffer(tensors[n][2], "u1").reshape(tensors[n][1])
                kind, shape, data = tensors[stem + "weight_scale"]
                n_rows, n_columns = -rows // 128 * -128, -columns // group // 4 * -4
                self.assertEqual((kind, shape), ("F8_E4M3" if pairs else "U8", (n_rows, n_columns)))
                stored = np.frombuffer(data, "u1")
                blocks = stored.reshape(n_rows // 128, n_columns // 4, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(n_rows, n_columns)
                self.assertFalse(blocks[rows:].any() or blocks[:, columns // group:].any())
                scales = blocks[:rows, :columns // group]
                codes = np.stack([q >> 4, q & 15], -1).reshape(rows, columns) if pairs else q
                if pairs:
                    one = np.frombuffer(tensors[stem + "weight_scale_2"][2], "f4")[0]
                    self.assertEqual((tensors[stem + "weight_scale_2"][1], np.frexp(one)[0]), ((), 0.5), "a power of two")
                    scales = d.float_values("e4m3", scales) * one
                else:
                    scales = d.e8m0(scales)
                y = d.float_value(scheme, codes, scales.astype("f4"), group)
                np.testing.assert_array_equal(np.frombuffer(back[n][2], "f4").reshape(rows, columns), y, n)
                self.assertGreater(10 * np.log10(np.sum(arrays[n] ** 2) / np.sum((arrays[n] - y) ** 2)), 20 if pairs else 30)
                if kitchen is not None:
                    layout = kitchen.TensorCoreNVFP4Layout if pairs else kitchen.TensorCoreMXFP8Layout
                    s = torch.from_numpy(stored.reshape(shape).copy()).view(torch.float8_e4m3fn if pairs else torch.float8_e8m0fnu)
                    common = {"orig_dtype": torch.float32, "orig_shape": (rows, columns)}
                    params = (layout.Params(scale=torch.tensor(one), block_scale=s, **common) if pairs else layout.Params(scale=s, **common))
                    data = torch.from_numpy(q.copy())
                    np.testing.assert_array_equal(layout.dequantize(data if pairs else data.view(torch.float8_e4m3fn), params).numpy(), y, n)
            self.vc("convert", "-q", out, "-o", self.path(scheme + "c.safetensors"))
            self.assertEqual(st_read(self.path(scheme + "c.safetensors")), st_read(out))
            short = [(n, t[0], t[1], t[2]) for n, t in tensors.items()]
            at = [n for n, *_ in short].index("a.weight_scale")
            short[at] = ("a.weight_scale", short[at][1], (128, 4), bytes(512))
            st_write(self.path("short.safetensors"), short, {})
            self.assertIn("cannot be decoded", self.refuse(3, "dequantize", self.path("short.safetensors"), "-o", self.path("no.safetensors")))

    def test_cast(self):
        """f8_e4m3, f8_e5m2: every value as torch casts it, which is the nearest, ties to even; ends of the network stay; all commands read it."""
        arrays = model(FLUX, dtype="f32")
        ties = d.float_values("e4m3", np.arange(127, dtype="u1")).astype("f4")
        ties = np.concatenate([ties, (ties[1:] + ties[:-1]) / 2, [460, 464]])
        arrays[CODES[0]].reshape(-1)[:2 * len(ties)] = np.concatenate([ties, -ties])
        path = self.write("m.safetensors", arrays)
        out = self.path("f8.safetensors")
        half = (np.arange(124, dtype="u2") << 8).view("f2").astype("f8")  # E5M2 is the upper half of f16
        for scheme, table in (("f8_e5m2", half), ("f8_e4m3", d.float_values("e4m3", np.arange(127, dtype="u1")).astype("f8"))):
            self.vc("quantize", "-q", "--force", "--scheme", scheme, path, "-o", out)
            tensors = st_read(out)[0]
            self.assertEqual([n for n, t in tensors.items() if t[0] == scheme.upper()], CODES)
            for n in CODES:
                w = np.abs(arrays[n]).astype("f8")
                high = np.clip(np.searchsorted(table, w), 1, len(table) - 1)
                low = high - 1
                up = (table[high] - w < w - table[low]) | ((table[high] - w == w - table[low]) & (high % 2 == 0))
                q = np.where(w > table[-1], len(table) - 1, np.where(up, high, low)) | np.where(np.signbit(arrays[n]), 128, 0)
                np.testing.assert_array_equal(np.frombuffer(tensors[n][2], "u1").reshape(w.shape), q)
                if kitchen is not None:
                    cast = torch.from_numpy(arrays[n]).to(torch.float8_e5m2 if scheme == "f8_e5m2" else torch.float8_e4m3fn)
                    np.testing.assert_array_equal(cast.view(torch.uint8).numpy(), q)
            self.vc("verify", "-q", "--data", out)
        self.assertIn(b"SQNR over all 3", run("diff", path, out).out)
        rest = self.path("f8r.safetensors")
        self.vc("quantize", "-q", "--scheme", "f8_e4m3", "--rest", "fp16", path, "-o", rest)
        loaded = [json.loads(run("estimate", "--json", *asked).out)["components"]["parameters"]["bytes"] for asked in ([rest], ["--dtype", "f8_e4m3", path])]
        self.assertEqual(loaded[0], loaded[1])
        self.vc("quantize", "-q", "--requantize", "--gguf", "Q8_0", out, "-o", self.path("f8.gguf"))
        self.vc("dequantize", "-q", out, "-o", self.path("f8d.safetensors"))
        self.vc("quantize", "-q", "--gguf", "Q8_0", self.path("f8d.safetensors"), "-o", self.path("f8d.gguf"))
        self.assertEqual(sha(self.path("f8.gguf")), sha(self.path("f8d.gguf")))
        arrays[CODES[1]][0, 0] = 465
        path = self.write("m.safetensors", arrays)
        self.assertIn("--overflow=sat", self.refuse(3, "quantize", "--scheme", "f8_e4m3", path, "-o", self.path("no.safetensors")))
        self.vc("quantize", "-q", "--force", "--scheme", "f8_e4m3", "--overflow", "sat", path, "-o", out)
        self.assertEqual(st_read(out)[0][CODES[1]][2][0], 126)

    def test_refused_and_chosen(self):
        path = self.write("m.safetensors", model(FLUX))
        no = self.path("no.safetensors")
        for options, words in ((["--fp8", "--granularity", "channel"], "one scale for a tensor"), (["--int4"], "int4"),
                               (["--int8", "--asymmetric"], "zero points"), (["--int8", "--granularity", "group:32"], "a row")):
            self.assertIn(words, self.refuse(2, "quantize", *options, "--layout", "comfyui", path, "-o", no))
        os.mkdir(self.path("folder"))
        os.link(path, self.path("folder/model.safetensors"))
        with open(self.path("folder/config.json"), "w") as f:
            json.dump({"model_type": "llama"}, f)
        self.assertIn("single files", self.refuse(3, "quantize", "--fp8", "--layout", "comfyui", self.path("folder"), "-o", self.path("no")))
        self.vc("quantize", "-q", "--fp8", "--layout", "plain", path, "-o", self.path("plain.safetensors"))
        self.vc("quantize", "-q", "--int8", "--granularity", "tensor", path, "-o", self.path("one.safetensors"))
        values = self.check(self.path("one.safetensors"), model(FLUX), "int8_tensorwise")
        self.assertEqual({s.shape for _, s in values.values()}, {()})
        self.near(values, model(FLUX), 30)
        report = self.vc("quantize", "--json", "--fp8", "--dry-run", path, "-o", no).json()
        self.assertIn("--granularity tensor", json.dumps(report))

    def test_copies(self):
        """Codes of a file of ComfyUI are copied as they are, marks of all three kinds with them; a mark in the metadata may lack the prefix."""
        q = np.arange(64 * 64, dtype="u4").reshape(64, 64) % 120
        fp8 = {"format": "float8_e4m3fn"}
        scale = ("weight_scale", "F32", (), np.float32(0.5).tobytes())
        mark = ("comfy_quant", "U8", (27,), json.dumps(fp8).encode())
        for number, (stem, kind, extra, metadata) in enumerate((
                ("a.", "F8_E4M3", [scale, mark], {"format": "pt"}),
                ("a.", "U8", [scale, mark], {"format": "pt"}),
                ("a.", "F8_E4M3", [scale], {"format": "pt", "_quantization_metadata": json.dumps({"format_version": "1.0", "layers": {"a": fp8}})}),
                ("net.a.", "F8_E4M3", [scale], {"format": "pt", "_quantization_metadata": json.dumps({"layers": {"a": fp8}})}),
                ("a.", "F8_E4M3", [("scale_weight", *scale[1:])], {"format": "pt"}))):
            path = self.path("c%d.safetensors" % number)
            old = [("scaled_fp8", "F8_E4M3", (0,), b"")] if number == 4 else []
            st_write(path, [(stem + "weight", kind, (64, 64), q.astype("u1").tobytes())] + [(stem + n, *t) for n, *t in extra] + old, metadata)
            out = self.path("o%d.safetensors" % number)
            self.vc("convert", "-q", path, "-o", out)
            self.assertEqual(st_read(out), st_read(path), extra)
            again = self.path("q%d.safetensors" % number)
            self.vc("run", "-q", "--pass", "dequantize --bf16", "--pass", "quantize --int8 --min-elements 1", path, "-o", again, "--layout", "comfyui")
            tensors, notes = st_read(again)
            self.assertEqual(json.loads(tensors[stem + "comfy_quant"][2]), {"format": "int8_tensorwise"})
            self.assertNotIn("_quantization_metadata", notes)
            self.assertEqual(set(tensors), {stem + n for n in ("weight", "weight_scale", "comfy_quant")})
            self.vc("dequantize", "-q", path, "-o", self.path("f%d.safetensors" % number))
            decoded = np.frombuffer(st_read(self.path("f%d.safetensors" % number))[0][stem + "weight"][2], "f4")
            np.testing.assert_array_equal(decoded, d.float_values("e4m3", q.astype("u1").reshape(-1)).astype("f4") * np.float32(0.5))
    def test_old_mark(self):
        """`scaled_fp8` stays as long as some codes do, whichever are decoded; those of e5m2 are not, and their mark keeps its type."""
        names, path, out = ("a.", "b."), self.path("m.safetensors"), self.path("left.safetensors")
        for types in (("F8_E4M3", "F8_E4M3"), ("F8_E4M3", "F8_E5M2"), ("F8_E5M2", "F8_E4M3")):
            for mark in ("F8_E4M3", "F8_E5M2"):
                old = [("scaled_fp8", mark, (2,), bytes(2))]
                st_write(path, old + [t for n, kind in zip(names, types) for t in ((n + "weight", kind, (64, 64), bytes(4096)), (n + "scale_weight", "F32", (), bytes(4)))], {})
                for left in names if types[0] == types[1] else [n for n, kind in zip(names, types) if kind == "F8_E5M2"]:
                    self.vc("dequantize", "-q", "--force", path, "-o", out, "--exclude", left + "*")
                    tensors = st_read(out)[0]
                    self.assertEqual(tensors["scaled_fp8"], (mark, (2,), bytes(2)), (types, left))
                    self.assertEqual(set(tensors), {"scaled_fp8", "a.weight", "b.weight", left + "scale_weight"})
                if types[0] == types[1]:
                    self.vc("dequantize", "-q", "--force", path, "-o", out)
                    self.assertEqual(set(st_read(out)[0]), {"a.weight", "b.weight"})

    def test_rotated(self):
        scale, path, out = ("weight_scale", "F32", (), np.float32(0.5).tobytes()), self.path("m.safetensors"), self.path("o.safetensors")
        for rotated in ({"convrot": True}, {"params": {"convrot": True}}):
            text = json.dumps({"format": "int8_tensorwise", **rotated}).encode()
            st_write(path, [("a.weight", "I8", (64, 64), bytes(4096)), ("a.weight_scale", *scale[1:]), ("a.comfy_quant", "U8", (len(text),), text)], {})
            self.assertIn("rotated", self.refuse(3, "dequantize", path, "-o", out, "--force"))


if __name__ == "__main__":
    main()
