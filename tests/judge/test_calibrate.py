"""test_calibrate.py - statistics of the inputs of layers, against NumPy, which computes the digits network in f64; and what
prune and quantize do with them."""
import hashlib
import itertools
import os
import unittest

from judge_support import Judge, main, np
from test_gguf import gguf_read

from test_sensitivity_data import FOLDER, conv3x3, norm, pool

ROWS = 100
MODEL = os.path.join(FOLDER, "digits.npz")
ROWS_OF = ("--graph", os.path.join(FOLDER, "digits.layers.txt"), "--data", os.path.join(FOLDER, "images.npz"), "--array",
           "test_images=test_images")


def windows(x):
    """Vectors of all 3 x 3 windows with a border of one zero: channel after channel."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    n, c, h, w = x.shape
    taps = [padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)]
    return np.stack(taps, 2).transpose(0, 3, 4, 1, 2).reshape(n * h * w, c * 9)


class Statistics(Judge):
    @classmethod
    def setUpClass(cls):
        with np.load(MODEL) as z:
            w = {n: z[n].astype("f8") for n in z.files}
        with np.load(os.path.join(FOLDER, "images.npz")) as z:
            x = z["test_images"][:ROWS].reshape(-1, 1, 8, 8) * 0.0625
        cls.inputs = {"conv1.weight": windows(x)}
        x = np.maximum(norm(conv3x3(x, w["conv1.weight"]), w, "bn1"), 0)
        cls.inputs["conv2.weight"] = windows(x)
        x = pool(np.maximum(norm(conv3x3(x, w["conv2.weight"]), w, "bn2"), 0))
        cls.inputs["conv3.weight"] = windows(x)
        x = pool(np.maximum(norm(conv3x3(x, w["conv3.weight"]), w, "bn3"), 0)).reshape(ROWS, -1)
        cls.inputs["fc1.weight"] = x
        cls.inputs["fc2.weight"] = np.maximum(x @ w["fc1.weight"].T + w["fc1.bias"], 0)

    def calibrate(self, name, *more):
        self.vc("calibrate", MODEL, *ROWS_OF, "--rows", ROWS, "-o", self.path(name), *more)
        return self.load(self.path(name))

    def test_sums(self):
        found = self.calibrate("s.npz", "--second-moments")
        self.assertEqual(len([n for n in found if not n.endswith(".digest")]), 9 * len(self.inputs) + 3)
        self.assertEqual(found["__rows__"], ROWS)
        wide = ("in_sum", "in_sum2", "counts", "in_xtx")
        for name, x in self.inputs.items():
            want = {"in_sum2": (x * x).sum(0), "counts": np.array([len(x)]), "in_sum": x.sum(0), "in_min": x.min(0),
                    "in_max": x.max(0), "in_xtx": x.T @ x}
            for tail, value in want.items():
                a = found[name + "." + tail]
                self.assertEqual((a.dtype, a.shape), (np.dtype("f8" if tail in wide else "f4"), value.shape), name + tail)
                self.assertLessEqual(np.abs(a - value).max(), 2e-6 * np.abs(value).max(), name + tail)
            self.assertTrue((found[name + ".in_xtx"] == found[name + ".in_xtx"].T).all())

    def test_histograms(self):
        """2048 bins of the least power of two in width; each element of a value once, whatever order rows come in."""
        with np.load(os.path.join(FOLDER, "images.npz")) as z:
            x = z["test_images"][:ROWS].reshape(ROWS, 64) * np.exp2(np.arange(-50, 50).astype("f4")).reshape(-1, 1)
        x[1::2] *= -1
        x[0] = [0, -0.0, 1e-40, -1e-40, -2.0**-149, 16, -16, 32 * 2.0**-120] * 8
        results = []
        for rows in (x, x[::-1], x[:7]):
            np.savez(self.path("x.npz"), test_images=rows.reshape(-1, 8, 8))
            self.vc("calibrate", MODEL, *ROWS_OF[:2], "--data", self.path("x.npz"), "--batch", 3, "-f", "-o", self.path("h.npz"))
            results.append(self.load(self.path("h.npz")))
            found, seen = results[-1]["conv1.weight.in_hist"], rows * np.float32(0.0625)
            width = float(results[-1]["conv1.weight.in_hist_width"][0])
            self.assertEqual(np.frexp(width)[0], 0.5)
            self.assertTrue(512 * width <= np.abs(seen).max() < 1024 * width)
            want = np.bincount(np.floor(seen.astype("f8").ravel() / width).astype(int) + 1024, minlength=2048)
            self.assertTrue((found == want).all())
        for k, a in results[0].items():
            if k.find("in_hist") > 0:
                self.assertEqual(a.tobytes(), results[1][k].tobytes(), k)
        self.assertEqual(results[0]["fc1.weight.in_hist"].sum(), self.inputs["fc1.weight"].size)
        np.savez(self.path("x.npz"), test_images=np.zeros((2, 8, 8), "u1"))
        self.vc("calibrate", MODEL, *ROWS_OF[:2], "--data", self.path("x.npz"), "-f", "-o", self.path("h.npz"))
        zeros = self.load(self.path("h.npz"))["conv1.weight.in_hist"]
        self.assertEqual((zeros[1024], zeros.sum()), (128, 128))

    def test_masks(self):
        """Rows that a mask leaves out do not count; a mask of positions is about answers."""
        with np.load(os.path.join(FOLDER, "images.npz")) as z:
            x = z["test_images"][:ROWS]
        keep = np.arange(ROWS) % 3 != 0
        results = []
        for arrays in ({"test_images": x[keep]}, {"test_images": x, "mask": keep.astype("u1")},
                       {"test_images": x[keep], "mask": np.zeros((int(keep.sum()), 4), "u1") + (np.arange(4) > 0)}):
            np.savez(self.path("x.npz"), **{k: np.ascontiguousarray(a).astype("u1") for k, a in arrays.items()})
            self.vc("calibrate", MODEL, *ROWS_OF[:2], "--data", self.path("x.npz"), "-f", "-o", self.path("m.npz"))
            results.append(self.load(self.path("m.npz")))
        for other in results[1:]:
            for k, a in results[0].items():
                self.assertEqual(a.tobytes(), other[k].tobytes(), k)

    def test_threads_batches_and_formats(self):
        first = self.calibrate("a.npz", "--threads", 1)
        for name, more in (("b.npz", ["--threads", 3]), ("c.npz", ["--max-memory", "8MiB"]), ("d.npz", ["--batch", 7])):
            other = self.calibrate(name, *more)
            self.assertEqual(sorted(first), sorted(other))
            for k, a in first.items():
                self.assertEqual(a.tobytes(), other[k].tobytes(), k)

    def test_windows_that_are_not_copied(self):
        """Second moments need windows as vectors; sums without them are read from bands of the images, and have the same bits."""
        layers = (("a", 40, 9, "5x3", "pad=3"), ("b", 17, 40, "3", "stride=2"), ("c", 16, 17, "1", "pad=1"), ("d", 8, 16, "3x2", "pad=2 dilation=2"),
                  ("e", 9, 8, "2", "stride=3 pad=2"), ("f", 8, 9, "3", ""))  # f: 49 windows
        random, w = np.random.default_rng(3), {}
        for name, out, channels, kernel, _ in layers:
            side = [int(k) for k in (kernel * 2 if len(kernel) == 1 else kernel.replace("x", ""))]
            w[name + ".weight"] = random.standard_normal((out, channels, *side)).astype("f4")
            w[name + ".bias"] = random.standard_normal(out).astype("f4")
        np.savez(self.path("m.npz"), **w)
        np.savez(self.path("x.npz"), x=(random.standard_normal((5, 9, 47, 52)) * 10.0 ** random.integers(-9, 3, (5, 9, 47, 52))).astype("f4"))
        with open(self.path("m.layers.txt"), "w") as f:
            f.write("input x [batch, 9, 47, 52]\n" + "".join("conv %s %d kernel=%s %s\n" % (n, o, k, more) for n, o, _, k, more in layers))
        found = []
        for n, more in enumerate((["--second-moments"], [], ["--threads", 2, "--batch", 2])):
            self.vc("calibrate", self.path("m.npz"), "--graph", self.path("m.layers.txt"), "--data", self.path("x.npz"), "--threads", 1,
                    "-o", self.path("b%d.npz" % n), *more)
            found.append(self.load(self.path("b%d.npz" % n)))
        for name, *_ in layers:
            for tail in ("in_sum", "in_sum2", "in_min", "in_max", "counts"):
                for other in found[1:]:
                    self.assertEqual(found[0][name + ".weight." + tail].tobytes(), other[name + ".weight." + tail].tobytes(), name + tail)

    def part(self, name, rows):
        np.savez(self.path("x.npz"), test_images=rows)
        self.vc("calibrate", MODEL, *ROWS_OF[:2], "--data", self.path("x.npz"), "--second-moments", "-f", "-o", self.path(name))
        return self.path(name)

    def test_merge(self):
        """Runs over parts of the rows add up to the file of one run, in any order, to the byte."""
        with np.load(os.path.join(FOLDER, "images.npz")) as z:
            x = z["test_images"][:200].astype("f4")
        x[70:140] *= 37  # other widths of bins, other extremes
        x[140:] = -x[140:]
        whole = self.part("whole.npz", x)
        parts = [self.part("p%d.npz" % k, x[a:b]) for k, (a, b) in enumerate(((0, 64), (64, 192), (192, 200)))]
        for order in (parts, parts[::-1]):
            self.vc("calibrate", *order, "-f", "-o", self.path("m.npz"))
            with open(self.path("m.npz"), "rb") as a, open(whole, "rb") as b:
                self.assertEqual(a.read(), b.read())
        self.vc("calibrate", *parts[:2], "-o", self.path("two.safetensors"))
        self.vc("calibrate", self.path("two.safetensors"), parts[2], "-f", "-o", self.path("m.npz"))
        with open(self.path("m.npz"), "rb") as a, open(whole, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertIn("would count twice", self.refuse(2, "calibrate", *parts, parts[1], "-o", self.path("n.npz")))
        self.assertIn("has no statistics", self.refuse(3, "calibrate", MODEL, "-o", self.path("n.npz")))
        for name, change in (("fc1.weight.in_sum2", lambda a: a[1:]), ("fc1.weight.sample", lambda a: a + 1), ("fc2.weight.in_hist", lambda a: -a),
                             ("fc2.weight.in_hist_width", lambda a: a * 0)):
            arrays = self.load(parts[1])
            arrays = {k: change(a) if k == name else a for k, a in arrays.items()}
            np.savez(self.path("bad.npz"), **arrays)
            self.assertIn(name.replace("_width", ""), self.refuse(3, "calibrate", parts[0], self.path("bad.npz"), "-o", self.path("n.npz")))
        self.assertFalse(os.path.exists(self.path("n.npz")))

    def test_imatrix(self):
        """What llama-quantize reads: sums of squares and counts in f32, under keys that it wants."""
        stats = self.calibrate("s.npz")
        self.assertIn(b"blk.0.attn_q.weight", self.vc("calibrate", self.path("s.npz"), "-o", self.path("im.gguf")).out)
        tensors, pairs = gguf_read(self.path("im.gguf"))
        self.assertEqual(sorted(tensors), sorted(k for k in stats if k.endswith((".in_sum2", ".counts"))))
        for name, (number, shape, data) in tensors.items():
            self.assertEqual((number, data), (0, stats[name].astype("f4").tobytes()))
        self.assertEqual(pairs["general.type"][1][-7:], b"imatrix")
        for key in ("imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"):
            self.assertIn(key, pairs)
        for how in ("s.npz", "im.gguf"):
            self.vc("quantize", "--nf4", "--exclude", "*.bias", "--calibration", self.path(how), MODEL, "-o", self.path(how + ".q.npz"))
        a, b = (self.load(self.path(how + ".q.npz")) for how in ("s.npz", "im.gguf"))
        for k in a:
            self.assertEqual(a[k].tobytes(), b[k].tobytes(), k)

    def test_another_training(self):
        """Pruned weights are those of the model that was measured, with a note; shuffled ones are those of another."""
        self.calibrate("s.npz", "--second-moments")
        with np.load(MODEL) as z:
            w = {n: z[n] for n in z.files}
        r = np.random.default_rng(1)
        other = {n: r.permuted(a.ravel()).reshape(a.shape) if a.ndim > 1 else a for n, a in w.items()}
        np.savez(self.path("other.npz"), **other)
        use = ("--calibration", self.path("s.npz"))
        for command in (["quantize", "--int4"], ["prune", "--sparsity", "0.5", "--reconstruct"]):
            self.assertIn("of another training", self.refuse(3, *command, *use, self.path("other.npz"), "-o", self.path("n.npz")))
            self.vc(*command, *use, "--calibration-anyway", self.path("other.npz"), "-f", "-o", self.path("o.npz"))
            self.refuse(2, *command, "--calibration-anyway", MODEL, "-o", self.path("n.npz"))
            self.assertNotIn("not those that were measured", self.vc(*command, *use, MODEL, "-f", "-o", self.path("o.npz")).out.decode())
        for sparsity in ("0.5", "0.9"):
            self.vc("prune", "--sparsity", sparsity, MODEL, "-f", "-o", self.path("p.npz"))
            done = self.vc("quantize", "--int4", *use, self.path("p.npz"), "-f", "-o", self.path("o.npz"))
            self.assertIn("not those that were measured", done.out.decode())
        self.assertFalse(os.path.exists(self.path("n.npz")))

    def test_identity(self):
        """Statistics know the network that was measured: every tensor of it in its bytes, and its graph."""
        stats = self.calibrate("s.npz")
        with np.load(MODEL) as z:
            w = {n: z[n] for n in z.files}
        w = {n: a for n, a in w.items() if not n.endswith("num_batches_tracked")}  # of no use in the graph
        self.assertEqual({k[:-7] for k in stats if k.endswith(".digest")}, set(w))
        for name, a in w.items():
            data = a.tobytes()
            n = -(-len(data) // 16384)
            starts = [16384 * k for k in range(n)] if n <= 16 else [(len(data) - 16384) // 15 * k // 64 * 64 for k in range(16)]
            digest = hashlib.sha256(b"".join(data[b:b + 16384] for b in starts)).hexdigest()
            numbers = [int(digest[16 * i:16 * i + 16], 16) for i in range(4)]
            self.assertEqual([int(x) % 2 ** 64 for x in stats[name + ".digest"][:4]], numbers, name)
        command = ["quantize", "--int4", "--calibration", self.path("s.npz"), "-f", "-o", self.path("o.npz")]
        half = {n: a.astype("f2") for n, a in w.items()}
        scaled = dict(w, **{"fc1.weight": w["fc1.weight"] * 1.5})
        bias = dict(w, **{"fc2.bias": w["fc2.bias"] + np.float32(0.01)})
        for what, arrays, noted in (("same", w, None), ("half", half, None), ("scaled", scaled, "fc1.weight"), ("bias", bias, "fc2.bias")):
            (np.savez_compressed if what == "same" else np.savez)(self.path("m.npz"), **arrays)  # deflated: the same values
            said = self.vc(*command, self.path("m.npz")).out.decode()
            self.assertEqual("not those that were measured for the statistics: %s" % noted in said, noted is not None, (what, said))
            if noted is None:
                self.assertNotIn("not those that were measured", said)
        # files of two trainings, or of two graphs, are not joined
        for k, (array, word) in enumerate((("fc2.bias.digest", "fc2.bias"), ("__graph__", "__graph__"))):
            arrays = dict(stats, **{array: stats[array] + 1, "__data__": stats["__data__"] + 1 + k})
            np.savez(self.path("other.npz"), **arrays)
            self.assertIn(word, self.refuse(3, "calibrate", self.path("s.npz"), self.path("other.npz"), "-o", self.path("n.npz")))

    def test_what_is_refused(self):
        with np.load(MODEL) as z:
            w = {n: z[n].copy() for n in z.files}
        w["conv2.weight"][3, 2, 1, 1] = np.inf
        np.savez(self.path("bad.npz"), **w)
        done = self.refuse(3, "calibrate", self.path("bad.npz"), *ROWS_OF, "-o", self.path("n.npz"))
        self.assertIn("conv3.weight: row 0: the input is NaN or infinite", done)
        self.assertFalse(os.path.exists(self.path("n.npz")))


def objective(h, w, found):
    d = w - found
    return ((d @ h) * d).sum(1)


class Statistical(Judge):
    written = None  # the same statistics for all tests

    def setUp(self):
        super().setUp()
        if Statistical.written is None:
            self.vc("calibrate", MODEL, *ROWS_OF, "--rows", ROWS, "--second-moments", "-o", self.path("s.npz"))
            with open(self.path("s.npz"), "rb") as f:
                Statistical.written = f.read()
        with open(self.path("s.npz"), "wb") as f:
            f.write(Statistical.written)
        self.stats = self.load(self.path("s.npz"))
        with np.load(MODEL) as z:
            self.weights = {n: z[n] for n in z.files}

    def means(self, name):
        return self.stats[name + ".in_sum"].astype("f8") / float(self.stats[name + ".counts"][0])

    def damped(self, name, centred=False):
        """centred: as for layers that have a bias."""
        count = float(self.stats[name + ".counts"][0])
        h = self.stats[name + ".in_xtx"].astype("f8") / count
        if centred and name.replace("weight", "bias") in self.weights:
            h -= np.outer(self.means(name), self.means(name))
        return h + np.eye(len(h)) * np.diag(h).mean() * 0.01 * min(10, max(1, 4 * len(h) / count))

    def prune(self, *more):
        self.vc("prune", *more, MODEL, "-f", "-o", self.path("p.npz"))
        return self.load(self.path("p.npz"))


class Pruning(Statistical):
    """Scores by statistics, and least squares on what stays."""

    def wanda(self, *more):
        return self.prune("--score", "wanda", "--calibration", self.path("s.npz"), *more)

    def scores(self, name):
        w = self.weights[name].reshape(len(self.weights[name]), -1)
        h = self.stats[name + ".in_sum2"] / self.stats[name + ".counts"]
        return w, np.abs(w) * np.sqrt(h)

    def test_rows(self):
        found = self.wanda("--sparsity", "0.37")
        for name in ("conv1", "conv2", "conv3", "fc1", "fc2"):
            w, score = self.scores(name + ".weight")
            want = w.copy()
            for row, s in zip(want, score):
                row[np.argsort(s, kind="stable")[:37 * len(row) // 100]] = 0
            self.same_bits(found[name + ".weight"].reshape(want.shape), want, name)

    def test_patterns(self):
        found = self.wanda("--pattern", "2:4", "--exclude", "*", "--include", "fc1.weight", "--include", "conv3.weight")
        w, score = self.scores("fc1.weight")
        keep = np.argsort(np.argsort(-score.reshape(-1, 4), 1, kind="stable"), 1, kind="stable").reshape(w.shape) < 2
        self.same_bits(found["fc1.weight"], np.where(keep, w, np.float32(0)), "fc1")
        for name in ("fc1.weight", "conv3.weight"):  # along input channels
            self.assertTrue(((np.moveaxis(found[name], 1, -1).reshape(-1, 4) != 0).sum(1) <= 2).all(), name)

    def test_least_squares(self):
        refit = ("--calibration", self.path("s.npz"), "--reconstruct")
        for how in (["--sparsity", "0.8"], ["--pattern", "2:4"], ["--pattern", "block:4x4", "--sparsity", "0.5"]):
            plain, found = self.prune(*how), self.prune(*how, *refit)
            for name in ("conv2.weight", "fc1.weight", "fc2.weight"):
                w = self.weights[name].reshape(len(self.weights[name]), -1).astype("f8")
                h = self.damped(name)
                masked, got = plain[name].reshape(w.shape), found[name].reshape(w.shape)
                self.assertTrue(((masked == 0) == (got == 0)).all(), name)
                best = masked.astype("f8").copy()
                for row, to in zip(w, best):
                    s = to != 0
                    to[s] = row[s] + np.linalg.solve(h[np.ix_(s, s)], h[np.ix_(s, ~s)] @ row[~s])
                want, reached = objective(h, w, best), objective(h, w, got.astype("f8"))
                self.assertTrue((reached <= want * 1.01 + 1e-9).all(), (name, how, (reached / want).max()))
                self.assertLess(reached.sum(), 0.95 * objective(h, w, masked.astype("f8")).sum(), (name, how))

    def test_masks_of_a_file_and_short_floats(self):
        """The mask that a run wrote gives that run's weights; f16 is rounded, zeros that were there stay."""
        first = self.prune("--sparsity", "0.5", "--mask-out", self.path("m.npz"), "--calibration", self.path("s.npz"), "--reconstruct")
        again = self.prune("--mask", self.path("m.npz"), "--calibration", self.path("s.npz"), "--reconstruct")
        for name, a in first.items():
            self.same_bits(again[name], a, name)
        half = {n: a.astype("f2") if a.dtype == "f4" else a for n, a in self.weights.items()}
        half["fc1.weight"][:, ::3] = 0
        np.savez(self.path("half.npz"), **half)
        self.vc("prune", "--sparsity", "0.2", "--scope", "tensor", "--calibration", self.path("s.npz"), "--reconstruct",
                self.path("half.npz"), "-o", self.path("h.npz"))
        found = self.load(self.path("h.npz"))
        self.assertTrue((found["fc1.weight"][:, ::3] == 0).all())
        self.assertEqual(found["conv2.weight"].dtype, np.dtype("f2"))
        near = np.abs(found["conv2.weight"].astype("f4") - self.weights["conv2.weight"]).max()
        self.assertLess(near, 0.3)

    def test_short_floats(self):
        """Scores of f16 in tiles as large as they come: the bytes of f32, rounded."""
        name = "fc1.weight"
        w = np.random.default_rng(3).standard_normal((3000, 512)).astype("f2")
        stats = {k: a for k, a in self.stats.items() if k.startswith(name) and not k.endswith(".sample")}
        np.savez(self.path("s1.npz"), **stats)
        for score in ("wanda", "sparsegpt"):
            found = []
            for dtype in ("f2", "f4"):
                np.savez(self.path("w.npz"), **{name: w.astype(dtype)})
                self.vc("prune", "--sparsity", "0.5", "--score", score, "--calibration", self.path("s1.npz"), self.path("w.npz"), "-f", "-o", self.path("p.npz"))
                found.append(self.load(self.path("p.npz"))[name])
            self.same_bits(found[0], found[1].astype("f2"), score)

    def test_what_is_refused_or_kept(self):
        self.refuse(2, "prune", "--sparsity", "0.5", "--score", "wanda", MODEL, "-o", self.path("n.npz"))
        self.refuse(2, "prune", "--sparsity", "0.5", "--reconstruct", MODEL, "-o", self.path("n.npz"))
        self.refuse(2, "prune", "--sparsity", "0.5", "--calibration", self.path("s.npz"), MODEL, "-o", self.path("n.npz"))
        self.refuse(2, "prune", "--sparsity", "0.5", "--score", "wanda", "--scope", "global", "--calibration", self.path("s.npz"), MODEL,
                    "-o", self.path("n.npz"))
        np.savez(self.path("few.npz"), **{n: a for n, a in self.stats.items() if n.startswith("fc1") and not n.endswith("xtx")})
        r = self.vc("prune", "--sparsity", "0.5", "--score", "wanda", "--calibration", self.path("few.npz"), "--json", MODEL, "-o",
                    self.path("few.out.npz")).json()
        self.assertEqual([t["name"] for t in r["tensors"] if t["action"] == "pruned"], ["fc1.weight"])
        self.assertIn("no statistics", {t.get("reason") for t in r["tensors"]})
        for how in ("--sparsity", "0.5"), ("--pattern", "2:4"):
            self.assertIn("pruned: conv1.weight: no second moments, which calibrate gathers with --second-moments", self.refuse(
                3, "prune", *how, "--calibration", self.path("few.npz"), "--reconstruct", MODEL, "-o", self.path("n.npz")))
        np.savez(self.path("one.npz"), **{n: a for n, a in self.stats.items() if not n.endswith("xtx") or n.startswith("fc1")})
        r = self.vc("prune", "--sparsity", "0.5", "--calibration", self.path("one.npz"), "--reconstruct", "-v", MODEL, "-o",
                    self.path("few2.npz"))
        self.assertIn("no second moments", r.out.decode())
        np.savez(self.path("other.npz"), **{"fc1.weight.in_sum2": np.ones(7, "f4")})
        self.refuse(3, "prune", "--sparsity", "0.5", "--score", "wanda", "--calibration", self.path("other.npz"), MODEL, "-o",
                    self.path("n.npz"))
        bad = dict(self.stats)
        bad["conv1.weight.in_sum2"] = bad["conv1.weight.in_sum2"][:8]
        np.savez(self.path("bad.npz"), **bad)
        self.assertIn("'conv1.weight.in_sum2' has 8 numbers, and conv1.weight needs 9, or", self.refuse(
            3, "prune", "--sparsity", "0.5", "--score", "wanda", "--calibration", self.path("bad.npz"), MODEL, "-o", self.path("n.npz")))
        bad = dict(self.stats)
        bad["fc1.weight.in_xtx"] = bad["fc1.weight.in_xtx"] * np.float32("nan")
        np.savez(self.path("bad.npz"), **bad)
        self.refuse(3, "prune", "--sparsity", "0.5", "--score", "wanda", "--reconstruct", "--calibration", self.path("bad.npz"), MODEL,
                    "-o", self.path("n.npz"))
        self.assertFalse(os.path.exists(self.path("n.npz")))

    def test_moments_that_cannot_be(self):
        """Every reader of second moments refuses numbers that are no sums of x x^T: also where only all of them show it."""
        good = self.stats["fc1.weight.in_xtx"]
        k = len(good)
        noise = np.random.default_rng(7).standard_normal((k, k))
        root = np.sqrt(np.diag(good))
        signs = np.sign(noise + noise.T) * np.outer(root, root)
        np.fill_diagonal(signs, np.diag(good))
        scaled = np.outer(root, root) * np.clip(noise, -1, 1)
        np.fill_diagonal(scaled, np.diag(good))
        pair = good.copy()
        pair[3, 300] = pair[300, 3] = 40 * root[3] * root[300]  # a column that prune --structured keeps, and one that goes
        negative = {n: -self.stats["fc1.weight." + n] for n in ("in_xtx", "in_sum2")}
        graph = ("--graph", os.path.join(FOLDER, "digits.layers.txt"))
        uses = [("prune", "--sparsity", "0.5", "--reconstruct"), ("prune", "--pattern", "2:4", "--reconstruct"),
                ("prune", "--sparsity", "0.5", "--score", "sparsegpt"), ("prune", "--structured", "0.5", "--reconstruct", *graph),
                ("prune", "--structured", "0.5", "--score", "obs", *graph), ("quantize", "--int4"), ("quantize", "--int2")]
        turns = itertools.cycle(uses)
        for what, bad in {"random": {"in_xtx": noise}, "signs": {"in_xtx": signs}, "not symmetric": {"in_xtx": scaled}, "pair": {"in_xtx": pair},
                          "zeros": {"in_xtx": 0 * good}, "negated": {"in_xtx": -good}, "of half": {"in_xtx": good / 2}, "all negated": negative}.items():
            np.savez(self.path("bad.npz"), **dict(self.stats, **{"fc1.weight." + n: a for n, a in bad.items()}))
            # every use meets what is seen at once, what only all numbers show, and what its own words are for; the others in turns
            some = uses if what in ("random", "pair", "all negated") else [next(turns) for _ in range(2)]
            for use in some:
                with self.subTest(what, use=use):
                    said = self.refuse(3, *use, "--calibration", self.path("bad.npz"), MODEL, "-o", self.path("n.npz"))
                    self.assertRegex(said, "bad.npz: 'fc1.weight.in_sum2' has NaN, infinite or negative" if what == "all negated" and use[0] == "quantize" else
                                     "bad.npz: 'fc1.weight.in_xtx': they are no sums of products of inputs")
                    self.assertFalse(os.path.exists(self.path("n.npz")))

    def sparsegpt(self, w, h, width, go):
        """NumPy's answer: go tells for the scores of a block of columns which of them are removed."""
        u = np.linalg.cholesky(np.linalg.inv(h)).T
        left, out = w.copy(), np.zeros_like(w)
        for first in range(0, w.shape[1], width):
            columns = np.arange(first, min(first + width, w.shape[1]))
            gone = go(np.where(self.dead[columns], 0, np.abs(left[:, columns]) / np.diag(u)[columns]), first)
            for j, g in zip(columns, gone.T):
                out[:, j] = np.where(g, 0, left[:, j])
                left[:, j:] -= np.outer((left[:, j] - out[:, j]) / u[j, j], u[j, j:])
        return out

    def test_sparsegpt(self):
        """Random weights of correlated inputs: the least answer to the inputs is lost, within 1 % of NumPy's."""
        r = np.random.default_rng(5)
        shapes = {"fc": (37, 300), "conv": (24, 10, 3, 3), "small": (9, 7)}
        model, stats, moments = {}, {}, {}
        for name, shape in shapes.items():
            k = int(np.prod(shape[1:]))
            x = r.standard_normal((4 * k, k)) @ r.standard_normal((k, k)) ** 3
            x[:, 5] = 0
            model[name] = r.standard_normal(shape).astype("f4")
            model[name].reshape(shape[0], k)[::3, 2] = 0
            moments[name] = (x.T @ x).astype("f4")
            stats.update({name + ".in_sum2": np.diag(moments[name]).copy(), name + ".counts": np.array([len(x)], "f4"), name + ".in_xtx": moments[name]})
        np.savez(self.path("w.npz"), **model)
        np.savez(self.path("r.npz"), **stats)

        def share(scores, first):
            n, last = len(scores), first + scores.shape[1]
            k = 37 * n * last // 100 - 37 * n * first // 100
            gone = np.zeros(scores.size, bool)
            gone[np.argsort(scores.ravel(), kind="stable")[:k]] = True
            return gone.reshape(scores.shape)

        def two_of_four(scores, inner):
            groups = scores.reshape(len(scores), -1, inner)
            order = np.argsort(np.argsort(-groups, 1, kind="stable"), 1, kind="stable")
            return (order >= 2).reshape(scores.shape)

        for how in (["--sparsity", "0.37"], ["--pattern", "2:4"]):
            written = []
            for threads, refit in ((1, []), (3, []), (2, ["--reconstruct"])):
                self.vc("prune", "--score", "sparsegpt", "--calibration", self.path("r.npz"), *how, *refit, "--threads", threads, self.path("w.npz"), "-f", "-o",
                        self.path("p.npz"))
                written.append(self.load(self.path("p.npz")))
            for name, shape in shapes.items():
                w = model[name].reshape(shape[0], -1).astype("f8")
                inner = int(np.prod(shape[2:]))
                h = moments[name].astype("f8") / (4 * len(moments[name]))
                self.dead = np.diag(h) == 0
                h += np.diag(np.where(self.dead, 1, 0.01 * np.diag(h).mean()))
                want = self.sparsegpt(w, h, *((128, share) if how[0] == "--sparsity" else (4 * inner, lambda s, _: two_of_four(s, inner))))
                got, again, refit = (z[name].reshape(w.shape) for z in written)
                self.same_bits(got, again, name)
                self.assertGreater(((got == 0) == (want == 0)).mean(), 0.99, name)
                self.assertTrue((got[::3, 2] == 0).all(), name)
                exact, reached, least = (objective(h, w, a.astype("f8")).sum() for a in (want, got, refit))
                self.assertLess(abs(reached / exact - 1), 0.01, (name, how))
                self.assertLess(least, reached, (name, how))
                self.assertTrue(((refit == 0) == (got == 0)).all(), name)
                if how[0] == "--sparsity":
                    self.assertEqual((got == 0).sum(), 37 * got.size // 100, name)
                else:
                    whole = np.moveaxis(got.reshape(shape), 1, -1)
                    self.assertTrue(all(((whole[..., i:i + 4] != 0).sum(-1) <= 2).all() for i in range(0, shape[1], 4)), name)
        few = {k: a for k, a in stats.items() if k != "fc.in_xtx"}
        np.savez(self.path("few.npz"), **few)
        use = ("prune", "--sparsity", "0.5", "--score", "sparsegpt", "--calibration", self.path("few.npz"), self.path("w.npz"), "-f", "-o", self.path("q.npz"))
        r = self.vc(*use, "--json").json()
        self.assertEqual({t["name"]: t.get("reason") for t in r["tensors"]}, {"fc": "no second moments", "conv": None, "small": None})
        self.assertIn("needs: calibrate with --second-moments", self.refuse(3, *use, "--exclude", "conv", "--exclude", "small"))

    def test_second_moments_of_experts(self):
        """One matrix of second moments is not that of 500 experts."""
        np.savez(self.path("e.npz"), w=np.random.default_rng(1).standard_normal((500, 4, 8)).astype("f4"))
        np.savez(self.path("es.npz"), **{"w.in_sum2": np.ones(4000, "f4"), "w.counts": np.ones(500, "f4"), "w.in_xtx": np.eye(8, dtype="f4")})
        self.assertIn("es.npz: --reconstruct changes none of the tensors that are pruned: w: no second moments\n", self.refuse(
            3, "prune", "--sparsity", "0.5", "--calibration", self.path("es.npz"), "--reconstruct", self.path("e.npz"), "-o", self.path("o.npz")))
        np.savez(self.path("g.npz"), w=np.zeros((8, 4), "f8"))
        np.savez(self.path("gs.npz"), **{"w.in_sum2": np.ones(4, "f4"), "w.in_xtx": np.eye(4, dtype="f4")})
        self.assertIn("gs.npz: --reconstruct changes none of the tensors that are pruned: w: f64 is not", self.refuse(
            3, "prune", "--sparsity", "0.5", "--calibration", self.path("gs.npz"), "--reconstruct", self.path("g.npz"), "-o", self.path("o.npz")))
        self.assertFalse(os.path.exists(self.path("o.npz")))

    def test_nothing_was_seen(self):
        """Zeros of one layer are told by its name; counts of 0 for all are refused."""
        dead = {n: 0 * a if n.startswith("fc1.weight.in_") else a for n, a in self.stats.items()}
        unseen = {n: 0 * a if n in ("fc1.weight.counts", "fc2.weight.counts") else a for n, a in self.stats.items()}
        graph = ("--graph", os.path.join(FOLDER, "digits.layers.txt"))
        for name, stats, said in (("dead.npz", dead, "statistics of 1 tensor are of no input, or of zeros alone: fc1.weight"),
                                  ("unseen.npz", unseen, "statistics of 2 tensors are of no input, or of zeros alone: fc1.weight, fc2.weight"),
                                  ("s.npz", None, None)):
            if stats is not None:
                np.savez(self.path(name), **stats)
            for use in (("prune", "--sparsity", "0.5", "--reconstruct"), ("prune", "--sparsity", "0.5", "--score", "sparsegpt"),
                        ("prune", "--structured", "0.5", "--reconstruct", *graph), ("quantize", "--int4"), ("quantize", "--nf4")):
                report = self.vc(*use, "--calibration", self.path(name), "--json", MODEL, "-f", "-o", self.path("o.npz"))
                self.assertEqual(said is None, b"zeros alone" not in report.out, use)
                self.assertIn(said or "{", report.out.decode())
        np.savez(self.path("none.npz"), **{n: 0 * a if n.endswith("counts") else a for n, a in self.stats.items()})
        for use in (("prune", "--sparsity", "0.5", "--reconstruct"), ("prune", "--structured", "0.5", "--reconstruct", *graph), ("quantize", "--int4")):
            self.assertIn("none.npz: the statistics are of no input: all counts are 0 (", self.refuse(
                3, *use, "--calibration", self.path("none.npz"), MODEL, "-o", self.path("n.npz")))
        self.assertFalse(os.path.exists(self.path("n.npz")))


class Removal(Statistical):
    """Whole units go, and the columns that stay make up for those that went."""

    def remove(self, model, *more):
        args = ("prune", *more, "--graph", os.path.join(FOLDER, "digits.layers.txt"), "--json", model, "-f", "-o", self.path("p.npz"))
        report = self.vc(*args).json()
        return report, self.load(self.path("p.npz"))

    def refit(self):
        return "--reconstruct", "--calibration", self.path("s.npz")

    def gone(self, report):
        """By weight: the rows that go, and the columns."""
        out = {n: [np.zeros(k, bool) for k in a.shape] for n, a in self.weights.items()}
        for group in report["removal"]["groups"]:
            for name, axis in (m.rsplit(":", 1) for m in group["members"]):
                lost = out[name][int(axis)]
                lost.reshape(group["before"], -1)[group["removed"] or []] = True
        return out

    def exact(self, name, rows, columns):
        """NumPy's answer for the rows and columns that stay: weights, and what is added to the bias."""
        w = self.weights[name].reshape(len(self.weights[name]), -1).astype("f8")
        count = float(self.stats[name + ".counts"][0])
        mean = self.stats[name + ".in_sum"].astype("f8") / count
        bias = name.replace("weight", "bias") in self.weights
        c = self.stats[name + ".in_xtx"].astype("f8") / count - (np.outer(mean, mean) if bias else 0)
        c += np.eye(len(c)) * np.diag(c).mean() * 0.01 * min(10, max(1, 4 * len(c) / count))
        lost = np.repeat(columns, w.shape[1] // len(columns))
        k, d = ~lost, lost
        whole = np.zeros_like(w)
        whole[:, k] = w[:, k] + np.linalg.solve(c[np.ix_(k, k)], c[np.ix_(k, d)] @ w[:, d].T).T
        return c, w, whole[~rows], ((w - whole) @ mean)[~rows], k

    def test_weights_and_biases(self):
        report, found = self.remove(MODEL, "--structured", "0.4", *self.refit())
        gone = self.gone(report)
        _, plain = self.remove(MODEL, "--structured", "0.4")
        for name in ("conv2.weight", "conv3.weight", "fc1.weight", "fc2.weight"):
            rows, columns = gone[name][:2]
            c, w, want, gain, k = self.exact(name, rows, columns)
            got = np.zeros_like(want)
            got[:, k] = found[name].reshape(len(want), -1)
            exact, reached = objective(c, w[~rows], want), objective(c, w[~rows], got)
            self.assertTrue((reached <= exact * 1.001 + 1e-9).all(), name)
            cut = np.zeros_like(want)
            cut[:, k] = plain[name].reshape(len(want), -1)
            self.assertLess(reached.sum(), objective(c, w[~rows], cut).sum(), name)
            bias = name.replace("weight", "bias")
            if bias in self.weights:
                self.assertLess(np.abs(found[bias] - self.weights[bias][~rows] - gain).max(), 1e-4 * max(1, np.abs(gain).max()), bias)
        for name in ("conv1.weight", "bn2.running_mean"):
            self.same_bits(found[name], plain[name], name)
        actions = {t["name"]: t["action"] for t in report["tensors"]}
        self.assertEqual((actions["fc2.bias"], actions["fc1.bias"]), ("refitted", "cut"))
        self.assertIn("prune --structured 0.4 --reconstruct", report["command"])

    def test_scores(self):
        """--score obs: the unit whose columns the reader misses least, with what the others make up for, goes first."""
        report, _ = self.remove(MODEL, "--structured", "0.4", "--score", "obs", "--calibration", self.path("s.npz"))
        groups = {m: g for g in report["removal"]["groups"] for m in g["members"]}
        for name in ("conv2.weight", "fc2.weight"):
            group = groups[name + ":1"]
            c, w, _, _, _ = self.exact(name, np.zeros(len(self.weights[name]), bool), np.arange(self.weights[name].shape[1]) == 0)
            b = w.shape[1] // group["before"]
            total, lost, inverse, gone = objective(c, w, 0).sum(), 0.0, np.linalg.inv(c), []
            for _ in range(group["before"] - group["after"] + 1):
                left = [u for u in range(group["before"]) if u not in gone]
                squares = np.linalg.inv(np.stack([inverse[u * b:u * b + b, u * b:u * b + b] for u in left]))
                columns = np.stack([w[:, u * b:u * b + b] for u in left])
                of = list((columns @ squares * columns).sum((1, 2)) / total)
                if len(gone) == group["before"] - group["after"]:
                    break
                u = left[int(np.argmin(of))]
                s, lost = slice(u * b, u * b + b), lost + min(of)
                back = np.linalg.inv(inverse[s, s]) @ inverse[s]
                w, inverse = w - w[:, s] @ back, inverse - inverse[:, s] @ back
                gone.append(u)
            self.assertEqual(sorted(gone), group["removed"], name)
            self.close(group["scores"]["removed"][1], np.sqrt(lost), name, 1e-4)
            self.close(group["scores"]["kept"][0], np.sqrt(lost + min(of)), name, 1e-4)
        args = ("--structured", "0.4", "--score", "obs", "--graph", os.path.join(FOLDER, "digits.layers.txt"))
        self.refuse(2, "prune", *args, MODEL, "-o", self.path("n.npz"))
        np.savez(self.path("few.npz"), **{n: a for n, a in self.stats.items() if not n.startswith("conv3")})
        self.assertIn("no second moments", self.refuse(3, "prune", *args, "--calibration", self.path("few.npz"), MODEL, "-o", self.path("n.npz")))
        self.assertEqual(report["command"], "prune --structured 0.4 --score obs")
        every, _ = self.remove(MODEL, "--structured", "0.4", "--score", "obs", "--scope", "global", "--calibration", self.path("s.npz"))
        scores = [(g["scores"]["removed"][1], g["scores"]["kept"][0]) for g in every["removal"]["groups"] if g["removed"]]
        self.assertLessEqual(max(s[0] for s in scores), min(s[1] for s in scores))

    def test_answers(self):
        """Half of all units, without training: the network is as right as before within 2 of 100."""
        labels = self.path("labels.npy")
        with np.load(os.path.join(FOLDER, "images.npz")) as z:
            np.save(labels, z["test_labels"][ROWS:].astype("i8"))
            np.savez(self.path("x.npz"), x=z["test_images"][ROWS:])
        right = []
        for how in ((), self.refit()):
            self.remove(MODEL, "--structured", "0.5", "--score", "norm", *how)
            r = self.vc("evaluate", "--graph", os.path.join(FOLDER, "digits.layers.txt"), "--data", self.path("x.npz"), "--array",
                        "test_images=x", "--labels", labels, "--json", self.path("p.npz")).json()
            right.append(r["quality"]["accuracy"])
        self.assertLess(right[0], 0.7)
        self.assertGreater(right[1], 0.96)

    def test_types_and_zeros(self):
        """f16 and bf16 are rounded, weights that were 0 stay 0, threads change no bit."""
        half = {n: a.astype("f2") if a.dtype == "f4" else a for n, a in self.weights.items()}
        half["fc1.weight"][:, 5::9] = 0
        np.savez(self.path("half.npz"), **half)
        _, found = self.remove(self.path("half.npz"), "--structured", "0.3", *self.refit(), "--threads", "1")
        _, again = self.remove(self.path("half.npz"), "--structured", "0.3", *self.refit(), "--threads", "3")
        for name, a in found.items():
            self.same_bits(a, again[name], name)
        report, plain = self.remove(self.path("half.npz"), "--structured", "0.3")
        self.assertEqual(found["conv2.weight"].dtype, np.dtype("f2"))
        self.assertTrue((found["fc1.weight"][plain["fc1.weight"] == 0] == 0).all())
        self.assertFalse((found["fc1.weight"] == plain["fc1.weight"]).all())

    def test_given_units_and_chains(self):
        """--remove; a pass behind it, and through a file; a pass before it is refused where a bias would take the mean."""
        with open(self.path("r.txt"), "w") as f:
            f.write("fc1.weight:0 1,5-20\n")
        _, found = self.remove(MODEL, "--remove", self.path("r.txt"), *self.refit())
        rows, columns = np.zeros(len(self.weights["fc2.weight"]), bool), np.isin(np.arange(self.weights["fc2.weight"].shape[1]), [1, *range(5, 21)])
        _, _, want, _, k = self.exact("fc2.weight", rows, columns)
        self.assertLess(np.abs(found["fc2.weight"] - want[:, k]).max(), 1e-4)
        self.same_bits(found["fc1.weight"], self.weights["fc1.weight"][~columns], "fc1")
        passes = ["prune --structured 0.3 --reconstruct --calibration %s --graph %s" %
                  (self.path("s.npz"), os.path.join(FOLDER, "digits.layers.txt")), "quantize --fp16"]
        self.vc("run", "--pass", passes[0], "--pass", passes[1], MODEL, "-o", self.path("both.npz"))
        self.remove(MODEL, "--structured", "0.3", *self.refit())
        self.vc("quantize", "--fp16", self.path("p.npz"), "-o", self.path("two.npz"))
        both, two = self.load(self.path("both.npz")), self.load(self.path("two.npz"))
        for name, a in both.items():
            self.same_bits(a, two[name], name)
        said = self.refuse(3, "run", "--pass", "prune --sparsity 0.5", "--pass", passes[0], MODEL, "-o", self.path("n.npz"))
        self.assertIn("an earlier pass changes it", said)

    def test_what_is_refused(self):
        args = ("--structured", "0.3", "--graph", os.path.join(FOLDER, "digits.layers.txt"), MODEL, "-o", self.path("n.npz"))
        self.refuse(2, "prune", "--reconstruct", *args)
        self.refuse(2, "prune", "--calibration", self.path("s.npz"), *args)
        np.savez(self.path("few.npz"), **{n: a for n, a in self.stats.items() if not n.endswith("xtx")})
        self.assertIn("second moments", self.refuse(3, "prune", "--reconstruct", "--calibration", self.path("few.npz"), *args))
        for tail, bad in (("in_sum", np.inf), ("in_xtx", np.nan), ("counts", -1), ("in_xtx", -1)):
            stats = dict(self.stats)
            stats["fc1.weight." + tail] = stats["fc1.weight." + tail] * np.float32(bad)
            np.savez(self.path("bad.npz"), **stats)
            self.refuse(3, "prune", "--reconstruct", "--calibration", self.path("bad.npz"), *args)
        self.assertFalse(os.path.exists(self.path("n.npz")))


def gptq(w, h, scale, bits=4):
    """Frantar et al., in f64: columns in descending order of the diagonal, codes -8 to 7."""
    order = np.argsort(-np.diag(h), kind="stable")
    u = np.linalg.cholesky(np.linalg.inv(h[np.ix_(order, order)])).T
    left, out = w[:, order].astype("f8"), np.empty(w.shape)
    for j, column in enumerate(order):
        out[:, column] = np.clip(np.rint(left[:, j] / scale), -2**(bits - 1), 2**(bits - 1) - 1) * scale
        left[:, j:] -= np.outer((left[:, j] - out[:, column]) / u[j, j], u[j, j:])
    return out


class Rounding(Statistical):
    """Codes by statistics: errors that are weighed, and rounding that makes up for its errors."""

    def floats(self, path):
        self.vc("dequantize", path, "-f", "-o", self.path("v.npz"))
        return {n: (a.astype("u4") << 16).view("f4") if a.dtype == "u2" else a for n, a in self.load(self.path("v.npz")).items()}

    def values(self, *more):
        self.vc("quantize", *more, MODEL, "-f", "-o", self.path("q.npz"))
        self.vc("dequantize", self.path("q.npz"), "-f", "-o", self.path("v.npz"))
        return self.load(self.path("v.npz")), self.load(self.path("q.npz"))

    def test_compensation(self):
        how = ("--int4", "--granularity", "channel", "--min-elements", 1, "--min-row", 1)
        nearest, _ = self.values(*how)
        found, codes = self.values(*how, "--calibration", self.path("s.npz"))
        for name in ("conv2.weight", "conv3.weight", "fc1.weight", "fc2.weight"):
            w = self.weights[name].reshape(len(self.weights[name]), -1).astype("f8")
            h = self.damped(name, centred=True)
            peer = gptq(w, h, codes[name + ".scale"].reshape(-1).astype("f8"))
            ours = objective(h, w, found[name].reshape(w.shape).astype("f8")).sum()
            self.assertLess(ours, 1.02 * objective(h, w, peer).sum(), name)
            self.assertLess(ours, 0.8 * objective(h, w, nearest[name].reshape(w.shape).astype("f8")).sum(), name)

    def test_descent(self):
        """Codes of 2 and 3 bits: less than GPTQ's error, and hardly a code whose change would make the error smaller."""
        for bits in (2, 3):
            found, codes = self.values("--int%d" % bits, "--granularity", "channel", "--min-elements", 1, "--min-row", 1, "--calibration",
                                       self.path("s.npz"))
            for name in ("conv3.weight", "fc1.weight"):
                w = self.weights[name].reshape(len(self.weights[name]), -1).astype("f8")
                h, scale = self.damped(name, centred=True), codes[name + ".scale"].reshape(-1).astype("f8")
                ours = found[name].reshape(w.shape).astype("f8")
                self.assertLess(objective(h, w, ours).sum(), objective(h, w, gptq(w, h, scale, bits)).sum(), (bits, name))
                best = (ours - (ours - w) @ h / np.diag(h)) / scale[:, None]
                best = np.clip(np.rint(best), -2**(bits - 1), 2**(bits - 1) - 1)
                self.assertLess((best != np.rint(ours / scale[:, None])).mean(), 0.001, (bits, name))

    def test_biases_take_means(self):
        """Of each layer that has a bias, also of files of 16 bits and in a chain; not where a rule keeps them."""
        sums = self.path("sums.npz")
        np.savez(sums, **{n: a for n, a in self.stats.items() if not n.endswith("in_xtx")})
        half = self.path("half.npz")
        self.vc("quantize", "--bf16", "--rest", "bf16", MODEL, "-o", half)
        for scheme, stats, source in (("--int4", "s.npz", MODEL), ("--int3 --granularity group:32", sums, MODEL), ("--nvfp4", "s.npz", MODEL),
                                      ("--fp8 --nonfinite keep", sums, half)):
            before = self.floats(source)
            how = [*scheme.split(), "--min-elements", 1, "--min-row", 1, "--calibration", self.path(stats)]
            self.vc("quantize", *how, source, "-f", "-o", self.path("q.npz"))
            found = self.floats(self.path("q.npz"))
            for name in ("fc1", "fc2"):
                w, b = before[name + ".weight"].astype("f8"), before[name + ".bias"].astype("f8")
                gain = (w - found[name + ".weight"]) @ self.means(name + ".weight")
                near = 1e-6 if source == MODEL else 2.0**-8
                self.assertLess(np.abs(found[name + ".bias"] - b - gain).max(), near * np.abs(b + gain).max(), (scheme, name))
                self.assertGreater(np.abs(gain).max(), 10 * near * np.abs(b + gain).max(), (scheme, name))
            if source == half:
                self.vc("run", "--pass", "quantize --bf16 --rest bf16", "--pass", "quantize " + " ".join(map(str, how)),
                        MODEL, "-f", "-o", self.path("c.npz"))
                with open(self.path("c.npz"), "rb") as chain, open(self.path("q.npz"), "rb") as files:
                    self.assertEqual(chain.read(), files.read())
        plain = self.floats(MODEL)
        for more in (["--exclude", "*.bias"], ["--dry-run"]):
            self.vc("quantize", *how, *more, MODEL, "-f", "-o", self.path("q.npz"))
        self.same_bits(self.floats(self.path("q.npz"))["fc1.bias"], plain["fc1.bias"])

    def test_biases_of_what_stays(self):
        """A weight with NaN is kept, and so is its bias, though other rows were rounded for a look."""
        weights = dict(self.weights)
        weights["fc1.weight"] = np.tile(weights["fc1.weight"], (20, 1))
        weights["fc1.bias"] = np.tile(weights["fc1.bias"], 20)
        weights["fc1.weight"][-1, 0] = np.nan
        np.savez(self.path("w.npz"), **weights)
        how = ("quantize", "--int4", "--min-elements", 1, "--min-row", 1, "--calibration-anyway", "--calibration", self.path("s.npz"), self.path("w.npz"))
        self.assertIn("the first is NaN at [2559, 0]", self.refuse(3, *how, "-o", self.path("q.npz")))
        self.vc(*how, "--nonfinite", "keep", "-o", self.path("q.npz"))
        found = self.load(self.path("q.npz"))
        self.same_bits(found["fc1.bias"], weights["fc1.bias"])
        self.assertFalse((found["fc2.bias"] == weights["fc2.bias"]).any())

    def test_biases_of_graphs(self):
        """Exporters give layers with equal biases one tensor: it serves both, and stays."""
        try:
            from onnx import TensorProto, helper, numpy_helper, save
        except ImportError:
            self.skipTest("onnx is needed")
        for second in ("a.bias", "b.bias"):
            random = np.random.default_rng(1)
            arrays = {n: random.standard_normal(s).astype("f4") for n, s in
                      (("a.weight", (64, 64)), ("a.bias", 64), ("b.weight", (64, 64)), ("b.bias", 64))}
            nodes = [helper.make_node("Gemm", ["x", "a.weight", "a.bias"], ["h"], transB=1),
                     helper.make_node("Gemm", ["h", "b.weight", second], ["y"], transB=1)]
            values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 64]) for n in "xy"]
            model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], [
                numpy_helper.from_array(a, n) for n, a in arrays.items()]), opset_imports=[helper.make_opsetid("", 21)])
            save(model, self.path("m.onnx"))
            np.savez(self.path("x.npz"), x=random.standard_normal((100, 64)).astype("f4") + 1)
            self.vc("calibrate", self.path("m.onnx"), "--data", self.path("x.npz"), "-f", "-o", self.path("st.npz"))
            r = self.vc("quantize", "--int4", "--granularity", "group:32", "--calibration", self.path("st.npz"), self.path("m.onnx"),
                        "--json", "-f", "-o", self.path("q.onnx")).json()
            self.assertEqual([t["name"] for t in r["tensors"] if t["action"] == "refitted"], ["a.bias", "b.bias"] if second == "b.bias" else [])

    def test_weights_of_errors(self):
        """Without second moments: less error where it counts; that of groups of the convolutions' rows, too."""
        sums = self.path("sums.npz")
        np.savez(sums, **{n: a for n, a in self.stats.items() if not n.endswith("in_xtx")})
        for scheme in ("int4", "int3", "nf4", "mxfp4", "nvfp4"):
            how = ["--" + scheme, "--min-elements", 1, "--min-row", 1]
            how += ["--granularity", "group:32"] if scheme.startswith("int") else []
            plain, _ = self.values(*how)
            found, _ = self.values(*how, "--calibration", sums)
            for name in ("conv3.weight", "fc1.weight"):
                w = self.weights[name].reshape(len(self.weights[name]), -1).astype("f8")
                h = self.stats[name + ".in_sum2"].astype("f8")
                weighed = [((w - a[name].reshape(w.shape)) ** 2 * h).sum() for a in (plain, found)]
                self.assertLess(weighed[1], weighed[0] * (1.0 if scheme != "nvfp4" else 1.001), (scheme, name))

    def test_all_grids_and_asymmetric_codes(self):
        for how in (["--int3", "--granularity", "group:32"], ["--int4", "--asymmetric", "--granularity", "group:32"], ["--nf4"], ["--fp8"],
                    ["--mxfp4"], ["--nvfp4"]):
            how += ["--min-elements", 1, "--min-row", 1]
            plain, _ = self.values(*how)
            found, _ = self.values(*how, "--calibration", self.path("s.npz"))
            w, h = self.weights["fc1.weight"].astype("f8"), self.damped("fc1.weight", centred=True)
            self.assertLess(objective(h, w, found["fc1.weight"].astype("f8")).sum(),
                            objective(h, w, plain["fc1.weight"].astype("f8")).sum(), how)

    def test_pruned_weights_stay_zero(self):
        """In a chain, and of a file: 2:4 is 2:4 afterwards, and the report has as many zeros."""
        prune, codes = "prune --pattern 2:4 --reconstruct --calibration %s", "quantize %s --min-elements 1 --min-row 1 --calibration %s"
        stats = self.path("s.npz")
        pruned = self.prune("--pattern", "2:4", "--reconstruct", "--calibration", stats)
        for scheme in ("--int4", "--int3 --asymmetric", "--nf4", "--nvfp4", "--mxfp4"):
            chain, source = (["--pass", prune % stats], MODEL) if scheme in ("--int4", "--nvfp4") else ([], self.path("p.npz"))
            self.vc("run", *chain, "--pass", codes % (scheme, stats), source, "-f", "-o", self.path("c.npz"))
            self.vc("verify", "--pattern", "2:4", self.path("c.npz"))
            self.vc("dequantize", self.path("c.npz"), "-f", "-o", self.path("v.npz"))
            values = self.load(self.path("v.npz"))
            for name in ("conv2.weight", "fc1.weight"):
                self.assertTrue((values[name][pruned[name] == 0] == 0).all(), (scheme, name))

    def test_threads_and_refusals(self):
        how = ("--int4", "--min-elements", 1, "--min-row", 1, "--calibration", self.path("s.npz"))
        _, first = self.values(*how, "--threads", 1)
        _, other = self.values(*how, "--threads", 3)
        for name, a in first.items():
            self.assertEqual(a.tobytes(), other[name].tobytes(), name)
        for scheme in ("--int8", "--fp16"):
            self.refuse(2, "quantize", scheme, "--calibration", self.path("s.npz"), MODEL, "-o", self.path("n.npz"))
        for aim in (("--aim-sqnr", "30"), ("--aim-bytes", "200000")):
            self.assertIn("not with aims", self.refuse(2, "quantize", *aim, "--calibration", self.path("s.npz"), MODEL, "-o", self.path("n.npz")))
        bad = dict(self.stats)
        bad["fc1.weight.in_xtx"] = -bad["fc1.weight.in_xtx"]
        np.savez(self.path("bad.npz"), **bad)
        self.refuse(3, "quantize", "--int4", "--calibration", self.path("bad.npz"), MODEL, "-o", self.path("n.npz"))
        self.assertFalse(os.path.exists(self.path("n.npz")))


if __name__ == "__main__":
    main()
