"""test_npz_report.py - every figure of the report equals what NumPy finds in the two files.

Sizes and counts exactly, sums and decibels within 1e-9; a dry run says the same sizes as the run; the document fits
the schema that the program prints (help --schema report; inspect and diff have theirs).
"""
import json
import os
import unittest
import zipfile

from judge_support import MANIFEST, SMALL, Judge, main, np, run
import definition as d
import json_schema
import weights

SCHEMES = [("int8", "channel", 0, False), ("int8", "channel", 0, True), ("int8", "tensor", 0, False),
           ("int8", "group", 64, True), ("f16", "", 0, False), ("bf16", "", 0, False)]

def options(scheme, granularity, group, asymmetric):
    if scheme != "int8":
        return ["--fp16" if scheme == "f16" else "--bf16", "--overflow", "sat"]
    args = ["--int8", "--granularity", "group:%d" % group if group else granularity]
    return args + (["--asymmetric"] if asymmetric else [])


def decoded(x, scheme, granularity, group, asymmetric):
    """What the compressed tensor stands for, the source as it is compared, bytes of scales, values clipped."""
    if scheme == "int8":
        q, s, z, clipped = d.int8(x, granularity, 0, group, asymmetric)
        y = d.int8_value(q, s, z, granularity, group)
        return d.to_f32(x), y, q.nbytes, s.nbytes + (z.nbytes if asymmetric else 0), clipped, s.size
    h = d.cast(x, scheme)
    y = d.cast_value(h, scheme)
    clipped = int((np.isfinite(x) & np.isinf(y)).sum())
    top = np.float32(65504.0 if scheme == "f16" else weights.LARGEST["bf16"])
    y = np.where(np.isinf(y), np.copysign(top, y), y)  # --overflow sat
    return x, y, h.nbytes, 0, clipped, 0


class Report(Judge):
    def setUp(self):
        super().setUp()
        self.schemas = {}
        for name in ["report", "inspect", "diff"]:
            self.schemas[name] = self.vc("help", "--schema", name).json()

    def valid(self, doc, name="report"):
        self.assertEqual(json_schema.errors(doc, self.schemas[name]), [])
        self.assertEqual(doc["schema"], "vcompress.%s/1" % name)

    def make(self, dtype, compressed=False):
        arrays = weights.model(dtype, dict(weights.SHAPES, plain=(100, 100)))
        weights.save(self.path("in.npz"), arrays, dtype, compressed)
        return arrays

    def check_rows(self, doc, arrays, dtype, how):
        rows = {t["name"]: t for t in doc["tensors"]}
        self.assertEqual(list(rows), list(arrays))
        xx = ee = 0.0
        for n, a in arrays.items():
            row, what = rows[n], "%s %s of %s: " % (n, how, dtype)
            x = weights.value(a, dtype)
            self.assertEqual((row["dtype_before"], row["shape"], row["elements"], row["bytes_before"]),
                             (dtype, list(a.shape), a.size, a.nbytes), what)
            if dtype == how[0]:
                self.assertEqual((row["action"], row["bytes_after"], row["measured"]), ("kept", a.nbytes, None), what)
                continue
            ref, y, q_bytes, s_bytes, clipped, n_scales = decoded(x, *how)
            self.assertEqual((row["action"], row["bytes_after"], row["scale_bytes"], row["scales"]),
                             ("quantized" if how[0] == "int8" else "cast", q_bytes + s_bytes, s_bytes, n_scales), what)
            f = d.figures(ref, y)
            self.check_measured(row["measured"], f, what)
            self.assertEqual((row["measured"]["clipped"], row["measured"]["nonfinite"]), (clipped, 0), what)
            xx, ee = xx + f["sum_x2"], ee + f["sum_e2"]
        total = doc["totals"]
        self.assertEqual(total["exact"], xx > 0 and ee == 0)
        if ee:
            self.close(total["sqnr_db"], d.sqnr(xx, ee), "totals")
            self.assertIn(total["worst_tensor"], rows)

    def check_measured(self, m, f, what):
        for key in ("zeros_before", "zeros_after", "max_abs_error"):
            self.assertEqual(m[key], f[key], what + key)
        for key in ("sum_x2", "sum_e2"):
            self.close(m[key], f[key], what + key)
        exact = f["sum_e2"] == 0
        self.assertEqual(m["exact"], exact, what)
        self.close(m["sqnr_db"], None if exact else f["sqnr_db"], what + "sqnr_db")

    def check_sizes(self, doc, arrays, dtype, how):
        t = doc["totals"]
        size_before, size_after = os.path.getsize(self.path("in.npz")), os.path.getsize(self.path("out.npz"))
        self.assertEqual((doc["input"]["file_bytes"], doc["output"]["file_bytes"]), (size_before, size_after))
        self.assertEqual((t["file"]["before"], t["file"]["after"]), (size_before, size_after))
        before = sum(a.nbytes for a in arrays.values())
        with np.load(self.path("out.npz")) as z:
            after = sum(z[n].nbytes for n in z.files if n != MANIFEST)
            scales = sum(z[n].nbytes for n in z.files if n.endswith((".scale", ".zero_point")))
        self.assertEqual((t["host"]["before"], t["host"]["after"], t["scale_bytes"]), (before, after, scales))
        self.assertEqual((t["device"]["before"], t["device"]["native"]), (before, after))
        self.assertEqual(t["device"]["dequantized"], before if how[0] == "int8" else after)
        n_params = sum(a.size for a in arrays.values())
        self.assertEqual((t["tensors"], t["parameters"]), (len(arrays), n_params))
        self.close(t["bits_per_weight"], 8 * after / n_params, "bits per weight")
        self.close(t["file"]["ratio"], size_before / size_after, "ratio")

    def test_figures(self):
        for dtype in weights.DTYPES:
            arrays = self.make(dtype)
            void = ["--void-as", "bf16"] if dtype == "bf16" else []
            for how in SCHEMES:
                with self.subTest(dtype=dtype, how=how):
                    r = self.vc("quantize", *options(*how), *SMALL, *void, "--json", "--force", self.path("in.npz"),
                                "-o", self.path("out.npz"))
                    doc = r.json()
                    self.valid(doc)
                    self.check_rows(doc, arrays, dtype, how)
                    self.check_sizes(doc, arrays, dtype, how)
                    self.assertEqual((doc["output"]["written"], doc["dry_run"], doc["gates"]["met"]),
                                     (True, False, True))

    def figures_of(self, name, *args):
        r = self.vc(*args, "--json", "--force", "-o", self.path("out.npz"))
        self.valid(r.json())
        return {t["name"]: t for t in r.json()["tensors"]}[name]["measured"], r.json()["totals"]

    def test_figures_without_what_is_not_finite(self):
        """--nonfinite zero: NaN and Inf are in no sum and no maximum, as the definition of the figures says."""
        r = np.random.default_rng(1)
        for shape in ((64, 300), (3, 262144 + 500), (700, 513)):
            x = r.standard_normal(shape).astype("f4")
            flat = x.reshape(-1)
            flat[r.integers(0, flat.size, 50)] = r.choice([np.nan, np.inf, -np.inf, 0.0], 50).astype("f4")
            x[-1] = r.choice(np.array([np.nan, np.inf], "f4"), shape[1])
            for dtype in ("f4", "f8", "f2"):
                a = x.astype(dtype)
                np.savez(self.path("in.npz"), w=a)
                for how in SCHEMES:
                    if how[0] == "int8":
                        clean = d.without_nonfinite(a, how[1], 0, how[2], how[3])
                        q, s, z, clipped = d.int8(clean, how[1], 0, how[2], how[3])
                        y = d.int8_value(q, s, z, how[1], how[2])
                    elif dtype == "f2" and how[0] == "f16":
                        continue
                    else:
                        top = 65504.0 if how[0] == "f16" else weights.LARGEST["bf16"]
                        clean = np.where(np.isnan(a), 0, np.where(np.isinf(a), 0, a)).astype(dtype)
                        y = d.cast_value(d.cast(clean, how[0]), how[0])
                        y = np.where(np.isinf(a), np.copysign(np.float32(top), a), y)
                        clipped = 0
                    with self.subTest(shape=shape, dtype=dtype, how=how):
                        m, _ = self.figures_of("w", "quantize", *options(*how), *SMALL, "--nonfinite", "zero",
                                               self.path("in.npz"))
                        self.check_measured(m, d.figures(a.astype("f4") if how[0] == "int8" else a, y), str(how))
                        self.assertEqual((m["clipped"], m["nonfinite"]), (clipped, int((~np.isfinite(a)).sum())))

    def test_figures_with_rounded_scales(self):
        """Scales that a layout wants as f16 are rounded before the codes are made; what is not finite is left out."""
        x = np.random.default_rng(4).standard_normal((64, 300)).astype("f2")
        x[3, 5], x[3, 6], x[9, 0] = np.nan, np.inf, -np.inf
        np.savez(self.path("in.npz"), **{"lin.weight": x})
        r = self.vc("quantize", "--int8", "--layout", "compressed-tensors", "--nonfinite", "zero", "--json",
                    self.path("in.npz"), "-o", self.path("out.safetensors"))
        clean = d.without_nonfinite(x)
        s = (np.abs(clean).max(axis=1, keepdims=True) / np.float32(127)).astype("f2").astype("f4")
        y = np.clip(np.rint(clean / s), -127, 127).astype("f4") * s
        m = r.json()["tensors"][0]["measured"]
        self.check_measured(m, d.figures(x, y), "f16 scales")
        self.assertEqual(m["nonfinite"], 3)

    def test_figures_of_overflow(self):
        """--overflow inf: what became infinite is counted as clipped and left out of the sums; sat: it counts."""
        x = weights.normal("x", (64, 300))
        x[3, 4], x[5, 6], x[7, 8] = 1e6, -65520, 65519.9
        for dtype in ("f4", "f8"):
            a = x.astype(dtype)
            np.savez(self.path("in.npz"), w=a)
            for how in ("inf", "sat"):
                m, _ = self.figures_of("w", "quantize", "--fp16", "--overflow", how, self.path("in.npz"))
                y = d.cast_value(d.cast(a, "f16"), "f16")
                y = np.where(np.isinf(y), np.copysign(np.float32(65504), y), y) if how == "sat" else y
                self.check_measured(m, d.figures(a, y), how)
                self.assertEqual(m["clipped"], 2)

    def test_figures_of_decoded_input(self):
        """--requantize and dequantize: the source values are those that codes and scales stand for."""
        arrays = weights.model("f32", {n: weights.SHAPES[n] for n in ("lin.odd", "tall", "conv3x3.weight")}, True)
        weights.save(self.path("in.npz"), arrays, "f32")
        self.vc("quantize", "--int8", "--asymmetric", *SMALL, self.path("in.npz"), "-o", self.path("q.npz"))
        xx = ee = 0.0
        for n, a in arrays.items():
            q, s, z, _ = d.int8(a, asymmetric=True)
            x = d.int8_value(q, s, z, "channel")
            for how in SCHEMES:
                _, y, _, _, clipped, _ = decoded(x, *how)
                m, _ = self.figures_of(n, "quantize", *options(*how), *SMALL, "--requantize", self.path("q.npz"))
                self.check_measured(m, d.figures(x, y), "%s %s" % (n, how))
                self.assertEqual(m["clipped"], clipped)
            y = d.cast_value(d.cast(x, "bf16"), "bf16")
            m, total = self.figures_of(n, "dequantize", "--bf16", self.path("q.npz"))
            self.check_measured(m, d.figures(x, y), n)
            f = d.figures(x, y)
            xx, ee = xx + f["sum_x2"], ee + f["sum_e2"]
        self.close(total["sqnr_db"], d.sqnr(xx, ee), "totals")

    def test_the_worst_tensor(self):
        x = weights.normal("x", (64, 300)).astype("f4")
        spike = x.copy()
        spike[:, 0] = 100 * np.abs(x).max()
        np.savez(self.path("in.npz"), a=x, spike=spike, kept=np.arange(9000), zeros=np.zeros((64, 300), "f4"))
        doc = self.vc("quantize", "--int8", "--json", self.path("in.npz"), "-o", self.path("out.npz")).json()
        self.assertEqual(doc["totals"]["worst_tensor"], "spike")
        rows = {t["name"]: t["measured"] for t in doc["tensors"]}
        self.assertTrue(rows["zeros"]["exact"])
        self.assertIsNone(rows["kept"])
        want = [d.figures(a, d.int8_value(*d.int8(a)[:3], "channel")) for a in (x, spike)]
        self.close(doc["totals"]["sqnr_db"], d.sqnr(sum(f["sum_x2"] for f in want), sum(f["sum_e2"] for f in want)))

    def test_dry_run_says_the_same(self):
        """Everything that is known from the headers: rows, sizes, totals; nothing is written."""
        for dtype in ("f32", "bf16"):
            for compressed in (False, True):
                self.make(dtype, compressed)
                void = ["--void-as", "bf16"] if dtype == "bf16" else []
                for how in SCHEMES:
                    args = [*options(*how), *SMALL, *void, "--json", self.path("in.npz"), "-o", self.path("out.npz")]
                    planned = self.vc("quantize", "--dry-run", *args).json()
                    self.no_strays("in.npz")
                    done = self.vc("quantize", *args).json()
                    os.unlink(self.path("out.npz"))
                    self.valid(planned)
                    self.assertEqual((planned["dry_run"], planned["output"]["written"]), (True, False))
                    for a, b in zip(planned["tensors"], done["tensors"]):
                        self.assertIsNone(a.pop("measured"))
                        b.pop("measured")
                        for step in a["steps"]:
                            self.assertIsNone(step.pop("sqnr_db"))
                            self.assertIsNone(step.pop("zeros"))
                        for step in b["steps"]:
                            step.pop("sqnr_db")
                            step.pop("zeros")
                        self.assertEqual(a, b)
                    for key in planned["totals"]:
                        if key not in ("sqnr_db", "exact", "worst_tensor"):
                            self.assertEqual(planned["totals"][key], done["totals"][key], key)
                    self.assertEqual(planned["command"], done["command"])

    def test_dry_run_reads_no_values(self):
        """Values may be anything: only headers are looked at."""
        np.savez(self.path("in.npz"), w=np.full((300, 300), np.nan, "f4"))
        with open(self.path("in.npz"), "r+b") as f:
            f.seek(1000)
            f.write(b"damaged")
        self.vc("quantize", "--int8", "--dry-run", self.path("in.npz"))

    def test_deflated_sizes(self):
        self.make("f32")
        r = self.vc("quantize", "--int8", "--deflate", "--json", self.path("in.npz"), "-o", self.path("out.npz"))
        self.assertEqual(r.json()["totals"]["file"]["after"], os.path.getsize(self.path("out.npz")))

    def test_file_bytes_of_rows(self):
        """What a tensor takes in the input file, its own headers included, sums up to about the whole file."""
        arrays = self.make("f32", True)
        r = self.vc("quantize", "--int8", "--dry-run", "--json", self.path("in.npz"))
        with zipfile.ZipFile(self.path("in.npz")) as z:
            packed = {i.filename[:-4]: i.compress_size for i in z.infolist()}
        for t in r.json()["tensors"]:
            self.assertGreaterEqual(t["file_bytes_before"], packed[t["name"]], t["name"])
            self.assertLessEqual(t["file_bytes_before"], packed[t["name"]] + 1000, t["name"])
        self.assertEqual(len(arrays), len(r.json()["tensors"]))

    def test_report_to_a_file(self):
        self.make("f32")
        r = self.vc("quantize", "--int8", "--json=" + self.path("report.json"), self.path("in.npz"), "-o",
                    self.path("out.npz"))
        with open(self.path("report.json")) as f:
            self.valid(json.load(f))
        self.assertIn(b"out.npz", r.out)  # the table is still printed

    def test_errors_are_documents_too(self):
        r = run("quantize", "--int8", "--json", self.path("none.npz"))
        self.assertEqual((r.code, r.err.count("\n")), (4, 1))
        doc = r.json()
        self.valid(doc)
        self.assertEqual(doc["error"]["code"], "io")
        with open(self.path("bad.npz"), "wb") as f:
            f.write(b"PK\3\4 but nothing else")
        r = run("quantize", "--int8", "--json", self.path("bad.npz"))
        self.assertEqual((r.code, r.json()["error"]["code"]), (3, "format"))
        self.assertIn("bad.npz", r.json()["error"]["message"])
        self.valid(r.json())

    def test_other_documents(self):
        """Every command that knows --json prints one document of its schema, also for a failure."""
        self.make("f32")
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("q.npz"))
        for args, code, name in [(["dequantize", self.path("q.npz"), "-o", self.path("b.npz")], 0, "report"),
                                 (["inspect", self.path("q.npz")], 0, "inspect"),
                                 (["inspect", "--stats", self.path("in.npz")], 0, "inspect"),
                                 (["diff", self.path("in.npz"), self.path("q.npz")], 1, "diff"),
                                 (["diff", self.path("q.npz"), self.path("q.npz")], 0, "diff")]:
            r = run(*args, "--json")
            self.assertEqual((r.code, r.err), (code, ""), args)
            self.valid(r.json(), name)
            r = run(*args, "--json", "--cpu-mask", "sse9")
            self.assertEqual((r.code, r.err.count("\n")), (2, 1), args)
            r = run(args[0], *([self.path("none.npz")] * (2 if name == "diff" else 1)), "--json")
            self.assertEqual((r.code, r.err.count("\n")), (4, 1), args)
            self.valid(r.json(), name)

    def test_documents_fit_also_for_another_validator(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        self.make("f32")
        r = self.vc("quantize", "--int8", "--json", self.path("in.npz"), "-o", self.path("out.npz"))
        for schema in self.schemas.values():
            jsonschema.validators.validator_for(schema).check_schema(schema)
        jsonschema.validate(r.json(), self.schemas["report"])

    def test_names_that_need_escapes(self):
        names = ['quote"', "back\\slash", "tab\there", "\u00fc\u5c64", "\u007f", "emoji\U0001f600"]
        np.savez(self.path("in.npz"), **{n: np.ones((64, 64), "f4") for n in names})
        r = self.vc("quantize", "--int8", "--json", self.path("in.npz"), "-o", self.path("out.npz"))
        self.assertEqual([t["name"] for t in r.json()["tensors"]], names)
        self.valid(r.json())

    def test_dequantize_rows(self):
        x = weights.normal("x", (64, 128)).astype("f4")
        np.savez(self.path("in.npz"), x=x, b=np.ones(64, "f4"))
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("q.npz"))
        r = self.vc("dequantize", "--json", self.path("q.npz"), "-o", self.path("back.npz"))
        rows = {t["name"]: t for t in r.json()["tensors"]}
        self.assertEqual((rows["x"]["action"], rows["x"]["bytes_before"], rows["x"]["bytes_after"]),
                         ("dequantized", 64 * 128 + 64 * 4, 64 * 128 * 4))
        self.assertEqual(r.json()["totals"]["file"]["after"], os.path.getsize(self.path("back.npz")))

    def test_diffable_leaves_out_what_varies(self):
        self.make("f32")
        r = self.vc("quantize", "--int8", "--json", "--diffable", self.path("in.npz"), "-o", self.path("out.npz"))
        doc = r.json()
        self.assertFalse([v for v in (doc["run"] or {}).values() if v is not None])
        self.valid(doc)


if __name__ == "__main__":
    main()
