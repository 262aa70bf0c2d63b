"""The table of layers of estimate: its sums are the totals, for models and options of every kind; a row of it, by hand; what -v prints.
Python's standard library alone. Usage: test_layers.py PROGRAM GRAPH_MODELS"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from made_models import bert, folder, llama, safetensors

PROGRAM, MODELS = sys.argv.pop(1), sys.argv.pop(1)
NET = "input x [batch, 3, 32, 32]\nconv c1 64 kernel=3\nrelu\nconv c2 128 kernel=3\nrelu\nflatten\nlinear fc 10\n"


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        folder(cls.path("llama"), *llama(448, 1216, 2, 7, 7, 5003, False))
        folder(cls.path("tied"), *llama(256, 704, 2, 4, 2, 1003, True), dtype="BF16")
        folder(cls.path("bert"), *bert(384, 1501, 2, 6, 3001))
        with open(cls.path("net.txt"), "w") as f:
            f.write(NET)
        safetensors(cls.path("w.safetensors"), [("a.weight", (1100, 704)), ("a.bias", (1100,)), ("scale", (3,)), ("b.c.weight", (7, 5))])

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.dir.name, name)

    def estimate(self, *args):
        done = subprocess.run([PROGRAM, "estimate", "--json"] + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.dir.name)
        self.assertEqual(done.returncode, 0, (args, done.stderr.decode()))
        return json.loads(done.stdout)

    def check(self, *args):
        got = self.estimate(*args)
        layers = got["layers"]
        with self.subTest(args):
            self.assertEqual(len({row["name"] for row in layers}), len(layers))
            self.assertEqual(sum(row["parameters"] for row in layers), got["model"]["parameters"])
            self.assertEqual(sum(row["weight_bytes"] for row in layers), got["components"]["parameters"]["bytes"])
            if got["components"]["activations"]["bytes"] is None:
                self.assertEqual({row["activation_bytes"] for row in layers}, {None})
            else:
                self.assertEqual(sum(row["activation_bytes"] for row in layers), got["components"]["activations"]["bytes"])
        return {row["name"]: row for row in layers}

    def test_sums(self):
        train = ("--mode", "train")
        for model in ("llama", "tied", "bert", "llama/config.json"):
            for allocator in ("exact", "cuda", "pytorch"):
                self.check("--allocator", allocator, "--batch", "3", model)
                self.check("--allocator", allocator, "--batch", "3", "--attention", "eager", *train, model)
            self.check("--dtype", "int8", "--runtime", "layerwise", model)
            self.check("--dtype", "nf4", "--lora", "4", *train, model)
            self.check("--dtype", "f16", "--in-place", model)
            self.check("--no-reuse", "--tp", "2", model)
            for stage in ("1", "2"):
                self.check("--pp", "2", "--stage", stage, "--accum", "3", *train, model)
            self.check("--pp", "2", "--schedule", "interleaved", "--chunks", "3", "--accum", "4", *train, model)
            for zero in ("1", "2", "3"):
                self.check("--dp", "7", "--zero", zero, "--allocator", "pytorch", *train, model)
            self.check("--amp", "pure", "--offload", "all", *train, model)
            self.check("--recompute", "layer", "--amp", "autocast", *train, model)
            self.check("--mode", "distill", "--teacher", model, model)
        for name in ("convolutional", "encoder", "decoder", "pictures"):
            self.check(os.path.join(MODELS, name + ".onnx"))
            self.check("--allocator", "pytorch", *train, os.path.join(MODELS, name + ".onnx"))

    def test_without_a_graph(self):
        rows = self.check("w.safetensors")
        self.assertEqual({name: row["parameters"] for name, row in rows.items()}, {"a": 1100 * 705, "scale": 3, "b.c": 35})
        self.assertEqual(rows["a"]["weight_bytes"], 4 * 1100 * 705)

    def test_by_hand(self):
        """The worked example of the documents: what is kept of a batch of 64, and at the peak of inference."""
        rows = self.check("--mode", "train", "--batch", "64", "net.txt")
        self.assertEqual([(rows[n]["parameters"], rows[n]["weight_bytes"]) for n in ("c1", "c2", "fc")],
                         [(1792, 7168), (73856, 295424), (1003530, 4014120)])
        self.assertEqual((rows["c1"]["output_bytes"], rows["c2"]["output_bytes"]), (2 * 14745600, 2 * 25690112))  # with relu
        self.assertEqual((rows["c1"]["activation_bytes"], rows["c2"]["activation_bytes"]), (14745600, 25690112))
        self.assertEqual(rows["the loss"]["activation_bytes"], 64 * 10 * 4)
        rows = self.check("--batch", "64", "net.txt")
        self.assertEqual(rows["c2"]["activation_bytes"], 2 * 25690112)

    def test_unknown_sizes(self):
        with open(self.path("open.txt"), "w") as f:
            f.write("input x [batch, n, 24]\nlinear a 10\nrelu\n")
        rows = self.check("open.txt")
        self.assertEqual((list(rows), rows["a"]["parameters"]), (["a"], 250))
        self.assertTrue(all(row["output_bytes"] is None for row in rows.values()))

    def test_terminal(self):
        out = subprocess.run([PROGRAM, "estimate", "-v", "--batch", "64", "net.txt"], stdout=subprocess.PIPE, check=True, cwd=self.dir.name)
        lines = [line.split() for line in out.stdout.decode().splitlines()]
        at = [k for k, line in enumerate(lines) if line[:2] == ["layer", "parameters"]][0]
        self.assertEqual(lines[at], ["layer", "parameters", "weights", "at", "the", "peak", "output"])
        self.assertEqual(lines[-1][:4], ["all", "1,079,178", "4.12", "MiB"])
        self.assertEqual([line[1] for line in lines if line[:1] == ["fc"]], ["1,003,530"])
        out = subprocess.run([PROGRAM, "estimate", "net.txt"], stdout=subprocess.PIPE, check=True, cwd=self.dir.name)
        self.assertNotIn(b"layer ", out.stdout)


if __name__ == "__main__":
    unittest.main()
