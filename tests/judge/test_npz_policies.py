"""test_npz_policies.py - what is decided by options: selection, gates, non-finite values, overflow, quantized input."""
import json
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

    def test_default_rules(self):
        """Names of families that are kept, and their neighbours that are not; a rule of the user decides before them."""
        kept = ["model.norm.weight", "ln.LayerNorm.weight", "a.bias.w", "moe.router.weight", "moe.gate.weight", "x.gate",
                "emb.position_embeddings.weight", "pos_embed", "positional_embedding", "wpe.weight", "h.wpe.weight",
                "token_type_embeddings.weight", "rotary.table", "inv_freq"]
        worked = ["mlp.gate_proj.weight", "gate_up.weight", "wte.weight", "lm_head.weight", "xwpe.weight", "up.weight",
                  "embed_tokens.weight", "experts.0.w1"]
        x = weights.normal("x", (64, 128)).astype("f4")
        np.savez(self.path("in.npz"), **{n: x for n in kept + worked})
        self.assertEqual(self.quantized(), sorted(worked))
        self.assertEqual(self.quantized("--include", "*"), sorted(kept + worked))
        self.assertEqual(self.quantized("--include", "*", "--exclude", "*.weight", "--include", "lm_head*"),
                         sorted([n for n in kept + worked if not n.endswith(".weight")] + ["lm_head.weight"]))
        self.assertEqual(self.quantized("--include", "moe.*", "--exclude", "*"), [])
        self.assertEqual(self.quantized("--include", "MOE.*"), sorted(worked))  # letters count as they are

    def test_included_whatever_the_shape(self):
        """Vectors and scalars have one scale; a rule cannot make a tensor of integers or without elements into codes."""
        arrays = {"v": weights.normal("v", (9000,)).astype("f4"), "s": np.array(0.5, "f4"), "one": np.ones((1, 1), "f4"),
                  "flat": np.ones((5, 1), "f4") * 3, "none": np.zeros((0, 64), "f4"), "i": np.ones((64, 128), "i2")}
        np.savez(self.path("in.npz"), **arrays)
        for args, how in (([], ("channel", 0, 0)), (["--granularity", "tensor"], ("tensor", 0, 0)),
                          (["--granularity", "group:32"], ("group", 0, 32)), (["--axis", "1"], ("channel", 1, 0))):
            self.assertEqual(self.quantized(*args, "--include", "*"), ["flat", "one", "s", "v"])
            z = self.load(self.path("out.npz"))
            for n in ("flat", "one", "s", "v"):
                q, s, _, _ = d.int8(arrays[n], *(how if arrays[n].ndim > 1 else ("tensor", 0, 0)))
                self.same_bits(z[n], q.reshape(arrays[n].shape), n)
                self.same_bits(z[n + ".scale"], s, n)

    def test_an_axis_without_channels(self):
        for args in (["--granularity", "tensor", "--axis", "1"], ["--granularity", "group:32", "--axis", "1"]):
            self.assertIn("axis", self.refuse(2, "quantize", "--int8", *args, self.path("in.npz"), "--dry-run"))

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
                    q, s, zero, _ = d.int8(d.without_nonfinite(x, granularity, axis, group, asymmetric), granularity, axis,
                                           group, asymmetric)
                    self.same_bits(z["bad.scale"], s)
                    if asymmetric:
                        self.same_bits(z["bad.zero_point"], zero)
                    self.same_bits(z["bad"], q)
                    row = [t for t in r.json()["tensors"] if t["name"] == "bad"][0]
                    self.assertEqual(row["measured"]["nonfinite"], int((~np.isfinite(x)).sum()))

    def test_zero_and_keep_of_large_tensors(self):
        """Several tiles, rows longer than a tile, every input type, another axis, deflated input."""
        r = np.random.default_rng(2)
        for shape, args, how in [((3, 262144 + 500), [], ("channel", 0, 0)),
                                 ((3, 262144 + 500), ["--granularity", "group:100"], ("group", 0, 100)),
                                 ((900, 700), ["--axis", "1"], ("channel", 1, 0)),
                                 ((900, 700), ["--granularity", "tensor"], ("tensor", 0, 0)),
                                 ((40, 30, 3, 3), ["--min-row", "1"], ("channel", 0, 0))]:
            x = r.standard_normal(shape)
            flat = x.reshape(-1)
            flat[r.integers(0, flat.size, 30)] = r.choice([np.nan, np.inf, -np.inf], 30)
            flat[-1] = np.nan
            for dtype, save in (("f4", np.savez), ("f8", np.savez_compressed), ("f2", np.savez_compressed)):
                a = x.astype(dtype)
                save(self.path("in.npz"), w=a)
                for asymmetric in (False, True):
                    extra = ["--asymmetric"] if asymmetric else []
                    with self.subTest(shape=shape, args=args, dtype=dtype, asymmetric=asymmetric):
                        self.vc("quantize", "--int8", *args, *extra, "--nonfinite", "zero", "--force",
                                self.path("in.npz"), "-o", self.path("out.npz"))
                        z = self.load(self.path("out.npz"))
                        q, s, zero, _ = d.int8(d.without_nonfinite(a, *how, asymmetric), *how, asymmetric)
                        self.same_bits(z["w"], q)
                        self.same_bits(z["w.scale"], s)
                        if asymmetric:
                            self.same_bits(z["w.zero_point"], zero)
                self.vc("quantize", "--int8", *args, "--nonfinite", "keep", "--force", self.path("in.npz"), "-o",
                        self.path("out.npz"))
                self.same_bits(self.load(self.path("out.npz"))["w"], a)

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
        x[5, 5], x[9, 0], x[9, 1] = 1e300, -3.5e38, 3.4028235e38
        np.savez(self.path("in.npz"), w=x, fine=x[:4])
        for args in ([], ["--granularity", "tensor"], ["--granularity", "group:32", "--asymmetric"]):
            line = self.refuse(3, "quantize", "--int8", *args, self.path("in.npz"), "-o", self.path("out.npz"))
            for word in (": w: ", "2 of 6400", "f32", "1e+300", "[5, 5]", "--nonfinite"):
                self.assertIn(word, line)
            self.no_strays("in.npz")
        r = self.vc("quantize", "--int8", *SMALL, "--nonfinite=keep", "--json", self.path("in.npz"), "-o",
                    self.path("out.npz"))
        rows = {t["name"]: t for t in r.json()["tensors"]}
        self.assertEqual((rows["w"]["action"], rows["fine"]["action"]), ("kept", "quantized"))
        self.assertIn("f32", rows["w"]["reason"])
        self.same_bits(self.load(self.path("out.npz"))["w"], x)
        self.vc("quantize", "--int8", "--nonfinite=zero", "--force", self.path("in.npz"), "-o", self.path("out.npz"))
        q, s, _, _ = d.int8(d.without_nonfinite(x, "channel", 0, 0, False))
        self.same_bits(self.load(self.path("out.npz"))["w.scale"], s)
        self.same_bits(self.load(self.path("out.npz"))["w"], q)


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


class DequantizeOverflow(Judge):
    """Codes whose product with their scale is beyond float32: an overflow of whatever the target is."""

    TARGETS = [("--f32", "f4", np.finfo("f4").max), ("--fp16", "f2", np.float16(F16_MAX)), ("--bf16", "bf16", None)]

    def setUp(self):
        super().setUp()
        r = np.random.default_rng(3)
        self.q = r.integers(-127, 128, (64, 300), dtype=np.int8)
        self.s = np.full((64, 1), 0.01, "f4")
        self.s[5], self.s[60] = 1e38, 3e36
        self.q[5, :7] = [0, 1, -3, 3, 4, -127, 4]
        self.q[60] = self.q[60] // 2
        self.write(self.s)
        with np.errstate(over="ignore"):
            self.y = self.q.astype("f4") * self.s
        self.assertTrue(np.isinf(self.y[5]).any() and np.isfinite(self.y[60]).all())

    def write(self, s, z=None):
        members = [("w.npy", npy_bytes(self.q)), ("w.scale.npy", npy_bytes(s))]
        members += [("w.zero_point.npy", npy_bytes(z))] if z is not None else []
        write_members(self.path("q.npz"), members + [("b.npy", npy_bytes(np.ones(3, "f4")))])

    def result(self, *args):
        self.vc("dequantize", *args, "--force", self.path("q.npz"), "-o", self.path("out.npz"))
        return self.load(self.path("out.npz"))["w"]

    def expected(self, target, how):
        """The product in float32, then one rounding; what is infinite then, by policy."""
        finite = np.clip(self.y, -np.finfo("f4").max, np.finfo("f4").max)
        if target == "f4":
            return self.y if how == "inf" else finite
        h = d.cast(finite, "f16" if target == "f2" else "bf16")
        if how == "inf":
            return h
        if target == "f2":
            return np.where(np.isinf(h), np.copysign(np.float16(F16_MAX), h), h).astype("f2")
        return np.where(h & 0x7FFF == 0x7F80, h & 0x8000 | 0x7F7F, h).astype("u2")

    def test_error(self):
        for option, target, _ in self.TARGETS:
            over = ~np.isfinite(d.cast_value(self.expected(target, "inf"), "bf16") if target == "bf16"
                                else self.expected(target, "inf"))
            where = np.argwhere(over)[0]
            for threads in (1, 2):
                line = self.refuse(3, "dequantize", option, "--threads", threads, self.path("q.npz"), "-o",
                                   self.path("out.npz"))
                for word in (": w: ", "%d of %d" % (over.sum(), over.size), "[%d, %d]" % tuple(where), "--overflow"):
                    self.assertIn(word, line)
                self.no_strays("q.npz")

    def test_inf_and_sat(self):
        for option, target, _ in self.TARGETS:
            for how in ("inf", "sat"):
                self.same_bits(self.result(option, "--overflow", how), self.expected(target, how), option + " " + how)

    def test_zero_points(self):
        z = np.full((64, 1), -128, np.int8)
        z[5] = 127
        self.write(self.s, z)
        with np.errstate(over="ignore"):
            self.y = (self.q.astype("f4") - z.astype("f4")) * self.s
        line = self.refuse(3, "dequantize", self.path("q.npz"), "-o", self.path("out.npz"))
        self.assertIn("%d of %d" % (np.isinf(self.y).sum(), self.y.size), line)
        for option, target, _ in self.TARGETS:
            for how in ("inf", "sat"):
                self.same_bits(self.result(option, "--overflow", how), self.expected(target, how), option + " " + how)

    def test_other_granularities(self):
        """One scale for all; a middle axis; groups, by manifest; rows longer than a tile."""
        r = np.random.default_rng(4)
        for shape, scale_shape, entry in [
                ((70, 50), (1,), {"granularity": "tensor"}),
                ((5, 7, 50), (1, 7, 1), {"granularity": "channel", "axis": 1}),
                ((6, 100), (6, 4), {"granularity": "group", "group_size": 32}),
                ((2, 262144 + 100), (2, 2622 + 1), {"granularity": "group", "group_size": 100})]:
            q = r.integers(-127, 128, shape, dtype=np.int8)
            s = r.choice(np.array([1e36, 4e36, 1e-3], "f4"), scale_shape)
            s.reshape(-1)[-1] = 5e36
            entry = dict(entry, scheme="int8", symmetric=True, source_dtype="f32", scale="w.scale")
            write_members(self.path("q.npz"), [
                ("w.npy", npy_bytes(q)), ("w.scale.npy", npy_bytes(s)),
                (MANIFEST, json.dumps({"schema": "vcompress.manifest/1", "tool": "by hand",
                                       "tensors": {"w": entry}}).encode())])
            y = d.int8_value(q, s, None, entry["granularity"], entry.get("group_size", 0))
            line = self.refuse(3, "dequantize", self.path("q.npz"), "-o", self.path("out.npz"))
            self.assertIn("%d of %d" % (np.isinf(y).sum(), y.size), line)
            self.assertIn("[%s]" % ", ".join(map(str, np.argwhere(np.isinf(y))[0])), line)
            self.same_bits(self.result("--overflow", "inf"), y)
            self.same_bits(self.result("--overflow", "sat"), np.clip(y, -np.finfo("f4").max, np.finfo("f4").max))
            os.unlink(self.path("out.npz"))

    def test_scales_that_are_not_finite(self):
        """No overflow, but damage: no policy of overflow makes numbers of it."""
        for bad in (np.nan, np.inf, -np.inf):
            s = self.s.copy()
            s[5] = 0.01
            s[7] = s[9] = bad
            self.write(s)
            for option in ("--f32", "--fp16", "--bf16"):
                for how in ("error", "inf", "sat"):
                    line = self.refuse(3, "dequantize", option, "--overflow", how, self.path("q.npz"), "-o",
                                       self.path("out.npz"))
                    for word in (": w: ", "2 of 64 scales", "[7, 0]", "NaN" if np.isnan(bad) else "Inf"):
                        self.assertIn(word, line)
            self.vc("dequantize", "--exclude", "w", "--force", self.path("q.npz"), "-o", self.path("out.npz"))
            self.same_bits(self.load(self.path("out.npz"))["w"], self.q)
            os.unlink(self.path("out.npz"))

    def test_halves_that_are_not_finite(self):
        """--casts between the halves: NaN and Inf have a place and a count there, too."""
        h = np.ones((64, 64), "f2")
        h[3, 4], h[5, 6] = np.nan, np.inf
        np.savez(self.path("h.npz"), h=h)
        line = self.refuse(3, "dequantize", "--casts", "--bf16", self.path("h.npz"), "-o", self.path("out.npz"))
        for word in (": h: ", "2 of 4096", "NaN", "[3, 4]", "--exclude"):
            self.assertIn(word, line)

    def test_requantize(self):
        """The same product on the way to another type."""
        for option, target, _ in self.TARGETS[1:]:
            line = self.refuse(3, "quantize", option, "--requantize", *SMALL, self.path("q.npz"), "-o",
                               self.path("out.npz"))
            for word in (": w: ", "[5, 1]" if target == "f2" else "[5, 4]", "--overflow"):
                self.assertIn(word, line)
            for how in ("inf", "sat"):
                self.vc("quantize", option, "--requantize", *SMALL, "--overflow", how, "--exclude", "b", "--force",
                        self.path("q.npz"), "-o", self.path("out.npz"))
                self.same_bits(self.load(self.path("out.npz"))["w"], self.expected(target, how))
            os.unlink(self.path("out.npz"))


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

    def test_requantize_what_is_not_finite(self):
        """A scale that is NaN or Inf: counted and placed as other values are; keep keeps codes and scales."""
        q, s, _, _ = d.int8(self.x)
        s[3], s[7] = np.nan, np.inf
        q[7, :5] = [1, -1, 0, 127, 5]
        with np.errstate(invalid="ignore"):
            y = d.int8_value(q, s, None, "channel")
        write_members(self.path("bad.npz"), [("x.npy", npy_bytes(q)), ("x.scale.npy", npy_bytes(s))])
        for args in (["--int8"], ["--int8", "--granularity", "tensor"], ["--fp16"], ["--bf16", "--overflow", "sat"]):
            args += ["--requantize", "--force", self.path("bad.npz"), "-o", self.path("out.npz")]
            line = self.refuse(3, "quantize", *args)
            for word in (": x: ", "%d of %d" % ((~np.isfinite(y)).sum(), y.size), "NaN", "[3, 0]", "--nonfinite"):
                self.assertIn(word, line)
            r = self.vc("quantize", *args, "--nonfinite", "keep", "--json")
            row = r.json()["tensors"][0]
            self.assertEqual((row["action"], row["name"]), ("kept", "x"))
            self.assertIn("%d values" % (~np.isfinite(y)).sum(), row["reason"])
            a, b = member_bytes(self.path("bad.npz")), member_bytes(self.path("out.npz"))
            self.assertEqual((a["x.npy"], a["x.scale.npy"]), (b["x.npy"], b["x.scale.npy"]))
            os.unlink(self.path("out.npz"))
        self.vc("quantize", "--int8", "--requantize", "--nonfinite", "zero", self.path("bad.npz"), "-o",
                self.path("out.npz"))
        clean = np.nan_to_num(y, nan=0.0, posinf=0.0, neginf=0.0).astype("f4")  # nothing finite in those rows
        want = d.int8(clean)
        self.same_bits(self.load(self.path("out.npz"))["x"], want[0])
        self.same_bits(self.load(self.path("out.npz"))["x.scale"], want[1])

    def test_requantize_keeps_the_source_dtype(self):
        """What the weights were before the first quantization is what --source-dtype gives after the second."""
        types = {"f2": "float16", "f4": "float32", "f8": "float64"}
        np.savez(self.path("in.npz"), **{t: self.x.astype(t) for t in types})
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("one.npz"))
        self.vc("quantize", "--int8", "--requantize", "--granularity", "group:32", self.path("one.npz"), "-o",
                self.path("two.npz"))
        self.vc("dequantize", "--source-dtype", self.path("two.npz"), "-o", self.path("back.npz"))
        back = self.load(self.path("back.npz"))
        self.assertEqual({n: str(a.dtype) for n, a in back.items()}, types)
        for t in types:
            q, s, _, _ = d.int8(self.x.astype(t))
            q, s, _, _ = d.int8(d.int8_value(q, s, None, "channel"), "group", 0, 32)
            self.same_bits(back[t], d.int8_value(q, s, None, "group", 32).astype(t))

    def test_excluded_needs_no_requantize(self):
        """A rule that keeps a quantized tensor is enough; the last match decides, as always."""
        np.savez(self.path("more.npz"), y=self.x)
        x = member_bytes(self.path("q.npz"))
        x.update(member_bytes(self.path("more.npz")))
        x[MANIFEST] = x.pop(MANIFEST)
        write_members(self.path("mixed.npz"), list(x.items()))
        self.vc("quantize", "--int8", "--exclude", "x", self.path("mixed.npz"), "-o", self.path("out.npz"))
        z = self.load(self.path("out.npz"))
        self.assertEqual(sorted(z), ["b", "x", "x.scale", "x.zero_point", "y", "y.scale"])
        self.assertEqual(z["x"].tobytes(), self.load(self.path("q.npz"))["x"].tobytes())
        for args in (["--exclude", "y"], ["--exclude", "*", "--include", "x"], ["--include", "x"]):
            line = self.refuse(3, "quantize", "--int8", *args, "--force", self.path("mixed.npz"), "-o",
                               self.path("out.npz"))
            for word in (": x: ", "--requantize", "--exclude"):
                self.assertIn(word, line)

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
