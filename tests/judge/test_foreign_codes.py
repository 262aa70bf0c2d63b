"""test_foreign_codes.py - codes of other programs: named by every command, refused by dequantize; ComfyUI's decoded.

The layouts are those of the programs' own sources (hqq, quanto, AQLM, MLX, ...), as small as they get. NumPy decodes
what is decoded: float8_e4m3fn and int8_tensorwise of ComfyUI, of which no mark may be left.
"""
import json
import os

import judge_support as support
from judge_support import Judge, np, run
from test_damaged_codes import CONFIG, base_tensors, load, save, tensor, values

M = "model.layers.0.mlp.up_proj."


def e4m3():
    c = np.arange(256)
    mag = np.where(c & 120, (8 + (c & 7)) * 2.0 ** ((c >> 3 & 15) - 10.0), (c & 7) / 512)
    return (np.where(c & 128, -1, 1) * mag).astype("f4")


def bytes_of(shape, kind="U8", high=100):
    a = np.random.default_rng(1).integers(0, high, shape).astype("u1")
    return [kind, list(shape), a.tobytes()]


LAYOUTS = {
    "AQLM": ("aqlm", {"codes": bytes_of((32, 16, 1), "I8"), "codebooks": tensor(np.ones((1, 256, 1, 8)), "F16"),
                      "scales": tensor(np.ones((32, 1, 1, 1)), "F16")}),
    "BitNet": ("bitnet", {"weight": bytes_of((64, 128)), "weight_scale": tensor(np.ones(1), "BF16")}),
    "EXL3": ("exl3", {"trellis": tensor(np.zeros((8, 16, 64)), "I32"), "suh": tensor(np.ones(128), "F16"),
                      "svh": tensor(np.ones(256), "F16")}),
    "VPTQ": ("vptq", {"indices": tensor(np.zeros((1, 8, 128)), "I32"), "centroids.weight": tensor(np.ones((1, 64)))}),
}


class ForeignCodes(Judge):
    def folder(self, method, parts):
        path = self.path("m")
        if not os.path.isdir(path):
            os.mkdir(path)
        t = base_tensors()
        del t[M + "weight"]
        t.update({M + k: v for k, v in parts.items()})
        save(path + "/model.safetensors", {"format": "pt"}, t)
        config = dict(CONFIG, quantization_config={"quant_method": method}) if method else CONFIG
        support.write_bytes(path + "/config.json", json.dumps(config).encode())
        return path

    def test_named(self):
        for name, (method, parts) in LAYOUTS.items():
            with self.subTest(name):
                path = self.folder(method, parts)
                self.assertIn(name, self.refuse(3, "dequantize", path, "-o", self.path("o")))
                self.assertFalse(os.path.exists(self.path("o")))
                for command in (["inspect", path], ["verify", "--data", path],
                                ["prune", "--sparsity", "0.5", "--dry-run", path, "-o", self.path("o")]):
                    done = run(*command)
                    self.assertEqual(done.code, 0, done.err)
                    self.assertIn(name, done.out.decode())
                said = self.refuse(3, "quantize", "--gguf", "Q8_0", "--no-vocab", path, "-o", self.path("o.gguf"))
                self.assertNotIn("dequantize", said)

    def comfy(self, meta, parts, decoded=True):
        path, out = self.path("c.safetensors"), self.path("o.safetensors")
        save(path, meta, dict(parts, **{"other.bias": tensor(np.ones(4))}))
        if not decoded:
            return self.refuse(3, "dequantize", path, "-o", out)
        self.vc("verify", "--data", path)
        self.vc("dequantize", "-q", "--force", path, "-o", out)
        meta, got = load(out)
        self.assertEqual(sorted(got), ["b.q.weight", "other.bias"])
        self.assertEqual(meta, {"format": "pt"})
        return values(got["b.q.weight"])

    def test_comfy(self):
        codes = bytes_of((64, 96), "F8_E4M3", 120)
        wanted = e4m3()[np.frombuffer(codes[2], "u1").reshape(64, 96)] * np.float32(0.5)
        mark = lambda text: ["U8", [len(text)], text.encode()]
        fp8 = '{"format": "float8_e4m3fn"}'
        layers = {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": {"b.q": json.loads(fp8)}}),
                  "format": "pt"}
        for meta, parts in (
                (None, {"b.q.scale_weight": tensor([0.5]), "b.q.scale_input": tensor([1.0]),
                        "scaled_fp8": ["F8_E4M3", [2], b"\0\0"]}),
                (None, {"b.q.weight_scale": tensor(0.5), "b.q.input_scale": tensor(1.0), "b.q.comfy_quant": mark(fp8)}),
                (layers, {"b.q.weight_scale": tensor(0.5)})):
            got = self.comfy(meta, dict({"b.q.weight": codes}, **parts))
            self.assertEqual(got.tobytes(), wanted.tobytes())
        int8 = bytes_of((64, 96), "I8", 200)
        scale = np.linspace(0.1, 1, 64, dtype="f4").reshape(64, 1)
        got = self.comfy(None, {"b.q.weight": int8, "b.q.weight_scale": tensor(scale),
                                "b.q.comfy_quant": mark('{"format": "int8_tensorwise"}')})
        self.assertEqual(got.tobytes(), (values(int8).astype("f4") * scale).tobytes())

    def test_comfy_refused(self):
        mark = lambda text: ["U8", [len(text)], text.encode()]
        for kind, weight, scale in (("svdquant_w4a4", bytes_of((128, 32)), bytes_of((128, 4), "F8_E4M3")),
                                    ("float8_e5m2", bytes_of((128, 64), "F8_E4M3"), tensor(0.5))):
            said = self.comfy(None, {"b.q.weight": weight, "b.q.weight_scale": scale, "b.q.weight_scale_2": tensor(0.5),
                                     "b.q.comfy_quant": mark('{"format": "%s"}' % kind)}, False)
            self.assertIn("ComfyUI", said)

    def test_plain_fp8(self):
        """Floats of 8 bits without scales are what they are; in a model of codes, a weight may have lost its scale."""
        path, out = self.path("p.safetensors"), self.path("o.safetensors")
        code = np.arange(256, dtype="u1").repeat(4).reshape(32, 32)
        e5m2 = (code.astype("<u2") << 8).view("<f2").astype("f4")
        nan = e4m3()
        nan[[127, 255]] = np.nan
        for kind, wanted in (("F8_E4M3", nan[code]), ("F8_E5M2", e5m2)):
            parts = {"b.q.weight": [kind, [32, 32], code.tobytes()], "b.norm.scale": [kind, [32], code[:1].tobytes()]}
            save(path, None, parts)
            self.vc("dequantize", "-q", "--force", path, "-o", out)
            got = load(out)[1]
            np.testing.assert_array_equal(values(got["b.q.weight"]), wanted)
            np.testing.assert_array_equal(values(got["b.norm.scale"]), wanted[0])
            save(path, None, dict(parts, **{"b.q.weight_scale": tensor(np.ones(3))}))
            said = self.refuse(3, "dequantize", path, "-o", out, "--force")
            self.assertIn("b.q.weight", said)
            self.assertEqual(run("verify", "--data", path).code, 1)

    def test_plain_fp8_beside_our_codes(self):
        """quantize leaves plain floats of 8 bits as they are, and all commands read its output."""
        path, out, back = self.path("p.safetensors"), self.path("o.safetensors"), self.path("b.safetensors")
        plain = bytes_of((32, 128), "F8_E4M3", 120)
        weights = np.random.default_rng(4).standard_normal((64, 128)).astype("f4")
        save(path, None, {"a.q.weight": tensor(weights), "b.q.weight": plain})
        for words in (["--int8"], ["--fp8"], ["--nf4", "--layout", "bitsandbytes"], ["--int8", "--layout", "compressed-tensors"],
                      ["--fp8", "--layout", "comfyui"], ["--scheme", "mxfp8", "--layout", "comfyui"]):  # each layer of codes has its mark
            with self.subTest(words):
                self.vc("quantize", *words, "-q", "--force", path, "-o", out)
                self.vc("verify", "--data", out)
                self.vc("dequantize", "-q", "--force", out, "-o", back)
                np.testing.assert_array_equal(values(load(back)[1]["b.q.weight"]), e4m3()[values(plain).view("u1")])
        # Scales alone tell these codes: refused, or made codes, too.
        words = ["--fp8", "--layout", "compressed-tensors", "--min-elements", "1", path, "-o", out, "--force"]
        self.assertIn("b.q.weight: stays f8_e4m3", self.refuse(3, "quantize", *words))
        self.vc("quantize", "-q", "--requantize", *words)
        self.vc("verify", "--data", out)
        self.assertIn("b.q.weight_scale", load(out)[1])
        # Codes of floats that no manifest of ours lists: one of them may have lost its scale.
        save(path, None, {"a.q.weight": plain, "a.q.weight_scale": tensor(0.5), "b.q.weight": plain})
        self.assertIn("b.q.weight", self.refuse(3, "dequantize", path, "-o", back, "--force"))

    def test_made_of_plain_fp8(self):
        """What is made of floats of 8 bits, or of GGUF's blocks, notes f32 as what it was made from: it is read again, with the values of f32."""
        path, blocks, plain = self.path("p.safetensors"), self.path("p.gguf"), bytes_of((64, 128), "F8_E5M2", 120)
        save(path, None, {"a.q.weight": plain})
        decoded = (np.frombuffer(plain[2], "u1").astype("<u2") << 8).view("<f2").astype("f4").reshape(64, 128)
        np.savez(self.path("p.npz"), **{"a.q.weight": decoded})
        self.vc("quantize", "-q", "--gguf", "Q8_0", self.path("p.npz"), "-o", blocks)
        self.vc("dequantize", "-q", blocks, "-o", self.path("d.npz"))
        for source, same in ((path, self.path("p.npz")), (blocks, self.path("d.npz"))):
            for words, end in ((["--int8"], "safetensors"), (["--fp8"], "safetensors"), (["--int4"], "npz"), (["--bf16"], "npz"), (["--bf16"], "safetensors")):
                with self.subTest(source=source, words=words, end=end):
                    out, of_floats = self.path("o." + end), self.path("f." + end)
                    self.vc("quantize", "-q", "--force", "--requantize", *words, source, "-o", out)
                    self.vc("verify", "--data", out)
                    self.vc("quantize", "-q", "--force", *words, same, "-o", of_floats)
                    self.vc("diff", out, of_floats)

    def test_gguf_in_one_run(self):
        os.mkdir(self.path("m"))
        t = {k: v for k, v in base_tensors().items()}
        r = np.random.default_rng(7)
        for name, rows, cols in (("self_attn.q_proj", 128, 128), ("self_attn.k_proj", 128, 128),
                                 ("self_attn.v_proj", 128, 128), ("self_attn.o_proj", 128, 128),
                                 ("mlp.gate_proj", 256, 128), ("mlp.down_proj", 128, 256)):
            t["model.layers.0.%s.weight" % name] = tensor(r.standard_normal((rows, cols)) * 0.1)
        for name in ("input_layernorm", "post_attention_layernorm"):
            t["model.layers.0.%s.weight" % name] = tensor(np.ones(128))
        save(self.path("m/model.safetensors"), {"format": "pt"}, t)
        support.write_bytes(self.path("m/config.json"), json.dumps(CONFIG).encode())
        for k, words in enumerate((["--fp8", "--layout", "compressed-tensors"], ["--nf4", "--layout", "bitsandbytes"],
                                   ["--nf4", "--double-quant", "--layout", "bitsandbytes"],
                                   ["--int8", "--layout", "bitsandbytes"],
                                   ["--int3", "--granularity", "group:32", "--layout", "compressed-tensors"])):
            q, f, two, one = (self.path("%s%d" % (n, k)) for n in ("q", "f", "two.gguf", "one.gguf"))
            self.vc("quantize", *words, "-q", self.path("m"), "-o", q)
            self.vc("dequantize", "-q", q, "-o", f)
            self.vc("quantize", "--gguf", "Q8_0", "--no-vocab", "-q", f, "-o", two + ".gguf")
            self.vc("run", "--pass", "dequantize", "--pass", "quantize --gguf Q8_0", "--no-vocab", "-q", q, "-o",
                    one + ".gguf")
            self.assertEqual(support.read_bytes(one + ".gguf"), support.read_bytes(two + ".gguf"), words)
        self.merged_in_one_run(r, self.path("q4"))

    def merged_in_one_run(self, r, codes):
        """Adapters before the GGUF model, whose q_proj has its rows in another order; with DoRA, and of a folder of codes."""
        for dora, first in ((False, []), (True, []), (False, ["dequantize"])):
            adapter, base = self.path("a%d%d" % (dora, len(first))), codes if first else self.path("m")
            os.mkdir(adapter)
            parts = {}
            for name, rows, cols in (("self_attn.q_proj", 128, 128), ("mlp.down_proj", 128, 256)):
                stem = "base_model.model.model.layers.0.%s.lora_" % name
                parts.update({stem + "A.weight": tensor(r.standard_normal((4, cols))), stem + "B.weight": tensor(r.standard_normal((rows, 4)) * 0.1)})
                if dora:
                    parts[stem + "magnitude_vector"] = tensor(r.uniform(1, 2, rows))
            save(adapter + "/adapter_model.safetensors", None, parts)
            support.write_bytes(adapter + "/adapter_config.json", json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_dora": dora}).encode())
            merge = "merge --lora '%s'" % adapter
            f, two, one = (self.path(n + os.path.basename(adapter)) for n in ("merged", "two.gguf", "one.gguf"))
            passes = [w for p in first + [merge] for w in ("--pass", p)]
            self.vc("run", *passes, "-q", base, "-o", f)
            self.vc("quantize", "--gguf", "Q4_K_M", "--no-vocab", "-q", f, "-o", two + ".gguf")
            self.vc("run", *passes, "--pass", "quantize --gguf Q4_K_M", "--no-vocab", "-q", base, "-o", one + ".gguf")
            self.assertEqual(support.read_bytes(one + ".gguf"), support.read_bytes(two + ".gguf"))
        self.vc("merge", "-q", "--no-vocab", "--lora", self.path("a00"), self.path("m"), "-o", self.path("mm.gguf"))
        self.assertIn("quantized", self.refuse(3, "merge", "--no-vocab", "--lora", self.path("a00"), codes, "-o", self.path("no.gguf")))


if __name__ == "__main__":
    support.main()
