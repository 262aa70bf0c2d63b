"""Weights, gradients, masters and states as blocks of PyTorch's caching allocator: estimate --allocator pytorch against an allocator of our
own, written from the documents of PyTorch (torch.cuda, "Memory management"; its notes on CUDA semantics) and not from the program, which gets the
tensors one by one: weights in the order of the model, gradients from the last layer to the first, then what the optimizer makes for each
weight. Standard library alone. Usage: test_blocks.py PROGRAM"""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
MIB = 1 << 20


class Caching:
    """Free pieces of segments by pool; a piece is [address, size], segments have addresses far apart, so that pieces join within one."""

    def __init__(self):
        self.free = {True: [], False: []}
        self.next = 0

    def malloc(self, size):
        """The bytes of the block."""
        if size == 0:
            return 0
        size = (size + 511) // 512 * 512
        small = size <= MIB
        fitting = [piece for piece in self.free[small] if piece[1] >= size]
        if fitting:
            piece = min(fitting, key=lambda p: (p[1], p[0]))
            self.free[small].remove(piece)
        else:
            segment = 2 * MIB if small else 20 * MIB if size < 10 * MIB else (size + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)
            piece = [self.next, segment]
            self.next += segment + MIB
        rest = piece[1] - size
        if rest >= 512 if small else rest > MIB:
            self.free[small].append([piece[0] + size, rest])
            return size
        return piece[1]


def optimizer(name, rows, columns, width):
    """Sizes of the tensors that it makes for a weight; columns None: it is a vector."""
    n = rows * (columns or 1)
    if name == "sgd":
        return []
    if name == "momentum":
        return [n * width]
    if name == "adafactor":
        return [n * width] if columns is None else [rows * width, columns * width]
    if name == "adam8bit":
        return [4 * n, 4 * n] if n < 4096 else [n, n, (n + 255) // 256 * 4, (n + 255) // 256 * 4]
    return [n * width, n * width]


class Blocks(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.dir.cleanup()

    def estimate(self, text, *args):
        path = os.path.join(self.dir.name, "net.txt")
        with open(path, "w") as f:
            f.write(text)
        done = subprocess.run([PROGRAM, "estimate", "--json", "--allocator", "pytorch", "--mode", "train", path] + list(args),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return {name: part["bytes"] for name, part in json.loads(done.stdout)["components"].items()}

    def net(self, sizes, bias):
        """Text, and the shapes of weights in their order, layer by layer."""
        text, layers = "input x [batch, %d]\n" % sizes[0], []
        for k, (before, after) in enumerate(zip(sizes, sizes[1:])):
            text += "linear l%d %d%s\nrelu\n" % (k, after, "" if bias else " bias=no")
            layers.append([(after, before)] + ([(after, None)] if bias else []))
        return text, layers

    def expect(self, layers, name, width, gradient, pure):
        caching = Caching()
        weights = sum(caching.malloc(r * (c or 1) * width) for layer in layers for r, c in layer)
        gradients = sum(caching.malloc(r * (c or 1) * gradient) for layer in reversed(layers) for r, c in layer)
        masters = sum(caching.malloc(r * (c or 1) * 4) for layer in layers for r, c in layer) if pure else 0
        states = 0
        for layer in layers:
            for r, c in layer:
                states += sum(caching.malloc(n) for n in optimizer(name, r, c, 4 if pure else width))
        return {"parameters": weights, "gradients": gradients, "master": masters, "optimizer": states}

    def check(self, sizes, name, dtype="f32", gradient=None, pure=False, bias=True):
        width = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8}
        text, layers = self.net(sizes, bias)
        args = ["--optimizer", name] + (["--amp", "pure"] if pure else ["--dtype", dtype]) + (["--grad-dtype", gradient] if gradient else [])
        got = self.estimate(text, *args)
        w = 2 if pure else width[dtype]
        want = self.expect(layers, name, w, width[gradient] if gradient else w, pure)
        self.assertEqual({key: got[key] for key in want}, want, (sizes, args))
        exact = sum(r * (c or 1) for layer in layers for r, c in layer) * w
        return want["gradients"] - exact

    def test_optimizers(self):
        lost = 0
        for name in ("sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"):
            for dtype in ("f32", "bf16"):
                lost += self.check((700, 1100, 1531, 900, 10), name, dtype)
            lost += self.check((700, 1100, 1531, 900, 10), name, "f16", "f32")
            lost += self.check((700, 1100, 1531, 900, 10), name, pure=True)
            lost += self.check((64, 64, 64), name)
        self.assertGreater(lost, 4 * MIB)  # else nothing would tell blocks from bytes

    def test_random(self):
        choose = random.Random(7)
        for _ in range(60):
            sizes = [choose.choice((1, 17, 256, 500, 777, 1024, 2048, 3001)) for _ in range(choose.randint(2, 7))]
            self.check(sizes, choose.choice(("momentum", "adam", "adafactor", "adam8bit")), choose.choice(("f32", "f16", "f64")),
                       bias=choose.random() < 0.7)

    def test_adapters(self):
        """Weights that are not trained, with adapters: two matrices of f32 beside each product, which are weights, too."""
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 768, "intermediate_size": 1900, "num_hidden_layers": 2,
                  "num_attention_heads": 12, "num_key_value_heads": 12, "vocab_size": 1500, "max_position_embeddings": 512,
                  "tie_word_embeddings": False}
        path = os.path.join(self.dir.name, "config.json")
        with open(path, "w") as f:
            json.dump(config, f)
        done = subprocess.run([PROGRAM, "estimate", "--json", "--allocator", "pytorch", "--mode", "train", "--lora", "300", "--seq", "16", path],
                              stdout=subprocess.PIPE, check=True)
        got = {name: part["bytes"] for name, part in json.loads(done.stdout)["components"].items()}
        done = subprocess.run([PROGRAM, "estimate", "--json", "--allocator", "pytorch", path], stdout=subprocess.PIPE, check=True)
        alone = json.loads(done.stdout)["components"]["parameters"]["bytes"]
        adapter = 300 * 768 * 4
        self.assertGreaterEqual(got["parameters"], alone + 2 * 2 * 2 * adapter)
        self.assertLess(got["parameters"], alone + 2 * 2 * 2 * (adapter + MIB))
        self.assertGreaterEqual(got["gradients"], 8 * adapter)
        self.assertGreaterEqual(got["optimizer"], 16 * adapter)

    def test_blocks_of_adapters(self):
        """Their weights follow those of the model; their gradients are made from the last layer to the first, their states in order."""
        choose = random.Random(9)
        for _ in range(40):
            sizes = [choose.choice((17, 256, 700, 1100, 1531, 3001)) for _ in range(choose.randint(3, 7))]
            rank, name = choose.choice((8, 64, 300, 411)), choose.choice(("sgd", "adamw", "adafactor", "adam8bit"))
            text, layers = self.net(sizes, choose.random() < 0.7)
            text = text[:-len("relu\n")]  # what makes the answers has no adapter
            caching = Caching()
            sides = [shape for layer in layers[:-1] for shape in ((rank, layer[0][1]), (layer[0][0], rank))]
            want = {"parameters": sum(caching.malloc(r * (c or 1) * 4) for layer in layers for r, c in layer)}
            want["parameters"] += sum(caching.malloc(r * c * 4) for r, c in sides)
            want["gradients"] = sum(caching.malloc(r * c * 4) for r, c in reversed(sides))
            want["optimizer"] = sum(caching.malloc(n) for r, c in sides for n in optimizer(name, r, c, 4))
            got = self.estimate(text, "--optimizer", name, "--lora", str(rank), "--lora-targets", "all")
            self.assertEqual({key: got[key] for key in want}, want, (sizes, rank, name))


if __name__ == "__main__":
    unittest.main()
