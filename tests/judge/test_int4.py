"""test_int4.py - codes of 2 to 6 bits and their scales are those of the definition, bit for bit: in an npz, read by the two
lines of NumPy that formats.md has; in the layout compressed-tensors; in files of that package itself, which are read. The
error is near the least that any scale gives.

Where transformers and compressed-tensors can be imported, a folder is loaded by them, and its weights are those of
`dequantize`, bit for bit.
"""
import inspect
import json
import unittest

from judge_support import SMALL, Judge, main, np, sha
from test_layouts import import_torch, missing
from test_safetensors import STORED, TYPES, st_arrays, st_read
import definition as d
import weights

F4 = np.float32
SHAPES = {"a.weight": (40, 256), "b.weight": (33, 130), "c.weight": (20, 6, 3, 3), "long.weight": (1, 262144 + 512),
          "short.weight": (50, 34), "many.weight": (90, 384)}


BITS = {"int2": 2, "int3": 3, "int4": 4, "int5": 5, "int6": 6, "ternary": 2}


def by_hand(z, name, group, b=4):
    """The two lines of formats.md."""
    d = 2 ** np.arange(b, dtype="f4"); d[-1] = -d[-1]
    q = np.unpackbits(z[name], axis=1, bitorder="little").reshape(len(z[name]), -1, b) @ d
    if name + ".zero_point" in z:
        q = q - np.repeat(z[name + ".zero_point"], group, axis=1)[:, :q.shape[1]]
    return q, q * np.repeat(z[name + ".scale"], group, axis=1)[:, :q.shape[1]]


def packed_words(q, b):
    """Codes side by side in words, each plus 2^(b-1)."""
    bits = (q.astype(int) + (1 << b - 1))[..., None] >> np.arange(b) & 1
    bits = bits.reshape(len(q), -1).astype("u1")
    bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 32)))
    return np.packbits(bits, axis=1, bitorder="little").view("<u4")


class Int4(Judge):
    def test_npz(self):
        for dtype in ("f32", "f16", "f64"):
            arrays = weights.model(dtype, {n: shape for n, shape in SHAPES.items() if dtype == "f32" or n != "long.weight"})
            weights.save(self.path("in.npz"), arrays, dtype)
            for group in (128, 32, 50) if dtype == "f32" else (32,):
                want = None
                for extra in ([], ["--threads", "1", "--cpu-mask", "ref"]):
                    self.vc("quantize", "--int4", "--granularity", "group:%d" % group, *SMALL, *extra, "--force",
                            self.path("in.npz"), "-o", self.path("q.npz"))
                    want = want or sha(self.path("q.npz"))
                    self.assertEqual(sha(self.path("q.npz")), want)
                z = self.load(self.path("q.npz"))
                entries = self.manifest(self.path("q.npz"))["tensors"]
                self.vc("dequantize", "--force", self.path("q.npz"), "-o", self.path("d.npz"))
                back = self.load(self.path("d.npz"))
                for n, a in arrays.items():
                    if n == "long.weight" and group == 50:
                        self.assertNotIn(n + ".scale", z)  # a group may not reach over two tiles
                        continue
                    if n == "long.weight":  # both ends of a row that takes two tiles
                        codes, values = by_hand(z, n, group)
                        for part in (slice(0, 1024), slice(261632, 262656)):
                            q, s, _, _ = d.ints(a[:, part], group)
                            self.same_bits(codes[:, part].astype("i1"), q, (n, part))
                            self.same_bits(z[n + ".scale"][:, part.start // group:part.stop // group], s, (n, part))
                        continue
                    q, s, _, _ = d.ints(weights.value(a, dtype), group)
                    codes, values = by_hand(z, n, group)
                    self.same_bits(codes.astype("i1"), q, (n, dtype, group))
                    self.same_bits(z[n + ".scale"], s, (n, dtype, group))
                    self.same_bits(back[n], values.reshape(a.shape), (n, dtype, group))
                    self.assertEqual(entries[n]["shape"], list(a.shape))

    def test_channels(self):
        arrays = weights.model("f32", {n: s for n, s in SHAPES.items() if n != "long.weight"})
        weights.save(self.path("in.npz"), arrays, "f32")
        self.vc("quantize", "--int4", "--granularity", "channel", *SMALL, self.path("in.npz"), "-o",
                self.path("q.npz"))
        z = self.load(self.path("q.npz"))
        for n, a in arrays.items():
            row = a[0].size
            q, s, _, _ = d.ints(a, row)
            self.same_bits(by_hand({n: z[n], n + ".scale": z[n + ".scale"].reshape(len(a), 1)}, n, row)[0].astype("i1"), q, n)
            self.same_bits(z[n + ".scale"].reshape(s.shape), s, n)

    def test_widths(self):
        """Every width, symmetric and with zero points; rows that are not whole bytes stay."""
        arrays = weights.model("f32", {"a.weight": (40, 256), "c.weight": (20, 8, 3, 3), "e.weight": (33, 132), "o.weight": (30, 131)})
        arrays["a.weight"][3:5, :64] = 0
        arrays["a.weight"][5] = np.abs(arrays["a.weight"][5])
        arrays["a.weight"][6] *= np.float32(1e38)
        arrays["a.weight"][7] *= np.float32(1e-42)
        np.savez(self.path("in.npz"), **arrays)
        for scheme, b in BITS.items():
            for asymmetric in ([], ["--asymmetric"]) if scheme != "ternary" else ([],):
                self.vc("quantize", "--scheme", scheme + "/group:48", *asymmetric, *SMALL, "--force", self.path("in.npz"), "-o",
                        self.path("q.npz"))
                self.vc("dequantize", "--force", self.path("q.npz"), "-o", self.path("d.npz"))
                self.vc("verify", "--data", self.path("q.npz"))
                z, back = self.load(self.path("q.npz")), self.load(self.path("d.npz"))
                self.assertEqual([n for n in arrays if n + ".scale" not in z],
                                 [n for n in arrays if arrays[n][0].size * b % 8])
                for n in (n for n in arrays if n + ".scale" in z):
                    what = (scheme, asymmetric, n)
                    q, s, used, zero = d.ints(arrays[n], 48, scheme, asymmetric=bool(asymmetric))
                    steps, values = by_hand(z, n, 48, b)
                    self.same_bits((steps + (np.repeat(zero, 48, axis=1)[:, :q.shape[1]] if asymmetric else 0)).astype("i1"), q, what)
                    self.same_bits(z[n + ".scale"], s, what)
                    if asymmetric:
                        self.same_bits(z[n + ".zero_point"], zero, what)
                    self.same_bits(back[n], values.reshape(back[n].shape), what)

    def test_error(self):
        """Small groups: next to the least error that any scale of either sign gives; zero points lose nothing."""
        x = np.random.default_rng(7).standard_normal((100, 64)).astype(F4)
        np.savez(self.path("in.npz"), w=x)
        for scheme, most in {"int2": 0.03, "int3": 0.1, "int4": 0.12, "int5": 0.25, "int6": 0.65, "ternary": 0.01}.items():
            errors = []
            for asymmetric in ([], ["--asymmetric"])[:1 if scheme == "ternary" else 2]:
                self.vc("quantize", "--scheme", scheme + "/group:16", *asymmetric, *SMALL, "--force", self.path("in.npz"), "-o", self.path("q.npz"))
                self.vc("dequantize", "--force", self.path("q.npz"), "-o", self.path("d.npz"))
                errors.append(((x - self.load(self.path("d.npz"))["w"].astype("f8")) ** 2).reshape(-1, 16).sum(1))
            best = d.int_best(x.reshape(-1, 16), scheme)
            self.assertTrue((errors[0] >= best * (1 - 1e-5)).all())
            loss = 10 * np.log10(errors[0].sum() / best.sum())
            print("%s: %.3f dB from the least error" % (scheme, loss))
            self.assertLess(loss, most, scheme)
            self.assertLessEqual(errors[-1].sum(), errors[0].sum() * 1.001)

    def test_quality(self):
        """Normal weights in groups of 128, dB: what docs/numerics.md says."""
        x = np.random.default_rng(5).standard_normal((64, 4096)).astype(F4) * F4(0.02)
        np.savez(self.path("in.npz"), w=x)
        for scheme, least in {"int2": 8.7, "int3": 14.5, "int4": 20.2, "int5": 25.95, "int6": 31.8, "ternary": 7.2}.items():
            self.vc("quantize", "--scheme", scheme, "--force", self.path("in.npz"), "-o", self.path("q.npz"))
            self.vc("dequantize", "--force", self.path("q.npz"), "-o", self.path("d.npz"))
            y = self.load(self.path("d.npz"))["w"].astype("f8")
            self.assertGreaterEqual(10 * np.log10((x.astype("f8") ** 2).sum() / ((x - y) ** 2).sum()), least, scheme)

    def test_compressed_tensors(self):
        shapes = {"a.weight": (40, 256), "b.weight": (33, 100), "d.weight": (30, 384)}
        for dtype, groups in (("f32", (128,)), ("bf16", (0, 4, 32, 128)), ("f16", (32,)), ("f64", (0,))):
            for group, scheme in [(g, "int4") for g in groups] + [(128, s) for s in BITS if dtype == "bf16"]:
                b = BITS[scheme]
                arrays = weights.model(dtype, shapes)
                st_arrays(self.path("in.safetensors"), arrays, dtype)
                self.vc("quantize", "--scheme", scheme, "--layout", "compressed-tensors", *SMALL, "--force", "--granularity",
                        "group:%d" % group if group else "channel", self.path("in.safetensors"), "-o",
                        self.path("q.safetensors"))
                self.vc("dequantize", "--force", self.path("q.safetensors"), "-o", self.path("d.npz"))
                tensors, _ = st_read(self.path("q.safetensors"))
                back = self.load(self.path("d.npz"))
                for n, a in arrays.items():
                    if (group and a.shape[1] % group) or a.shape[1] * b % 8:
                        self.assertIn(n, tensors)
                        continue
                    stored = "f32" if dtype == "f64" else dtype
                    q, s, used, _ = d.ints(weights.value(a, dtype), group or a.shape[1], scheme, stored, False)
                    words = packed_words(q, b)
                    t, shape, data = tensors[n + "_packed"]
                    self.assertEqual((t, tuple(shape)), ("I32", words.shape))
                    self.same_bits(np.frombuffer(data, "u4").reshape(shape), words, (n, dtype, group))
                    t, shape, data = tensors[n + "_scale"]
                    self.assertEqual((t, tuple(shape)), (STORED[stored] if stored != "f32" else "F32", s.shape))
                    self.same_bits(np.frombuffer(data, TYPES[t]).reshape(shape), s, (n, dtype, group))
                    t, shape, data = tensors[n + "_shape"]
                    self.assertEqual(np.frombuffer(data, "i8").tolist(), list(a.shape))
                    self.same_bits(back[n], d.int_value(q, used, group or a.shape[1]) + F4(0), (n, dtype, group))


def packs_across_words():
    """Older versions of compressed-tensors keep codes of 3, 5 and 6 bits within words."""
    try:
        from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
        import torch
        return pack_to_int32(torch.zeros((1, 32), dtype=torch.int8), 3).shape[1] == 3
    except ImportError:
        return False


class Packages(Judge):
    """The programs that load such files."""

    def setUp(self):
        super().setUp()
        if missing("torch", "transformers", "compressed_tensors", "safetensors"):
            self.skipTest("torch, transformers, compressed_tensors and safetensors are needed")
        self.torch = import_torch()

    def test_folder(self):
        import transformers
        from safetensors.torch import load_file
        torch = self.torch
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.manual_seed(0)
        word = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
        config = transformers.LlamaConfig(
            vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False)
        half = int(torch.__version__.split(".")[0]) >= 2  # before, products of halves on a CPU were not there
        for dtype in (torch.bfloat16, torch.float16) if half else (torch.bfloat16,):
            transformers.LlamaForCausalLM(config).to(dtype).save_pretrained(self.path("model"))
            ways = [["--int4", *extra] for extra in ([], ["--granularity", "group:32"], ["--granularity", "channel"])]
            ways += [["--scheme", scheme] for scheme in BITS if scheme != "int4" and packs_across_words()]
            zeros = [["--asymmetric", "--int4"], ["--asymmetric", "--int8"], ["--asymmetric", "--scheme", "int3/group:32"]]
            ways += zeros if packs_across_words() else []
            for extra in ways if dtype == torch.bfloat16 else ways[:1]:
                self.vc("quantize", *extra, "--force", self.path("model"), "-o", self.path("q"))
                self.vc("verify", "--data", self.path("q"))
                self.vc("dequantize", "--source-dtype", "--force", self.path("q"), "-o", self.path("d"))
                with open(self.path("q/config.json")) as f:
                    said = json.load(f)["quantization_config"]["config_groups"]["group_0"]["weights"]
                if extra in zeros:
                    self.assertFalse(said["symmetric"])
                    how = {"quantization_config": transformers.CompressedTensorsConfig(dequantize=True)}
                else:
                    how = {}
                    self.assertEqual((said["num_bits"], said["group_size"]),
                                     (BITS[extra[-1] if extra[0] == "--scheme" else "int4"],
                                      None if "channel" in extra else 32 if "group:32" in extra else 128))
                net = transformers.AutoModelForCausalLM.from_pretrained(self.path("q"), **{word: dtype}, **how)
                plain = transformers.AutoModelForCausalLM.from_pretrained(self.path("d"), **{word: dtype})
                tokens = torch.arange(40).reshape(1, 40) * 5 % 256
                with torch.no_grad():
                    self.assertTrue(torch.equal(net(tokens).logits, plain(tokens).logits), extra)
                modules = dict(net.named_modules())
                ours = {n[:-len(".weight")]: w for n, w in load_file(self.path("d/model.safetensors")).items()
                        if n.endswith("proj.weight")}
                self.assertEqual(len(ours), 14)
                for n, w in ours.items():
                    if hasattr(modules[n], "weight"):  # old versions decode in each pass: the logits tell
                        self.assertTrue(torch.equal(modules[n].weight.detach(), w), (n, extra))

    def test_theirs(self):
        """Codes that the package has made and packed, with scales of its own: read as what it decompresses."""
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationScheme
        from safetensors.torch import save_file
        torch = self.torch
        compressor = BaseCompressor.get_value_from_registry("pack-quantized")
        if len(inspect.signature(compressor.compress).parameters) != 2:
            self.skipTest("this compressed-tensors compresses whole models only")
        torch.manual_seed(1)
        for dtype, group, bits in ((torch.bfloat16, 128, 4), (torch.float16, 32, 4), (torch.bfloat16, 64, -4),
                                   (torch.float16, 32, -8), (torch.bfloat16, 32, -3)):
            zeros, bits = bits < 0, abs(bits)
            scheme = QuantizationScheme(targets=["Linear"], format="pack-quantized", weights={
                "num_bits": bits, "type": "int", "symmetric": not zeros, "strategy": "group", "group_size": group})
            w = (torch.randn(45, 256) * 0.02).to(dtype)
            scale = (w.reshape(45, -1, group).abs().amax(-1) / (2 ** (bits - 1) - 0.5)).to(dtype)
            module = {"weight": w, "weight_scale": scale}
            if zeros:
                half = 2 ** (bits - 1)
                module["weight_zero_point"] = torch.randint(-half, half, scale.shape, dtype=torch.int8)
            packed = compressor.compress(module, scheme)
            want = compressor.decompress(dict(packed), scheme)["weight"]
            save_file({"m." + n: t.contiguous() for n, t in packed.items()}, self.path("x.safetensors"))
            self.vc("dequantize", "--source-dtype", "--force", self.path("x.safetensors"), "-o",
                    self.path("y.safetensors"))
            from safetensors.torch import load_file
            self.assertTrue(torch.equal(load_file(self.path("y.safetensors"))["m.weight"], want), (dtype, group))
            # Its words again, from codes in a file of our own.
            self.vc("convert", "--force", "--layout", "plain", self.path("x.safetensors"), "-o", self.path("p.safetensors"))
            self.vc("convert", "--force", "--layout", "compressed-tensors", self.path("p.safetensors"), "-o",
                    self.path("again.safetensors"))
            again = load_file(self.path("again.safetensors"))
            self.assertEqual(set(again), {"m." + n for n in packed})
            for n, t in packed.items():
                self.assertTrue(torch.equal(again["m." + n], t), (n, bits))


if __name__ == "__main__":
    main()
