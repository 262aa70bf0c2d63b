"""test_decoded_codes.py - weights of other programs, decoded: the values are those of their formulas, bit for bit.

foreign_layouts.py has the files. No part and no mark of the codes may be left, `verify --data` finds nothing, copies keep
the codes, other layouts refuse what they have no place for, and what contradicts itself is refused with a sentence.
"""
import json
import os
import shutil

import foreign_layouts as layouts
import judge_support as support
from judge_support import Judge, np, run
from test_damaged_codes import CONFIG, P, base_tensors, load, save, tensor, values

KINDS = {
    "GPTQ 2": lambda: layouts.gptq(2), "GPTQ 3": lambda: layouts.gptq(3, 128), "GPTQ 3 v2": lambda: layouts.gptq(3, v2=True),
    "GPTQ 4 v2": lambda: layouts.gptq(4, v2=True), "GPTQ 2 act": lambda: layouts.gptq(2, order=True),
    "GPTQ 3 act": lambda: layouts.gptq(3, order=True, symmetric=True), "GPTQ 4 act": lambda: layouts.gptq(4, order=True),
    "GPTQ 8 act v2": lambda: layouts.gptq(8, order=True, v2=True),
    "AWQ gemv 32": lambda: layouts.awq_gemv(32), "AWQ gemv 64": layouts.awq_gemv, "AWQ gemv 128": lambda: layouts.awq_gemv(128),
    "quanto 8": lambda: layouts.quanto(8), "quanto 4": lambda: layouts.quanto(4), "quanto 2": lambda: layouts.quanto(2),
    "MLX own": lambda: layouts.mlx(3, own=P[:-1]), "MLX mxfp4": lambda: layouts.mlx(4, 32, "mxfp4"),
    "MLX null": lambda: layouts.mlx(3, 64, own=P[:-1], null=True),
    "MLX nvfp4": lambda: layouts.mlx(4, 16, "nvfp4"),
}
for _bits in (1, 2, 3, 4, 5, 8):
    for _axis in (0, 1):
        KINDS["HQQ %d axis %d" % (_bits, _axis)] = lambda b=_bits, a=_axis: layouts.hqq(b, a, named=b != 4)
KINDS["HQQ across rows"] = lambda: layouts.hqq(4, 1, 256)
for _bits in (2, 3, 4, 5, 6, 8):
    KINDS["MLX %d" % _bits] = lambda b=_bits: layouts.mlx(b)


class DecodedCodes(Judge):
    def folder(self, parts, config):
        path = self.path("m")
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
        t = base_tensors()
        del t[P + "weight"]
        t.update({P + k: v for k, v in parts.items()})
        save(path + "/model.safetensors", {"format": "pt"}, t)
        support.write_bytes(path + "/config.json", json.dumps(dict(CONFIG, **config)).encode())
        return path

    def test_values(self):
        for name, make in KINDS.items():
            with self.subTest(name):
                parts, config, wanted = make()
                path, out = self.folder(parts, config), self.path("o")
                self.vc("verify", "--data", path)
                self.vc("dequantize", "-q", "--force", path, "-o", out)
                _, got = load(out + "/model.safetensors")
                self.assertEqual(sorted(got), sorted(base_tensors()))
                self.assertEqual(values(got[P + "weight"]).tobytes(), wanted.tobytes())
                left = json.loads(support.read_bytes(out + "/config.json"))
                self.assertNotIn("quantization_config", left)
                self.assertNotIn("quantization", left)

    def test_other_commands(self):
        for name in ("GPTQ 4 act", "HQQ 3 axis 0", "HQQ 4 axis 1", "quanto 4", "MLX 4", "MLX nvfp4"):
            with self.subTest(name):
                parts, config, wanted = KINDS[name]()
                path = self.folder(parts, config)
                copy = self.path("copy")
                self.vc("prune", "--force", "-q", "--sparsity", "0.5", "--exclude", "*up_proj*", path, "-o", copy)
                before, after = load(path + "/model.safetensors")[1], load(copy + "/model.safetensors")[1]
                self.assertEqual({k: after.get(k) for k in before if k.startswith(P)},
                                 {k: v for k, v in before.items() if k.startswith(P)})
                self.assertEqual(json.loads(support.read_bytes(copy + "/config.json")),
                                 json.loads(support.read_bytes(path + "/config.json")))
                self.assertIn("dequantize", self.refuse(3, "convert", path, "-o", self.path("m.npz")))
                self.assertIn("dequantize", self.refuse(3, "convert", "--no-vocab", path, "-o", self.path("m.gguf")))
                self.vc("run", "--force", "-q", "--pass", "dequantize", path, "-o", self.path("f.npz"))
                self.assertEqual(np.load(self.path("f.npz"))[P + "weight"].tobytes(), wanted.tobytes())
                self.vc("dequantize", "--force", "-q", path, "-o", self.path("f"))
                for way, source in (("a", path), ("b", self.path("f"))):
                    self.vc("quantize", "--force", "-q", "--int8", *support.SMALL, "--requantize", "--layout", "plain",
                            "--include", "*up_proj*", source, "-o", self.path(way + ".safetensors"))
                one, two = (load(self.path(way + ".safetensors"))[1] for way in "ab")
                self.assertEqual({k: v for k, v in one.items() if k.startswith(P)},
                                 {k: v for k, v in two.items() if k.startswith(P)})

    def refused(self, name, change, *words):
        parts, config, _ = KINDS[name]()
        config = json.loads(json.dumps(config))
        change(parts, config)
        path = self.folder(parts, config)
        said = self.refuse(3, "dequantize", path, "-o", self.path("o"))
        for word in words:
            self.assertIn(word, said)
        found = run("verify", "--data", path)
        self.assertIn(found.code, (0, 1), found.err)
        self.assertIn(words[0], found.out.decode())

    def test_refused(self):
        def beyond(t, c):
            t["g_idx"] = tensor(np.arange(128) // 16, "I32")

        def narrow(t, c):
            t["scales"] = tensor(np.ones((256, 9)), "F16")

        self.refused("GPTQ 4 act", beyond, "g_idx", "beyond")
        self.refused("GPTQ 3", lambda t, c: c["quantization_config"].update(bits=7), "says 7 bits")
        self.refused("GPTQ 3", lambda t, c: t.pop("qzeros"), "qzeros")
        self.refused("AWQ gemv 64", narrow, "does not fit")
        self.refused("AWQ gemv 64", lambda t, c: c["quantization_config"].update(version="gemv_fast"), "AWQ")
        self.refused("HQQ 4 axis 1", lambda t, c: t.pop("nbits"), "HQQ", "nbits")
        self.refused("HQQ 4 axis 0", lambda t, c: t.pop("shape"), "HQQ", "shape")
        self.refused("HQQ 4 axis 0", lambda t, c: t.update(nbits=tensor(3, "I32")), "HQQ", "words")
        self.refused("HQQ 8 axis 1", lambda t, c: t.update(shape=tensor([2**40, 2**40], "I64")), "HQQ", "shape")
        self.refused("HQQ 4 axis 1", lambda t, c: t.update(zero_q=t.pop("zero")), "HQQ", "zero")
        self.refused("quanto 8", lambda t, c: t.pop("weight._scale"), "quanto", "_scale")
        self.refused("quanto 4", lambda t, c: t.pop("weight._shift"), "quanto", "_shift")
        self.refused("quanto 4", lambda t, c: c.update(intermediate_size=512), "quanto", "groups")
        self.refused("MLX 4", lambda t, c: c.clear(), "MLX", "config.json")
        self.refused("MLX 4", lambda t, c: [v.pop("bits") for v in c.values()], "MLX")
        self.refused("MLX 4", lambda t, c: [v.update(bits=8) for v in c.values()], "MLX", "scales")
        self.refused("MLX 4", lambda t, c: [v.update(mode="mxfp4") for v in c.values()], "MLX")
        self.refused("MLX mxfp4", lambda t, c: [v.update(mode="x") for v in c.values()], "MLX", "mode")
        self.refused("MLX 4", lambda t, c: t.pop("biases"), "MLX", "biases")


if __name__ == "__main__":
    support.main()
