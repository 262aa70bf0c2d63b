"""test_npz_casts.py - --fp16 and --bf16 round once, to nearest even, from every input type; dequantize turns it back.

Includes every one of the 65,536 halves in both directions, the borders between neighbours, overflow borders, and
round trips through int8.
"""
import unittest

from judge_support import SMALL, Judge, main, np
import definition as d
import weights

LEVELS = ("ref", "base", "all")  # of the kernels; test_determinism.py compares all of them on more data


def borders(target):
    """float64 values at, just below and just above every rounding border of the type, and a hair away from them."""
    codes = np.arange(0x7C00 if target == "f16" else 0x7F80, dtype=np.uint16)
    low = (codes.view("f2") if target == "f16" else d.bf16_to_f32(codes)).astype("f8")
    top = 65536.0 if target == "f16" else 2.0 ** 128
    middle = (low + np.append(low[1:], top)) / 2  # exact in float64
    x = np.concatenate([low, middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
    limit = 65520.0 if target == "f16" else float(0x1FF) * 2.0 ** 119  # the last border is where Inf begins
    x = x[x < limit]
    return np.concatenate([x, -x])


class Casts(Judge):
    def check(self, arrays, dtype, target, *extra):
        weights.save(self.path("in.npz"), arrays, dtype)
        void = ["--void-as", "bf16"] if dtype == "bf16" else []
        self.vc("quantize", "--fp16" if target == "f16" else "--bf16", *SMALL, *void, *extra, "--force",
                self.path("in.npz"), "-o", self.path("out.npz"))
        z = self.load(self.path("out.npz"))
        self.assertEqual(list(z), list(arrays))
        for n, a in arrays.items():
            self.same_bits(z[n], d.cast(weights.value(a, dtype), target), "%s: %s to %s" % (n, dtype, target))

    def shapes_without_overflow(self, dtype, target):
        top = min(weights.LARGEST[dtype], 65504.0 if target == "f16" else weights.LARGEST["bf16"])
        if (dtype, target) == ("bf16", "f16"):
            top = 65280.0  # what bf16 has below the largest half
        x = {n: weights.hard(n, s, top) for n, s in weights.SHAPES.items()}
        return {n: weights.stored(np.clip(a, -top, top), dtype) for n, a in x.items()}

    def test_every_pair_of_types(self):
        for target in ("f16", "bf16"):
            for dtype in weights.DTYPES:
                if dtype != target:
                    with self.subTest(dtype=dtype, target=target):
                        self.check(self.shapes_without_overflow(dtype, target), dtype, target)

    def test_borders(self):
        for target in ("f16", "bf16"):
            x = borders(target)
            x = x[:x.size // 64 * 64].reshape(64, -1)
            for level in LEVELS:
                self.check({"x": x}, "f64", target, "--cpu-mask", level)
            with np.errstate(over="ignore"):
                f = x.astype("f4")
            limit = 65520.0 if target == "f16" else float(0x1FF) * 2.0 ** 119
            f = np.where(np.abs(f.astype("f8")) >= limit, 0, f).astype("f4")
            for level in LEVELS:
                self.check({"x": f}, "f32", target, "--cpu-mask", level)

    def test_random_bits(self):
        """float32 and float64 from random bits: all exponents, denormals included."""
        r = np.random.default_rng(11)
        f4 = r.integers(0, 2 ** 32, 1 << 20, dtype=np.uint32).view("f4")
        f8 = r.integers(0, 2 ** 64, 1 << 19, dtype=np.uint64).view("f8")
        near = (r.standard_normal(1 << 18) * 10.0 ** r.integers(-46, 5, 1 << 18))
        for target in ("f16", "bf16"):
            limit = 65520.0 if target == "f16" else float(0x1FF) * 2.0 ** 119
            with np.errstate(invalid="ignore"):
                a = np.where(np.abs(f4.astype("f8")) < limit, f4, 0).astype("f4").reshape(64, -1)
                b = np.where(np.abs(f8) < limit, f8, 0).reshape(64, -1)
            self.check({"a": a}, "f32", target)
            self.check({"b": b, "near": near.reshape(64, -1)}, "f64", target)

    def test_double_rounding(self):
        """float64 values that go the other way when they pass through float32."""
        for target, ulp, half in [("f16", 2.0 ** -10, 2.0 ** -11), ("bf16", 2.0 ** -7, 2.0 ** -8)]:
            x = np.zeros((64, 64))
            x[0] = 1 + half + 2.0 ** -40      # float32 rounds this to the tie, which goes down to 1
            x[1] = 1 + ulp + half - 2.0 ** -40  # ... and this to the tie that goes up
            x[2] = -(1 + half + 2.0 ** -40)
            x[3] = 2.0 ** -25 + 2.0 ** -70
            for level in LEVELS:
                self.check({"x": x}, "f64", target, "--cpu-mask", level)
            got = weights.value(self.load(self.path("out.npz"))["x"], target)
            self.assertEqual(float(got[0, 0]), 1 + ulp)
            self.assertEqual(float(got[1, 0]), 1 + ulp)

    def test_a_tensor_that_has_the_type_is_kept(self):
        np.savez(self.path("in.npz"), h=np.ones((64, 64), "f2"), x=np.ones((64, 64), "f4"))
        r = self.vc("quantize", "--fp16", self.path("in.npz"), "-o", self.path("out.npz"), "--json")
        rows = {t["name"]: t for t in r.json()["tensors"]}
        self.assertEqual(rows["h"]["action"], "kept")
        self.assertTrue(rows["h"]["reason"])

    def test_halves_back_to_f32(self):
        """Every f16 and every bf16 value becomes its f32 exactly; NaN and Inf stay what they are."""
        h = np.arange(65536, dtype=np.uint16).reshape(64, 1024)
        np.savez(self.path("in.npz"), f=h.view("f2"))
        self.vc("dequantize", "--casts", self.path("in.npz"), "-o", self.path("out.npz"))
        got = self.load(self.path("out.npz"))["f"]
        want = h.view("f2").astype("f4")
        finite = np.isfinite(want)
        self.assertEqual(got.dtype, np.dtype("f4"))
        self.same_bits(got[finite], want[finite])
        np.testing.assert_array_equal(got, want)
        np.savez(self.path("in2.npz"), b=h.view("V2"))
        self.vc("dequantize", "--casts", "--void-as", "bf16", self.path("in2.npz"), "-o", self.path("out2.npz"))
        got = self.load(self.path("out2.npz"))["b"]
        want = d.bf16_to_f32(h)
        finite = np.isfinite(want)
        self.same_bits(got[finite], want[finite])
        np.testing.assert_array_equal(got, want)

    def test_without_casts_halves_stay(self):
        np.savez(self.path("in.npz"), f=np.ones((64, 64), "f2"))
        r = self.vc("dequantize", self.path("in.npz"), "-o", self.path("out.npz"), "--json").json()
        self.assertEqual(self.load(self.path("out.npz"))["f"].dtype, np.dtype("f2"))
        self.assertIn("; --casts casts them, too", " ".join(str(n) for n in r["notes"]))
        for options, command in (("--fp16", "dequantize --fp16"), ("--bf16 --casts", "dequantize --bf16 --casts")):
            r = self.vc("dequantize", *options.split(), self.path("in.npz"), "--dry-run", "--json").json()
            self.assertNotIn("casts them", " ".join(str(n) for n in r["notes"]))
            self.assertEqual(r["command"], command)


class Dequantize(Judge):
    def test_every_target_of_every_scheme(self):
        arrays = {n: a for n, a in weights.model("f32", spread_only=True).items()}
        weights.save(self.path("in.npz"), arrays, "f32")
        for granularity, group in [("tensor", 0), ("channel", 0), ("group", 100)]:
            for asymmetric in (False, True):
                args = ["--granularity", "group:%d" % group if group else granularity]
                args += ["--asymmetric"] if asymmetric else []
                self.vc("quantize", "--int8", *args, *SMALL, "--force", self.path("in.npz"), "-o", self.path("q.npz"))
                for target, name in [("--f32", "f32"), ("--fp16", "f16"), ("--bf16", "bf16"),
                                     ("--source-dtype", "f32")]:
                    self.vc("dequantize", target, "--force", self.path("q.npz"), "-o", self.path("b.npz"))
                    back = self.load(self.path("b.npz"))
                    self.assertEqual(list(back), list(arrays))
                    for n, a in arrays.items():
                        q, s, z, _ = d.int8(a, granularity, 0, group, asymmetric)
                        y = d.int8_value(q, s, z, granularity, group)
                        self.same_bits(back[n], y if name == "f32" else d.cast(y, name), n + " " + target)

    def test_axes(self):
        arrays = {"cube": weights.normal("cube", (7, 11, 64)).astype("f4"),
                  "wide": weights.normal("wide", (3, 300001)).astype("f4")}
        weights.save(self.path("in.npz"), arrays, "f32")
        for axis in (0, 1, -1):
            for asymmetric in (False, True):
                self.vc("quantize", "--int8", "--axis=%d" % axis, *(["--asymmetric"] if asymmetric else []), *SMALL,
                        "--force", self.path("in.npz"), "-o", self.path("q.npz"))
                self.vc("dequantize", "--force", self.path("q.npz"), "-o", self.path("b.npz"))
                back = self.load(self.path("b.npz"))
                for n, a in arrays.items():
                    q, s, z, _ = d.int8(a, "channel", axis, 0, asymmetric)
                    self.same_bits(back[n], d.int8_value(q, s, z, "channel"), "%s axis %d" % (n, axis))

    def test_source_dtype(self):
        """Each tensor gets its own type back."""
        x = weights.normal("x", (64, 64))
        np.savez(self.path("in.npz"), a=x.astype("f4"), b=x.astype("f2"), c=x.astype("f8"), keep=np.arange(5))
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("q.npz"))
        self.vc("dequantize", "--source-dtype", self.path("q.npz"), "-o", self.path("b.npz"))
        z = self.load(self.path("b.npz"))
        self.assertEqual({n: str(a.dtype) for n, a in z.items()},
                         {"a": "float32", "b": "float16", "c": "float64", "keep": "int64"})
        for n, t in [("a", "f4"), ("b", "f2"), ("c", "f8")]:
            q, s, zero, _ = d.int8(x.astype(t))
            self.same_bits(z[n], d.int8_value(q, s, zero, "channel").astype(t), n)

    def test_codes_survive_a_round_trip(self):
        """Quantizing what dequantize gave finds the same codes; scales differ by at most one unit in the last place."""
        arrays = weights.model("f32", spread_only=True)
        weights.save(self.path("in.npz"), arrays, "f32")
        self.vc("quantize", "--int8", *SMALL, self.path("in.npz"), "-o", self.path("q1.npz"))
        self.vc("dequantize", self.path("q1.npz"), "-o", self.path("b.npz"))
        self.vc("quantize", "--int8", *SMALL, self.path("b.npz"), "-o", self.path("q2.npz"))
        one, two = self.load(self.path("q1.npz")), self.load(self.path("q2.npz"))
        for n in arrays:
            self.same_bits(one[n], two[n], n)
            a, b = one[n + ".scale"].view("u4"), two[n + ".scale"].view("u4")
            self.assertLessEqual(int(np.abs(a.astype("i8") - b.astype("i8")).max()), 1)


if __name__ == "__main__":
    main()
