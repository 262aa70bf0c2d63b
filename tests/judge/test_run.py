"""test_run.py - `run` with every pair of passes, in both orders, against the two runs one after the other through files:
the same bytes, or a refusal on both ways."""
import json
import os
import unittest

from judge_support import Judge, main, np, run

PASSES = [
    "prune --sparsity 0.5", "prune --sparsity 0.7 --scope global --set 'b*=0.25'", "prune --pattern 2:4",
    "prune --pattern block:4x4 --sparsity 0.5", "prune --sparsity 0.5 --dequantize",
    "quantize --int8 --min-elements 1", "quantize --int8 --granularity group:32 --exclude 'a*'",
    "quantize --int8 --asymmetric --requantize", "quantize --int8 --rest fp16 --min-elements 1", "quantize --aim-sqnr 30",
    "quantize --fp16", "quantize --bf16", "dequantize", "dequantize --fp16 --casts",
]


class Run(Judge):
    def save(self, name):
        rng = np.random.default_rng(3)
        arrays = {"a.weight": rng.standard_normal((300, 257)).astype("f4"), "b.weight": rng.standard_normal((64, 96)).astype("f2"),
                  "c.weight": rng.standard_normal((40, 16, 3, 3)).astype("f4"), "c.bias": rng.standard_normal(40).astype("f4")}
        np.savez(self.path("in.npz"), **arrays)
        if not name.endswith(".npz"):
            self.vc("convert", self.path("in.npz"), "-o", self.path(name))

    def pass_of(self, words, source, target):
        """Status and sentence of one pass as a command of its own."""
        import shlex
        return run(*shlex.split(words), "-q", "--force", self.path(source), "-o", self.path(target))

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def test_every_pair(self):
        for extension in ("npz", "safetensors", "pt"):
            source = "in." + extension
            self.save(source)
            for first in PASSES:
                begun = self.pass_of(first, source, "mid." + extension)  # once for all that come behind it
                for second in PASSES:
                    with self.subTest(format=extension, first=first, second=second):
                        for name in ("two." + extension, "one." + extension):
                            if os.path.exists(self.path(name)):
                                os.remove(self.path(name))
                        two = self.pass_of(second, "mid." + extension, "two." + extension) if begun.code == 0 else begun
                        one = run("run", "-q", "--pass", first, "--pass", second, self.path(source), "-o",
                                  self.path("one." + extension))
                        self.assertEqual(one.code, two.code, one.err + two.err)
                        if one.code == 0:
                            self.assertEqual(self.read("one." + extension), self.read("two." + extension))
                        else:
                            self.assertEqual(one.err.count("\n"), 1, one.err)

    def test_steps_and_recipe(self):
        self.save("in.npz")
        with open(self.path("r.txt"), "w") as f:
            f.write("# half of it\n\n  prune --sparsity 0.5  # of every tensor\nquantize --int8 --exclude \"b*\"\r\n")
        r = self.vc("run", "--json", self.path("r.txt"), self.path("in.npz"), "-o", self.path("out.npz"))
        rows = {t["name"]: t for t in json.loads(r.out.decode())["tensors"]}
        self.assertEqual([s["pass"] for s in rows["a.weight"]["steps"]], ["prune", "quantize"])
        self.assertEqual([s["pass"] for s in rows["b.weight"]["steps"]], ["prune"])
        self.assertEqual(rows["c.bias"]["action"], "kept")
        self.vc("run", "-q", self.path("r.txt"), self.path("in.npz"))
        self.assertEqual(self.read("out.npz"), self.read("in.pruned.int8.npz"))


if __name__ == "__main__":
    main()
