"""test_npz_int8.py - int8 codes, scales and zero points are those of the definition, bit for bit.

Every input type x granularity x axis x symmetric or not, over tensors with ties, denormals, huge values, zeros,
several tiles, rows longer than a tile. Also the one-line decoder of the documentation, and input that is bf16 by
manifest.
"""
import json
import unittest

from judge_support import MANIFEST, SMALL, Judge, main, np, npy_bytes, write_members
import definition as d
import weights

CASES = [("tensor", 0, 0), ("channel", 0, 0), ("channel", 1, 0), ("channel", -1, 0), ("group", 0, 32),
         ("group", 0, 64), ("group", 0, 100), ("group", 0, 128)]


def options(granularity, axis, group, asymmetric):
    args = ["--granularity", "group:%d" % group if granularity == "group" else granularity]
    if granularity == "channel":
        args += ["--axis=%d" % axis]
    return args + (["--asymmetric"] if asymmetric else [])


class Int8(Judge):
    def check_model(self, arrays, dtype, out, granularity, axis, group, asymmetric):
        z = self.load(out)
        names = []
        for n, a in arrays.items():
            x = weights.value(a, dtype)
            q, s, zero, _ = d.int8(x, granularity, axis, group, asymmetric)
            what = "%s %s of %s" % (n, options(granularity, axis, group, asymmetric), dtype)
            self.same_bits(z[n + ".scale"], s, what + ": scales")
            if asymmetric:
                self.same_bits(z[n + ".zero_point"], zero, what + ": zero points")
            self.same_bits(z[n], q, what + ": codes")
            names += [n, n + ".scale"] + ([n + ".zero_point"] if asymmetric else [])
        self.assertEqual(sorted(z), sorted(names))

    def check_dtype(self, dtype):
        arrays = weights.model(dtype)
        weights.save(self.path("in.npz"), arrays, dtype)
        void = ["--void-as", "bf16"] if dtype == "bf16" else []
        for granularity, axis, group in CASES:
            for asymmetric in (False, True):
                args = options(granularity, axis, group, asymmetric)
                with self.subTest(dtype=dtype, options=args):
                    self.vc("quantize", "--int8", *args, *SMALL, *void, "--force", self.path("in.npz"), "-o",
                            self.path("out.npz"))
                    self.check_model(arrays, dtype, self.path("out.npz"), granularity, axis, group, asymmetric)

    def test_tensor_scale_of_ordinary_weights(self):
        """One scale for all; the hard rows above would drown everything else."""
        for dtype in weights.DTYPES:
            arrays = weights.model(dtype, spread_only=True)
            weights.save(self.path("in.npz"), arrays, dtype)
            void = ["--void-as", "bf16"] if dtype == "bf16" else []
            for asymmetric in (False, True):
                self.vc("quantize", "--int8", *options("tensor", 0, 0, asymmetric), *SMALL, *void, "--force",
                        self.path("in.npz"), "-o", self.path("out.npz"))
                self.check_model(arrays, dtype, self.path("out.npz"), "tensor", 0, 0, asymmetric)

    def test_f32(self):
        self.check_dtype("f32")

    def test_f64(self):
        self.check_dtype("f64")

    def test_f16(self):
        self.check_dtype("f16")

    def test_bf16(self):
        self.check_dtype("bf16")

    def test_bf16_by_manifest(self):
        """u2 members that vcompress.json calls bf16, as vcompress itself writes them."""
        arrays = weights.model("bf16", {"a": (64, 100), "b.c": (5, 7, 64)})
        text = json.dumps({"schema": "vcompress.manifest/1", "tool": "by hand",
                           "tensors": {n: {"dtype": "bf16", "source_dtype": "f32"} for n in arrays}})
        write_members(self.path("in.npz"), [(n + ".npy", npy_bytes(a)) for n, a in arrays.items()]
                      + [(MANIFEST, text.encode())])
        for granularity, axis, group in CASES:
            args = options(granularity, axis, group, True)
            self.vc("quantize", "--int8", *args, *SMALL, "--force", self.path("in.npz"), "-o", self.path("out.npz"))
            self.check_model(arrays, "bf16", self.path("out.npz"), granularity, axis, group, True)

    def test_kernels_of_flax_and_keras(self):
        """Their kernels are [.., in, out]: scales belong to the outputs, whatever the format of the input."""
        rng = np.random.default_rng(5)
        each = np.exp(rng.standard_normal(48)).astype("f4")
        x = {"params/Dense_0/kernel": rng.standard_normal((96, 48)).astype("f4") * each,
             "params/Conv_0/kernel": rng.standard_normal((3, 3, 32, 48)).astype("f4") * each,
             "params/att/query/kernel": rng.standard_normal((48, 4, 32)).astype("f4"),
             "params/Embed_0/embedding": rng.standard_normal((300, 48)).astype("f4"),
             "conv2d_transpose/kernel:0": rng.standard_normal((3, 3, 48, 32)).astype("f4"),
             "params/ln/scale": rng.standard_normal((100, 64)).astype("f4")}
        axes = {"params/Dense_0/kernel": 1, "params/Conv_0/kernel": 3, "params/att/query/kernel": 0,
                "params/Embed_0/embedding": 0, "conv2d_transpose/kernel:0": 2}
        np.savez(self.path("in.npz"), **x)
        self.vc("convert", self.path("in.npz"), "-o", self.path("in.safetensors"))
        for name in ("in.npz", "in.safetensors"):
            report = self.vc("quantize", "--int8", "--json", "-f", self.path(name), "-o", self.path("out.npz")).json()
            rows = {t["name"]: t for t in report["tensors"]}
            z = self.load(self.path("out.npz"))
            for n, axis in axes.items():
                q, s, _, _ = d.int8(x[n], "channel", axis, 0, False)
                self.same_bits(z[n + ".scale"], s, n + ": scales")
                self.same_bits(z[n], q, n + ": codes")
                self.assertEqual(rows[n]["reason"] is None, n == "params/Embed_0/embedding", n)
            self.same_bits(z["params/ln/scale"], x["params/ln/scale"], "a norm is kept")
            self.assertEqual(rows["params/ln/scale"]["reason"], "normalization")
            self.assertEqual(rows["params/Conv_0/kernel"]["reason"], "outputs on the last axis: a kernel by its name")
        # An axis that is given goes for all of them, and is no reason.
        report = self.vc("quantize", "--int8", "--axis", "0", "--json", "-f", self.path("in.npz"), "-o",
                         self.path("out.npz")).json()
        self.same_bits(self.load(self.path("out.npz"))["params/Dense_0/kernel.scale"],
                       d.int8(x["params/Dense_0/kernel"], "channel", 0, 0, False)[1], "axis 0")
        self.assertIsNone(report["tensors"][0]["reason"])

    def test_own_bf16_output_as_input(self):
        x = {"w": weights.normal("w", (130, 70)).astype("f4")}
        np.savez(self.path("in.npz"), **x)
        self.vc("quantize", "--bf16", self.path("in.npz"), "-o", self.path("half.npz"))
        self.vc("quantize", "--int8", self.path("half.npz"), "-o", self.path("out.npz"))
        self.check_model({"w": d.f32_to_bf16(x["w"])}, "bf16", self.path("out.npz"), "channel", 0, 0, False)

    def test_every_f16_value(self):
        """All 63,488 finite halves as weights of one tensor and of 62 rows."""
        h = np.arange(65536, dtype=np.uint16)
        h = h[(h & 0x7C00) != 0x7C00].view("f2").reshape(62, 1024)
        np.savez(self.path("in.npz"), h=h)
        for granularity, axis, group in CASES:
            for asymmetric in (False, True):
                self.vc("quantize", "--int8", *options(granularity, axis, group, asymmetric), "--force",
                        self.path("in.npz"), "-o", self.path("out.npz"))
                self.check_model({"h": h}, "f16", self.path("out.npz"), granularity, axis, group, asymmetric)

    def test_the_far_end(self):
        """Up to FLT_MAX, nothing that is written decodes to Inf; half a step is still the largest error."""
        top = np.finfo("f4").max
        r = np.random.default_rng(5)
        near = np.array([top, -top, np.nextafter(top, np.float32(0)), top * np.float32(0.999), -top / 2, 0, 1e30], "f4")
        x = near[r.integers(0, near.size, (64, 300))]
        x[0], x[1], x[2], x[3] = top, -top, np.abs(x[2]), -np.abs(x[3])
        x[4] = 0
        x[4, 7] = top
        x[5] = r.uniform(-top, top, 300)
        x[5, 9], x[5, 10] = top, -top
        x[6], x[7] = r.uniform(-top / 3, top, 300), r.uniform(-top, top / 300, 300)
        x[6, 0], x[7, 0] = top, -top
        np.savez(self.path("in.npz"), x=x)
        for granularity, axis, group in CASES:
            for asymmetric in (False, True):
                for level in ("ref", "base", "all"):
                    self.vc("quantize", "--int8", *options(granularity, axis, group, asymmetric), "--cpu-mask", level,
                            "--force", self.path("in.npz"), "-o", self.path("out.npz"))
                    self.check_model({"x": x}, "f32", self.path("out.npz"), granularity, axis, group, asymmetric)
                self.vc("dequantize", "--force", self.path("out.npz"), "-o", self.path("back.npz"))
                y = self.load(self.path("back.npz"))["x"]
                self.assertTrue(np.isfinite(y).all(), (granularity, axis, group, asymmetric))
                s = d.broadcast(self.load(self.path("out.npz"))["x.scale"], x.shape, granularity, group)
                self.assertLessEqual(float((np.abs(x.astype("f8") - y) / s).max()), 0.50003)

    def test_codes_at_the_ends(self):
        """Symmetric codes stay within +-127, and the absolute maximum of every row gets +-127."""
        x = weights.normal("ends", (4096, 64)).astype("f4")
        np.savez(self.path("in.npz"), x=x)
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("out.npz"))
        q = self.load(self.path("out.npz"))["x"]
        self.assertGreaterEqual(int(q.min()), -127)
        self.assertTrue((np.abs(q.astype("i4")).max(axis=1) == 127).all())

    def test_transposed_convolution(self):
        """IOHW weights: the output channel is axis 1, and a row is everything else."""
        x = weights.hard("iohw", (24, 16, 3, 3), 3e38).astype("f4")
        np.savez(self.path("in.npz"), x=x)
        for asymmetric in (False, True):
            self.vc("quantize", "--int8", *options("channel", 1, 0, asymmetric), "--min-elements", "1", "--force",
                    self.path("in.npz"), "-o", self.path("out.npz"))
            self.check_model({"x": x}, "f32", self.path("out.npz"), "channel", 1, 0, asymmetric)
            self.assertEqual(self.load(self.path("out.npz"))["x.scale"].shape, (1, 16, 1, 1))

    def test_inner_axes(self):
        """A channel axis in the middle and at the end, one channel, channels of one element each."""
        for shape, axis in [((3, 5, 7, 50), 2), ((3, 5, 7, 50), -2), ((3, 5, 7, 50), -4), ((600, 700), 1),
                            ((600, 700), -1), ((1000, 1), 1), ((1, 1000), 1), ((2, 300000), -1), ((300000, 2), 1)]:
            x = weights.hard("inner%s" % (shape,), shape, 3e38).astype("f4")
            np.savez(self.path("in.npz"), x=x)
            for asymmetric in (False, True):
                with self.subTest(shape=shape, axis=axis, asymmetric=asymmetric):
                    self.vc("quantize", "--int8", *options("channel", axis, 0, asymmetric), *SMALL, "--force",
                            self.path("in.npz"), "-o", self.path("out.npz"))
                    self.check_model({"x": x}, "f32", self.path("out.npz"), "channel", axis, 0, asymmetric)

    def test_group_edges(self):
        """Groups of one element, of a whole row, longer than a row, and across tile borders of long rows."""
        for shape, group in [((10, 60), 1), ((10, 60), 60), ((10, 60), 61), ((10, 60), 4096), ((2, 262144 + 100), 100),
                             ((2, 262144 + 100), 96), ((3, 524288 + 5), 262144), ((1, 700001), 300000),
                             ((5, 3, 3, 7), 8), ((1, 262145), 262144)]:
            x = weights.hard("group%s" % (shape,), shape, 3e38).astype("f4")
            np.savez(self.path("in.npz"), x=x)
            for asymmetric in (False, True):
                with self.subTest(shape=shape, group=group, asymmetric=asymmetric):
                    self.vc("quantize", "--int8", *options("group", 0, group, asymmetric), *SMALL, "--force",
                            self.path("in.npz"), "-o", self.path("out.npz"))
                    self.check_model({"x": x}, "f32", self.path("out.npz"), "group", 0, group, asymmetric)

    def test_thousands_of_small_tensors(self):
        arrays = {"layer.%d.weight" % k: weights.normal("s%d" % k, (33 + k % 5, 32 + k % 7)).astype("f4")
                  for k in range(3000)}
        np.savez(self.path("in.npz"), **arrays)
        self.vc("quantize", "--int8", "--min-elements", "1024", self.path("in.npz"), "-o", self.path("out.npz"))
        self.check_model(arrays, "f32", self.path("out.npz"), "channel", 0, 0, False)

    def test_one_line_decoder(self):
        """z[n].astype('f4') * z[n + '.scale'] is what `vcompress dequantize` writes."""
        arrays = weights.model("f32")
        weights.save(self.path("in.npz"), arrays, "f32")
        for granularity, axis in [("tensor", 0), ("channel", 0), ("channel", 1), ("channel", -1)]:
            self.vc("quantize", "--int8", *options(granularity, axis, 0, False), *SMALL, "--force",
                    self.path("in.npz"), "-o", self.path("out.npz"))
            self.vc("dequantize", "--force", self.path("out.npz"), "-o", self.path("back.npz"))
            z = self.load(self.path("out.npz"))
            back = self.load(self.path("back.npz"))
            self.assertEqual(list(back), list(arrays))
            for n in arrays:
                with np.errstate(over="ignore"):
                    decoded = z[n].astype("f4") * z[n + ".scale"]
                self.same_bits(back[n], decoded, n)

    def test_manifest_tells_the_scheme(self):
        np.savez(self.path("in.npz"), w=weights.normal("w", (64, 128)).astype("f8"), b=np.ones(64, "f4"))
        self.vc("quantize", "--int8", "--asymmetric", "--granularity", "group:32", self.path("in.npz"), "-o",
                self.path("out.npz"))
        m = self.manifest(self.path("out.npz"))
        self.assertEqual(m["schema"], "vcompress.manifest/1")
        self.assertEqual(list(m["tensors"]), ["w"])
        w = m["tensors"]["w"]
        self.assertEqual((w["scheme"], w["granularity"], w["group_size"], w["symmetric"], w["source_dtype"],
                          w["scale"], w["zero_point"]), ("int8", "group", 32, False, "f64", "w.scale", "w.zero_point"))
        self.assertNotIn(self.dir, json.dumps(m))


if __name__ == "__main__":
    main()
