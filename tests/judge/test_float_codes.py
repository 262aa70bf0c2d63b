"""test_float_codes.py - codes of float grids (fp8, mxfp8, mxfp4, nvfp4, nf4, fp4) are those of the definition, bit for
bit: in an npz, and as compressed-tensors and bitsandbytes store them.

Where these packages can be imported, folders are loaded by them: their weights are those of `dequantize`, and what they
write themselves is read as what they decode.
"""
import json
import unittest

from judge_support import SMALL, Judge, main, np, run, sha
from test_layouts import import_torch, missing
from test_safetensors import STORED, TYPES, st_arrays, st_read, st_write
import definition as d
import weights

F4 = np.float32
SHAPES = {"a.weight": (40, 256), "b.weight": (33, 130), "c.weight": (20, 6, 3, 3), "short.weight": (50, 34),
          "many.weight": (90, 384)}
GROUPS = {"fp8": 0, "mxfp8": 32, "mxfp4": 32, "nvfp4": 16, "nf4": 64, "fp4": 64}


def unpack(b, high_first):
    low, high = b & 15, b >> 4
    return np.stack([high, low] if high_first else [low, high], -1).reshape(len(b), -1)


def codes_of(z, name, scheme):
    return z[name] if scheme in ("fp8", "mxfp8") else unpack(z[name], scheme in ("nf4", "fp4"))


class Codes(Judge):
    def test_npz(self):
        for dtype in ("f32", "f16", "f64"):
            arrays = weights.model(dtype, SHAPES)
            weights.save(self.path("in.npz"), arrays, dtype)
            for scheme, group in GROUPS.items():
                want = None
                for extra in ([], ["--threads", "1", "--cpu-mask", "ref"]):
                    self.vc("quantize", "--" + scheme, *SMALL, *extra, "--force", self.path("in.npz"), "-o",
                            self.path("q.npz"))
                    want = want or sha(self.path("q.npz"))
                    self.assertEqual(sha(self.path("q.npz")), want)
                z = self.load(self.path("q.npz"))
                self.vc("verify", "--data", self.path("q.npz"))
                self.vc("dequantize", "--force", self.path("q.npz"), "-o", self.path("d.npz"))
                back = self.load(self.path("d.npz"))
                for n, a in arrays.items():
                    what = (n, scheme, dtype)
                    divisor = F4(1)
                    if scheme == "nvfp4":
                        divisor = d.nvfp4_divisor([weights.value(a, dtype)])
                        self.same_bits(z[n + ".global_scale"], np.array([divisor], F4), what)
                    q, s, used = d.float_group(scheme, weights.value(a, dtype), group or a[0].size, "f32", divisor)
                    self.same_bits(z[n + ".scale"].reshape(s.shape), s, what)
                    self.same_bits(codes_of(z, n, scheme), q, what)
                    self.same_bits(back[n], d.float_value(scheme, q, used, group or a[0].size).reshape(a.shape), what)

    def test_quality(self):
        """Normal weights reach the figures that the field knows for these grids."""
        x = np.random.default_rng(5).standard_normal((64, 4096)).astype(F4) * F4(0.02)
        np.savez(self.path("in.npz"), w=x)
        for scheme, extra, least in (("fp8", [], 31.4), ("mxfp8", [], 31.4), ("mxfp4", [], 18.95), ("nvfp4", [], 21.7),
                                     ("nf4", [], 21.3), ("nf4", ["--granularity", "group:32"], 21.9),
                                     ("fp4", [], 18.85)):
            self.vc("quantize", "--" + scheme, *extra, "--force", self.path("in.npz"), "-o", self.path("q.npz"))
            self.vc("dequantize", "--force", self.path("q.npz"), "-o", self.path("d.npz"))
            y = self.load(self.path("d.npz"))["w"].astype("f8")
            self.assertGreaterEqual(10 * np.log10((x.astype("f8") ** 2).sum() / ((x - y) ** 2).sum()), least, scheme)

    def test_double_quant(self):
        """Scales that are codes: the bytes of bitsandbytes, decoded as it decodes them, with less error than NF4 in
        blocks of 64 has; zeros, tiny and huge values."""
        arrays = {"a.weight": weights.model("f32", {"a": (90, 512)})["a"], "z.weight": np.zeros((40, 256), F4)}
        arrays["z.weight"][:9, ::3] = np.float32([1e-45, 3e38, 1e-30, -1e-38, 1, -3e38, 1e-44, 6e-5, 0])[:, None]
        arrays["n.weight"] = np.random.default_rng(5).standard_normal((32, 2048)).astype(F4) * F4(0.02)
        st_arrays(self.path("in.safetensors"), arrays, "f32")
        for scheme, group, extra in (("nf4", 32, []), ("fp4", 64, ["--threads", "1"]), ("nf4", 64, ["--threads", "3"])):
            self.vc("quantize", "--" + scheme, "--double-quant", "--granularity", "group:%d" % group, "--layout",
                    "bitsandbytes", *SMALL, *extra, "--force", self.path("in.safetensors"), "-o",
                    self.path("q.safetensors"))
            self.vc("verify", "--data", self.path("q.safetensors"))
            self.vc("dequantize", "--force", self.path("q.safetensors"), "-o", self.path("d.npz"))
            back = self.load(self.path("d.npz"))
            self.vc("convert", "--force", self.path("q.safetensors"), "-o", self.path("copy.safetensors"))
            self.assertEqual(sha(self.path("copy.safetensors")), sha(self.path("q.safetensors")))
            tensors, _ = st_read(self.path("q.safetensors"))
            for n, x in arrays.items():
                q, byte, outer, s = d.double_quant(scheme, x, group)
                for tail, want in (("", q[:, 0::2] << 4 | q[:, 1::2]), (".absmax", byte), (".nested_absmax", outer),
                                   (".nested_quant_map", d.dynamic_map(False))):
                    kind, _, data = tensors[n + tail]
                    self.same_bits(np.frombuffer(data, TYPES.get(kind, "u1")), want.reshape(-1), (n, scheme, tail))
                state = json.loads(tensors[n + ".quant_state.bitsandbytes__" + scheme][2])
                self.assertEqual(state, {"quant_type": scheme, "blocksize": group, "dtype": "float32",
                                         "shape": list(x.shape), "nested_blocksize": 256, "nested_dtype": "float32",
                                         "nested_offset": 0})
                self.same_bits(back[n], d.float_value(scheme, q, s, group), (n, scheme))
            x, y = arrays["n.weight"].astype("f8"), back["n.weight"].astype("f8")
            snr = 10 * np.log10((x ** 2).sum() / ((x - y) ** 2).sum())
            self.assertGreaterEqual(snr, {"nf4": {32: 21.95, 64: 21.35}, "fp4": {64: 18.85}}[scheme][group])
        self.vc("run", self.path("in.safetensors"), "--pass", "quantize --nf4 --double-quant --layout bitsandbytes "
                "--min-elements 1 --min-row 1", "--pass", "dequantize", "-o", self.path("chain.safetensors"))
        tensors, _ = st_read(self.path("chain.safetensors"))
        for n in arrays:
            self.same_bits(np.frombuffer(tensors[n][2], F4), back[n].reshape(-1), n)

    def test_extremes(self):
        """Zeros, one value, tiny and huge values: finite, and no larger than twice the largest magnitude."""
        x = np.zeros((8, 128), F4)
        x[1] = 0.5
        x[2, ::2] = -1e-38
        x[3] = np.linspace(-3e38, 3e38, 128)
        x[4, 7] = 1e-45
        x[5] = 6.1e-5
        x[6] = -np.arange(128)
        np.savez(self.path("in.npz"), w=x)
        for scheme, group in GROUPS.items():
            self.vc("quantize", "--" + scheme, *SMALL, "--force", self.path("in.npz"), "-o", self.path("q.npz"))
            z = self.load(self.path("q.npz"))
            self.vc("dequantize", "--force", self.path("q.npz"), "-o", self.path("d.npz"))
            divisor = d.nvfp4_divisor([x]) if scheme == "nvfp4" else F4(1)
            q, s, used = d.float_group(scheme, x, group or 128, "f32", divisor)
            self.same_bits(z["w.scale"].reshape(s.shape), s, scheme)
            self.same_bits(codes_of(z, "w", scheme), q, scheme)
            y = self.load(self.path("d.npz"))["w"]
            self.assertTrue(np.isfinite(y).all(), scheme)
            self.assertTrue((y[0] == 0).all(), scheme)

    def test_layouts(self):
        """The bytes that compressed-tensors and bitsandbytes read; scales have the type of the weights where those of
        compressed-tensors are floats."""
        shapes = {"a.weight": (40, 256), "b.weight": (33, 100), "d.weight": (30, 384)}
        for dtype in ("bf16", "f32", "f16"):
            arrays = weights.model(dtype, shapes)
            st_arrays(self.path("in.safetensors"), arrays, dtype)
            for scheme, group in GROUPS.items():
                bnb = scheme in ("nf4", "fp4")
                self.vc("quantize", "--" + scheme, "--layout", "bitsandbytes" if bnb else "compressed-tensors", *SMALL,
                        "--force", self.path("in.safetensors"), "-o", self.path("q.safetensors"))
                self.vc("verify", "--data", self.path("q.safetensors"))
                self.vc("dequantize", "--force", self.path("q.safetensors"), "-o", self.path("d.npz"))
                back = self.load(self.path("d.npz"))
                tensors, _ = st_read(self.path("q.safetensors"))
                for n, a in arrays.items():
                    what = (n, scheme, dtype)
                    if group and a.shape[1] % group:
                        self.assertEqual(tensors[n][0], STORED[dtype] if dtype != "f32" else "F32", what)
                        continue
                    x = weights.value(a, dtype)
                    divisor = d.nvfp4_divisor([x]) if scheme == "nvfp4" else F4(1)
                    q, s, used = d.float_group(scheme, x, group or a.shape[1], dtype if scheme == "fp8" else "f32",
                                               divisor)
                    raw = {t[len(n):]: tensors[t] for t in tensors if t.startswith(n)}
                    packed = q if scheme in ("fp8", "mxfp8") else \
                        (q[:, 0::2] << 4 | q[:, 1::2] if bnb else q[:, 0::2] | q[:, 1::2] << 4)
                    t, shape, data = raw["" if bnb or packed is q else "_packed"]
                    self.assertEqual((t, tuple(shape)), ("F8_E4M3", q.shape) if packed is q else
                                     ("U8", (packed.size, 1)) if bnb else ("U8", packed.shape), what)
                    self.same_bits(np.frombuffer(data, "u1"), packed.reshape(-1), what)
                    t, shape, data = raw[".absmax" if bnb else "_scale"]
                    self.assertEqual(t, "F32" if bnb or (scheme == "fp8" and dtype == "f32") else STORED[dtype]
                                     if scheme == "fp8" else "F8_E4M3" if scheme == "nvfp4" else "U8", what)
                    self.same_bits(np.frombuffer(data, TYPES.get(t, "u1")).reshape(-1), s.reshape(-1), what)
                    if scheme == "nvfp4":
                        self.same_bits(np.frombuffer(raw["_global_scale"][2], F4), np.array([divisor], F4), what)
                    if bnb:
                        state = json.loads(raw[".quant_state.bitsandbytes__" + scheme][2])
                        self.assertEqual(state, {"quant_type": scheme, "blocksize": 64, "shape": list(a.shape),
                                                 "dtype": {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}[dtype]})
                        self.same_bits(np.frombuffer(raw[".quant_map"][2], F4), d.float_values(scheme, np.arange(16)) + F4(0), what)
                    self.same_bits(back[n], d.float_value(scheme, q, used, group or a.shape[1]), what)

    def test_whole_tensors(self):
        """fp8 with one scale for a tensor: of the definition, over tiles; the same on threads and in chains."""
        rng = np.random.default_rng(7)
        arrays = {"a": rng.standard_normal((700, 900)), "wide": rng.standard_normal((2, 262144 + 60)), "zero": np.zeros((8, 64))}
        arrays = {n: a.astype("f4") for n, a in arrays.items()}
        np.savez(self.path("in.npz"), **arrays)
        how = ("quantize", "--fp8", "--granularity", "tensor", *SMALL)
        self.vc(*how, "-q", self.path("in.npz"), "-o", self.path("a.npz"))
        self.vc(*how, "-q", "--threads", "1", self.path("in.npz"), "-o", self.path("b.npz"))
        self.assertEqual(sha(self.path("a.npz")), sha(self.path("b.npz")))
        self.vc("dequantize", "-q", self.path("a.npz"), "-o", self.path("back.npz"))
        got, back = self.load(self.path("a.npz")), self.load(self.path("back.npz"))
        for n, a in arrays.items():
            q, s, used = d.float_group("fp8", a.reshape(1, -1), a.size, "f32", None)
            self.same_bits(got[n].reshape(-1), q.reshape(-1).astype("u1"), n)
            self.same_bits(got[n + ".scale"].reshape(-1), s.reshape(-1), n)
            self.same_bits(back[n].reshape(-1), d.float_value("fp8", q, used, a.size).reshape(-1), n)
        self.refuse(2, "quantize", "--nvfp4", "--granularity", "tensor", self.path("in.npz"), "-o", self.path("no.npz"))

    def test_blocks(self):
        """fp8 with a scale per block: of the definition, in an npz and in two layouts; the same on threads and in chains."""
        shapes = {"a.weight": (256, 384), "b.weight": (300, 130), "wide.weight": (130, 2304)}
        for dtype, layout, block in (("f32", "plain", 128), ("f32", "plain", 64), ("bf16", "compressed-tensors", 128),
                                     ("f32", "fp8", 128)):
            arrays = weights.model(dtype, shapes)
            st_arrays(self.path("in.safetensors"), arrays, dtype)
            self.vc("quantize", "--fp8", "--granularity", "block:%d" % block, "--layout", layout, *SMALL, "--force",
                    self.path("in.safetensors"), "-o", self.path("q.safetensors"))
            self.vc("dequantize", "--force", self.path("q.safetensors"), "-o", self.path("d.npz"))
            tensors, _ = st_read(self.path("q.safetensors"))
            back = self.load(self.path("d.npz"))
            for n, a in arrays.items():
                what = (dtype, layout, block, n)
                scale = n + {"plain": ".scale", "fp8": "_scale_inv"}.get(layout, "_scale")
                if n in {"fp8": ("b.weight", "wide.weight"), "compressed-tensors": ("b.weight",)}.get(layout, ()):
                    self.assertNotIn(scale, tensors, what)  # their loaders take whole blocks, or rows of whole blocks
                    continue
                x = weights.value(a, dtype)
                t, shape, data = tensors[scale]
                self.assertEqual(t, "BF16" if dtype == "bf16" else "F32")
                got = np.frombuffer(data, "u2" if dtype == "bf16" else F4).reshape(shape)
                for i in range(shape[0]):
                    for j in range(shape[1]):
                        at = np.s_[i * block:(i + 1) * block, j * block:(j + 1) * block]
                        q, s, used = d.float_group("fp8", x[at].reshape(1, -1), x[at].size, dtype, None)
                        self.same_bits(got[i, j], s.reshape(())[()], what)
                        self.same_bits(back[n][at], d.float_value("fp8", q, used, x[at].size).reshape(x[at].shape), what)
        self.vc("quantize", "--fp8", "--granularity", "block:128", "--threads", "1", "--layout", "fp8", *SMALL,
                self.path("in.safetensors"), "-o", self.path("one.safetensors"))
        self.assertEqual(sha(self.path("one.safetensors")), sha(self.path("q.safetensors")))
        self.assertIn("in blocks of 128", self.refuse(2, "quantize", "--fp8", "--granularity", "block:64", "--layout",
                      "compressed-tensors", self.path("in.safetensors"), "-o", self.path("no.safetensors")))
        self.assertIn("fp8 alone", self.refuse(2, "quantize", "--int8", "--granularity", "block:64",
                      self.path("in.safetensors"), "-o", self.path("no.safetensors")))

    def test_block_nonfinite(self):
        x = np.random.default_rng(2).standard_normal((256, 256)).astype(F4)
        x[3, 5], x[200, 130] = np.nan, -np.inf
        np.savez(self.path("in.npz"), w=x)
        self.assertIn("w", self.refuse(3, "quantize", "--fp8", "--granularity", "block:128", self.path("in.npz"), "-o",
                                       self.path("q.npz")))
        self.vc("quantize", "--fp8", "--granularity", "block:128", "--nonfinite", "zero", self.path("in.npz"), "-o",
                self.path("q.npz"))
        self.vc("dequantize", self.path("q.npz"), "-o", self.path("d.npz"))
        y = self.load(self.path("d.npz"))["w"]
        self.assertEqual(y[3, 5], 0)
        self.assertEqual(y[200, 130], -np.abs(y[128:, 128:]).max())

    def test_joined(self):
        """q, k and v have one global scale, that of the largest; so have gate and up. Others have their own."""
        r = np.random.default_rng(3)
        names = ["l.%s.weight" % n for n in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")]
        arrays = {n: (r.standard_normal((32, 64)) * 0.01 * (i + 1)).astype(F4) for i, n in enumerate(names)}
        st_arrays(self.path("in.safetensors"), arrays, "f32")
        self.vc("quantize", "--nvfp4", *SMALL, self.path("in.safetensors"), "-o", self.path("q.safetensors"))
        tensors, _ = st_read(self.path("q.safetensors"))
        for joined in (names[:3], names[3:4], names[4:6], names[6:]):
            want = d.nvfp4_divisor([arrays[n] for n in joined])
            for n in joined:
                self.same_bits(np.frombuffer(tensors[n + ".global_scale"][2], F4), np.array([want], F4), n)
        self.vc("dequantize", self.path("q.safetensors"), "-o", self.path("d.npz"))
        back = self.load(self.path("d.npz"))
        q, _, used = d.float_group("nvfp4", arrays[names[0]], 16, "f32", d.nvfp4_divisor([arrays[n] for n in names[:3]]))
        self.same_bits(back[names[0]], d.float_value("nvfp4", q, used, 16), names[0])


    def test_verify_scales(self):
        """Scales that are none: verify --data says so, and dequantize refuses them."""
        codes = ("m.weight_packed", "U8", (8, 32), bytes(range(256)))
        good = np.full((8, 4), 0x30, "u1")
        for bad, scales, divisor in (("NaN", 0x7F, 64), ("negative", 0xB0, 64), ("zero", 0x30, 0), ("Inf", 0x30, np.inf),
                                     ("below 0", 0x30, -2)):
            s = good.copy()
            s[3, 2] = scales
            st_write(self.path("x.safetensors"), [codes, ("m.weight_scale", "F8_E4M3", (8, 4), s.tobytes()),
                                                  ("m.weight_global_scale", "F32", (1,), np.array([divisor], F4).tobytes())])
            r = run("verify", "--data", self.path("x.safetensors"))
            self.assertEqual(r.code, 1, bad)
            self.assertIn(b"scales that are not finite and above 0", r.out, bad)
            if bad != "negative":
                self.refuse(3, "dequantize", self.path("x.safetensors"), "-o", self.path("no.npz"))
        for byte, code in ((0x30, 0), (0xFF, 1)):
            s = good.copy()
            s[0, 0] = byte
            st_write(self.path("x.safetensors"), [codes, ("m.weight_scale", "U8", (8, 2), s[:, :2].tobytes())])
            self.assertEqual(run("verify", "--data", self.path("x.safetensors")).code, code)

    def test_modelopt(self):
        """The names of ModelOpt: nvfp4 whose second scale multiplies, fp8 with scales as a list and in blocks."""
        import os
        r = np.random.default_rng(11)
        codes = r.integers(0, 256, (256, 64)).astype("u1")
        scales = r.integers(1, 126, (256, 8)).astype("u1")
        eight = r.integers(0, 126, (256, 128)).astype("u1")
        by_row = (r.random(256) * 0.01).astype(F4)
        blocks = np.array([0.01, 0.03], F4)
        tensors, want = [], {}
        for n in ("q_proj", "k_proj"):
            tensors += [("l.%s.weight" % n, "U8", codes.shape, codes.tobytes()),
                        ("l.%s.weight_scale" % n, "F8_E4M3", scales.shape, scales.tobytes()),
                        ("l.%s.weight_scale_2" % n, "F32", (), F4(0.0123).tobytes()),
                        ("l.%s.input_scale" % n, "F32", (), F4(0.5).tobytes())]
            want["l.%s.weight" % n] = d.float_values("e2m1", unpack(codes, False)) * np.repeat(
                d.e4m3_value(scales) * F4(0.0123), 16, axis=1)
        for n, s, shape in (("o_proj", by_row, (256,)), ("down_proj", blocks, (2, 1, 1, 1))):
            tensors += [("l.%s.weight" % n, "F8_E4M3", eight.shape, eight.tobytes()),
                        ("l.%s.weight_scale" % n, "F32", shape, s.tobytes())]
            want["l.%s.weight" % n] = d.e4m3_value(eight) * np.repeat(s, 256 // len(s))[:, None]
        os.mkdir(self.path("m"))
        st_write(self.path("m/model.safetensors"), tensors)
        with open(self.path("m/config.json"), "w") as f:
            json.dump({"model_type": "llama"}, f)
        with open(self.path("m/hf_quant_config.json"), "w") as f:
            json.dump({"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": []}}, f)
        self.vc("verify", "--data", self.path("m"))
        self.vc("convert", self.path("m"), "-o", self.path("copy"))
        self.assertEqual(st_read(self.path("copy/model.safetensors"))[0], st_read(self.path("m/model.safetensors"))[0])
        self.assertTrue(os.path.exists(self.path("copy/hf_quant_config.json")))
        self.vc("dequantize", self.path("m"), "-o", self.path("d"))
        self.assertEqual(sorted(os.listdir(self.path("d"))), [".vcompress.json", "config.json", "model.safetensors"])
        back, _ = st_read(self.path("d/model.safetensors"))
        self.assertEqual(sorted(back), sorted(want))
        self.vc("convert", self.path("m"), "-o", self.path("m.npz"))
        self.vc("dequantize", self.path("m.npz"), "-o", self.path("d.npz"))
        for n, a in want.items():
            self.same_bits(np.frombuffer(back[n][2], F4).reshape(a.shape), a, n)
            self.same_bits(self.load(self.path("d.npz"))[n], a, n)
        self.assertIn("cannot hold", self.refuse(3, "convert", "--layout", "compressed-tensors", self.path("m"), "-o",
                                                 self.path("no")))
        tensors[2] = tensors[2][:3] + (F4(0.02).tobytes(),)
        st_write(self.path("m/model.safetensors"), tensors)
        r = run("verify", self.path("m"))
        self.assertEqual(r.code, 1)
        self.assertIn(b"global scale than k_proj beside it", r.out)

    def test_shards(self):
        """Workers that do a file each see all weights: the files are those of one run."""
        import os
        r = np.random.default_rng(8)
        arrays = {"l.%s.weight" % n: (r.standard_normal((64, 128)) * 0.01 * (i + 1)).astype(F4)
                  for i, n in enumerate(("q_proj", "k_proj", "v_proj", "o_proj"))}
        st_arrays(self.path("one.safetensors"), arrays, "f32")
        os.mkdir(self.path("one"))
        os.rename(self.path("one.safetensors"), self.path("one/model.safetensors"))
        self.vc("convert", "--max-shard-size", "40KiB", self.path("one"), "-o", self.path("in"))
        self.vc("quantize", "--nvfp4", *SMALL, self.path("in"), "-o", self.path("whole"))
        for i in (1, 2):
            self.vc("quantize", "--nvfp4", "--shard", "%d/2" % i, *SMALL, "--force", self.path("in"), "-o", self.path("parts"))
        names = sorted(n for n in os.listdir(self.path("whole")) if n.endswith(".safetensors"))
        self.assertEqual(len(names), 4)
        for n in names:
            self.assertEqual(sha(self.path("whole/" + n)), sha(self.path("parts/" + n)), n)

    def test_verify_joined(self):
        """Parts of one joined layer with different global scales: verify says so."""
        import os
        r = np.random.default_rng(4)
        tensors = []
        for i, n in enumerate(("q_proj", "k_proj")):
            tensors += [("l.%s.weight_packed" % n, "U8", (8, 32), r.integers(0, 256, (8, 32)).astype("u1").tobytes()),
                        ("l.%s.weight_scale" % n, "F8_E4M3", (8, 4), np.full((8, 4), 0x30, "u1").tobytes()),
                        ("l.%s.weight_global_scale" % n, "F32", (1,), np.array([64.0 + i], F4).tobytes())]
        os.mkdir(self.path("m"))
        st_write(self.path("m/model.safetensors"), tensors)
        config = {"model_type": "llama", "quantization_config": {
            "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": [], "config_groups": {
                "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "symmetric": True,
                                                               "strategy": "tensor_group", "group_size": 16}}}}}
        with open(self.path("m/config.json"), "w") as f:
            json.dump(config, f)
        r = run("verify", self.path("m"))
        self.assertEqual(r.code, 1)
        self.assertIn(b"global scale than k_proj beside it", r.out)
        tensors[2] = tensors[2][:3] + (tensors[5][3],)
        st_write(self.path("m/model.safetensors"), tensors)
        self.vc("verify", "--data", self.path("m"))


class Packages(Judge):
    """The programs that load such files."""

    def setUp(self):
        super().setUp()
        if missing("torch", "transformers", "safetensors"):
            self.skipTest("torch, transformers and safetensors are needed")
        import transformers
        self.torch = import_torch()
        self.transformers = transformers
        if int(transformers.__version__.split(".")[0]) < 5:
            self.skipTest("transformers 5 is needed")
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()

    def save(self, dtype):
        config = self.transformers.LlamaConfig(
            vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False)
        self.torch.manual_seed(0)
        self.transformers.LlamaForCausalLM(config).to(dtype).save_pretrained(self.path("model"))

    def load_both(self, dtype):
        auto = self.transformers.AutoModelForCausalLM
        return auto.from_pretrained(self.path("q"), dtype=dtype), auto.from_pretrained(self.path("d"), dtype=dtype)

    def logits(self, net):
        with self.torch.no_grad():
            return net(self.torch.arange(40).reshape(1, 40) * 5 % 256).logits

    def test_compressed_tensors(self):
        if missing("compressed_tensors"):
            self.skipTest("compressed_tensors is needed")
        torch = self.torch
        self.save(torch.bfloat16)
        for scheme in ("fp8", "mxfp8", "mxfp4", "nvfp4"):
            self.vc("quantize", "--" + scheme, "--force", self.path("model"), "-o", self.path("q"))
            self.vc("verify", "--data", self.path("q"))
            self.vc("dequantize", "--source-dtype", "--force", self.path("q"), "-o", self.path("d"))
            net, plain = self.load_both(torch.bfloat16)
            got, want = self.logits(net), self.logits(plain)
            if scheme != "fp8":  # its loader rounds the inputs of layers, too
                self.assertTrue(torch.equal(got, want), scheme)
            modules = dict(net.named_modules())
            n = 0
            for name, module in plain.named_modules():
                if name.endswith("_proj") and hasattr(modules[name], "weight"):
                    self.assertTrue(torch.equal(modules[name].weight.detach(), module.weight.detach()), (scheme, name))
                    n += 1
            self.assertIn(n, (0, 14) if scheme == "nvfp4" else (14,))

    def test_fp8(self):
        """The method fp8, decoded by transformers: tensors and outputs are those of dequantize."""
        torch = self.torch
        if not hasattr(self.transformers, "FineGrainedFP8Config") or missing("accelerate"):
            self.skipTest("FineGrainedFP8Config and accelerate are needed")
        self.save(torch.bfloat16)
        auto = self.transformers.AutoModelForCausalLM
        self.vc("quantize", "--fp8", "--granularity", "block:128", "--layout", "fp8", self.path("model"), "-o", self.path("q"))
        self.vc("verify", "--data", self.path("q"))
        self.vc("convert", "--layout", "compressed-tensors", self.path("q"), "-o", self.path("c"))
        # Scales per row are other codes: through floats, and the report has the error.
        self.assertIn("compressed-tensors per row", self.refuse(2, "quantize", "--fp8", "--requantize", self.path("q"), "-o", self.path("rows")))
        out = self.vc("quantize", "--fp8", "--requantize", "--json", "--layout", "compressed-tensors", self.path("q"), "-o", self.path("rows")).json()
        self.assertTrue(all(t["measured"]["sqnr_db"] > 31 for t in out["tensors"] if t["action"] == "quantized"))
        with open(self.path("rows/config.json")) as f:
            self.assertEqual(json.load(f)["quantization_config"]["config_groups"]["group_0"]["weights"]["strategy"], "channel")
        self.vc("convert", "--layout", "fp8", self.path("c"), "-o", self.path("back"))
        self.assertEqual(sha(self.path("back/model.safetensors")), sha(self.path("q/model.safetensors")))
        self.vc("dequantize", "--source-dtype", self.path("q"), "-o", self.path("d"))
        plain = auto.from_pretrained(self.path("d"), dtype=torch.bfloat16)
        net = auto.from_pretrained(self.path("q"), dtype=torch.bfloat16,
                                   quantization_config=self.transformers.FineGrainedFP8Config(dequantize=True))
        for name, want in plain.state_dict().items():
            self.assertTrue(torch.equal(net.state_dict()[name], want), name)
        self.assertTrue(torch.equal(self.logits(net), self.logits(plain)))

    def check_decoded(self, net, plain, dtype, scheme):
        """What bitsandbytes decodes of each layer are the weights of the other network, bit for bit."""
        import bitsandbytes.functional as functional
        modules = dict(plain.named_modules())
        n = 0
        for name, module in net.named_modules():
            state = getattr(getattr(module, "weight", None), "quant_state", None)
            if state is not None:
                value = functional.dequantize_4bit(module.weight.data, state)
                self.assertTrue(self.torch.equal(value.to(dtype), modules[name].weight.detach()), (scheme, name))
                n += 1
        self.assertEqual(n, 14)

    def test_bitsandbytes(self):
        if missing("bitsandbytes"):
            self.skipTest("bitsandbytes is needed")
        torch = self.torch
        for dtype in (torch.bfloat16, torch.float32):
            self.save(dtype)
            for scheme, extra in (("nf4", []), ("fp4", []), ("nf4", ["--double-quant", "--granularity", "group:32"])):
                self.vc("quantize", "--" + scheme, *extra, "--force", self.path("model"), "-o", self.path("q"))
                self.vc("dequantize", "--source-dtype", "--force", self.path("q"), "-o", self.path("d"))
                net, plain = self.load_both(dtype)
                self.check_decoded(net, plain, dtype, scheme)
                # bitsandbytes computes on the codes in bf16 where the processor has such products
                far = (self.logits(net) - self.logits(plain)).abs().max() / self.logits(plain).abs().max()
                self.assertLessEqual(far.item(), 0.02, (scheme, dtype))
            for scheme in ("nf4", "fp4"):
                for double in (False, True):
                    config = self.transformers.BitsAndBytesConfig(
                        load_in_4bit=True, bnb_4bit_quant_type=scheme, bnb_4bit_use_double_quant=double,
                        bnb_4bit_compute_dtype=dtype)
                    net = self.transformers.AutoModelForCausalLM.from_pretrained(
                        self.path("model"), quantization_config=config, dtype=dtype)
                    net.save_pretrained(self.path("theirs"))
                    self.vc("dequantize", "--source-dtype", "--force", self.path("theirs"), "-o", self.path("d"))
                    plain = self.transformers.AutoModelForCausalLM.from_pretrained(self.path("d"), dtype=dtype)
                    self.check_decoded(net, plain, dtype, scheme)


if __name__ == "__main__":
    main()
