"""test_graph_weights.py - a graph with weights in blocks of GGUF, which gguf decodes as the judge, and in PyTorch files."""
import os
import subprocess
import tempfile
import unittest

try:
    import numpy as np
    import gguf
    from gguf import GGMLQuantizationType as Type
    from gguf import quants
except ImportError as missing:
    import sys
    print("SKIPPED: %s for %s" % (missing, sys.executable))
    sys.exit(77)

PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "vcompress")
NET = "input x [batch, 64]\nlinear fc1 32\nrelu\nlinear fc2 8\n"
R = np.random.default_rng(3)


class Weights(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.x = R.standard_normal((3, 64)).astype(np.float32)
        np.savez(self.path("x.npz"), x=self.x)
        with open(self.path("net.txt"), "w") as file:
            file.write(NET)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def compute(self, weights):
        done = subprocess.run([PROGRAM, "graph", "-q", "-f", "--weights", weights, "--data", self.path("x.npz"), "--outputs",
                               self.path("y.npz"), "--precision", "f64", self.path("net.txt")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        with np.load(self.path("y.npz")) as z:
            return z[z.files[0]]

    def judge(self, w):
        h = np.maximum(self.x.astype(np.float64) @ w["fc1.weight"].T + w["fc1.bias"], 0)
        return h @ w["fc2.weight"].T + w["fc2.bias"]

    def floats(self):
        return {"fc1.weight": R.standard_normal((32, 64)).astype(np.float32),
                "fc1.bias": R.standard_normal(32).astype(np.float32),
                "fc2.weight": R.standard_normal((8, 32)).astype(np.float32),
                "fc2.bias": R.standard_normal(8).astype(np.float32)}

    def test_blocks(self):
        weights = self.floats()
        for kind in (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.F16, Type.BF16):
            with self.subTest(kind.name):
                writer = gguf.GGUFWriter(self.path("w.gguf"), "none")
                values = {}
                for name, a in weights.items():
                    if a.ndim == 1:
                        writer.add_tensor(name, a)
                        values[name] = a.astype(np.float64)
                        continue
                    codes = quants.quantize(a, kind)
                    writer.add_tensor(name, codes, raw_dtype=kind)
                    values[name] = quants.dequantize(codes, kind).astype(np.float64)
                writer.write_header_to_file()
                writer.write_kv_data_to_file()
                writer.write_tensors_to_file()
                writer.close()
                ours, theirs = self.compute(self.path("w.gguf")), self.judge(values)
                self.assertLess(np.abs(ours - theirs).max() / np.abs(theirs).max(), 1e-10)

    def test_torch(self):
        try:
            import torch
        except ImportError as missing:
            self.skipTest(str(missing))
        weights = {n: torch.tensor(a) for n, a in self.floats().items()}
        for kind in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            stored = {n: a.to(kind) for n, a in weights.items()}
            torch.save(stored, self.path("w.pt"))
            theirs = self.judge({n: a.double().numpy() for n, a in stored.items()})
            ours = self.compute(self.path("w.pt"))
            self.assertLess(np.abs(ours - theirs).max() / np.abs(theirs).max(), 1e-12)


if __name__ == "__main__":
    unittest.main()
