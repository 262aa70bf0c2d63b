"""test_rest.py - --rest: what int8 leaves in f32 is cast, bit for bit as the definition says; what may not be stays.

NumPy is the judge. What loaders make of such files is in test_onnx.py and test_gguf.py, and, for a real model, in
test_minilm.py.
"""
import unittest

from judge_support import Judge, main, np, run, sha
import definition as d
import weights


def model():
    x = {n: weights.normal(n, s).astype("f4") for n, s in
         {"embed.weight": (500, 48), "fc.weight": (96, 64), "fc.bias": (96,), "head.weight": (64, 64), "norm.weight": (64,),
          "small.weight": (8, 8), "rotary.inv_freq": (32,), "one": ()}.items()}
    x["wide"] = weights.normal("wide", (70,)).astype("f8")
    x["half"] = weights.normal("half", (70,)).astype("f2")
    x["steps"] = np.arange(5)
    x["none"] = np.zeros((0, 4), "f4")
    return x


class Rest(Judge):
    def check(self, out, x, target, cast, stays):
        z = self.load(out)
        for n in cast:
            self.same_bits(np.asarray(z[n]).view("u2"), d.cast(x[n], target).view("u2").reshape(x[n].shape), n)
        for n in stays:
            self.assertEqual((z[n].dtype, z[n].tobytes()), (x[n].dtype, x[n].tobytes()), n)
        q, s, _, _ = d.int8(x["fc.weight"])
        self.same_bits(z["fc.weight"], q, "codes")
        self.same_bits(z["fc.weight.scale"], s, "scales")

    def test_casts(self):
        x = model()
        np.savez(self.path("in.npz"), **x)
        for option, target in (("fp16", "f16"), ("bf16", "bf16")):
            report = self.vc("quantize", "--int8", "--rest", option, "--exclude", "head.*", "--include", "embed.*", "--json",
                             "--force", self.path("in.npz"), "-o", self.path("out.npz")).json()
            rows = {t["name"]: t for t in report["tensors"]}
            cast = ["fc.bias", "norm.weight", "small.weight", "one", "wide"]
            stays = ["head.weight", "half", "steps", "none", "rotary.inv_freq"]
            self.check(self.path("out.npz"), x, target, cast, stays)
            for n in cast:
                self.assertEqual((rows[n]["action"], rows[n]["scheme"]), ("cast", target), n)
                self.assertIsNotNone(rows[n]["measured"], n)
            self.assertEqual(rows["norm.weight"]["reason"], "the rest: 1-D")
            self.assertEqual(rows["head.weight"]["reason"], "excluded by 'head.*'")
            self.assertIn(" --rest " + option, report["command"])
            self.assertIsNone(report["note"])
            # The steps are those of two runs: int8, then a cast of what is float in its output.
            half = d.cast_value(d.cast(x["wide"], target), target)
            error = float(((x["wide"] - half.astype("f8")) ** 2).sum())
            self.assertAlmostEqual(rows["wide"]["measured"]["sum_e2"] / error, 1, places=9)

    def test_keep_is_the_default(self):
        np.savez(self.path("in.npz"), **model())
        digests = set()
        for option in ([], ["--rest", "keep"]):
            self.vc("quantize", "--int8", *option, "--force", self.path("in.npz"), "-o", self.path("out.npz"))
            digests.add(sha(self.path("out.npz")))
            self.assertEqual(self.load(self.path("out.npz"))["norm.weight"].dtype, np.float32)
        self.assertEqual(len(digests), 1)

    def test_threads(self):
        np.savez(self.path("in.npz"), **model())
        digests = set()
        for threads in "1", "2", "5":
            self.vc("quantize", "--int8", "--rest", "bf16", "--threads", threads, "--force", self.path("in.npz"), "-o",
                    self.path("out.npz"))
            digests.add(sha(self.path("out.npz")))
        self.assertEqual(len(digests), 1)

    def test_note(self):
        """Says what a cast would save where that is more than a tenth, and how the weights then compare."""
        x = {"embed.a": np.ones((64, 64), "f4"), "b.norm": np.ones((96, 64), "f4")}
        np.savez(self.path("in.npz"), **x)
        note = self.vc("quantize", "--int8", "--json", "-n", self.path("in.npz")).json()["note"]
        after = 64 * 64 + 4 * 64 + 4 * 96 * 64
        saved = 2 * 96 * 64
        before = 4 * 160 * 64
        self.assertIn("--rest=bf16 or fp16 would save %d bytes more: the weights %.2f times smaller, not %.2f" % (
            saved, before / (after - saved), before / after), note)
        self.vc("quantize", "--mxfp4", self.path("in.npz"), "-o", self.path("four.npz"))  # codes that become larger ones
        before = 64 * 64 // 2 + 64 * 2 + 4 * 96 * 64
        self.assertIn("the weights %.2f times as large, not %.2f" % ((after - saved) / before, after / before), self.vc(
            "quantize", "--int8", "--requantize", "--json", "-n", self.path("four.npz")).json()["note"])
        large = {"embed.a": np.ones((64, 64), "f4"), "b.norm": np.ones((9600, 64), "f4")}
        np.savez(self.path("large.npz"), **large)
        self.assertIn("would save %.1f MiB more: the weights 2.0" % (2 * 9600 * 64 / 2**20),
                      self.vc("quantize", "--int8", "--json", "-n", self.path("large.npz")).json()["note"])
        x["c"] = np.ones((2048, 64), "f4")
        np.savez(self.path("in.npz"), **x)
        self.assertIsNone(self.vc("quantize", "--int8", "--json", "-n", self.path("in.npz")).json()["note"])
        self.assertIsNone(self.vc("quantize", "--int8", "--json", "-n", "--exclude", "b.*",
                                  self.path("in.npz")).json()["note"])

    def test_note_of_casts(self):
        """A cast names --rest, too, for a fiftieth; and --rest says which tensors have two bytes already."""
        x = {"lora_down": np.ones((16, 640), "f4"), "lora_up": np.ones((640, 16), "f4")}
        np.savez(self.path("in.npz"), **x)
        for word in "fp16", "bf16":
            note = self.vc("quantize", "--" + word, "--json", "-n", self.path("in.npz")).json()["note"]
            self.assertIn("--rest=%s would save %d bytes more: the weights 2.00 times smaller, not 1.33" % (word, 2 * 640 * 16), note)
            self.assertIsNone(self.vc("quantize", "--" + word, "--rest", word, "--json", "-n", self.path("in.npz")).json()["note"])
        np.savez(self.path("half.npz"), w=np.ones((64, 64), "f2"), small=np.ones((64, 16), "f2"), bias=np.ones(64, "f4"))
        note = self.vc("quantize", "--int8", "--rest", "bf16", "--json", "-n", self.path("half.npz")).json()["note"]
        self.assertIn("--rest=bf16 leaves 1 tensor of f16 as they are", note)
        note = self.vc("quantize", "--int8", "--rest", "fp16", "--json", "-n", self.path("half.npz")).json()["note"]
        self.assertNotIn("leaves", note or "")

    def test_overflow(self):
        """Nobody has asked for such a tensor by name: beyond the range it stays as it is; or a policy goes on."""
        x = {"w": np.ones((64, 64), "f4"), "norm": np.array([1, 70000, 2], "f4")}
        np.savez(self.path("in.npz"), **x)
        report = self.vc("quantize", "--int8", "--rest", "fp16", "--json", self.path("in.npz"), "-o", self.path("out.npz")).json()
        self.assertEqual([t["reason"] for t in report["tensors"] if t["name"] == "norm"], ["1 values too large for f16"])
        self.assertEqual(self.load(self.path("out.npz"))["norm"].dtype, np.dtype("f4"))
        self.refuse(3, "quantize", "--fp16", "--include", "norm", self.path("in.npz"), "-o", self.path("no.npz"))
        self.vc("quantize", "--int8", "--rest", "fp16", "--overflow", "sat", self.path("in.npz"), "-o", self.path("o.npz"))
        self.assertEqual(self.load(self.path("o.npz"))["norm"].tolist(), [1, 65504, 2])

    def test_other_formats(self):
        x = model()
        np.savez(self.path("in.npz"), **x)
        self.vc("quantize", "--int8", "--rest", "fp16", self.path("in.npz"), "-o", self.path("out.npz"))
        for kind in "safetensors", "pt":
            out = self.path("out." + kind)
            self.vc("quantize", "--int8", "--rest", "fp16", self.path("in.npz"), "-o", out)
            r = run("diff", self.path("out.npz"), out)
            self.assertEqual((r.code, r.err), (0, ""), r.out)


if __name__ == "__main__":
    main()
