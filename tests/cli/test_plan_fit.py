"""What plan says of a recipe is what fit says of the file: for models of every kind that plan has recipes for, each of them is run, and the
bytes and the verdict of fit are compared with those of the plan; with a device on which the recipe just fits, and with one byte less.
Python's standard library alone. Usage: test_plan_fit.py PROGRAM GRAPH_MODELS"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest

from made_models import bert, folder, llama, safetensors

PROGRAM, MODELS = sys.argv.pop(1), sys.argv.pop(1)
MIB = 1 << 20


class Agreement(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.seen = set()

    def tearDown(self):
        self.dir.cleanup()

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def run_lines(self, args, codes=(0,)):
        done = subprocess.run([PROGRAM] + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.dir.name)
        self.assertIn(done.returncode, codes, (args, done.stderr.decode()))
        return done.stdout

    def folder(self, name, config, tensors, dtype="F32"):
        folder(self.path(name), config, tensors, dtype)

    def fit(self, line, memory):
        words = shlex.split(line)
        self.assertEqual(words[:2], ["vcompress", "fit"])
        words[words.index("--memory") + 1] = str(memory)
        answer = json.loads(self.run_lines(words[1:] + ["--json"], (0, 1)))
        return answer["devices"][0]

    def check(self, args, most=99):
        """Every recipe of a plan."""
        plan = json.loads(self.run_lines(["plan", "--memory", "3GiB", "--margin", "3MiB", "--all", "--json"] + args, (0, 1)))
        self.assertGreater(len(plan["recipes"]), 0)
        for recipe in plan["recipes"][:most]:
            with self.subTest((args, recipe["what"])):
                self.seen.add(recipe["what"])
                for line in recipe["commands"][:-1]:
                    self.run_lines(shlex.split(line)[1:] + ["--force", "-q"])
                line, need = recipe["commands"][-1], recipe["need_bytes"]
                got = self.fit(line, 3 << 30)
                self.assertEqual((got["need_bytes"], got["verdict"], got["headroom_bytes"]),
                                 (need, recipe["verdict"], recipe["headroom_bytes"]))
                self.assertEqual(self.fit(line, need + 3 * MIB)["verdict"], "weights fit" if "--weights-only" in args else "fits")
                self.assertEqual(self.fit(line, need + 3 * MIB - 1)["verdict"], "tight")
                self.assertEqual(self.fit(line, need)["verdict"], "tight")
                self.assertEqual(self.fit(line, need - 1)["verdict"], "does not fit")

    def test_llama(self):
        self.folder("wide", *llama(448, 1216, 2, 7, 7, 5003, False))
        self.check(["--ctx", "100", "wide"])
        self.check(["--ctx", "100", "--runtime", "native", "--batch", "4", "wide"])
        self.check(["--runtime", "layerwise", "--allocator", "cuda", "wide"])
        self.check(["--runtime", "dequantize", "--allocator", "exact", "wide"])
        self.folder("tied", *llama(512, 1100, 3, 8, 2, 3001, True), dtype="BF16")
        self.check(["--ctx", "64", "--runtime", "native", "tied"])
        self.check(["--ctx", "64", "--in-place", "--attention", "eager", "tied"])
        self.assertIn("fp16 weights, 10 % of the neurons removed", self.seen)

    def test_bert(self):
        self.folder("bert", *bert(384, 1501, 2, 6, 3001))
        self.check(["bert"])
        self.check(["--runtime", "native", "--batch", "8", "--seq", "40", "bert"])
        self.check(["--runtime", "native", "--weights-only", "bert"])
        self.assertTrue(any("neurons removed" in what for what in self.seen))  # but for those of the pooler, which no key of config.json has

    def test_training(self):
        self.folder("bert", *bert(384, 1501, 2, 6, 3001))
        self.check(["--mode", "train", "--batch", "8", "--seq", "40", "bert"])
        self.check(["--mode", "train", "--batch", "6", "--seq", "24", "--optimizer", "sgd", "--without", "amp", "bert"])
        self.check(["--mode", "train", "--lora", "4", "--batch", "2", "--seq", "24", "bert"], 8)

    def test_room_as_budget(self):
        """Recomputation within the room of the device: more of it, the less room there is."""
        self.folder("bert", *bert(384, 1501, 2, 6, 3001))
        asked = ["--mode", "train", "--batch", "8", "--seq", "64", "--recompute", "auto", "--optimizer", "sgd", "bert"]
        needs = []
        for memory in (3 << 30, 660 * MIB):
            plan = json.loads(self.run_lines(["plan", "--memory", str(memory), "--json"] + asked, (0, 1)))
            got = json.loads(self.run_lines(["fit", "--memory", str(memory), "--json"] + asked, (0, 1)))["devices"][0]
            recipe = plan["recipes"][0]
            self.assertEqual((recipe["need_bytes"], recipe["verdict"]), (got["need_bytes"], got["verdict"]))
            self.assertEqual(self.fit(recipe["commands"][-1], memory), got)
            needs.append(got["need_bytes"])
        self.assertLess(needs[1], needs[0])

    def test_first_is_as_it_is(self):
        """Also where a measured error of 0 says that halves lose nothing; and where two devices cannot share the model."""
        self.folder("halves", *llama(256, 704, 1, 4, 4, 2003, False))
        for args in (["--memory", "300MiB", "--scan", "halves"], ["--gpu", "L4:2", os.path.join(os.path.abspath(MODELS), "convolutional.onnx")]):
            plan = json.loads(self.run_lines(["plan", "--json"] + args, (0, 1)))
            self.assertEqual(plan["recipes"][0]["what"], "as it is")

    def test_config_alone(self):
        config, _ = llama(3072, 8192, 4, 32, 32, 32064, False)
        os.mkdir(self.path("phi"))
        with open(self.path("phi/config.json"), "w") as f:
            json.dump(dict(config, torch_dtype="bfloat16"), f)
        for args in (["--ctx", "512"], ["--runtime", "native", "--tp", "2"], ["--kv-dtype", "fp16", "--ctx", "64", "--batch", "3"]):
            plan = json.loads(self.run_lines(["plan", "--memory", "8GiB", "--all", "--json"] + args + ["phi/config.json"]))
            self.assertTrue(any(r["what"].startswith(("int8", "Q8_0")) for r in plan["recipes"]))
            for recipe in plan["recipes"]:
                got = self.fit(recipe["commands"][-1], 8 << 30)
                self.assertEqual((got["need_bytes"], got["verdict"]), (recipe["need_bytes"], recipe["verdict"]), recipe["what"])

    def test_other_files(self):
        self.folder("llama", *llama(256, 704, 2, 4, 4, 2003, False))
        self.run_lines(["convert", "-o", "w.npz", "llama"])
        self.check(["--weights-only", "w.npz"])
        self.check(["--weights-only", "--runtime", "native", "w.npz"])
        with open(self.path("net.txt"), "w") as f:
            f.write("input x [batch, 704]\nlinear a 1100\nrelu\nlinear b 2300\nrelu\nlinear c 10\n")
        safetensors(self.path("net.safetensors"), [("a.weight", (1100, 704)), ("a.bias", (1100,)), ("b.weight", (2300, 1100)),
                                                   ("b.bias", (2300,)), ("c.weight", (10, 2300)), ("c.bias", (10,))])
        for runtime in ([], ["--runtime", "native"], ["--runtime", "layerwise"]):
            self.check(runtime + ["--batch", "300", "--weights", "net.safetensors", "net.txt"])
            self.check(runtime + ["--size", "batch=300", "--weights", "net.safetensors", "net.txt"])
        for name in ("convolutional", "encoder", "decoder", "pictures"):
            subprocess.run(["cp", os.path.join(MODELS, name + ".onnx"), self.dir.name], check=True)
            sizes = json.loads(self.run_lines(["estimate", "--json", name + ".onnx"]))["sizes"]
            given = [word for size in sizes for word in ("--size", size + "=" + ("3" if size.startswith("batch") else "12"))]
            self.check(given + [name + ".onnx"])
            self.check(given + ["--runtime", "native", name + ".onnx"])
            self.check(given + ["--im2col", "4", "--allocator", "exact", name + ".onnx"])

    def test_gguf(self):
        subprocess.run(["cp", os.path.join(MODELS, "..", "..", "graph", "goldens", "llama-gguf", "model.gguf"), self.dir.name], check=True)
        self.check(["--ctx", "64", "model.gguf"])
        self.check(["--runtime", "dequantize", "model.gguf"])
        self.folder("llama", *llama(256, 704, 1, 4, 4, 2003, False))
        self.run_lines(["quantize", "--int8", "-o", "codes", "llama"])
        self.check(["--batch", "64", "codes"])
        self.assertIn("loaded as fp16", self.seen)
        # what shrink takes of a GGUF file of f32 is what plan takes: halves first
        for what in ("fp16 weights", "fp16 weights, 30 % of the neurons removed"):
            recipes = json.loads(self.run_lines(["plan", "--memory", "3GiB", "--json", "model.gguf"]))["recipes"]
            recipe = next(r for r in recipes if r["what"] == what)
            memory = str(recipe["need_bytes"] + 256 * MIB)
            found = json.loads(self.run_lines(["shrink", "--memory", memory, "-n", "--json", "-o", "s.gguf", "model.gguf"]))
            chosen = found["candidates"][found["chosen"]]
            self.assertEqual((chosen["passes"], chosen["need_bytes"], chosen["within"]), (recipe["passes"], recipe["need_bytes"], True))

    def test_removed_units(self):
        """What shrink counts of a network that loses channels is what its proof finds: activations shrink, too."""
        subprocess.run(["cp", os.path.join(MODELS, "convolutional.onnx"), self.dir.name], check=True)
        recipes = json.loads(self.run_lines(["plan", "--memory", "64GiB", "--json", "convolutional.onnx"]))["recipes"]
        recipe = next(r for r in recipes if r["what"] == "20 % of the neurons removed")
        memory = str(recipe["need_bytes"] + 256 * MIB)
        found = json.loads(self.run_lines(["shrink", "--memory", memory, "--json", "-o", "s.onnx", "convolutional.onnx"]))
        chosen = found["candidates"][found["chosen"]]
        self.assertEqual(chosen["passes"], recipe["passes"])
        self.assertEqual([chosen["need_bytes"], found["proof"]["need_bytes"]], [recipe["need_bytes"]] * 2)
        # a program that keeps codes is onnxruntime itself; rows and training change no need
        needs = {c["name"]: c["need_bytes"] for c in found["candidates"]}
        planned = {r["passes"][0]: r["need_bytes"] for r in recipes if r["passes"]}
        for more in (["--native"], ["--data", os.path.join(os.path.abspath(MODELS), "convolutional.npz"), "--steps", "5", "--task", "maps"]):
            other = json.loads(self.run_lines(["shrink", "--memory", memory, "-n", "--json", "-o", "n.onnx", *more, "convolutional.onnx"], (0, 1)))["candidates"]
            same = [c for c in other if c["name"] in needs]
            self.assertGreater(len(same), 4)
            self.assertEqual({c["name"]: c["need_bytes"] for c in same}, {c["name"]: needs[c["name"]] for c in same})
            self.assertEqual([planned.get(c["passes"][0], c["need_bytes"]) for c in same], [c["need_bytes"] for c in same])


if __name__ == "__main__":
    unittest.main()
