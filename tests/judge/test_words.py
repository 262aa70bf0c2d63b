"""test_words.py - checkpoints of other quantizers are read as their own definition decodes them, bit for bit: GPTQ (both
formats of zero points), AWQ, zero points of compressed-tensors, fp8 in blocks. Their codes come unchanged into other
layouts, and what contradicts itself is refused.

The packers here are written from the formats' descriptions with NumPy.
"""
import json
import os
import shutil
import unittest

from judge_support import Judge, main, np
from test_safetensors import st_read, st_write

F4 = np.float32
N, K = 48, 96
NAMES = ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj")


def pack(codes, bits, axis):
    """Codes side by side along the axis, from the lowest bit of a 32-bit word on; the last word is filled with zeros."""
    c = np.moveaxis(codes.astype(np.uint32), axis, -1)
    per = 32 // bits
    c = np.pad(c, [(0, 0)] * (c.ndim - 1) + [(0, -c.shape[-1] % per)])
    c = c.reshape(c.shape[:-1] + (-1, per))
    words = np.zeros(c.shape[:-1], np.uint32)
    for i in range(per):
        words |= c[..., i] << np.uint32(bits * i)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32)


def pack_awq(codes):
    c = codes.astype(np.uint32).reshape(codes.shape[0], -1, 8)
    words = np.zeros(c.shape[:2], np.uint32)
    for i, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        words |= c[:, :, column] << np.uint32(4 * i)
    return words.view(np.int32)


def bf16(x):
    bits = np.ascontiguousarray(x, F4).view(np.uint32)
    bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    return bits.astype(np.uint16), (bits << 16).astype(np.uint32).view(F4)


def e4m3(codes):
    e, m = (codes >> 3 & 15).astype(int), (codes & 7).astype(F4)
    value = np.where(e == 0, np.ldexp(m / 8, -6), np.ldexp(1 + m / 8, e - 7)).astype(F4)
    return np.where(codes & 128, -value, value).astype(F4)


class Words(Judge):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(3)

    def folder(self, name, tensors, config):
        os.makedirs(self.path(name), exist_ok=True)
        norm = np.ones(K, np.float16)
        st_write(self.path(name + "/model.safetensors"),
                 [(n, {"int32": "I32", "float16": "F16", "float32": "F32", "uint8": "F8_E4M3", "uint16": "BF16",
                       "int64": "I64"}[a.dtype.name], a.shape, a.tobytes()) for n, a in tensors.items()] +
                 [("model.norm.weight", "F16", norm.shape, norm.tobytes())])
        with open(self.path(name + "/config.json"), "w") as f:
            json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "quantization_config": config}, f)

    def words(self, method, bits, group, symmetric, second=False, scale=np.float16, order=False):
        """A folder of two weights; returns what they stand for."""
        tensors, want = {}, {}
        n_groups = -(-K // group)
        for name in NAMES:
            q = self.random.integers(0, 2 ** bits, (K, N))
            z = np.full((n_groups, N), 2 ** (bits - 1))
            if not symmetric:
                z = self.random.integers(0 if second or method == "awq" else 1, 2 ** bits, (n_groups, N))
            s = (self.random.random((n_groups, N)) * 0.01 + 0.001).astype(scale)
            index = np.arange(K) // group
            if order:
                self.random.shuffle(index)
            want[name + ".weight"] = ((q - z[index]).astype(F4) * s[index].astype(F4)).T
            if method == "gptq":
                tensors[name + ".qweight"] = pack(q, bits, 0)
                tensors[name + ".qzeros"] = pack(z - (0 if second else 1), bits, 1)
                tensors[name + ".g_idx"] = index.astype(np.int32)
            else:
                tensors[name + ".qweight"] = pack_awq(q)
                tensors[name + ".qzeros"] = pack_awq(z)
            tensors[name + ".scales"] = s
        config = {"quant_method": method, "bits": bits, "group_size": group if group < K else -1}
        if method == "gptq":
            config.update(sym=symmetric, desc_act=order, checkpoint_format="gptq_v2" if second else "gptq")
        else:
            config.update(zero_point=True, version="gemm")
        self.folder("in", tensors, config)
        return want

    def check(self, path, want):
        self.vc("dequantize", "--force", "--f32", path, "-o", self.path("values.npz"))
        got = self.load(self.path("values.npz"))
        for name, values in want.items():
            self.same_bits(got[name], np.ascontiguousarray(values), name)

    def test_gptq_and_awq(self):
        for method, bits, group, symmetric, second, scale in (
                ("gptq", 4, 32, True, False, np.float16), ("gptq", 4, 32, False, False, np.float16),
                ("gptq", 4, 32, False, True, np.float32), ("gptq", 8, 32, True, False, np.float16),
                ("gptq", 8, 48, False, False, np.float16), ("gptq", 4, K, True, False, np.float16),
                ("gptq", 4, 64, False, False, np.float16), ("awq", 4, 32, False, False, np.float16),
                ("awq", 4, K, True, False, np.float16)):
            what = "%s %d bits, groups of %d" % (method, bits, group)
            want = self.words(method, bits, group, symmetric, second, scale)
            self.check(self.path("in"), want)
            self.vc("verify", "--data", self.path("in"))
            out = self.vc("inspect", "--json", self.path("in")).json()
            quants = [t["quant"] for t in out["tensors"] if t["quant"]]
            self.assertEqual([q["symmetric"] for q in quants], [symmetric] * 2, what)
            # A copy has the very words, and the configuration that describes them.
            self.vc("convert", "--force", self.path("in"), "-o", self.path("copy"))
            first, second_read = (st_read(self.path(p + "/model.safetensors"))[0] for p in ("in", "copy"))
            self.assertEqual(first, second_read, what)
            # Codes and scales in our own layout, and in an npz.
            for args in ((self.path("plain"), "--layout", "plain"), (self.path("q.npz"),)):
                self.vc("convert", "--force", self.path("in"), "-o", *args)
                self.check(args[0], want)
            if K % group == 0:
                self.vc("convert", "--force", "--layout", "compressed-tensors", self.path("in"), "-o", self.path("ct"))
                self.check(self.path("ct"), want)
                self.vc("verify", self.path("ct"))
                with open(self.path("ct/config.json")) as f:
                    group_0 = json.load(f)["quantization_config"]["config_groups"]["group_0"]
                self.assertEqual((group_0["weights"]["num_bits"], group_0["weights"]["symmetric"]), (bits, symmetric))
            else:
                err = self.refuse(3, "convert", "--force", "--layout", "compressed-tensors", self.path("in"), "-o",
                                  self.path("ct"))
                self.assertIn("cannot hold", err)

    def test_source_type(self):
        """Weights that become what they were leave a folder without a quantization_config."""
        self.words("gptq", 4, 32, False)
        self.vc("dequantize", "--source-dtype", self.path("in"), "-o", self.path("out"))
        with open(self.path("out/config.json")) as f:
            self.assertNotIn("quantization_config", json.load(f))
        tensors, _ = st_read(self.path("out/model.safetensors"))
        self.assertEqual({v[0] for v in tensors.values()}, {"F16"})

    def test_new_codes(self):
        """The program that loads the source loads new codes, too; a configuration speaks of one kind only."""
        want = self.words("gptq", 4, 32, False)
        some = ("--min-elements", "1", "--requantize")
        self.vc("quantize", "--int8", *some, self.path("in"), "-o", self.path("out"))
        with open(self.path("out/config.json")) as f:
            self.assertEqual(json.load(f)["quantization_config"]["quant_method"], "compressed-tensors")
        self.vc("verify", "--data", self.path("out"))
        self.vc("dequantize", self.path("out"), "-o", self.path("back.npz"))
        back = self.load(self.path("back.npz"))
        for name, values in want.items():
            self.assertLess(np.abs(back[name] - values).max(), np.abs(values).max() / 127)
        said = self.refuse(3, "quantize", "--int8", *some, "--exclude", "*q_proj*", self.path("in"), "-o",
                           self.path("mixed"))
        self.assertIn("cannot be joined", said)
        self.assertFalse(os.path.exists(self.path("mixed")))

    def test_conv1d(self):
        """GPT-2 keeps floats as [in, out], where the words have [out, in]: not decoded."""
        self.words("gptq", 4, 32, True)
        tensors, _ = st_read(self.path("in/model.safetensors"))
        st_write(self.path("in/model.safetensors"), [(n.replace("mlp.down_proj", "mlp.c_proj"), t, s, d)
                                                     for n, (t, s, d) in tensors.items()])
        with open(self.path("in/config.json")) as f:
            config = json.load(f)
        config["model_type"] = "gpt2"
        with open(self.path("in/config.json"), "w") as f:
            json.dump(config, f)
        self.assertIn("mlp.c_proj", self.refuse(3, "dequantize", self.path("in"), "-o", self.path("out")))
        self.no_strays("in")

    def test_other_order(self):
        """Columns in the order of their activations, both zero points."""
        for second in (False, True):
            want = self.words("gptq", 4, 32, False, second, order=True)
            self.check(self.path("in"), want)
            self.vc("verify", "--data", self.path("in"))

    def test_damage(self):
        """Parts that contradict each other."""
        for part, shape, sentence in (("scales", (4, N), "another number of scales"), ("scales", (3, N - 8), "does not fit"),
                                      ("qzeros", (3, N // 8 - 1), "does not fit"), ("qzeros", (2, N // 8), "fit")):
            self.words("gptq", 4, 32, True)
            tensors, _ = st_read(self.path("in/model.safetensors"))
            arrays = {n: np.frombuffer(d, {"I32": np.int32, "F16": np.float16}[t]).reshape(s)
                      for n, (t, s, d) in tensors.items() if n != "model.norm.weight"}
            name = NAMES[0] + "." + part
            arrays[name] = np.zeros(shape, arrays[name].dtype)
            self.folder("in", arrays, {"quant_method": "gptq", "bits": 4, "group_size": 32})
            self.assertIn(sentence, self.refuse(3, "dequantize", self.path("in"), "-o", self.path("out")))
        self.no_strays("in")

    def test_wrapped_zero_point(self):
        """0 and 2^bits are stored alike where zero points are less one, and loaders disagree about them."""
        for bits in (4, 8):
            self.words("gptq", bits, 32, True)
            tensors, _ = st_read(self.path("in/model.safetensors"))
            arrays = {n: np.frombuffer(d, {"I32": np.int32, "F16": np.float16}[t]).reshape(s)
                      for n, (t, s, d) in tensors.items() if n != "model.norm.weight"}
            zeros = arrays[NAMES[0] + ".qzeros"].copy()
            zeros[1, 2] |= (2**bits - 1) << bits
            arrays[NAMES[0] + ".qzeros"] = zeros
            self.folder("in", arrays, {"quant_method": "gptq", "bits": bits, "group_size": 32})
            self.assertIn("zero point %d" % 2**bits,
                          self.refuse(3, "dequantize", self.path("in"), "-o", self.path("out")))
            self.folder("in", arrays, {"quant_method": "gptq", "bits": bits, "group_size": 32,
                                       "checkpoint_format": "gptq_v2"})
            self.vc("dequantize", "--force", self.path("in"), "-o", self.path("out"))
            shutil.rmtree(self.path("out"))

    def test_zero_points_of_compressed_tensors(self):
        for bits, rows, group in ((4, 48, 32), (4, 50, 48), (8, 50, 32), (4, 48, K)):
            n_groups, half = K // group, 2 ** (bits - 1)
            q = self.random.integers(-half, half, (rows, K))
            z = self.random.integers(-half, half, (rows, n_groups))
            stored, s = bf16(self.random.random((rows, n_groups)) * 0.01 + 0.001)
            n = NAMES[0] + ".weight"
            self.folder("in", {n + "_packed": pack(q + half, bits, 1), n + "_scale": stored,
                               n + "_zero_point": pack(z + half, bits, 0), n + "_shape": np.array([rows, K])},
                        {"quant_method": "compressed-tensors", "format": "pack-quantized",
                         "quantization_status": "compressed", "ignore": ["lm_head"],
                         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                             "num_bits": bits, "type": "int", "symmetric": False, "strategy": "group",
                             "group_size": group}}}})
            want = (q - np.repeat(z, group, 1)).astype(F4) * np.repeat(s, group, 1)
            self.check(self.path("in"), {n: want})
            self.vc("convert", "--force", self.path("in"), "-o", self.path("q.npz"))
            self.check(self.path("q.npz"), {n: want})

    def test_blocks(self):
        """fp8 whose scales are shared by rows and columns, as two configurations say."""
        for method, tail in (("fp8", "_scale_inv"), ("compressed-tensors", "_scale")):
            for rows, columns, width in ((128, 128, 300), (128, 128, 256), (64, 32, 300)):
                tensors, want = {}, {}
                for name, (n, k) in zip(NAMES, ((256, 384), (200, width))):
                    q = self.random.integers(0, 127, (n, k)).astype(np.uint8) | \
                        self.random.integers(0, 2, (n, k)).astype(np.uint8) << 7
                    s = (self.random.random((-(-n // rows), -(-k // columns))) * 0.01).astype(F4)
                    tensors[name + ".weight"], tensors[name + ".weight" + tail] = q, s
                    want[name + ".weight"] = e4m3(q) * np.repeat(np.repeat(s, rows, 0)[:n], columns, 1)[:, :k]
                config = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [rows, columns]}
                if method != "fp8":
                    config = {"quant_method": method, "format": "float-quantized", "quantization_status": "compressed",
                              "ignore": [], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                                  "num_bits": 8, "type": "float", "symmetric": True, "strategy": "block",
                                  "block_structure": [rows, columns]}, "input_activations": None}}}
                self.folder("in", tensors, config)
                for path in ("in", "copy", "plain", "q.npz"):
                    if path != "in":
                        self.vc("convert", "--force", *(["--layout", "plain"] if path == "plain" else []),
                                self.path("in"), "-o", self.path(path))
                    self.check(self.path(path), want)
                    self.vc("verify", "--data", self.path(path))
                ct = ("convert", "--force", "--layout", "compressed-tensors", self.path("in"), "-o", self.path("ct"))
                if method == "fp8" and (rows != 128 or width % 128 != 0):  # its loader fails at rows that are not whole blocks
                    self.assertIn("cannot hold", self.refuse(3, *ct))
                    continue
                self.vc(*ct)
                self.check(self.path("ct"), want)
                with open(self.path("ct/config.json")) as f:
                    weights = json.load(f)["quantization_config"]["config_groups"]["group_0"]["weights"]
                self.assertEqual((weights["strategy"], weights["block_structure"]), ("block", [rows, columns]))


if __name__ == "__main__":
    main()
