"""test_calibrate.py - statistics of the inputs of layers, against NumPy, which computes the digits network in f64."""
import os
import unittest

from judge_support import Judge, main, np

from test_sensitivity_data import FOLDER, conv3x3, norm, pool

ROWS = 100


def windows(x):
    """Vectors of all 3 x 3 windows with a border of one zero: channel after channel."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    n, c, h, w = x.shape
    taps = [padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)]
    return np.stack(taps, 2).transpose(0, 3, 4, 1, 2).reshape(n * h * w, c * 9)


class Statistics(Judge):
    @classmethod
    def setUpClass(cls):
        with np.load(os.path.join(FOLDER, "digits.npz")) as z:
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

    def calibrate(self, name, *more, model=os.path.join(FOLDER, "digits.npz")):
        self.vc("calibrate", model, "--graph", os.path.join(FOLDER, "digits.layers.txt"), "--data",
                os.path.join(FOLDER, "images.npz"), "--array", "test_images=test_images", "--rows", ROWS, "-o", self.path(name), *more)
        return self.load(self.path(name))

    def test_sums(self):
        found = self.calibrate("s.npz", "--second-moments")
        self.assertEqual(len(found), 6 * len(self.inputs))
        for name, x in self.inputs.items():
            want = {"in_sum2": (x * x).sum(0), "counts": np.array([len(x)]), "in_sum": x.sum(0), "in_min": x.min(0),
                    "in_max": x.max(0), "in_xtx": x.T @ x}
            for tail, value in want.items():
                a = found[name + "." + tail]
                self.assertEqual((a.dtype, a.shape), (np.dtype("f4"), value.shape), name + tail)
                self.assertLessEqual(np.abs(a - value).max(), 2e-6 * np.abs(value).max(), name + tail)
            self.assertTrue((found[name + ".in_xtx"] == found[name + ".in_xtx"].T).all())

    def test_threads_batches_and_formats(self):
        first = self.calibrate("a.npz", "--threads", 1)
        for name, more in (("b.npz", ["--threads", 3]), ("c.npz", ["--max-memory", "8MiB"])):
            other = self.calibrate(name, *more)
            self.assertEqual(sorted(first), sorted(other))
            for k, a in first.items():
                self.assertEqual(a.tobytes(), other[k].tobytes(), k)
        for k, a in self.calibrate("d.npz", "--batch", 7).items():  # extremes do not depend on batches; sums of f64 hardly
            self.close(float(np.abs(a - first[k]).max()), 0.0, k) if k.endswith(("min", "max")) else \
                self.assertLess(np.abs(a - first[k]).max(), 1e-6 * np.abs(a).max(), k)

    def test_what_is_refused(self):
        with np.load(os.path.join(FOLDER, "digits.npz")) as z:
            w = {n: z[n].copy() for n in z.files}
        w["conv2.weight"][3, 2, 1, 1] = np.inf
        np.savez(self.path("bad.npz"), **w)
        done = self.refuse(3, "calibrate", self.path("bad.npz"), "--graph", os.path.join(FOLDER, "digits.layers.txt"),
                           "--data", os.path.join(FOLDER, "images.npz"), "--array", "test_images=test_images", "-o",
                           self.path("n.npz"))
        self.assertIn("conv3.weight: row 0: the input is NaN or infinite", done)
        self.assertFalse(os.path.exists(self.path("n.npz")))


if __name__ == "__main__":
    main()
