"""test_graph_texts.py - small graphs as ONNX's text, computed by `vcompress graph --data`, against NumPy: what older operator sets
say otherwise, sizes that are computed of constants, ends of slices. Values are those of onnxruntime,
written down here, so that neither it nor onnx is needed."""
import unittest

import numpy as np
from judge_support import Judge, run

INT64_MAX = 2 ** 63 - 1


class Texts(Judge):
    def compute(self, x, body, opset=13, constants="", precision="f32", env=None, outputs="y"):
        """The outputs, or what the program says in refusing."""
        dims = ", ".join(str(d) for d in x.shape)
        kind = {"f4": "float", "f8": "double", "i8": "int64"}[x.dtype.str[1:]]
        with open(self.path("g.txt"), "w") as to:
            to.write('<ir_version: 8, opset_import: ["" : %d]>\ng (%s[%s] x) => (%s)\n<%s>\n{ %s }\n' % (
                opset, kind, dims, ", ".join("float " + o for o in outputs.split()), constants, body))
        np.savez(self.path("x.npz"), x=x)
        done = run("graph", "-q", "-f", "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--precision", precision,
                   self.path("g.txt"), env=env)
        if done.code != 0:
            self.assertEqual(done.code, 3, done.err)
            return done.err
        with np.load(self.path("y.npz")) as z:
            return z[outputs.split()[0]] if len(outputs.split()) == 1 else [z[o] for o in outputs.split()]

    def same(self, found, right):
        self.assertIsInstance(found, np.ndarray, found)
        self.assertEqual(found.shape, right.shape)
        self.assertTrue(np.allclose(found, right, atol=1e-6, equal_nan=True), (found, right))

    def test_computed_sizes(self):
        x = np.arange(18, dtype="f4").reshape(1, 2, 3, 3)
        twice = x.repeat(2, 2).repeat(2, 3)
        nearest = 'Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">'
        self.same(self.compute(x, "s = Concat<axis = 0>(one, two) y = %s(x, , s)" % nearest,
                               constants="float[2] one = {1, 1}, float[2] two = {2, 2}"), twice)
        self.same(self.compute(x, """s = Shape(x) all = Cast<to = 1>(s) more = Mul(all, by) less = Floor(more) n = Cast<to = 7>(less)
                                     y = %s(x, , , n)""" % nearest, constants="float[4] by = {1, 1, 2.1, 2.3}"), twice)
        self.same(self.compute(x, """a = Gather<axis = 0>(many, last) b = Unsqueeze(a, zero) c = Slice(many, zero, two)
                                     s = Concat<axis = 0>(c, b, b) y = %s(x, , s)""" % nearest,
                               constants="float[3] many = {1, 1, 2}, int64 last = {-1}, int64[1] zero = {0}, int64[1] two = {2}"),
                  twice)
        # 5 * 2.6 is 13 in floats
        y = self.compute(np.ones((1, 1, 5, 1), "f4"), "y = %s(x, , s)" % nearest, constants="float[4] s = {1, 1, 2.6, 1}")
        self.assertEqual(y.shape, (1, 1, 13, 1))

    def test_not_computed(self):
        """What depends on the input's values is refused, as before."""
        says = self.compute(np.ones((1, 1, 2, 2), "f4"), "f = Flatten<axis = 0>(x) s = Squeeze(f, zero) y = Resize(x, , s)",
                            constants="int64[1] zero = {0}")
        self.assertIn("constant", says)

    def test_old_top_k(self):
        x = np.random.default_rng(1).normal(size=(3, 9)).astype("f4")
        for opset in (7, 9):
            self.same(self.compute(x, "y, i = TopK<k = 4, axis = 1>(x)", opset), -np.sort(-x, 1)[:, :4])

    def test_slices_backwards(self):
        x = np.arange(10, dtype="f4").reshape(2, 5)
        for start, end, step, right in ((-10, -20, -1, x[:, :1]), (-6, -9, -1, x[:, :1]), (-7, -20, -2, x[:, :1]),
                                        (-10, 3, -1, x[:, :0]), (9, -20, -2, x[:, ::-2]), (3, INT64_MAX, -1, x[:, 3::-1]),
                                        (-1, -2 ** 63, -1, x[:, ::-1]), (0, INT64_MAX, 2, x[:, ::2]), (4, 1, -3, x[:, 4:1:-3])):
            with self.subTest((start, end, step)):
                self.same(self.compute(x, "y = Slice(x, s, e, a, p)",
                                       constants="int64[1] s = {%d}, int64[1] e = {%d}, int64[1] a = {1}, int64[1] p = {%d}" %
                                       (start, end, step)), right)

    def test_padding_that_cuts(self):
        """Negative padding cuts first; what is left is what repeats."""
        x = np.arange(4, dtype="f4")
        for mode, right in (("wrap", [0, 1, 0, 1, 0, 1]), ("edge", [0, 0, 0, 0, 0, 1]), ("reflect", [0, 1, 0, 1, 0, 1])):
            self.same(self.compute(x, 'y = Pad<mode = "%s">(x, p)' % mode, 19, "int64[2] p = {4, -2}"),
                      np.array(right, "f4"))

    def test_not_a_number(self):
        x = np.array([np.nan, -9, 0, 9], "f4")
        self.same(self.compute(x, "y = HardSigmoid(x)"), np.array([np.nan, 0, .5, 1], "f4"))
        self.same(self.compute(x, "y = HardSwish(x)", 14), np.array([np.nan, 0, 0, 9], "f4"))

    def test_unequal_split(self):
        x = np.ones((5, 2), "f4")
        self.assertIn("no equal sizes", self.compute(x, "y, z = Split<axis = 0>(x)", 13, outputs="y z"))
        self.assertEqual([o.shape for o in self.compute(x, "y, z = Split<axis = 0, num_outputs = 2>(x)", 18, outputs="y z")],
                         [(3, 2), (2, 2)])

    def test_same_bits(self):
        """Whatever instructions libm would choose."""
        off = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA_Usable,-AVX2,-AVX2_Usable,-FMA4"}
        x = np.random.default_rng(2).uniform(-20, 20, 5000)
        body = "p = Abs(x) a = Exp(x) b = Tanh(x) c = Sin(x) d = Cos(x) e = Sigmoid(x) f = Softplus(x) h = Log(p) i = Erf(x) "
        body += "j = Tan(x) k = Pow(p, t) l = Elu(x) m = Mish(x)"
        names = "a b c d e f h i j k l m"
        for precision in ("f32", "f64"):
            one, other = (self.compute(x, body, 18, "float t = {1.7}", precision=precision, env=env, outputs=names)
                          for env in ({}, off))
            for name, a, b in zip(names.split(), one, other):
                self.assertEqual(a.tobytes(), b.tobytes(), (precision, name))
        x = x[:8]
        right = {"a": np.exp(x), "b": np.tanh(x), "c": np.sin(x), "e": 1 / (1 + np.exp(-x)), "j": np.tan(x), "k": np.abs(x) ** 1.7}
        found = self.compute(x, body, 18, "float t = {1.7}", precision="f64", outputs=names)
        for name, y in right.items():
            self.assertTrue(np.allclose(found[names.split().index(name)], y, rtol=1e-6), name)


if __name__ == "__main__":
    unittest.main()
