"""Whatever the command prints, on small models: tables, -v, --diffable, documents, pages, Markdown, drawings, help, refusals. The status is
the one that is expected, and no sanitizer complains: the builds with sanitizers run it, too.
Python's standard library alone. Usage: test_printing.py PROGRAM"""

import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from made_models import folder, llama, safetensors

PROGRAM = os.path.abspath(sys.argv.pop(1))
COMMANDS = ("shrink quantize prune distill run dequantize convert index inspect graph evaluate logits calibrate sensitivity diff verify "
            "selftest devices gpus estimate fit plan completion").split()
NET = "input x [batch, 6]\nlinear a 12\nrelu\nlinear b 4\n"
# A size that nothing gives a number, so that products have none either.
OPEN = "input x [batch, points, 6]\nlinear a 12\nrelu\nlinear b 4\n"
PICTURES = "input x [batch, 3, 8, 8]\nconv c1 4 kernel=3\nrelu\nflatten\nlinear fc 10\n"
PROBLEMS = (b"Sanitizer", b"runtime error", b"Assertion")


class Printing(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        here = self.dir.name
        safetensors(os.path.join(here, "m.safetensors"), [("a.weight", (12, 6)), ("a.bias", (12,)), ("b.weight", (4, 12)), ("b.bias", (4,))])
        safetensors(os.path.join(here, "x.safetensors"), [("x", (8, 6))])
        folder(os.path.join(here, "llama"), *llama(64, 96, 2, 4, 2, 103, False))
        for name, text in (("net.txt", NET), ("open.txt", OPEN), ("pictures.txt", PICTURES), ("wrong.txt", "linear\n"),
                           ("broken.safetensors", "no model")):
            with open(os.path.join(here, name), "w") as f:
                f.write(text)

    def tearDown(self):
        self.dir.cleanup()

    def run_one(self, status, *words):
        done = subprocess.run([PROGRAM, *words], cwd=self.dir.name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        with self.subTest(" ".join(words)):
            self.assertFalse([word for word in PROBLEMS if word in done.stderr], done.stderr.decode("utf-8", "replace"))
            self.assertIn(done.returncode, status if isinstance(status, tuple) else (status,), done.stderr.decode("utf-8", "replace"))
        return done

    def all_ways(self, status, *words, beside=()):
        ways = [(), ("-v", "--diffable"), ("-q",), ("--json",)] + list(beside)
        for way in ways:
            self.run_one(status, *words, *way)

    PAGE, TABLE = ("--html", "p.html"), ("--markdown", "p.md")

    def test_graph(self):
        for net in ("net.txt", "open.txt", "pictures.txt"):
            self.all_ways(0, "graph", net, beside=[self.PAGE, ("--svg", "g.svg"), ("--full",), ("--full", "-v"), ("--text",)])
            self.run_one(0, "graph", net, "--size", "batch=3", "-v")
        self.run_one(0, "graph", "open.txt", "--size", "points=5")
        self.run_one(0, "graph", "net.txt", "--couplings")
        self.run_one(0, "graph", "net.txt", "--weights", "m.safetensors", "--data", "x.safetensors", "--outputs", "y.npz")
        self.run_one(0, "graph", "llama/config.json", "-v")

    def test_memory(self):
        for model in ("net.txt", "m.safetensors", "llama"):
            self.all_ways(0, "estimate", model, beside=[self.PAGE])
            self.all_ways((0, 1), "fit", model, "--gpu", "t4", beside=[self.PAGE])
            self.run_one((0, 1), "plan", model, "--gpu", "t4", "-v")
        self.all_ways((0, 1), "plan", "llama", "--gpu", "t4", beside=[self.PAGE])
        for words in (("net.txt",), ("llama",), ("net.txt", "--batch", "4")):
            self.run_one(0, "estimate", *words, "--mode", "train", "-v")
            self.run_one((0, 1), "fit", *words, "--gpu", "t4", "--mode", "train", "-v")
        self.run_one((0, 1, 3), "estimate", "open.txt", "-v")
        self.all_ways(0, "gpus")

    def test_files(self):
        self.run_one(2)
        self.run_one(0, "m.safetensors")
        self.all_ways(0, "inspect", "m.safetensors", beside=[self.PAGE, ("--stats", "-v")])
        self.all_ways(0, "verify", "m.safetensors", beside=[self.PAGE])
        self.all_ways(3, "inspect", "broken.safetensors")
        self.run_one(0, "quantize", "--int8", "--min-elements", "0", "m.safetensors", "-o", "q.safetensors", "-q")
        self.all_ways((0, 1), "diff", "m.safetensors", "q.safetensors", beside=[self.PAGE, self.TABLE])
        self.all_ways(0, "sensitivity", "m.safetensors", beside=[self.PAGE, ("--svg", "s.svg")])
        self.run_one(0, "calibrate", "--graph", "net.txt", "--data", "x.safetensors", "m.safetensors", "-o", "s.npz", "-v")

    def test_jobs(self):
        beside = [self.PAGE, self.TABLE]
        for words in (("quantize", "--int4", "--min-elements", "0"), ("prune", "--sparsity", "0.5", "--min-elements", "0"),
                      ("convert", "--format", "npz")):
            self.all_ways(0, *words, "-n", "m.safetensors", beside=beside)
            self.all_ways(0, *words, "-f", "m.safetensors", "-o", "out.npz", beside=beside)
        for name, sparsity in (("a", "0.5"), ("b", "0.7")):
            self.run_one(0, "prune", "--sparsity", sparsity, "--min-elements", "0", "-n", "-q", "m.safetensors", "--json=%s.json" % name)
        self.all_ways((0, 1), "diff", "a.json", "b.json", beside=beside)

    def test_help(self):
        for command in COMMANDS:
            self.run_one(0, command, "--help")
            self.run_one(0, command, "--help=all")
            self.run_one(0, "help", command)
        for words in (("--help",), ("--version",), ("devices",), ("completion", "bash"), ("selftest", "--help")):
            self.run_one((0, 4), *words)

    def test_examples(self):
        """Where nothing lies, an example of --help misses its input, and nothing else is wrong with it."""
        with tempfile.TemporaryDirectory() as empty:
            for command in COMMANDS:
                said = subprocess.run([PROGRAM, command, "--help=all"], capture_output=True, text=True).stdout
                for line in re.findall(r"^  vcompress ((?:.*\\\n)*[^>\n]*)", said, re.M):
                    words = shlex.split(line.replace("\\\n", " "))
                    if not any(word.startswith("hf:") for word in words):  # of another machine
                        got = subprocess.run([PROGRAM, *words], cwd=empty, capture_output=True, text=True)
                        self.assertIn(got.returncode, (0, 4), (words, got.stderr))

    def test_refusals(self):
        for command, words in itertools.product(COMMANDS, (("no.npz",), ("--no-such-option",))):
            if command not in ("selftest", "devices", "gpus", "completion") or words[0] != "no.npz":
                self.run_one((2, 3, 4), command, *words)
        for words in (("graph", "wrong.txt"), ("graph", "broken.safetensors"), ("quantize", "m.safetensors"), ("fit", "m.safetensors", "--gpu", "none"),
                      ("no-such-command",), ("graph", "no.txt", "--json"), ("quantize", "--int8", "--only", "x[", "m.safetensors")):
            self.run_one((2, 3, 4), *words)


if __name__ == "__main__":
    unittest.main()
