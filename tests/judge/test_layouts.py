"""test_layouts.py - int8 for other programs: --layout compressed-tensors and bitsandbytes.

NumPy evaluates scales, codes and packing bit for bit, there and back. Where they can be imported, the packages
compressed-tensors (with torch), transformers and bitsandbytes load what was written: the first decompresses every weight,
the others run a small Llama from it (scripts/judges.sh says who brings them).
"""
import importlib.util
import json
import os
import shutil
import sys
import unittest

from judge_support import SMALL, Judge, main, np, run, sha
from test_safetensors import STORED, TYPES, st_arrays, st_read, st_write
import definition as d
import weights

F4 = np.float32


def missing(*modules):
    gone = [m for m in modules if importlib.util.find_spec(m) is None]
    if gone:
        print("no judge for this: %s cannot be imported by %s" % (", ".join(gone), sys.executable))
    return gone


def import_torch():
    """torch, with names for types that compressed-tensors mentions and an old torch does not have. None is used here."""
    import torch
    for name in ("float8_e4m3fn", "float8_e5m2"):
        if not hasattr(torch, name):
            setattr(torch, name, torch.float64)
    return torch


# ---- the definition -------------------------------------------------------------------------------------------------
def rounded(s, dtype):
    """(scales as they are stored, the same as f32) of f32 scales, for weights of that type."""
    if dtype == "bf16":
        h = np.minimum(d.f32_to_bf16(s), np.uint16(0x7C00))
        return h, d.bf16_to_f32(h)
    if dtype == "f16":
        h = s.astype("f2")
        low = (h.astype(F4) < s) & (h < np.float16(2.0 ** -14))
        h = np.where(low, np.nextafter(h, np.float16(np.inf)), h)
        h = np.minimum(h, np.float16(515.5)).astype("f2")
        return h, h.astype(F4)
    return s, s


def codes_of(a, dtype, group=0):
    """codes int8 [out, in], scales as stored [out, 1] or [out, groups], their f32 values, maxima [out, ...]."""
    w = d.to_f32(weights.value(a, dtype))
    g = w.reshape(w.shape[0], -1, group or w.shape[1])
    most = np.abs(g).max(axis=2)
    with np.errstate(over="ignore", under="ignore"):
        s = (most / F4(127)).astype(F4)
        s = np.where(np.isinf(F4(127) * s), np.nextafter(s, F4(0)), s).astype(F4)
    s = np.where(s < d.MIN_NORMAL, F4(1), s).astype(F4)
    stored, used = rounded(s, dtype)
    with np.errstate(under="ignore"):
        q = np.clip(np.rint(g / used[:, :, None]), -127, 127).astype(np.int8)
    return q.reshape(w.shape), stored, used, most


def packed(q):
    out = np.zeros((q.shape[0], -(-q.shape[1] // 4) * 4), "u1")
    out[:, :q.shape[1]] = (q.astype("i2") + 128).astype("u1")
    return out.view("<i4")


# name: shape. Two-dimensional weights of layers; rows of every length modulo 4, longer than a tile, in many tiles.
SHAPES = {"a": (40, 64), "layers.0.b": (33, 65), "layers.0.c": (65, 66), "layers.1.d": (7, 67), "x/\u00fc": (1, 4100),
          "wide": (2, 262144 + 777), "tall": (9001, 33), "tiles": (700, 513), "tiny": (3, 5), "": (12, 32)}


def model(dtype, spread_only=False):
    named = {(n + "." if n else "") + "weight": s for n, s in SHAPES.items()}
    return weights.model(dtype, named, spread_only)


class Layouts(Judge):
    def write(self, name, arrays, dtype):
        st_arrays(self.path(name), arrays, dtype)

    def entry(self, tensors, name, dtype, shape):
        found, stated, data = tensors.pop(name)
        self.assertEqual((found, stated), (dtype, tuple(shape)), name)
        return np.frombuffer(data, TYPES[dtype]).reshape(shape)

    def check_ct(self, path, arrays, dtype, group=0):
        tensors, metadata = st_read(path)
        self.assertNotIn("vcompress.json", metadata)
        stored = "F32" if dtype == "f64" else STORED[dtype]
        for n, a in arrays.items():
            q, s, _, _ = codes_of(a, dtype, group)
            shape = self.entry(tensors, n + "_shape", "I64", (2,))
            self.assertEqual(tuple(shape), a.shape)
            self.same_bits(self.entry(tensors, n + "_packed", "I32", (a.shape[0], -(-a.shape[1] // 4))), packed(q), n)
            self.same_bits(self.entry(tensors, n + "_scale", stored, s.shape), s, n)
        self.assertEqual(tensors, {})

    def test_compressed_tensors(self):
        for dtype in ("f32", "bf16", "f16", "f64"):
            arrays = model(dtype)
            self.write("in.safetensors", arrays, dtype)
            want = None
            for extra in ([], ["--threads", "1"], ["--threads", "7", "--max-memory", "24MiB"], ["--cpu-mask", "ref"]):
                self.vc("quantize", "--int8", "--layout", "compressed-tensors", *SMALL, *extra, "--force",
                        self.path("in.safetensors"), "-o", self.path("q.safetensors"))
                if want is None:
                    self.check_ct(self.path("q.safetensors"), arrays, dtype)
                want = want or sha(self.path("q.safetensors"))
                self.assertEqual(sha(self.path("q.safetensors")), want, extra)

    def test_w8a8(self):
        """A byte a code, under the weight's own name; there and back."""
        for dtype in ("f32", "bf16"):
            arrays = model(dtype)
            self.write("in.safetensors", arrays, dtype)
            self.vc("quantize", "--int8", "--layout", "w8a8", *SMALL, "--force", self.path("in.safetensors"), "-o", self.path("q.safetensors"))
            tensors, _ = st_read(self.path("q.safetensors"))
            for n, a in arrays.items():
                q, s, _, _ = codes_of(a, dtype)
                self.same_bits(self.entry(tensors, n, "I8", a.shape), q, n)
                self.same_bits(self.entry(tensors, n + "_scale", STORED[dtype], s.shape), s, n)
            self.assertEqual(tensors, {})
            self.vc("convert", self.path("q.safetensors"), "--layout", "w8a8", "-f", "-o", self.path("copy.safetensors"))
            self.assertEqual(sha(self.path("copy.safetensors")), sha(self.path("q.safetensors")))
        for how, why in ((["--granularity", "group:32"], "takes one scale per row"), (["--asymmetric"], "takes no zero points")):
            self.assertIn(why, self.refuse(2, "quantize", "--int8", "--layout", "w8a8", *how, self.path("in.safetensors"), "-o", self.path("n.safetensors")))
        st_arrays(self.path("moe.safetensors"), {"mlp.experts.0.w1.weight": arrays["a.weight"]}, dtype)
        self.assertIn("no experts", self.refuse(3, "quantize", "--int8", "--layout", "w8a8", *SMALL, self.path("moe.safetensors"), "-o", self.path("n.safetensors")))

    def test_zero_points(self):
        """int8 with zero points: the scale as it is stored makes zero point and codes; zero points lie down the columns."""
        for dtype in ("f32", "bf16", "f16"):
            arrays = model(dtype)
            self.write("in.safetensors", arrays, dtype)
            self.vc("quantize", "--int8", "--asymmetric", "--layout", "compressed-tensors", *SMALL, "--force", self.path("in.safetensors"),
                    "-o", self.path("q.safetensors"))
            tensors, _ = st_read(self.path("q.safetensors"))
            for n, a in arrays.items():
                x = d.to_f32(weights.value(a, dtype)).reshape(a.shape)
                _, s, _, _ = d.int8(weights.value(a, dtype), asymmetric=True)
                stored = used = s.reshape(-1, 1)
                if dtype != "f32":
                    stored, used = d.scale_stored(used, dtype, 256)
                    smallest = d.scale_stored(np.full(used.shape, 2.0 ** -14 if dtype == "f16" else 2.0 ** -126, F4), dtype)
                    stored, used = (np.where(used > 0, s, least) for s, least in zip((stored, used), smallest))
                z = np.clip(np.rint(F4(-128) - np.minimum(x.min(axis=1, keepdims=True), F4(0)) / used), -128, 127)
                q = np.clip(np.clip(np.rint(x / used), -255, 255) + z, -128, 127).astype("i1")
                self.same_bits(self.entry(tensors, n + "_scale", STORED[dtype], stored.shape), stored, n)
                self.same_bits(self.entry(tensors, n + "_packed", "I32", packed(q).shape), packed(q), n)
                words = packed(np.ascontiguousarray(z.astype("i1").T)).T
                self.same_bits(self.entry(tensors, n + "_zero_point", "I32", words.shape), words, n)

    def test_groups(self):
        """Groups that divide the rows; other rows have smaller ones, of 32 at least, or are kept."""
        def smaller(row):
            return next((g for g in (64, 32) if g < group and row % g == 0), None)

        for dtype, group in (("bf16", 32), ("f16", 64), ("f32", 11)):
            arrays = model(dtype)
            less = {n for n, a in arrays.items() if a.shape[1] % group != 0 and smaller(a.shape[1])}
            fit = {n: a for n, a in arrays.items() if a.shape[1] % group == 0}
            self.assertTrue(0 < len(fit) < len(arrays))
            self.write("in.safetensors", arrays, dtype)
            r = self.vc("quantize", "--int8", "--layout", "compressed-tensors", "--granularity", "group:%d" % group,
                        *SMALL, "--json", "--force", self.path("in.safetensors"), "-o", self.path("q.safetensors"))
            kept = {t["name"]: t["reason"] for t in r.json()["tensors"] if t["action"] == "kept"}
            self.assertEqual(set(kept), set(arrays) - set(fit) - less)
            self.assertTrue(set(kept.values()) <= {"rows are no multiple of the group"})
            tensors, _ = st_read(self.path("q.safetensors"))
            for n in less:
                rows, row = arrays[n].shape
                self.assertEqual(list(tensors[n + "_scale"][1]), [rows, row // smaller(row)])
            for n in kept:
                self.assertEqual(tensors[n][2], arrays[n].tobytes())
            st_write(self.path("only.safetensors"),
                     [(n,) + t for n, t in tensors.items() if n not in kept and not any(n.startswith(other) for other in less)],
                     {"format": "pt"})
            self.check_ct(self.path("only.safetensors"), fit, dtype, group)

    def test_bitsandbytes(self):
        for dtype in ("f32", "f16"):
            arrays = model(dtype)
            self.write("in.safetensors", arrays, dtype)
            self.vc("quantize", "--int8", "--layout", "bitsandbytes", *SMALL, "--force", self.path("in.safetensors"),
                    "-o", self.path("q.safetensors"))
            tensors, _ = st_read(self.path("q.safetensors"))
            for n, a in arrays.items():
                path = n[:-len("weight")]
                q, _, _, most = codes_of(d.to_f32(a), "f32")
                self.same_bits(self.entry(tensors, n, "I8", a.shape), q, n)
                self.same_bits(self.entry(tensors, path + "SCB", "F32", a.shape[:1]), most.reshape(-1), n)
                self.assertEqual(self.entry(tensors, path + "weight_format", "U8", ()), 0)
            self.assertEqual(tensors, {})

    def values(self, path):
        """What dequantize makes of a file."""
        self.vc("dequantize", "--force", path, "-o", self.path("back.npz"))
        return self.load(self.path("back.npz"))

    def test_back(self):
        """(float)q * s, bit for bit; the same through npz, and for copies; the report's error is that of these values."""
        for dtype, layout in (("bf16", "compressed-tensors"), ("f16", "compressed-tensors"), ("f32", "bitsandbytes"),
                              ("f32", "compressed-tensors")):
            arrays = model(dtype)
            self.write("in.safetensors", arrays, dtype)
            r = self.vc("quantize", "--int8", "--layout", layout, *SMALL, "--json", "--force",
                        self.path("in.safetensors"), "-o", self.path("q.safetensors"))
            rows = {t["name"]: t for t in r.json()["tensors"]}
            y = {n: d.int8_value(*codes_of(a, dtype)[0::2][:2], None, "channel") for n, a in arrays.items()}
            got = self.values(self.path("q.safetensors"))
            self.assertEqual(set(got), set(arrays))
            for n, a in arrays.items():
                self.same_bits(got[n], y[n], n)
                self.assertTrue(np.isfinite(y[n]).all())
                want = d.figures(d.to_f32(weights.value(a, dtype)), y[n])
                self.close(rows[n]["measured"]["max_abs_error"], want["max_abs_error"], n)
                self.close(rows[n]["measured"]["sum_e2"], want["sum_e2"], n)
            self.vc("convert", "--force", self.path("q.safetensors"), "-o", self.path("q.npz"))
            for n, a in self.values(self.path("q.npz")).items():
                self.same_bits(a, y[n], n)
            self.assertEqual(run("diff", self.path("q.npz"), self.path("q.safetensors")).code, 0)
            self.vc("convert", "--force", self.path("q.safetensors"), "-o", self.path("copy.safetensors"))
            self.assertEqual(sha(self.path("copy.safetensors")), sha(self.path("q.safetensors")))

    def test_error_is_half_a_step(self):
        for dtype in ("f32", "bf16", "f16"):
            for n, a in model(dtype).items():
                q, _, used, most = codes_of(a, dtype)
                x = d.to_f32(weights.value(a, dtype)).astype("f8")
                step = np.abs(x / used.astype("f8") - q)
                self.assertLessEqual(float(step[most[:, 0] / F4(127) >= d.MIN_NORMAL].max(initial=0)), 0.50001, n)

    def test_other_writers(self):
        """Weights with their own scales: [-128, 127] and FP8 are read; 7 bits are refused unless they are excluded."""
        r = np.random.default_rng(1)
        q = r.integers(-128, 128, (30, 70)).astype(np.int8)
        s = np.exp(r.standard_normal((30, 1))).astype("f2")
        z = r.integers(-128, 128, (30, 1)).astype(np.int8)
        w7 = r.integers(-2**31, 2**31, (30, 14)).astype("<i4")
        tensors = [
            ("p.weight_packed", "I32", (30, 18), packed(q).tobytes()), ("p.weight_scale", "F16", (30, 1), s.tobytes()),
            ("p.weight_shape", "I64", (2,), np.array([30, 70], "<i8").tobytes()),
            ("i.weight", "I8", (30, 70), q.tobytes()), ("i.weight_scale", "F16", (30, 1), s.tobytes()),
            ("z.weight", "I8", (30, 70), q.tobytes()), ("z.weight_scale", "F16", (30, 1), s.tobytes()),
            ("z.weight_zero_point", "I8", (30, 1), z.tobytes()), ("z.input_scale", "F16", (1,), s[:1].tobytes()),
            ("b.weight", "I8", (30, 70), q.tobytes()), ("b.SCB", "F32", (30,), s.astype("f4").tobytes()),
            ("seven.weight_packed", "I32", (30, 14), w7.tobytes()), ("seven.weight_scale", "F16", (30, 1), s.tobytes()),
            ("seven.weight_shape", "I64", (2,), np.array([30, 64], "<i8").tobytes()),
            ("e.weight", "F8_E4M3", (30, 70), q.tobytes()), ("e.weight_scale", "F16", (30, 1), s.tobytes())]
        st_write(self.path("in.safetensors"), tensors)
        y = q.astype(F4) * s.astype(F4)
        self.assertIn("seven.weight_packed: cannot be decoded",
                      self.refuse(3, "dequantize", self.path("in.safetensors"), "-o", self.path("back.safetensors")))
        self.vc("dequantize", "--exclude", "seven.*", self.path("in.safetensors"), "-o",
                self.path("back.safetensors"))
        back, _ = st_read(self.path("back.safetensors"))
        for n, want in (("p.weight", y), ("i.weight", y), ("z.weight", (q.astype(F4) - z.astype(F4)) * s.astype(F4)),
                        ("b.weight", q.astype(F4) * (s.astype(F4) / F4(127))),
                        ("e.weight", d.e4m3_value(q.view("u1")) * s.astype(F4))):
            self.same_bits(self.entry(back, n, "F32", (30, 70)), want, n)
        self.assertEqual({n: t for n, t in back.items()},
                         {n: (t, tuple(s), b) for n, t, s, b in tensors if n.split(".")[0] == "seven"})
        r = self.vc("quantize", "--int8", "--requantize", *SMALL, "--include", "*", "--json", "--nonfinite", "keep", "--layout",
                    "compressed-tensors", self.path("in.safetensors"), "-o", self.path("again.safetensors"))
        reasons = {t["name"]: t["reason"] for t in r.json()["tensors"] if t["action"] == "kept"}
        self.assertEqual(reasons["seven.weight_packed"], "quantized already")
        r = self.vc("quantize", "--fp16", "--requantize", *SMALL, "--json", "--dry-run", self.path("in.safetensors"))
        reasons = {t["name"]: t["reason"] for t in r.json()["tensors"] if t["action"] == "kept"}
        self.assertEqual(reasons["seven.weight_shape"], "quantized already")

    def test_config_beside(self):
        """Rows of four: 4 bits or 8? config.json knows."""
        q = np.arange(-16, 16, dtype=np.int8).reshape(8, 4)
        s = np.ones((8, 1), "f4")
        st_write(self.path("in.safetensors"), [
            ("p.weight_packed", "I32", (8, 1), packed(q).tobytes()), ("p.weight_scale", "F32", (8, 1), s.tobytes()),
            ("p.weight_shape", "I64", (2,), np.array([8, 4], "<i8").tobytes())])
        config = {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {
            "group_0": {"weights": {"num_bits": 8, "group_size": None}}}}}
        for text, known in ((None, False), (json.dumps(config), True), ("{", False),
                            (json.dumps(config).replace("8", "4"), True),
                            (json.dumps(config).replace("8", "3"), False)):
            if text is not None:
                with open(self.path("config.json"), "w") as f:
                    f.write(text)
            names = [t["name"] for t in self.vc("inspect", "--json", self.path("in.safetensors")).json()["tensors"]]
            self.assertEqual("p.weight" in names, known, text)

    def test_layers_that_are_joined(self):
        """vLLM makes one layer of q, k and v, and of gate and up: report and verify say where only some are int8."""
        os.mkdir(self.path("m"))
        with open(self.path("m/config.json"), "w") as f:
            json.dump({"model_type": "llama"}, f)
        names = ["attn.q_proj", "attn.k_proj", "attn.v_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
        st_arrays(self.path("m/model.safetensors"),
                  {"l.%s.weight" % n: weights.normal(n, (64, 128)).astype("f4") for n in names}, "f32")
        for kept, found in (((), set()), (("down",), set()), (("q", "k", "v"), set()), (("v",), {"q", "k"}),
                            (("q", "k", "gate"), {"v", "up"})):
            r = self.vc("quantize", "--int8", *SMALL, *(x for k in kept for x in ("--exclude", "*.%s_proj.*" % k)),
                        "--force", self.path("m"), "-o", self.path("q"))
            self.assertEqual("vLLM joins the two" in r.out.decode(), bool(found), r.out)
            r = self.vc("verify", "--json", self.path("q")).json()
            self.assertEqual({(f["severity"], f["id"], f["tensor"]) for f in r["findings"]},
                             {("warning", "joined", "l.%s.%s_proj.weight" % ("mlp" if n in ("gate", "up") else "attn", n))
                              for n in found}, kept)


# ---- the programs themselves ----------------------------------------------------------------------------------------
def quantization_config(strategy="channel", group=None):
    return {"quant_method": "compressed-tensors", "version": "0.15.0", "format": "pack-quantized",
            "quantization_status": "compressed", "config_groups": {"group_0": {
                "targets": ["Linear"], "format": "pack-quantized",
                "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": strategy, "group_size": group,
                            "dynamic": False}, "input_activations": None, "output_activations": None}},
            "ignore": ["lm_head"], "kv_cache_scheme": None}


class CompressedTensors(Judge):
    """The package's own decompressor gives the values that dequantize gives."""

    def test_decompress(self):
        if missing("torch", "compressed_tensors"):
            self.skipTest("torch and compressed_tensors are needed")
        torch = import_torch()
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationScheme
        compressor = BaseCompressor.get_value_from_registry("pack-quantized")
        types = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32,
                 "I64": torch.int64}
        for dtype, group in (("f32", 0), ("f16", 0), ("bf16", 0), ("bf16", 32)):
            arrays = {n: a for n, a in model(dtype, True).items() if not group or a.shape[1] % group == 0}
            arrays.pop("wide.weight", None)
            st_arrays(self.path("in.safetensors"), arrays, dtype)
            self.vc("quantize", "--int8", "--layout", "compressed-tensors", *SMALL, "--granularity",
                    "group:%d" % group if group else "channel", "--force", self.path("in.safetensors"), "-o",
                    self.path("q.safetensors"))
            tensors, _ = st_read(self.path("q.safetensors"))
            scheme = QuantizationScheme(**quantization_config("group" if group else "channel", group or None)[
                "config_groups"]["group_0"])
            for n, a in arrays.items():
                state = {}
                for tail in ("_packed", "_scale", "_shape"):
                    t, shape, data = tensors[n + tail]
                    state["weight" + tail] = torch.frombuffer(bytearray(data), dtype=types[t]).reshape(shape)
                if hasattr(compressor, "decompress_weight"):  # up to 0.9
                    got = compressor().decompress_weight(compressed_data=state, quantization_args=scheme.weights)
                else:
                    got = compressor.decompress(state, scheme)["weight"]
                q, _, used, _ = codes_of(a, dtype, group)
                exact = d.int8_value(q, used, None, "group" if group else "channel", group)
                self.assertEqual(tuple(got.shape), a.shape)
                want = torch.from_numpy(exact.copy()).to(got.dtype)
                self.assertTrue(torch.equal(got, want), (n, dtype, group))


class Families(Judge):
    """What arch/arch_loads.inc has of families, by the names that are written. tests/judge/loads.py asks transformers 5 itself."""

    def quantize(self, config, shapes, *how, status=0):
        """(config.json, report) of a folder with these weights; or what was said."""
        os.makedirs(self.path("f"), exist_ok=True)
        with open(self.path("f/config.json"), "w") as f:
            json.dump(config, f)
        st_arrays(self.path("f/model.safetensors"), weights.model("f32", {n + ".weight": s for n, s in shapes.items()}), "f32")
        if status:
            return self.refuse(status, "quantize", *how, "--force", self.path("f"), "-o", self.path("q"))
        report = json.loads(self.vc("quantize", *how, "--json", "--force", self.path("f"), "-o", self.path("q")).out)
        with open(self.path("q/config.json")) as f:
            return json.load(f)["quantization_config"], report

    def test_renamed(self):
        """A kept layer is listed under its name in memory, too."""
        for kind, kept, other, memory in (("lfm3", "model.layers.0.self_attn.gate_proj", "model.layers.0.self_attn.q_proj", "g_proj"),
                                          ("axk2", "model.layers.0.input_layernorm.W_down", "model.layers.0.self_attn.o_proj", "fc1"),
                                          ("timesfm2_5", "model.layers.0.ff.ff1", "model.layers.0.ff.ff0", "fc2")):
            said, report = self.quantize({"model_type": kind}, {kept: (64, 64), other: (64, 64)}, "--int8", *SMALL, "--exclude", kept + ".*")
            self.assertIn(kept, said["ignore"])
            self.assertTrue(any(w.startswith("re:") and memory in w for w in said["ignore"]), (kind, said["ignore"]))

    def test_first_values(self):
        """Classes that read weights as they are loaded: as floats."""
        for kind in ("mgp-str", "chinese_clip_vision_model", "timesformer", "bridgetower", "fastspeech2_conformer", "vjepa2", "align", "colpali", "clvp"):
            _, report = self.quantize({"model_type": kind}, {"a.fc1": (64, 64)}, "--int8", *SMALL)
            self.assertIn("dequantize=True", report["output"]["layout"]["needs"], kind)

    def test_tied(self):
        """A head that no file has is on the list; several layers with one weight stay as they are."""
        for kind, head in (("canary", "proj_out"), ("ultrabert", "head.decoder"), ("granite_speech5_ctc", "ctc_head"), ("bark", "lm_heads")):
            said, _ = self.quantize({"model_type": kind}, {"a.fc1": (64, 64)}, "--int8", *SMALL)
            self.assertTrue(any(head in w for w in said["ignore"]), (kind, said["ignore"]))
        for kind, head in (("cohere_asr", "log_softmax.mlp.layer0"), ("ultrabert", "cls")):  # where it is not tied, under its name in the file
            said, report = self.quantize({"model_type": kind}, {"a.fc1": (64, 64), head: (64, 64)}, "--int8", *SMALL)
            self.assertIn(head, said["ignore"])
        said, _ = self.quantize({"model_type": "granite_speech5_ctc"}, {"a.fc1": (64, 64), "encoder.out": (64, 64)}, "--int8", *SMALL)
        self.assertIn("encoder.out", said["ignore"])
        for kind, name in (("d_fine", "model.decoder.class_embed.0"), ("granite_speech5_ctc", "encoder.out")):
            for how in (["--int8", "--layout", "bitsandbytes"], ["--nf4"]):
                said, _ = self.quantize({"model_type": kind}, {"a.fc1": (64, 64), name: (64, 64)}, *how, *SMALL)
                self.assertTrue(any(name in w.replace("\\", "") for w in said["llm_int8_skip_modules"]), said)

    def test_head_of_another(self):
        """A head on bitsandbytes' list, which takes ends of names, does not stand for codes."""
        said, _ = self.quantize({"model_type": "higgs_audio_v2"}, {"a.fc1": (64, 64), "audio_lm_head": (64, 64)}, "--nf4", "--exclude", "a.*", *SMALL)
        self.assertIn("^lm_head$", said["llm_int8_skip_modules"])

    def test_refused(self):
        """Layers that the loader cuts or joins, in every layout that it loads."""
        for kind in ("sarvam_moe", "lara_mini", "inkling_mm_model", "radio"):
            for how in (["--int8"], ["--nf4"], ["--fp8"], ["--int8", "--layout", "w8a8"]):
                said = self.quantize({"model_type": kind}, {"a.fc1": (64, 64)}, *how, *SMALL, status=3)
                self.assertIn("cuts layers", said)
                self.assertIn("plain can be made", said)
        self.assertIn("padding of the output", self.quantize({"model_type": "inkling2_text"}, {"a.fc1": (64, 64)}, "--fp8", *SMALL, status=3))
        said = self.quantize({"model_type": "d_fine"}, {"a.fc1": (64, 64)}, "--fp8", *SMALL, status=3)
        self.assertIn("buffers called weight", said)

    def test_not_asked(self):
        """A type that no table has: as most are, with a note."""
        _, report = self.quantize({"model_type": "nobody_knows"}, {"a.fc1": (64, 64)}, "--int8", *SMALL)
        self.assertIn("none that was tried", json.dumps(report))
        _, report = self.quantize({"model_type": "llama"}, {"a.fc1": (64, 64)}, "--int8", *SMALL)
        self.assertNotIn("none that was tried", json.dumps(report))

    def test_diffusers(self):
        """Its list has names of modules; one that stands for codes as well is refused."""
        config = {"_class_name": "FluxTransformer2DModel"}
        shapes = {"x_embedder": (64, 64), "blocks.0.to_q": (64, 64), "blocks.0.proj_out": (64, 64), "proj_out": (64, 64)}
        how = ["--nf4", "--layout", "bitsandbytes", *SMALL]
        said, report = self.quantize(config, shapes, *how)
        self.assertEqual(said["llm_int8_skip_modules"], ["x_embedder"])
        self.assertEqual(report["output"]["layout"]["loader"], "diffusers")
        said, _ = self.quantize(config, shapes, *how, "--exclude", "*proj_out.weight")
        self.assertEqual(said["llm_int8_skip_modules"], ["x_embedder", "blocks.0.proj_out", "proj_out"])
        self.assertIn("would take 'proj_out' in its list for blocks.0.proj_out.weight", self.quantize(config, shapes, *how, "--exclude", "proj_out.*", status=3))
        self.assertIn("bitsandbytes, where that layout is asked for", self.quantize(config, shapes, "--int8", *SMALL, status=3))


class Transformers(Judge):
    """A small Llama in bf16, quantized, loaded and run: its answers are nearly those of the original."""

    def setUp(self):
        super().setUp()
        if missing("torch", "transformers", "compressed_tensors"):
            self.skipTest("torch, transformers and compressed_tensors are needed")
        torch = import_torch()
        import transformers
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=256, hidden_size=64, intermediate_size=172, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False)
        transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(self.path("model"))
        self.tokens = torch.arange(48).reshape(1, 48) * 5 % 256
        np.savez(self.path("rows.npz"), input_ids=self.tokens.reshape(16, 3).numpy())
        self.want = self.logits("model")

    def logits(self, folder):
        import torch
        import transformers
        dtype = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
        net = transformers.AutoModelForCausalLM.from_pretrained(self.path(folder), **{dtype: torch.bfloat16})
        with torch.no_grad():
            return net.eval()(self.tokens).logits.float().numpy()

    def check(self, folder, most):
        got = self.logits(folder)
        self.assertTrue(np.isfinite(got).all())
        error = float(np.abs(got - self.want).max() / np.abs(self.want).max())
        print("%s: logits differ by %.4f of the largest" % (folder, error))
        self.assertTrue(0 < error < most, error)

    def check_rounded(self, name):
        """logits and the loader compute what torch computes with codes and back in front of each quantized layer. A last bit that differs makes
        another code here and there, so half of the rows of three tokens are compared (the largest of a row is at a tie, -127.5)."""
        import torch
        import transformers
        tensors, _ = st_read(self.path(name + "/model.safetensors"))
        nets = [transformers.AutoModelForCausalLM.from_pretrained(self.path("model")).float().eval() for _ in range(2)]

        def value(tensor):
            dtype, shape, data = tensors[tensor]
            x = np.frombuffer(data, TYPES[dtype]).reshape(shape)
            x = d.e4m3_value(x.view("u1")) if dtype == "F8_E4M3" else d.bf16_to_f32(x) if dtype == "BF16" else x
            return torch.tensor(x.astype(F4))

        def rounding(module, most, fixed):
            def forward(x):
                s = x.abs().amax(-1, keepdim=True) / most if fixed is None else fixed
                q = x / s
                if most == 448:
                    step = torch.exp2(torch.floor(torch.log2(q.abs().clamp(min=2.0 ** -6))) - 3)
                    q = torch.round(q.clamp(-448, 448) / step) * step
                else:
                    q = torch.clamp(torch.round(q), -128, 127)
                return torch.nn.functional.linear(q * s, module.weight)
            return forward
        for n, module in nets[0].named_modules():
            if n + ".weight_scale" in tensors:
                floats = tensors[n + ".weight"][0] == "F8_E4M3"
                module.weight.data = dict(nets[1].named_modules())[n].weight.data = value(n + ".weight") * value(n + ".weight_scale")
                module.forward = rounding(module, 448 if floats else 127.5, value(n + ".input_scale") if n + ".input_scale" in tensors else None)
        with torch.no_grad():
            want, plain = (net(self.tokens.reshape(16, 3)).logits.numpy() for net in nets)
        self.assertNotIn(b"round the inputs", self.vc("evaluate", "--data", self.path("rows.npz"), self.path(name)).out)
        self.vc("logits", "--data", self.path("rows.npz"), self.path(name), "--force", "-o", self.path("l.npz"))
        got = [self.load(self.path("l.npz"))["logits"].reshape(want.shape)]
        if int(transformers.__version__.split(".")[0]) >= 5:
            loaded = transformers.AutoModelForCausalLM.from_pretrained(self.path(name), dtype=torch.float32).eval()
            with torch.no_grad():
                got.append(loaded(self.tokens.reshape(16, 3)).logits.numpy())
        far = np.abs(plain - want).max((1, 2)).min()
        near = [np.sort(np.abs(x - want).max((1, 2))) for x in got]
        print("%s: the worst logit of 8 of 16 rows is off by %s; of the best row by %.2g without rounding" % (name, " and ".join("%.2g" % x[7] for x in near), far))
        self.assertLess(max(x[7] for x in near), 0.01 * far)

    def test_dynamic_fp8(self):
        """Inputs are rounded row by row; those of blocks of 128, which no row here has, are not, and a note says so."""
        self.vc("quantize", "--fp8", *SMALL, self.path("model"), "-o", self.path("f"))
        self.check_rounded("f")
        with open(self.path("f/config.json")) as f:
            config = json.load(f)
        config["quantization_config"]["config_groups"]["group_0"]["input_activations"].update(strategy="group", group_size=128)
        with open(self.path("f/config.json"), "w") as f:
            json.dump(config, f)
        self.assertIn(b"round the inputs", self.vc("evaluate", "--data", self.path("rows.npz"), self.path("f")).out)

    def test_file(self):
        """A single file, its config.json written by hand."""
        for strategy, group in (("channel", None), ("group", 4)):
            shutil.rmtree(self.path("q"), ignore_errors=True)
            os.mkdir(self.path("q"))
            self.vc("quantize", "--int8", "--layout", "compressed-tensors", *SMALL, "--granularity",
                    "group:%d" % group if group else "channel", self.path("model/model.safetensors"), "-o",
                    self.path("q/model.safetensors"))
            with open(self.path("model/config.json")) as f:
                config = json.load(f)
            config["quantization_config"] = quantization_config(strategy, group)
            with open(self.path("q/config.json"), "w") as f:
                json.dump(config, f)
            self.check("q", 0.03)

    def test_folder(self):
        """A folder: its config.json is told, and told again when the weights are floats as before."""
        with open(self.path("model/config.json")) as f:
            config = json.load(f)
        for args, strategy, group in (([], "channel", None), (["--granularity", "group:4"], "group", 4)):
            self.vc("quantize", "--int8", *args, *SMALL, "--force", self.path("model"), "-o", self.path("q"))
            with open(self.path("q/config.json")) as f:
                told = json.load(f)
            self.assertEqual(told.pop("quantization_config"), quantization_config(strategy, group))
            self.assertEqual((told, list(told)), (config, list(config)))
            self.check("q", 0.03)
        self.vc("dequantize", "--source-dtype", self.path("q"), "-o", self.path("back"))
        with open(self.path("back/config.json")) as f:
            self.assertEqual(json.load(f), config)
        self.check("back", 0.03)

    def test_static_inputs(self):
        """One scale for the inputs of each layer: the largest magnitude of the statistics."""
        np.savez(self.path("ids.npz"), input_ids=self.tokens.numpy())
        self.vc("calibrate", "--data", self.path("ids.npz"), self.path("model"), "-o", self.path("st.npz"))
        seen = self.load(self.path("st.npz"))
        for name, how, most, kind in (("i", ("--int8", "--layout", "w8a8"), 127.5, "int"), ("f", ("--fp8",), 448, "float")):
            self.vc("quantize", *how, "--activations", "static", "--calibration", self.path("st.npz"), *SMALL, self.path("model"), "-o", self.path(name))
            tensors, _ = st_read(self.path(name + "/model.safetensors"))
            with open(self.path(name + "/config.json")) as f:
                group = json.load(f)["quantization_config"]["config_groups"]["group_0"]
            self.assertEqual(group["input_activations"], {"num_bits": 8, "type": kind, "symmetric": True, "strategy": "tensor", "dynamic": False})
            layers = [n[:-len(".weight_scale")] for n in tensors if n.endswith(".weight_scale")]
            self.assertTrue(layers)
            scales = {}
            for n in layers:
                x = max(np.abs(seen[n + ".weight.in_min"]).max(), np.abs(seen[n + ".weight.in_max"]).max())
                scales[n] = np.frombuffer(tensors[n + ".input_scale"][2], "<f4")
                self.assertEqual((scales[n].shape, scales[n][0]), ((1,), np.float32(x) / np.float32(most)), n)
            self.vc("verify", self.path(name))
            self.check_rounded(name)
        why = self.refuse(3, "quantize", "--int8", "--layout", "w8a8", "--activations", "static", "--calibration", self.path("st.npz"), "--ranges",
                          "error", self.path("model"), "-o", self.path("n"))
        self.assertIn("for ONNX", why)
        why = self.refuse(3, "run", "--pass", "prune --structured 0.5", "--pass",
                          "quantize --int8 --layout w8a8 --activations static --calibration " + self.path("st.npz"), self.path("model"), "-o", self.path("n"))
        self.assertIn("columns", why)

    def test_smooth(self):
        """Outliers among the inputs go into the weights: NumPy's scales, the same answers to the bit, and codes as if there were none."""
        import torch
        import transformers
        net = transformers.AutoModelForCausalLM.from_pretrained(self.path("model")).to(torch.bfloat16)
        for block in net.model.layers:
            for norm, readers in ((block.input_layernorm, ("q_proj", "k_proj", "v_proj")), (block.post_attention_layernorm, ("gate_proj", "up_proj"))):
                norm.weight.data[3:60:19] *= 32
                for name, module in block.named_modules():
                    if name.endswith(readers):
                        module.weight.data[:, 3:60:19] /= 32
        net.save_pretrained(self.path("out"))
        np.savez(self.path("ids.npz"), input_ids=self.tokens.numpy())
        how = ("--calibration", self.path("st.npz"), *SMALL, self.path("out"), "-f", "-o")
        self.vc("calibrate", "--data", self.path("ids.npz"), self.path("out"), "-o", self.path("st.npz"))
        int8 = ("quantize", "--int8", "--layout", "w8a8")
        self.vc(*int8, "--smooth", 0.5, "--exclude", "*", *how, self.path("floats"))
        self.same_bits(self.logits("floats"), self.logits("out"), "smoothed floats")
        seen = self.load(self.path("st.npz"))

        def weights(folder):
            tensors, _ = st_read(self.path(folder + "/model.safetensors"))
            return {n: (np.frombuffer(d, "<u2").astype("u4") << 16).view("f4").reshape(shape) for n, (_, shape, d) in tensors.items()}
        before, after, scales = weights("out"), weights("floats"), {}
        for at in ("model.layers.0.", "model.layers.1."):
            for maker, readers in (("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
                                   ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")), ("mlp.up_proj", ("mlp.down_proj",))):
                made, names = at + maker + ".weight", [at + r + ".weight" for r in readers]
                x = np.abs([seen[n + tail] for n in names for tail in (".in_min", ".in_max")]).max(0).astype("f8")
                w = np.max([np.abs(before[n]).max(0) for n in names], 0).astype("f8")
                s = np.exp2(np.rint(0.5 * np.log2(x) - 0.5 * np.log2(w)))
                want = before[made] / s if before[made].ndim == 1 else before[made] * scales[made] / s[:, None]
                self.assertTrue((after[made] == want).all(), made)
                for n in names:
                    scales[n] = s
                    if "up_proj" not in n:
                        self.assertTrue((after[n] == before[n] * s).all(), n)
            self.assertGreater(s.max(), 1)
        self.vc(*int8, "--smooth", 0.5, "--activations", "static", *how, self.path("static"))
        tensors, _ = st_read(self.path("static/model.safetensors"))
        for n, s in scales.items():
            x = np.abs([seen[n + ".in_min"], seen[n + ".in_max"]]).max(0) / s.astype("f4")
            self.assertEqual(np.frombuffer(tensors[n[:-6] + "input_scale"][2], "<f4")[0], x.max() / np.float32(127.5), n)
        self.assertIn("write a file in between", self.refuse(3, "run", "--pass", "prune --sparsity 0.5", "--pass",
                      "%s --smooth 0.5 --calibration %s" % (" ".join(int8), self.path("st.npz")), self.path("out"), "-o", self.path("n")))
        for wrong in (("--int8", "--smooth", 1.5), ("--int4", "--smooth", 0.5)):
            self.refuse(2, "quantize", *wrong, *how, self.path("n"))
        self.assertIn("layout w8a8", self.refuse(3, "quantize", "--int8", "--smooth", 0.5, *how, self.path("n")))
        bert = transformers.BertConfig(vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
        transformers.BertModel(bert).save_pretrained(self.path("bert"))
        self.vc("calibrate", "--data", self.path("ids.npz"), self.path("bert"), "-f", "-o", self.path("st.npz"))
        self.assertIn("embeddings.LayerNorm", self.refuse(3, *int8, "--smooth", 0.5, "--calibration", self.path("st.npz"), self.path("bert"), "-o", self.path("n")))
        if int(transformers.__version__.split(".")[0]) >= 5:
            self.vc("calibrate", "--data", self.path("ids.npz"), self.path("out"), "-f", "-o", self.path("st.npz"))
            self.vc(*int8, *SMALL, self.path("out"), "-o", self.path("rough"))
            self.vc(*int8, "--smooth", 0.5, *how, self.path("smooth"))
            self.vc(*int8, *SMALL, self.path("model"), "-o", self.path("plain"))
            rough, smooth, plain = (np.square(self.logits(name) - self.want).mean() for name in ("rough", "smooth", "plain"))
            self.assertLess(smooth, 1.3 * plain)
            self.assertGreater(rough, 2 * plain)

    def test_w8a8(self):
        """Inputs are rounded, too, row by row: bit for bit what the definition computes."""
        import torch
        import transformers
        self.vc("quantize", "--int8", "--layout", "w8a8", *SMALL, self.path("model"), "-o", self.path("q"))
        with open(self.path("q/config.json")) as f:
            group = json.load(f)["quantization_config"]["config_groups"]["group_0"]
        self.assertEqual((group["format"], group["weights"]["strategy"]), ("int-quantized", "channel"))
        self.assertEqual(group["input_activations"], {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True})
        self.check_rounded("q")
        if int(transformers.__version__.split(".")[0]) < 5:
            self.skipTest("transformers 5 is needed to run it")
        net = transformers.AutoModelForCausalLM.from_pretrained(self.path("model"), dtype=torch.bfloat16)
        tensors, _ = st_read(self.path("q/model.safetensors"))

        def read(name, dtype):
            return torch.frombuffer(bytearray(tensors[name][2]), dtype=dtype).reshape(tensors[name][1])

        def rounding(module):
            def forward(x):
                s = x.abs().amax(-1, keepdim=True) / 127.5
                return torch.nn.functional.linear(torch.clamp(torch.round(x / s), -128, 127) * s, module.weight)
            return forward
        for name, module in net.named_modules():
            if name + ".weight_scale" in tensors:
                module.weight.data = read(name + ".weight", torch.int8).to(torch.bfloat16) * read(name + ".weight_scale", torch.bfloat16)
                module.forward = rounding(module)
        with torch.no_grad():
            self.want = net.eval()(self.tokens).logits.float().numpy()
        self.same_bits(self.logits("q"), self.want, "w8a8")

    def test_bitsandbytes(self):
        self.vc("quantize", "--int8", "--layout", "bitsandbytes", *SMALL, self.path("model"), "-o", self.path("b"))
        with open(self.path("b/config.json")) as f:
            told = json.load(f)["quantization_config"]
        import transformers
        settings = transformers.BitsAndBytesConfig.from_dict(dict(told))
        self.assertTrue(settings.load_in_8bit)
        self.assertIsNone(settings.llm_int8_skip_modules)  # as the package has it
        if missing("bitsandbytes"):
            self.skipTest("bitsandbytes is needed to run it")
        self.check("b", 0.03)
        # What the package makes of the original itself has the same names and types, and nearly all codes are equal.
        import torch
        net = transformers.AutoModelForCausalLM.from_pretrained(
            self.path("model"), dtype=torch.bfloat16,
            quantization_config=transformers.BitsAndBytesConfig(load_in_8bit=True))
        with torch.no_grad():
            net.eval()(self.tokens)
        net.save_pretrained(self.path("own"))
        ours, _ = st_read(self.path("b/model.safetensors"))
        own, _ = st_read(self.path("own/model.safetensors"))
        self.assertEqual({n: t[:2] for n, t in ours.items()}, {n: t[:2] for n, t in own.items()})
        for n, (dtype, _, data) in ours.items():
            mine, theirs = (np.frombuffer(x, "i1" if dtype == "I8" else "u1").astype(int) for x in (data, own[n][2]))
            different = mine != theirs
            self.assertLess(different.mean(), 0.01 if dtype == "I8" else 1e-9, n)
            self.assertTrue((np.abs(mine - theirs) <= 1).all(), n)


if __name__ == "__main__":
    main()
