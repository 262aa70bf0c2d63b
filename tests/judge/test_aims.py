"""test_aims.py - --aim-sqnr and --aim-bytes choose, per tensor, what the errors of the definitions say.

NumPy makes every candidate of every tensor, with its bytes and its error. For --aim-sqnr the smallest that reaches the aim has to
be the one in the report; for --aim-bytes the file has to fit, and its error has to be near that of the best of all choices.
"""
import itertools
import json
import os
import unittest

from judge_support import Judge, main, np, run, sha
import definition as d
import weights

GROUPS = (128, 64, 32)
BITS = {"int2": 2, "int3": 3, "int4": 4, "int5": 5, "int6": 6}


def sums(x, y):
    x, y = np.asarray(x, "f8"), np.asarray(y, "f8")
    return float((x * x).sum()), float(((x - y) ** 2).sum())


def candidates(x):
    """{scheme: (bytes, sum x^2, sum e^2)} of an f32 array, and "kept"."""
    found = {"kept": (4 * x.size, sums(x, x)[0], 0.0)}
    for granularity, group in [("tensor", 0), ("channel", 0)] + [("group", g) for g in GROUPS]:
        q, s, _, _ = d.int8(x, granularity, 0, group)
        label = "int8/" + (granularity if group == 0 else "group:%d" % group)
        found[label] = (q.size + 4 * s.size,) + sums(x, d.int8_value(q, s, None, granularity, group))
    for scheme, bits in BITS.items():
        if x.shape[1] * bits % 8 == 0:
            q, _, s, _ = d.ints(x, 128, scheme)
            found[scheme + "/group:128"] = (q.size * bits // 8 + 4 * s.size,) + sums(x, d.int_value(q, s, 128))
    for target in "f16", "bf16":
        found[target] = (2 * x.size,) + sums(x, d.cast_value(d.cast(x, target), target).reshape(x.shape))
    return found


def undominated(found):
    """Without those that are no smaller and no more exact than another."""
    return {n: a for n, a in found.items() if not any(b[0] <= a[0] and b[2] <= a[2] and b != a for b in found.values())}


def sqnr(candidate):
    return np.inf if candidate[2] == 0 else 10 * np.log10(candidate[1] / candidate[2])


def model():
    rng = np.random.default_rng(3)
    plain = rng.standard_normal((96, 256)).astype("f4")
    return {"plain": plain,
            "rows": (plain * np.exp(rng.standard_normal((96, 1)))).astype("f4"),
            "spikes": np.where(rng.random((64, 512)) < 0.002, np.float32(40), rng.standard_normal((64, 512))).astype("f4"),
            "heavy": (rng.standard_t(2, (128, 384)) * 0.02).astype("f4"),
            "halves": rng.standard_normal((64, 64)).astype("f2").astype("f4"),
            "norm.weight": rng.standard_normal(256).astype("f4")}


def chosen(report):
    return {t["name"]: t["scheme"] or "kept" for t in report["tensors"]}


class Aims(Judge):
    @classmethod
    def setUpClass(cls):
        cls.candidates = {n: candidates(a) for n, a in model().items() if a.ndim == 2}

    def setUp(self):
        super().setUp()
        self.x = model()
        np.savez(self.path("in.npz"), **self.x)

    def quantize(self, *options, out="out.npz"):
        return self.vc("quantize", *options, "--json", "--force", self.path("in.npz"), "-o", self.path(out)).json()

    def test_sqnr(self):
        for db in (5, 12, 20, 30, 33.5, 40, 43, 47, 52, 60, 75, 140):
            report = self.quantize("--aim-sqnr", str(db), "--min-sqnr", str(db))
            found = chosen(report)
            for n, all_candidates in self.candidates.items():
                able = [(w[0], w[2], label) for label, w in all_candidates.items() if sqnr(w) >= db]
                self.assertEqual(found[n], min(able)[2], "%s, %g dB: %s" % (n, db, able))
            self.assertEqual(found["norm.weight"], "kept")
            for t in report["tensors"]:
                if t["measured"] is not None:
                    candidate = self.candidates[t["name"]][t["scheme"]]
                    self.assertEqual(t["bytes_after"], candidate[0])
                    self.close(t["measured"]["sum_e2"], candidate[2], t["name"], 1e-6)
                    self.assertEqual(t["reason"], "the smallest that has %g dB" % db)
                elif t["name"] in self.candidates:
                    self.assertEqual(t["reason"], "nothing smaller reaches the aim")
            self.assertIn("the smallest that has %g dB: " % db, report["note"])
            dry = self.vc("quantize", "--aim-sqnr", str(db), "--json", "-n", self.path("in.npz")).json()
            self.assertEqual(chosen(dry), found)

    def test_bytes(self):
        names = list(self.candidates)
        fewer = [undominated(found) for found in self.candidates.values()]
        smallest = None
        kept = sum(a.nbytes for a in self.x.values())
        for size in (30000, 60000, 100000, 147000, 158000, 200000, 340000, 600000):
            r = run("quantize", "--aim-bytes", str(size), "--json", "--force", self.path("in.npz"), "-o", self.path("o.npz"))
            report = json.loads(r.out)
            found = chosen(report)
            if r.code == 1:
                self.assertEqual({found[n] for n in names}, {"int2/group:128"})
                self.assertFalse(report["gates"]["met"])
                self.assertIn("--aim-bytes allows %d" % size, report["gates"]["missed"])
                self.assertEqual(report["gates"]["each"][0]["id"], "aim_bytes")
                self.assertGreater(report["output"]["file_bytes"], size)
                self.assertFalse(os.path.exists(self.path("o.npz")))
                smallest = report["output"]["file_bytes"]
                continue
            self.assertEqual((r.code, r.err), (0, ""))
            self.assertLessEqual(os.path.getsize(self.path("o.npz")), size)
            error = sum(self.candidates[n][found[n]][2] for n in names)
            room = size - os.path.getsize(self.path("o.npz")) + sum(self.candidates[n][found[n]][0] for n in names)
            best = min((sum(self.candidates[n][w][2] for n, w in zip(names, some)) for some in
                        itertools.product(*fewer)
                        if sum(self.candidates[n][w][0] for n, w in zip(names, some)) <= room), default=None)
            total = sum(w["kept"][1] for w in self.candidates.values())
            off = 0 if error == best else 10 * np.log10(error / best) if best else np.inf
            print("%d bytes: %s, %.2f dB, %.2f dB from the best" % (
                size, found, 10 * np.log10(total / error) if error else np.inf, off))
            self.assertLess(off, 1.0, found)
            if size > kept + 5000:
                self.assertEqual(error, 0)
        self.assertIsNotNone(smallest)
        # Exactly as large as the smallest there is, and a byte less.
        self.quantize("--aim-bytes", str(smallest))
        self.assertEqual(run("quantize", "--aim-bytes", str(smallest - 1), "-f", self.path("in.npz"), "-o",
                             self.path("no.npz")).code, 1)

    def test_threads(self):
        big = {"a": weights.normal("a", (300, 1000)).astype("f4"), "b": weights.normal("b", (2, 270000)).astype("f4"),
               "c/kernel": weights.normal("c", (200, 600)).astype("f4")}
        np.savez_compressed(self.path("in.npz"), **big)
        for aim in (["--aim-sqnr", "41"], ["--aim-bytes", "1260000"]):
            seen = set()
            for options in (["--threads", "1"], ["--threads", "5"], ["--cpu-mask", "ref"], ["--max-memory", "24MiB"]):
                report = self.quantize(*aim, *options)
                seen.add((sha(self.path("out.npz")), report["note"], str(chosen(report))))
            self.assertEqual(len(seen), 1, seen)

    def test_rules(self):
        """What is excluded stays, the rest is the rest, other types take part as far as they get smaller."""
        self.x["half"] = weights.normal("half", (64, 100)).astype("f2")
        self.x["double"] = weights.normal("double", (64, 100)).astype("f8")
        np.savez(self.path("in.npz"), **self.x)
        found = chosen(self.quantize("--aim-sqnr", "60", "--exclude", "rows", "--rest", "bf16"))
        self.assertEqual([found[n] for n in ("rows", "norm.weight", "plain", "half", "double")],
                         ["kept", "bf16", "f16", "kept", "f16"])
        found = chosen(self.quantize("--aim-sqnr", "38", "--include", "norm*"))
        self.assertNotEqual(found["norm.weight"], "kept")
        self.assertTrue(found["half"].startswith("int8"))

    def test_no_place(self):
        """A cast that a value does not fit is no candidate; NaN is decided by its policy."""
        self.x["plain"] *= np.float32(30000)
        np.savez(self.path("in.npz"), **self.x)
        self.assertEqual(chosen(self.quantize("--aim-sqnr", "90"))["plain"], "kept")
        self.assertEqual(chosen(self.quantize("--aim-sqnr", "52"))["plain"], "bf16")
        self.x["plain"][3, 4] = np.nan
        np.savez(self.path("in.npz"), **self.x)
        why = self.refuse(3, "quantize", "--aim-sqnr", "40", "-f", self.path("in.npz"), "-o", self.path("out.npz"))
        self.assertIn("plain: 1 of 24576 values are not finite, the first is NaN at [3, 4]", why)
        report = self.quantize("--aim-sqnr", "40", "--nonfinite", "keep")
        self.assertEqual(chosen(report)["plain"], "kept")
        self.assertEqual({t["name"]: t["reason"] for t in report["tensors"]}["plain"], "1 values not finite")
        self.assertTrue(chosen(self.quantize("--aim-sqnr", "40", "--nonfinite", "zero"))["plain"].startswith("int8"))

    def test_layouts(self):
        """Only what the output has a place for."""
        w = weights.normal("w", (128, 256)).astype("f4")
        np.savez(self.path("in.npz"), **{"a.weight": w, "embed.weight": w, "short.weight": w[:, :200].copy()})
        self.vc("convert", self.path("in.npz"), "-o", self.path("in.safetensors"))
        for db, rows, short in ((38, "int8/channel", "int8/channel"), (44.5, "int8/group:64", "f16"), (50, "f16", "f16")):
            found = chosen(self.vc("quantize", "--aim-sqnr", str(db), "--layout", "compressed-tensors", "--json", "-f",
                                   self.path("in.safetensors"), "-o", self.path("o.safetensors")).json())
            self.assertEqual(found, {"a.weight": rows, "short.weight": short, "embed.weight": "f16"})
        found = chosen(self.vc("quantize", "--aim-sqnr", "30", "--json", self.path("in.npz"), "-o",
                               self.path("o.gguf")).json())
        self.assertEqual(found, {"a.weight": "q6_k", "embed.weight": "q6_k", "short.weight": "f16"})

    def test_again(self):
        """Quantized input takes part with --requantize, measured from what its codes stand for."""
        self.quantize("--aim-sqnr", "43", out="once.npz")
        os.replace(self.path("once.npz"), self.path("in.npz"))
        self.refuse(3, "quantize", "--aim-sqnr", "30", self.path("in.npz"), "-o", self.path("o.npz"))
        before = os.path.getsize(self.path("in.npz"))
        report = self.quantize("--aim-sqnr", "30", "--requantize")
        self.assertLess(os.path.getsize(self.path("out.npz")), before)
        for t in report["tensors"]:
            if t["measured"] is not None:
                self.assertGreaterEqual(t["measured"]["sqnr_db"] or np.inf, 30)

    def test_usage(self):
        for options, said in ((["--int8", "--aim-sqnr", "40"], "--int8"),
                              (["--aim-sqnr", "40", "--aim-bytes", "5"], "--aim-bytes"),
                              (["--aim-sqnr", "40", "--granularity", "tensor"], "--granularity conflicts with --aim-sqnr"),
                              (["--aim-sqnr", "0"], "above 0"), (["--aim-sqnr", "-3"], "--aim-sqnr"),
                              (["--aim-bytes", "0"], "--aim-bytes")):
            self.assertIn(said, self.refuse(2, "quantize", *options, self.path("in.npz")), options)
        why = self.refuse(2, "quantize", "--aim-bytes", "100000", "--deflate", self.path("in.npz"), "-o", self.path("o.npz"))
        self.assertIn("--aim-bytes needs to know what the output takes", why)
        why = self.refuse(2, "quantize", "--aim-bytes", "100000", self.path("in.npz"), "-o", self.path("o.npz"), "--emit",
                          self.path("o.safetensors"))
        self.assertIn("--aim-bytes is about one file, and this run writes several", why)
        self.no_strays("in.npz")


FLAGS = {"int8/tensor": ["--int8", "--granularity", "tensor"], "int8/channel": ["--int8"], "f16": ["--fp16"], "bf16": ["--bf16"],
         **{"int8/group:%d" % g: ["--int8", "--granularity", "group:%d" % g] for g in GROUPS},
         **{scheme + "/group:128": ["--scheme", scheme] for scheme in BITS}}
ALL = ["--min-elements", "1", "--min-row", "1"]


class SmallModels(Judge):
    """Models of two to four small tensors, where what a candidate takes beside its codes (a member for the scale) decides, too."""

    def sizes(self, x):
        """{(tensor, scheme): how much smaller the file is}, by files of one tensor quantized, and the whole file's size."""
        self.vc("convert", self.path("in.npz"), "-o", self.path("whole.npz"), "--force")
        whole = os.path.getsize(self.path("whole.npz"))
        saved = {}
        for name in x:
            saved[name, "kept"] = 0
            for scheme, flags in FLAGS.items():
                r = run("quantize", "-q", *flags, *ALL, "--exclude", "*", "--include", name, self.path("in.npz"), "-o", self.path("o.npz"), "--force")
                if r.code == 0:
                    saved[name, scheme] = whole - os.path.getsize(self.path("o.npz"))
        return saved, whole

    def test_no_choice_is_much_better(self):
        shapes = [(130, 40), (96, 64), (64, 128), (32, 256), (64, 72)]
        for seed in range(5):
            rng = np.random.default_rng(seed)
            x = {}
            for i in range(rng.integers(2, 5)):
                a = (rng.standard_normal(shapes[rng.integers(5)]) * 10 ** rng.uniform(-1, 1)).astype("f4")
                x["t%d.weight" % i] = a * np.where(rng.random(a.shape) < rng.choice([0, 0.002]), 20, 1).astype("f4")
            np.savez(self.path("in.npz"), **x)
            found = {n: candidates(a) for n, a in x.items()}
            saved, whole = self.sizes(x)
            least = whole - sum(max(saved[n, s] for s in found[n] if (n, s) in saved) for n in x)
            for share in (0.1, 0.4, 0.8):
                limit = int(least + 300 + share * (whole - least))
                report = self.vc("quantize", "--aim-bytes", limit, *ALL, "--json", self.path("in.npz"), "-o", self.path("a.npz"), "--force").json()
                self.assertLessEqual(os.path.getsize(self.path("a.npz")), limit)
                got = sum(found[n][s][2] for n, s in chosen(report).items())
                best = np.inf
                for choice in itertools.product(*[[s for s in undominated(found[n]) if (n, s) in saved] for n in x]):
                    if whole - sum(saved[n, s] for n, s in zip(x, choice)) + 64 * len(x) <= limit:  # members are aligned
                        best = min(best, sum(found[n][s][2] for n, s in zip(x, choice)))
                self.assertLessEqual(got, best * 10 ** 0.01, (seed, limit, chosen(report)))
                bound = float(report["note"].rsplit(" ", 1)[1]) if "has more than" in report["note"] else np.inf
                self.assertLessEqual(10 * np.log10(sum(found[n]["kept"][1] for n in x) / got) if got else 0, bound + 0.1)

    # ---- measured costs ----

    def measured(self, seed, leave_out=()):
        """Three tensors, their candidates, and the document of a sensitivity that measured made-up costs."""
        rng = np.random.default_rng(seed)
        x = {"t%d.weight" % i: rng.standard_normal(s).astype("f4") for i, s in enumerate([(96, 64), (64, 128), (32, 256)])}
        np.savez(self.path("in.npz"), **x)
        found = {n: candidates(a) for n, a in x.items()}
        weights = {n: {s: np.sqrt(c[2] / c[1]) for s, c in all_.items() if s != "kept"} for n, all_ in found.items()}
        cost = {n: {s: e * rng.uniform(0.02, 2) * rng.uniform(0.8, 1.2) for s, e in of.items()} for n, of in weights.items()}
        self.document(cost, weights, leave_out)
        return x, found, weights, cost

    def document(self, cost, weights, leave_out=(), name="s.json"):
        ways = [{"name": "50%", "kind": "magnitude"}] + [{"name": s, "kind": "scheme"} for s in next(iter(weights.values()))]
        tensors = [{"name": n, "errors": {"50%": {"relative": 1e-3}, **{s: {"relative": e} for s, e in weights[n].items()}},
                    "outputs": {"50%": {"relative": 0.0}, **{s: {"relative": c if s not in leave_out else None} for s, c in of.items()}}}
                   for n, of in cost.items()]
        with open(self.path(name), "w") as f:
            json.dump({"schema": "vcompress.sensitivity/1", "ways": ways, "tensors": tensors}, f)

    def every_choice(self, x, found, saved, whole, cost):
        """(size of the file, squared cost) of every choice."""
        for choice in itertools.product(*[[s for s in found[n] if (n, s) in saved] for n in x]):
            yield (whole - sum(saved[n, s] for n, s in zip(x, choice)),
                   sum(cost[n][s] ** 2 if s != "kept" else 0 for n, s in zip(x, choice)))

    def test_measured_costs(self):
        for seed in range(3):
            x, found, _, cost = self.measured(seed)
            saved, whole = self.sizes(x)
            all_ = list(self.every_choice(x, found, saved, whole, cost))
            least = min(size for size, _ in all_)
            aim = (*ALL, "--sensitivity", self.path("s.json"), "--json", self.path("in.npz"), "-o", self.path("a.npz"), "--force")
            for share in (0.15, 0.5):
                limit = int(least + 300 + share * (whole - least))
                report = self.vc("quantize", "--aim-bytes", limit, *aim).json()
                got = sum(cost[n][s] ** 2 for n, s in chosen(report).items() if s != "kept")
                best = min(c for size, c in all_ if size + 64 * len(x) <= limit)
                self.assertLessEqual(os.path.getsize(self.path("a.npz")), limit)
                self.assertLessEqual(got, best * 1.001, (seed, limit))
                self.assertIn("no choice of that size has less than", report["note"])
            for loss in (0.004, 0.05, 0.3):
                report = self.vc("quantize", "--aim-loss", "%g%%" % (100 * loss), *aim).json()
                got = sum(cost[n][s] ** 2 for n, s in chosen(report).items() if s != "kept")
                best = min(size for size, c in all_ if c <= loss ** 2)
                self.assertLessEqual(got, loss ** 2)
                self.assertLessEqual(os.path.getsize(self.path("a.npz")), best + 64 * len(x), (seed, loss, chosen(report)))
                if "in " in report["note"].split("adds up")[-1]:
                    takes, bound = (float(report["note"].split(w)[-1].split()[0]) for w in (" in ", "fewer than "))
                    self.assertLessEqual(bound, takes)
                again = self.vc("quantize", "--aim-loss", str(loss), *aim).json()
                self.assertEqual(again["note"], report["note"])

    def test_costs_of_other_weights(self):
        """The errors of the weights beside the costs tell whether they were measured on these weights."""
        x, _, _, _ = self.measured(5)
        aim = ("quantize", "--aim-bpw", "7.5", *ALL, "--sensitivity", self.path("s.json"), "--json", "-o", self.path("a.npz"), "--force")
        self.assertNotIn("other weights", self.vc(*aim, self.path("in.npz")).json()["note"])
        rng = np.random.default_rng(6)
        np.savez(self.path("trained.npz"), **dict(x, **{"t1.weight": x["t1.weight"] + 0.05 * rng.standard_normal(x["t1.weight"].shape).astype("f4")}))
        self.assertIn("measured on other weights: t1.weight", self.vc(*aim, self.path("trained.npz")).json()["note"])

    def test_costs_of_other_schemes(self):
        """A scheme without a figure costs by the scheme of the nearest error; a tensor without figures stays; bits per weight."""
        x, found, weights, cost = self.measured(7, leave_out=("int4/group:128", "int8/channel", "f16"))
        for n, of in weights.items():
            known = [s for s in of if s not in ("int4/group:128", "int8/channel", "f16")]
            for s in ("int4/group:128", "int8/channel", "f16"):
                near = min(known, key=lambda k: abs(np.log(of[k] / of[s])))
                cost[n][s] = cost[n][near] * of[s] / of[near]
        saved, whole = self.sizes(x)
        aim = (*ALL, "--sensitivity", self.path("s.json"), "--json", self.path("in.npz"), "-o", self.path("a.npz"), "--force")
        report = self.vc("quantize", "--aim-bpw", "7.5", *aim).json()
        limit = int(7.5 * sum(a.size for a in x.values()) / 8)
        self.assertLessEqual(os.path.getsize(self.path("a.npz")), limit)
        got = sum(cost[n][s] ** 2 for n, s in chosen(report).items() if s != "kept")
        self.assertLessEqual(got, 1.001 * min(c for size, c in self.every_choice(x, found, saved, whole, cost) if size + 64 * 3 <= limit))
        del cost["t1.weight"]
        self.document(cost, weights)
        report = self.vc("quantize", "--aim-loss", "90%", *aim).json()
        self.assertEqual([n for n, s in chosen(report).items() if s == "kept"], ["t1.weight"])
        report = self.vc("quantize", "--aim-bpw", "7.5", *ALL, "--json", self.path("in.npz"), "-o", self.path("b.npz")).json()
        self.assertEqual("a mix may lose more" in report["note"], len(set(chosen(report).values()) - {"kept"}) > 1)

    def test_costs_that_are_refused(self):
        self.measured(1)
        for name, text in (("none.json", "{}"), ("bad.json", "{"), ("empty.json", '{"schema": "vcompress.sensitivity/1"}'),
                           ("odd.json", '{"schema": "vcompress.sensitivity/1", "ways": 3, "tensors": [1, {"name": 2, "outputs": []}, {}]}'),
                           ("other.json", '{"schema": "vcompress.report/1", "tensors": []}')):
            with open(self.path(name), "w") as f:
                f.write(text)
            self.refuse(3, "quantize", "--aim-bytes", "9000", "--sensitivity", self.path(name), self.path("in.npz"), "-o", self.path("n.npz"))
        self.refuse(4, "quantize", "--aim-bytes", "9000", "--sensitivity", self.path("gone.json"), self.path("in.npz"), "-o", self.path("n.npz"))
        np.savez(self.path("other.npz"), w=np.ones((64, 64), "f4"))
        self.assertIn("another", self.refuse(3, "quantize", "--aim-bytes", "9000", "--sensitivity", self.path("s.json"), self.path("other.npz"),
                                             "-o", self.path("n.npz")))
        for words in (("--aim-loss", "1%"), ("--aim-loss", "0%"), ("--aim-loss", "100%"), ("--aim-loss", "1x"), ("--aim-bpw", "0"),
                      ("--aim-bpw", "70"), ("--aim-sqnr", "30", "--sensitivity", self.path("s.json")), ("--int8", "--sensitivity", self.path("s.json")),
                      ("--aim-bytes", "9000", "--aim-bpw", "4")):
            self.refuse(2, "quantize", *words, self.path("in.npz"), "-o", self.path("n.npz"))
        self.assertFalse(os.path.exists(self.path("n.npz")))


if __name__ == "__main__":
    main()
