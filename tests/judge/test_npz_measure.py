"""test_npz_measure.py - `inspect` and `diff` against NumPy: headers, counts, ranges, histograms, errors."""
import os
import unittest

from judge_support import SMALL, Judge, main, np, run
import definition as d
import weights


def histogram(x):
    """Finite values by the exponent bits of the value as float32."""
    with np.errstate(over="ignore"):
        u = x[np.isfinite(x)].astype("f4").view("u4")
    return np.bincount((u >> 23) & 0xFF, minlength=256)


def value_stats(x):
    x = x.reshape(-1)
    v = x[np.isfinite(x)].astype("f8")
    tiny = {"f2": 2.0 ** -14, "f4": 2.0 ** -126, "f8": 2.0 ** -1022}[x.dtype.str[1:]]
    out = {"nans": int(np.isnan(x).sum()), "infs": int(np.isinf(x).sum()),
           "zeros": int((v == 0).sum()), "subnormals": int(((np.abs(v) < tiny) & (v != 0)).sum())}
    if v.size:
        out.update(min=v.min(), max=v.max(), absmax=np.abs(v).max(), mean=v.mean(), rms=np.sqrt(np.mean(v * v)))
    return out


class Inspect(Judge):
    def rows(self, *args):
        r = self.vc("inspect", "--json", *args)
        doc = r.json()
        return doc, {t["name"]: t for t in doc["tensors"]}

    def test_headers(self):
        arrays = {"a.w": np.zeros((64, 128), "f4"), "b": np.zeros((), "i8"), "c/d": np.zeros((3, 0), "f8"),
                  "h": np.zeros((5, 5), "f2"), "v": np.zeros((2, 2), "V2")}
        for save in (np.savez, np.savez_compressed):
            save(self.path("in.npz"), **arrays)
            doc, rows = self.rows(self.path("in.npz"))
            self.assertEqual(list(rows), list(arrays))
            self.assertEqual({n: tuple(t["shape"]) for n, t in rows.items()}, {n: a.shape for n, a in arrays.items()})
            self.assertEqual({n: t["dtype"] for n, t in rows.items()},
                             {"a.w": "f32", "b": "i64", "c/d": "f64", "h": "f16", "v": "void"})
            self.assertEqual({n: (t["elements"], t["bytes"]) for n, t in rows.items()},
                             {n: (a.size, a.nbytes) for n, a in arrays.items()})
            self.assertEqual(doc["input"]["file_bytes"], os.path.getsize(self.path("in.npz")))
            self.assertEqual(doc["totals"]["parameters"], sum(a.size for a in arrays.values()))
            self.assertEqual(doc["totals"]["value_bytes"], sum(a.nbytes for a in arrays.values()))
            self.assertEqual({c["dtype"]: (c["tensors"], c["elements"]) for c in doc["dtypes"]},
                             {"f32": (1, 64 * 128), "i64": (1, 1), "f64": (1, 0), "f16": (1, 25), "void": (1, 4)})
        self.assertIn(b"--void-as bf16 reads", run("inspect", self.path("in.npz")).out)  # bfloat16, as NumPy stores it
        self.assertNotIn(b"--void-as", run("inspect", "--void-as", "bf16", self.path("in.npz")).out)
        self.assertIn("--void-as bf16", self.refuse(3, "convert", self.path("in.npz"), "-o", self.path("o.safetensors")))

    def test_headers_are_all_that_is_read(self):
        """A damaged value is not noticed without --stats, and is with it."""
        np.savez(self.path("in.npz"), w=weights.normal("w", (300, 300)).astype("f4"))
        with open(self.path("in.npz"), "r+b") as f:
            f.seek(200000)
            f.write(b"XXXX")
        self.vc("inspect", self.path("in.npz"))
        line = self.refuse(3, "inspect", "--stats", self.path("in.npz"))
        self.assertIn("in.npz", line)

    def check_stats(self, row, x, what):
        for key, want in value_stats(x).items():
            got = row["stats"][key]
            if isinstance(want, int):
                self.assertEqual(got, want, "%s: %s" % (what, key))
            elif key in ("min", "max", "absmax"):
                self.assertEqual(float(got), float(want), "%s: %s" % (what, key))
            elif key == "mean":  # cancels: compare with the size of what was added
                scale = float(np.abs(x[np.isfinite(x)].astype("f8")).mean()) if np.isfinite(x).any() else 0.0
                self.assertLessEqual(abs(got - want), 1e-12 * scale, "%s: mean" % what)
            else:
                self.close(got, want, "%s: %s" % (what, key))
        np.testing.assert_array_equal(self.bins(row), histogram(x), what)

    def bins(self, row):
        h = row["stats"]["histogram"]  # without the zeros at its end
        return np.array(h + [0] * (256 - len(h)))

    def test_stats(self):
        for dtype in weights.DTYPES:
            arrays = weights.model(dtype)
            weights.save(self.path("in.npz"), arrays, dtype)
            void = ["--void-as", "bf16"] if dtype == "bf16" else []
            _, rows = self.rows("--stats", *void, self.path("in.npz"))
            for n, a in arrays.items():
                x = weights.value(a, dtype)
                if dtype == "f16":
                    continue  # subnormals of f16 are looked at below
                self.check_stats(rows[n], x, "%s of %s" % (n, dtype))

    def test_stats_of_bad_values(self):
        x = weights.normal("x", (64, 100)).astype("f4")
        x[0, :5] = [np.nan, np.inf, -np.inf, -0.0, 1e-45]
        y = np.full((64, 64), np.nan)
        z = weights.normal("z", (64, 64))
        z[3, 3], z[4, 4] = 1e308, -1e-310
        np.savez(self.path("in.npz"), x=x, y=y, z=z, zero=np.zeros((3, 0), "f4"))
        _, rows = self.rows("--stats", self.path("in.npz"))
        self.check_stats(rows["x"], x, "x")
        self.assertEqual(rows["y"]["stats"]["nans"], 4096)
        self.assertEqual(rows["z"]["stats"]["max"], 1e308)
        self.assertEqual(rows["z"]["stats"]["subnormals"], 1)

    def test_stats_of_quantized(self):
        """The figures are those of the weights that the codes stand for."""
        x = weights.normal("x", (64, 100)).astype("f4")
        np.savez(self.path("in.npz"), x=x)
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("q.npz"))
        _, rows = self.rows("--stats", self.path("q.npz"))
        q, s, z, _ = d.int8(x)
        self.check_stats(rows["x"], d.int8_value(q, s, z, "channel"), "x")


class Diff(Judge):
    def diff(self, code, *args):
        r = run("diff", "--json", *args)
        self.assertEqual((r.code, r.err), (code, ""), args)
        doc = r.json()
        return doc, {t["name"]: t for t in doc["tensors"]}

    def check_row(self, row, x, y):
        f = d.figures(x, y)
        a, b = x.astype("f8").reshape(-1), y.astype("f8").reshape(-1)
        self.assertEqual(row["exact"], f["sum_e2"] == 0)
        if np.isfinite(f["sqnr_db"]):
            self.close(row["sqnr_db"], f["sqnr_db"], "sqnr_db")
            self.close(row["cosine"], float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b)), "cosine")
        self.assertEqual(row["max_abs_error"], f["max_abs_error"])

    def test_equal(self):
        arrays = weights.model("f32")
        arrays["i"] = np.arange(5)
        weights.save(self.path("a.npz"), arrays, "f32")
        weights.save(self.path("b.npz"), arrays, "f32", compressed=True)
        rows = self.diff(0, self.path("a.npz"), self.path("b.npz"))[1]
        self.assertEqual({t["cosine"] for t in rows.values() if t["cosine"] is not None}, {1})
        self.diff(0, self.path("a.npz"), self.path("a.npz"))

    def test_quantized_against_source(self):
        arrays = weights.model("f32", spread_only=True)
        weights.save(self.path("a.npz"), arrays, "f32")
        for args, how in [([], ("channel", 0, 0, False)), (["--asymmetric"], ("channel", 0, 0, True)),
                          (["--granularity", "group:100"], ("group", 0, 100, False))]:
            self.vc("quantize", "--int8", *args, *SMALL, "--force", self.path("a.npz"), "-o", self.path("q.npz"))
            doc, rows = self.diff(1, self.path("a.npz"), self.path("q.npz"))
            self.assertEqual(sorted(rows), sorted(arrays))
            worst = 0.0
            for n, x in arrays.items():
                q, s, z, _ = d.int8(x, *how)
                y = d.int8_value(q, s, z, how[0], how[2])
                self.check_row(rows[n], x, y)
                worst = max(worst, d.figures(x, y)["max_abs_error"])
            self.diff(0, "--tolerance", repr(worst), self.path("a.npz"), self.path("q.npz"))
            self.diff(1, "--tolerance", repr(worst * (1 - 1e-12)), self.path("a.npz"), self.path("q.npz"))

    def test_types_and_layouts(self):
        """f32 against f16, big-endian and Fortran order of the same numbers."""
        x = weights.normal("x", (100, 70)).astype("f2")
        np.savez(self.path("a.npz"), x=x)
        for y in (x.astype("f4"), x.astype("f8"), x.astype(">f4"), np.asfortranarray(x.astype("f8"))):
            np.savez(self.path("b.npz"), x=y)
            self.diff(0, self.path("a.npz"), self.path("b.npz"))
        y = x.astype("f4")
        y[99, 69] *= np.float32(1 + 2.0 ** -23)
        np.savez(self.path("b.npz"), x=y)
        _, rows = self.diff(1, self.path("a.npz"), self.path("b.npz"))
        self.check_row(rows["x"], x, y)

    def test_missing_and_shapes(self):
        x = np.ones((64, 64), "f4")
        np.savez(self.path("a.npz"), x=x, only_a=x, s=x)
        np.savez(self.path("b.npz"), x=x, only_b=x, s=x.reshape(4, -1))
        doc, rows = self.diff(1, "--tolerance", "1e9", self.path("a.npz"), self.path("b.npz"))
        self.assertEqual({n: t["kind"] for n, t in rows.items()},
                         {"x": "same", "only_a": "only_a", "s": "shape", "only_b": "only_b"})
        self.assertEqual(list(rows), ["x", "only_a", "s", "only_b"])

    def test_special_values(self):
        x = np.ones((64, 64), "f4")
        x[0, :4] = [np.nan, np.inf, 0.0, -np.inf]
        y = x.copy()
        y[0, 2] = -0.0
        np.savez(self.path("a.npz"), x=x)
        np.savez(self.path("b.npz"), x=y)
        self.diff(0, self.path("a.npz"), self.path("b.npz"))
        for k, v in [(0, 1.0), (1, -np.inf), (2, np.nan)]:
            y = x.copy()
            y[0, k] = v
            np.savez(self.path("b.npz"), x=y)
            self.diff(1, "--tolerance", "1e9", self.path("a.npz"), self.path("b.npz"))

    def test_integers(self):
        np.savez(self.path("a.npz"), i=np.arange(10), b=np.array([True, False]))
        np.savez(self.path("b.npz"), i=np.arange(10) + 1, b=np.array([True, False]))
        _, rows = self.diff(1, self.path("a.npz"), self.path("b.npz"))
        self.assertEqual({n: t["kind"] for n, t in rows.items()}, {"i": "values", "b": "same"})

    def test_gate(self):
        x = weights.normal("x", (64, 64)).astype("f4")
        y = x + np.float32(1e-3)
        np.savez(self.path("a.npz"), x=x)
        np.savez(self.path("b.npz"), x=y)
        db = d.figures(x, y)["sqnr_db"]
        self.diff(0, "--tolerance", "1", "--min-sqnr", "%.4f" % (db - 0.001), self.path("a.npz"), self.path("b.npz"))
        self.diff(1, "--tolerance", "1", "--min-sqnr", "%.4f" % (db + 0.001), self.path("a.npz"), self.path("b.npz"))


if __name__ == "__main__":
    main()
