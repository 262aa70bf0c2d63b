"""test_npz_policies.py - what is decided by options: selection, gates, non-finite values, overflow, quantized input."""
import os
import unittest

from judge_support import MANIFEST, SMALL, Judge, main, member_bytes, np, npy_bytes, read_bytes, write_members
import definition as d
import weights

F16_MAX, BF16_MAX = 65504.0, weights.LARGEST["bf16"]


class Selection(Judge):
    def quantized(self, *args):
        """Names of the tensors that became int8."""
        self.vc("quantize", "--int8", *args, "--force", self.path("in.npz"), "-o", self.path("out.npz"))
        z = self.load(self.path("out.npz"))
        self.assertEqual(sorted(n for n in z if n.endswith(".scale")), sorted(n + ".scale" for n in z
                                                                             if z[n].dtype == np.int8))
        before, after = member_bytes(self.path("in.npz")), member_bytes(self.path("out.npz"))
        for n, a in z.items():
            if a.dtype != np.int8 and not n.endswith(".scale"):
                self.assertEqual(before[n + ".npy"], after[n + ".npy"], n)
        return sorted(n for n, a in z.items() if a.dtype == np.int8)

    def setUp(self):
        super().setUp()
        self.names = ["enc.0.attn.w", "enc.0.mlp.w", "enc.1.attn.w", "enc.1.mlp.w", "head.w"]
        x = weights.normal("x", (64, 128)).astype("f4")
        arrays = {n: x for n in self.names}
        arrays.update(small=np.ones((40, 40), "f4"), thin=np.ones((5000, 16), "f4"), bias=np.ones(9000, "f4"),
                      ids=np.ones((64, 128), "i4"))
        np.savez(self.path("in.npz"), **arrays)

    def test_defaults(self):
        self.assertEqual(self.quantized(), self.names)

    def test_reasons(self):
        r = self.vc("quantize", "--int8", "--dry-run", "--json", self.path("in.npz"))
        kept = {t["name"]: t["reason"] for t in r.json()["tensors"] if t["action"] == "kept"}
        self.assertEqual(sorted(kept), ["bias", "ids", "small", "thin"])
        for n, reason in kept.items():
            self.assertTrue(reason, n)

    def test_last_match_wins(self):
        for args, want in [
            (["--exclude", "enc.*"], ["head.w"]),
            (["--exclude", "*", "--include", "enc.1.*"], ["enc.1.attn.w", "enc.1.mlp.w"]),
            (["--include", "enc.1.*", "--exclude", "*attn*"], ["enc.0.mlp.w", "enc.1.mlp.w", "head.w"]),
            (["--exclude", "*attn*", "--include", "enc.1.*"], ["enc.0.mlp.w", "enc.1.attn.w", "enc.1.mlp.w", "head.w"]),
            (["--exclude", "enc.?.mlp.w"], ["enc.0.attn.w", "enc.1.attn.w", "head.w"]),
            (["--exclude", "enc.[1-9].*"], ["enc.0.attn.w", "enc.0.mlp.w", "head.w"]),
            (["--include=small"], sorted(self.names + ["small"])),
            (["--include", "thin", "--exclude=head*"], sorted(self.names[:4] + ["thin"])),
        ]:
            with self.subTest(args=args):
                self.assertEqual(self.quantized(*args), want)

    def test_thresholds(self):
        self.assertEqual(self.quantized("--min-elements", "1600"), sorted(self.names + ["small"]))
        self.assertEqual(self.quantized("--min-row", "16"), sorted(self.names + ["thin"]))
        self.assertEqual(self.quantized("--min-elements", "8193"), [])

    def test_integers_are_never_quantized(self):
        """Even when asked by name: refused, or kept with its reason."""
        from judge_support import run
        r = run("quantize", "--int8", "--include", "ids", self.path("in.npz"), "-o", self.path("out.npz"))
        if r.code == 0:
            self.assertEqual(self.load(self.path("out.npz"))["ids"].dtype, np.dtype("i4"))
        else:
            self.assertEqual((r.code in (2, 3), r.err.count("\n"), os.path.exists(self.path("out.npz"))),
                             (True, 1, False))


class Gates(Judge):
    def setUp(self):
        super().setUp()
        np.savez(self.path("in.npz"), w=weights.normal("w", (256, 256)).astype("f4"), b=np.ones(256, "f4"))

    def test_max_bytes(self):
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("out.npz"))
        size = os.path.getsize(self.path("out.npz"))
        os.unlink(self.path("out.npz"))
        self.vc("quantize", "--int8", "--max-bytes", size, self.path("in.npz"), "-o", self.path("out.npz"))
        os.unlink(self.path("out.npz"))
        self.refuse(1, "quantize", "--int8", "--max-bytes", size - 1, self.path("in.npz"), "-o", self.path("out.npz"))
        self.refuse(1, "quantize", "--int8", "--max-bytes", "1KiB", "--dry-run", self.path("in.npz"))
        self.no_strays("in.npz")

    def test_min_sqnr(self):
        with np.load(self.path("in.npz")) as z:
            w = z["w"]
        q, s, zero, _ = d.int8(w)
        db = d.figures(w, d.int8_value(q, s, zero, "channel"))["sqnr_db"]
        line = self.refuse(1, "quantize", "--int8", "--min-sqnr", "%.3f" % (db + 0.01), self.path("in.npz"), "-o",
                           self.path("out.npz"))
        self.assertIn("w", line)
        self.no_strays("in.npz")
        self.vc("quantize", "--int8", "--min-sqnr", "%.3f" % (db - 0.01), self.path("in.npz"), "-o",
                self.path("out.npz"))

    def test_a_missed_gate_leaves_the_older_output(self):
        np.savez(self.path("out.npz"), old=np.ones(3))
        before = read_bytes(self.path("out.npz"))
        self.refuse(1, "quantize", "--int8", "--min-sqnr", "200", "--force", self.path("in.npz"), "-o",
                    self.path("out.npz"))
        self.assertEqual(read_bytes(self.path("out.npz")), before)
        self.no_strays("in.npz", "out.npz")

    def test_the_report_is_complete_when_a_gate_is_missed(self):
        from judge_support import run
        r = run("quantize", "--int8", "--min-sqnr", "200", "--json", self.path("in.npz"), "-o", self.path("out.npz"))
        self.assertEqual(r.code, 1)
        doc = r.json()
        self.assertEqual((doc["output"]["written"], doc["gates"]["met"]), (False, False))
        self.assertIn("w", doc["gates"]["missed"])
        self.assertIsNotNone([t for t in doc["tensors"] if t["name"] == "w"][0]["measured"]["sqnr_db"])


class NonFinite(Judge):
    def bad(self, dtype="f4"):
        x = weights.normal("bad", (64, 300)).astype(dtype)
        x[3, 7] = np.nan
        x[3, 9] = np.inf
        x[5, 0] = -np.inf
        x[6, :] = np.nan
        x[7, :] = np.inf
        x[8, :] = [0.0, -np.inf, np.nan] * 100
        return x

    def save(self, x):
        np.savez(self.path("in.npz"), good=weights.normal("good", (64, 300)).astype("f4"), bad=x)

    def test_error_is_the_default(self):
        for dtype in ("f4", "f8", "f2"):
            x = self.bad(dtype)
            self.save(x)
            for target in ("--int8", "--bf16"):
                line = self.refuse(3, "quantize", target, self.path("in.npz"), "-o", self.path("out.npz"))
                self.assertIn("bad", line)
                self.assertIn("[3, 7]", line)
                self.assertIn("%d of %d" % ((~np.isfinite(x)).sum(), x.size), line)
                self.no_strays("in.npz")

    def test_one_nan_anywhere(self):
        """First and last element, tile borders, in every granularity."""
        base = weights.normal("long", (3, 262144 + 100)).astype("f4")
        for where in [(0, 0), (2, 262144 + 99), (1, 262143), (1, 262144)]:
            for value in (np.nan, -np.inf):
                x = base.copy()
                x[where] = value
                np.savez(self.path("in.npz"), w=x)
                for args in (["--int8"], ["--int8", "--granularity", "tensor"], ["--int8", "--granularity", "group:64"],
                             ["--int8", "--axis", "1", "--min-row", "1", "--asymmetric"], ["--fp16"]):
                    line = self.refuse(3, "quantize", *args, self.path("in.npz"), "-o", self.path("out.npz"))
                    self.assertIn("w", line)
        self.no_strays("in.npz")

    def test_keep(self):
        for compressed in (np.savez, np.savez_compressed):
            compressed(self.path("in.npz"), good=weights.normal("good", (64, 300)).astype("f4"), bad=self.bad())
            for target in ("--int8", "--fp16", "--bf16"):
                r = self.vc("quantize", target, "--nonfinite", "keep", "--force", "--json", self.path("in.npz"), "-o",
                            self.path("out.npz"))
                rows = {t["name"]: t for t in r.json()["tensors"]}
                self.assertEqual((rows["bad"]["action"], bool(rows["bad"]["reason"])), ("kept", True))
                self.assertNotEqual(rows["good"]["action"], "kept")
                self.assertEqual(member_bytes(self.path("in.npz"))["bad.npy"],
                                 member_bytes(self.path("out.npz"))["bad.npy"])

    def replaced(self, x, granularity, axis, group, asymmetric):
        """NaN -> 0, Inf -> the largest finite magnitude of its scale group; asymmetric: of its sign in the group."""
        w = d.to_f32(x)
        g, _ = d.grouped(w, granularity, axis, group)
        finite = np.where(np.isfinite(g), g, np.float32(0))
        top, bottom = finite.max(axis=1)[:, None], finite.min(axis=1)[:, None]
        if not asymmetric:
            top = np.maximum(top, -bottom)
            bottom = -top
        g = np.where(np.isposinf(g), np.maximum(top, 0), np.where(np.isneginf(g), np.minimum(bottom, 0), finite))
        g = g.astype("f4")
        return np.ascontiguousarray(d.ungrouped(g, w.shape, granularity, axis, group))

    def test_zero_int8(self):
        x = self.bad()
        self.save(x)
        for granularity, axis, group in [("tensor", 0, 0), ("channel", 0, 0), ("channel", 1, 0), ("group", 0, 32)]:
            for asymmetric in (False, True):
                args = ["--granularity", "group:%d" % group if group else granularity]
                args += ["--axis", axis] if granularity == "channel" else []
                args += ["--asymmetric"] if asymmetric else []
                with self.subTest(args=args):
                    r = self.vc("quantize", "--int8", *args, "--nonfinite", "zero", "--force", "--json",
                                self.path("in.npz"), "-o", self.path("out.npz"))
                    z = self.load(self.path("out.npz"))
                    q, s, zero, _ = d.int8(self.replaced(x, granularity, axis, group, asymmetric), granularity, axis,
                                           group, asymmetric)
                    self.same_bits(z["bad.scale"], s)
                    if asymmetric:
                        self.same_bits(z["bad.zero_point"], zero)
                    self.same_bits(z["bad"], q)
                    row = [t for t in r.json()["tensors"] if t["name"] == "bad"][0]
                    self.assertEqual(row["measured"]["nonfinite"], int((~np.isfinite(x)).sum()))

    def test_zero_casts(self):
        for dtype in ("f4", "f8"):
            x = self.bad(dtype)
            self.save(x)
            for option, target, top in [("--fp16", "f16", F16_MAX), ("--bf16", "bf16", BF16_MAX)]:
                self.vc("quantize", option, "--nonfinite", "zero", "--force", self.path("in.npz"), "-o",
                        self.path("out.npz"))
                y = np.where(np.isnan(x), 0, np.where(np.isinf(x), np.copysign(top, x), x)).astype(dtype)
                self.same_bits(self.load(self.path("out.npz"))["bad"], d.cast(y, target), option)

    def test_infinite_in_float32_only(self):
        """A float64 beyond float32 cannot become int8 by rounding to float32 first: not silently, at least."""
        x = weights.normal("f64", (64, 100))
        x[5, 5] = 1e300
        np.savez(self.path("in.npz"), w=x)
        line = self.refuse(3, "quantize", "--int8", self.path("in.npz"), "-o", self.path("out.npz"))
        self.assertIn("w", line)
        self.no_strays("in.npz")


class Overflow(Judge):
    def test_policies(self):
        x = weights.normal("x", (64, 100))
        x[0, 0], x[63, 99], x[1, 1] = 65520.0, -1e30, 65519.99
        for dtype in ("f4", "f8"):
            np.savez(self.path("in.npz"), big=x.astype(dtype))
            line = self.refuse(3, "quantize", "--fp16", self.path("in.npz"), "-o", self.path("out.npz"))
            self.assertIn("big", line)
            self.no_strays("in.npz")
            want = d.cast(x.astype(dtype), "f16")
            self.assertEqual(int(np.isinf(want).sum()), 2)
            r = self.vc("quantize", "--fp16", "--overflow", "inf", "--json", self.path("in.npz"), "-o",
                        self.path("out.npz"))
            self.same_bits(self.load(self.path("out.npz"))["big"], want)
            self.assertEqual(r.json()["tensors"][0]["measured"]["clipped"], 2)
            r = self.vc("quantize", "--fp16", "--overflow", "sat", "--force", "--json", self.path("in.npz"), "-o",
                        self.path("out.npz"))
            want = np.where(np.isinf(want), np.copysign(np.float16(F16_MAX), want), want).astype("f2")
            self.same_bits(self.load(self.path("out.npz"))["big"], want)
            self.assertEqual(r.json()["tensors"][0]["measured"]["clipped"], 2)
            os.unlink(self.path("out.npz"))

    def test_bf16(self):
        """FLT_MAX rounds to Inf in bf16; float64 goes far beyond."""
        x = weights.normal("x", (64, 100))
        x[0, 0], x[1, 1] = 3.4028234663852886e38, -3.3895e38
        np.savez(self.path("in.npz"), big=x.astype("f4"))
        self.refuse(3, "quantize", "--bf16", self.path("in.npz"), "-o", self.path("out.npz"))
        for dtype in ("f4", "f8"):
            y = x.astype(dtype)
            if dtype == "f8":
                y[2, 2], y[3, 3] = 1e308, -1e200
            np.savez(self.path("in.npz"), big=y)
            self.vc("quantize", "--bf16", "--overflow", "inf", "--force", self.path("in.npz"), "-o",
                    self.path("out.npz"))
            want = d.cast(y, "bf16")
            self.same_bits(self.load(self.path("out.npz"))["big"], want)
            self.vc("quantize", "--bf16", "--overflow", "sat", "--force", self.path("in.npz"), "-o",
                    self.path("out.npz"))
            want = np.where(want & 0x7FFF == 0x7F80, want & 0x8000 | 0x7F7F, want).astype("u2")
            self.same_bits(self.load(self.path("out.npz"))["big"], want)

    def test_dequantize_to_f16(self):
        x = np.full((64, 100), 7e4, "f4")
        np.savez(self.path("in.npz"), big=x)
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("q.npz"))
        line = self.refuse(3, "dequantize", "--fp16", self.path("q.npz"), "-o", self.path("out.npz"))
        self.assertIn("big", line)
        self.no_strays("in.npz", "q.npz")
        self.vc("dequantize", "--fp16", "--overflow", "sat", self.path("q.npz"), "-o", self.path("out.npz"))
        self.same_bits(self.load(self.path("out.npz"))["big"], np.full((64, 100), F16_MAX, "f2"))


class QuantizedInput(Judge):
    def setUp(self):
        super().setUp()
        self.x = weights.normal("x", (64, 128)).astype("f4")
        np.savez(self.path("in.npz"), x=self.x, b=np.ones(64, "f4"))
        self.vc("quantize", "--int8", "--asymmetric", self.path("in.npz"), "-o", self.path("q.npz"))

    def test_refused(self):
        for target in ("--int8", "--fp16", "--bf16"):
            line = self.refuse(3, "quantize", target, self.path("q.npz"), "-o", self.path("out.npz"))
            self.assertIn("q.npz", line)
            self.assertIn("--requantize", line)
        self.no_strays("in.npz", "q.npz")

    def test_requantize(self):
        q, s, z, _ = d.int8(self.x, asymmetric=True)
        y = d.int8_value(q, s, z, "channel")
        for args, want in [(["--int8", "--granularity", "tensor"], d.int8(y, "tensor")), (["--int8"], d.int8(y))]:
            self.vc("quantize", *args, "--requantize", "--force", self.path("q.npz"), "-o", self.path("out.npz"))
            out = self.load(self.path("out.npz"))
            self.assertEqual(sorted(out), ["b", "x", "x.scale"])
            self.same_bits(out["x"], want[0])
            self.same_bits(out["x.scale"], want[1])
        self.vc("quantize", "--fp16", "--requantize", "--force", self.path("q.npz"), "-o", self.path("out.npz"))
        out = self.load(self.path("out.npz"))
        self.assertEqual(sorted(out), ["b", "x"])
        self.same_bits(out["x"], d.cast(y, "f16"))

    def test_excluded_quantized_tensors_stay(self):
        """Not worked on: codes, scales and zero points are carried over, and still known as quantized."""
        self.vc("quantize", "--int8", "--requantize", "--exclude", "*", self.path("q.npz"), "-o", self.path("out.npz"))
        a, b = member_bytes(self.path("q.npz")), member_bytes(self.path("out.npz"))
        for n in ("x.npy", "x.scale.npy", "x.zero_point.npy", "b.npy"):
            self.assertEqual(a[n], b[n], n)
        self.vc("dequantize", self.path("out.npz"), "-o", self.path("back.npz"))
        q, s, z, _ = d.int8(self.x, asymmetric=True)
        self.same_bits(self.load(self.path("back.npz"))["x"], d.int8_value(q, s, z, "channel"))

    def test_without_manifest(self):
        """An int8 tensor with a scale that broadcasts is quantized also where no manifest says so."""
        q, s, _, _ = d.int8(self.x)
        write_members(self.path("bare.npz"), [("x.npy", npy_bytes(q)), ("x.scale.npy", npy_bytes(s))])
        self.refuse(3, "quantize", "--int8", self.path("bare.npz"), "-o", self.path("out.npz"))
        self.vc("dequantize", self.path("bare.npz"), "-o", self.path("out.npz"))
        self.same_bits(self.load(self.path("out.npz"))["x"], d.int8_value(q, s, None, "channel"))

    def test_a_manifest_that_does_not_fit(self):
        members = member_bytes(self.path("q.npz"))
        for old, new in [(b'"x.scale"', b'"x.nosuch"'), (b'"axis": 0', b'"axis": 7'), (b'"int8"', b'"int9"'),
                         (b'"tensors"', b'"tensors'), (b'"zero_point": "x.zero_point"', b'"zero_point": "b"')]:
            text = members[MANIFEST].replace(old, new)
            if text == members[MANIFEST]:
                text = members[MANIFEST].replace(old.replace(b": ", b":"), new.replace(b": ", b":"))
            self.assertNotEqual(text, members[MANIFEST], old)
            write_members(self.path("bad.npz"), [(n, text if n == MANIFEST else b) for n, b in members.items()])
            line = self.refuse(3, "dequantize", self.path("bad.npz"), "-o", self.path("out.npz"))
            self.assertIn("bad.npz", line)


class Usage(Judge):
    def test_wrong_usage(self):
        np.savez(self.path("in.npz"), x=np.ones((64, 128), "f4"))
        i = self.path("in.npz")
        for args in [["quantize", i], ["quantize", "--int8"], ["quantize", "--int8", "--fp16", i], ["quantise", i],
                     ["quantize", "--int8", "--granularity", "group:0", i], ["quantize", "--int8", "--nosuch", i],
                     ["quantize", "--int8", "--granularity", "rows", i], ["quantize", "--int8", "--threads", "-1", i],
                     ["quantize", "--int8", "--granularity", "group:99999999999999999999", i],
                     ["quantize", "--int8", "--max-memory", "lots", i], ["quantize", "--int8", "--axis", "x", i],
                     ["quantize", "--int8", "--min-sqnr", "nan", i], ["quantize", "--int8", "--cpu-mask", "sse9", i],
                     ["quantize", "--int8", i, i], ["quantize", "--int8", "--nonfinite", "ignore", i], ["inspect"],
                     ["diff", i], ["quantize", "--int8", "--deflate=lzma", i], []]:
            with self.subTest(args=args):
                self.refuse(2, *args)
        self.no_strays("in.npz")

    def test_existing_output(self):
        np.savez(self.path("in.npz"), x=np.ones((64, 128), "f4"))
        np.savez(self.path("out.npz"), y=np.ones(3))
        before = read_bytes(self.path("out.npz"))
        from judge_support import run
        r = run("quantize", "--int8", self.path("in.npz"), "-o", self.path("out.npz"))
        self.assertIn(r.code, (2, 4))
        self.assertIn("--force", r.err)
        self.assertEqual(read_bytes(self.path("out.npz")), before)


if __name__ == "__main__":
    main()
