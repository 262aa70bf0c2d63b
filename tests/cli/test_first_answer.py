"""The first answer, `vcompress MODEL`, of models of every kind: exit status 0, and each command that it prints runs as it stands. Then what
the answer says of open sizes, of codes that a loader decodes, and of operators that are not known.
Python's standard library alone. Usage: test_first_answer.py PROGRAM"""

import os
import random
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import unittest

from made_models import bert, folder, llama

PROGRAM = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
KIB = {"B": 1, "KiB": 1024, "MiB": 1024**2}


# ---- an ONNX file, as protobuf ----

def number(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(k, value):
    if isinstance(value, int):
        return number(k << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(k << 3 | 2) + number(len(value)) + value


def value_info(name, shape):
    dims = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d) if d else b"") for d in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def onnx(path, op, inputs, weights):
    """A node of that operator, x and weights of random numbers in, y out."""
    draw = random.Random(1)
    node = field(1, "x") + b"".join(field(1, name) for name, _ in weights) + field(2, "y") + field(4, op)
    graph = field(1, node) + field(2, "g")
    for name, shape in weights:
        n = 1
        for size in shape:
            n *= size
        data = struct.pack("<%df" % n, *[draw.uniform(-1, 1) for _ in range(n)])
        graph += field(5, b"".join(field(1, d) for d in shape) + field(2, 1) + field(8, name) + field(9, data))
    graph += field(11, value_info("x", inputs)) + field(12, value_info("y", []))
    with open(path, "wb") as f:
        f.write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))


class FirstAnswer(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def run_program(self, *words):
        return subprocess.run([PROGRAM, *words], cwd=self.dir.name, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def made(self, script, *words):
        subprocess.run([sys.executable, os.path.join(HERE, script), *words], cwd=self.dir.name, check=True)

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def answer(self, *words):
        """What is printed, after each command of it was run; the commands."""
        done = self.run_program(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        text, _, after = done.stdout.partition("next:\n")
        commands = [line.strip() for line in after.splitlines()]
        self.assertTrue(commands, words)
        for line in commands:
            ran = self.run_program(*shlex.split(line)[1:])
            self.assertEqual(ran.returncode, 0, (line, ran.stderr))
        return text, commands

    def bytes_of(self, text, row):
        size = re.search(r"^ +%s +([\d.]+) (B|KiB|MiB)" % row, text, re.M)
        self.assertIsNotNone(size, (row, text))
        return float(size.group(1)) * KIB[size.group(2)]

    def test_floats(self):
        folder(self.path("wide"), *llama(128, 256, 2, 4, 4, 300, False))
        folder(self.path("half"), *llama(128, 256, 2, 4, 4, 1200, False), dtype="BF16")
        folder(self.path("bert"), *bert(64, 128, 2, 4, 900), dtype="F16")
        folder(self.path("narrow"), *bert(72, 144, 2, 4, 900), dtype="F16")  # no group of four bits divides its rows
        for name, first in (("wide", "shrink --ratio 4"), ("half", "shrink --ratio 1.5"), ("bert", "shrink --ratio 1.5"), ("narrow", "quantize --int8")):
            text, commands = self.answer(name)
            self.assertIn("counted with batch 1, sequence 128", text)
            self.assertEqual(commands[0], "vcompress %s %s" % (first, name))
            self.assertRegex(text, r"need: what lives at the peak and [\d.]+ MiB of the device's runtime")
        self.made("make_npz.py", "a b.npz", "w.weight:f4:64x128", "v.weight:f4:128x64")
        self.assertEqual(self.answer("a b.npz")[1][0], "vcompress shrink --ratio 4 'a b.npz'")
        # its output is there now, and another one is not
        self.assertEqual(self.answer("a b.npz")[1][0], "vcompress quantize --int8 --rest fp16 'a b.npz'")
        # nothing of these bytes becomes smaller
        self.made("make_npz.py", "ints.npz", "steps:i8:64x64")
        self.assertEqual([line.split()[1] for line in self.answer("ints.npz")[1]], ["fit", "inspect"])

    def test_codes(self):
        folder(self.path("m"), *llama(256, 512, 1, 4, 4, 300, False), dtype="BF16")
        n = 2 * 300 * 256 + 4 * 256**2 + 3 * 256 * 512 + 3 * 256
        for words in (["--gguf", "Q8_0", "--no-vocab", "-o", "q8.gguf"], ["--gguf", "Q4_K_M", "--no-vocab", "-o", "q4.gguf"],
                      ["--int4", "-o", "int4"], ["--nf4", "-o", "nf4"], ["--int4", "--layout", "plain", "-o", "plain"]):
            self.assertEqual(self.run_program("quantize", "m", "-q", *words).returncode, 0, words)
            name = words[-1]
            text, commands = self.answer(name)
            self.assertAlmostEqual(self.bytes_of(text, "f32, decoded"), 4 * n, delta=0.02 * n, msg=text)
            self.assertAlmostEqual(self.bytes_of(text, "f16, decoded"), 2 * n, delta=0.02 * n, msg=text)
            self.assertNotRegex(text, r"(?m)^ +int[48]")
            decodes = name in ("int4", "plain")
            self.assertEqual("as loaded" in text, decodes, text)
            self.assertEqual("decodes" in text, decodes, text)
            if decodes:
                self.assertLess(self.bytes_of(text, "as stored"), self.bytes_of(text, "as loaded"))
            self.assertEqual(commands[0].split()[1], "quantize" if name == "q8.gguf" else "dequantize", commands)

    def test_checkpoint(self):
        self.made("make_pt.py", "a.pt", "state_dict.fc.weight=0:64x128", "optimizer.state.0.exp_avg=1:64x128",
                  "optimizer.state.0.exp_avg_sq=2:64x128")
        _, commands = self.answer("a.pt")
        self.assertIn("--drop optimizer", commands[0])
        done = self.run_program("shrink", "--ratio", "3", "a.pt", "-o", "b.pt")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--drop optimizer", done.stdout + done.stderr)

    def test_open_sizes(self):
        with open(self.path("net.txt"), "w") as f:
            f.write("input x [n, 3, 32, 32]\nconv c 8 kernel=3\nrelu\nflatten\nlinear fc 10\n")
        for command in ([], ["estimate"], ["fit", "--memory", "8GiB"], ["plan", "--memory", "8GiB"]):
            done = self.run_program(*command, "net.txt")
            self.assertEqual(done.returncode, 0, (command, done.stdout))
            self.assertIn("n 1", done.stdout)
        one, eight = (int(re.search(r"at the peak, ideal +([\d,]+)", self.run_program("estimate", "--bytes", *words, "net.txt").stdout)
                          .group(1).replace(",", "")) for words in ([], ["--batch", "8"]))
        self.assertGreater(eight, one)
        self.assertEqual(self.run_program("fit", "--memory", "8GiB", "--max-batch", "net.txt").returncode, 0)
        for name, leading in (("named.onnx", "s77"), ("nameless.onnx", "")):
            onnx(self.path(name), "MatMul", [leading, 64], [("w", (64, 128))])
            text, _ = self.answer(name)
            self.assertIn("GeForce", text)
            self.assertIn("counted with %s" % leading, text)
        # a size that is not the leading one stays open, and is named
        onnx(self.path("open.onnx"), "Conv", ["n", 3, "hw", "hw"], [("w", (8, 3, 3, 3))])
        text, _ = self.answer("open.onnx")
        self.assertIn("--size hw=N", text)
        self.assertIn("not known", text)
        text, commands = self.answer("open.onnx", "--size", "hw=64")
        self.assertIn("GeForce", text)
        self.assertIn("vcompress fit --all-gpus --size hw=64 open.onnx", commands)

    def test_unknown_operator(self):
        onnx(self.path("m.onnx"), "MaxUnpool", [10, 1, 48], [("W", (1, 256, 48)), ("R", (1, 256, 64))])
        text, commands = self.answer("m.onnx")
        self.assertRegex(text, r"note: figures count weights alone: .*MaxUnpool")
        self.assertIn("vcompress fit --all-gpus --weights-only m.onnx", commands)


unittest.main()
