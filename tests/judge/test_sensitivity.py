"""test_sensitivity.py - the errors that `sensitivity` tells: pruning to a sparsity against a sort of all magnitudes in NumPy,
2:4 and the schemes against what prune and quantize report when they do it, and the command lines at the end, which are run."""
import json
import shlex
import unittest
import xml.etree.ElementTree as ET

from judge_support import Judge, main, np
from test_prune import n_of_m

PERCENTS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 95)
SCHEMES = {"int8/tensor": ("--int8", "--granularity", "tensor"), "int8/channel": ("--int8", "--granularity", "channel"),
           "int8/group:128": ("--int8", "--granularity", "group:128"),
           "int8/group:64": ("--int8", "--granularity", "group:64"),
           "int8/group:32": ("--int8", "--granularity", "group:32"), "f16": ("--fp16",), "bf16": ("--bf16",),
           **{s + "/group:128": ("--scheme", s) for s in ("int2", "int3", "int4", "int5", "int6", "ternary")}, "fp8/channel": ("--fp8",),
           **{"%s/group:%d" % (s, g): ("--" + s,) for s, g in (("mxfp8", 32), ("mxfp4", 32), ("nvfp4", 16), ("nf4", 64), ("fp4", 64))}}
FLOATS = {}


def pruned_errors(x):
    """By percent: sqrt of the sum of the k smallest squares / that of all, ties and all."""
    s = np.sort(np.abs(np.asarray(x, "f8")).ravel()) ** 2
    total = s.sum()
    return {percent: float(np.sqrt(s[:s.size * percent // 100].sum() / total)) if total > 0 else 0.0 for percent in PERCENTS}


def bf16(x):
    return (np.asarray(x, "f4").view("u4") >> 16).astype("u2")


def floats():
    """Tensors that a count of magnitudes may get wrong: ties, a single value, zeros, denormals, one bin, many tiles."""
    rng = np.random.default_rng(5)
    normal = rng.standard_normal((300, 1000)).astype("f4")
    return {"gauss": normal,
            "ties": rng.integers(-3, 4, (700, 600)).astype("f4") / 7,
            "same": np.full((80, 64), -0.25, "f4"),
            "zeros": np.zeros((80, 64), "f4"),
            "sparse": (normal * (rng.random(normal.shape) < 0.3)).astype("f4"),
            "narrow": (1 + rng.random((400, 1500)) * 2.0 ** -9).astype("f4"),
            "steps": np.nextafter(np.full((64, 4096), 1, "f4"), rng.integers(0, 3, (64, 4096)).astype("f4")),
            "tiny": (rng.standard_normal((64, 80)) * 1e-42).astype("f4"),
            "spread": (normal * np.exp(4 * rng.standard_normal(normal.shape))).astype("f4"),
            "long": rng.standard_t(3, (2, 700000)).astype("f4"),
            "conv": rng.standard_normal((64, 48, 3, 3)).astype("f4"),
            "halves": rng.standard_normal((500, 900)).astype("f2"),
            "half ties": (rng.integers(-2, 3, (90, 70)) / 3).astype("f2"),
            "double": rng.standard_normal((300, 1100)),
            "double wide": rng.standard_normal((70, 70)) * np.exp(40 * rng.standard_normal((70, 70))),
            "double narrow": 1 + rng.random((100, 700)) * 1e-9,
            "small": rng.standard_normal((3, 5)).astype("f4"),
            "bias": rng.standard_normal(8192).astype("f4")}


class Sensitivity(Judge):
    def measure(self, name, *options, **kwargs):
        d = self.vc("sensitivity", self.path(name), "--json", *options, **kwargs).json()
        self.assertEqual(d["schema"], "vcompress.sensitivity/1")
        return d, {t["name"]: t for t in d["tensors"]}

    def measure_floats(self):
        """The arrays of floats(), and what the program says of them; the program measures them once for all tests."""
        if not FLOATS:
            x = floats()
            np.savez(self.path("floats.npz"), **x)
            FLOATS.update(x=x, document=self.measure("floats.npz")[0])
        d = FLOATS["document"]
        return FLOATS["x"], d, {t["name"]: t for t in d["tensors"]}

    def check_curve(self, x, tensor, rel=1e-6):
        wanted = pruned_errors(x)
        for percent in PERCENTS:
            what = "%s at %d %%" % (tensor["name"], percent)
            found = tensor["errors"]["%d%%" % percent]
            self.close(found["relative"], wanted[percent], what, rel)
            self.assertEqual(found["exact"], found["relative"] == 0, what)
            if found["relative"]:
                self.close(found["sqnr_db"], -20 * np.log10(found["relative"]), what, 1e-9)

    def test_curves(self):
        """f32 and 16-bit floats are exact but for the rounding of sums, and not only within 1e-6."""
        x, d, tensors = self.measure_floats()
        self.assertEqual([t["name"] for t in d["tensors"]], list(x))
        for name, a in x.items():
            t = tensors[name]
            if name == "bias":
                self.assertEqual((t["reason"], t["errors"]), ("1-D", None))
                continue
            self.check_curve(a, t, 1e-6 if a.dtype == "f8" else 1e-11)
            self.assertEqual(t["zeros"], int((a == 0).sum()), name)
            self.close(t["rms"], float(np.sqrt((a.astype("f8") ** 2).mean())), name, 1e-6)
        self.assertEqual(d["measured"], len(x) - 1)
        np.savez(self.path("in.npz"), **{n: x[n] for n in ("small", "same", "tiny")})
        _, tensors = self.measure("in.npz", "--min-elements", "4096")
        self.assertEqual({n: t["reason"] for n, t in tensors.items()}, {"small": "fewer than 4096 elements", "same": None, "tiny": None})

    def test_bf16(self):
        h = bf16(np.random.default_rng(6).standard_normal((256, 512)))
        np.savez(self.path("in.npz"), w=h.view("V2"))
        _, t = self.measure("in.npz", "--void-as", "bf16")
        self.check_curve((h.astype("u4") << 16).view("f4"), t["w"], 1e-11)
        self.assertTrue(t["w"]["errors"]["bf16"]["exact"])

    def test_two_of_four(self):
        x, _, tensors = self.measure_floats()
        for name, a in x.items():
            if a.ndim == 1:
                continue
            t = tensors[name]
            e = (a - n_of_m(a, 2, 4, 1)).astype("f8")
            total = (a.astype("f8") ** 2).sum()
            want = float(np.sqrt((e ** 2).sum() / total)) if total else 0.0
            self.close(t["errors"]["2:4"]["relative"], want, name, 1e-9)

    def test_schemes(self):
        """The same figures as quantize reports, scheme by scheme, with the bytes."""
        x, _, tensors = self.measure_floats()
        x = {n: a for n, a in x.items() if a.ndim > 1 and a.size >= 4096 and n not in ("double wide", "spread")}
        np.savez(self.path("in.npz"), **x)
        for scheme, options in SCHEMES.items():
            self.vc("quantize", *options, "--min-row", "1", self.path("in.npz"), "-o", self.path("q.npz"), "--force",
                    "--json=" + self.path("q.json"), "-q")
            with open(self.path("q.json")) as f:
                report = {t["name"]: t for t in json.load(f)["tensors"]}
            for name in x:
                found, r = tensors[name]["errors"][scheme], report[name]
                what = "%s as %s" % (name, scheme)
                if r["action"] == "kept":  # f16 already, or rows that are no whole bytes
                    self.assertTrue(found["exact"] or found["reason"] == r["reason"], what)
                    continue
                self.assertEqual(r["scheme"], scheme, what)
                self.close(found["sqnr_db"], r["measured"]["sqnr_db"], what, 1e-12)
                self.assertEqual(found["bytes"], r["bytes_after"], what)

    def test_q8_0(self):
        rng = np.random.default_rng(8)
        np.savez(self.path("in.npz"), w=rng.standard_normal((96, 256)).astype("f4"), odd=rng.standard_normal((96, 250)))
        _, tensors = self.measure("in.npz")
        self.vc("convert", self.path("in.npz"), "-o", self.path("in.gguf"), "-q")
        self.vc("quantize", "--int8", self.path("in.gguf"), "-o", self.path("q.gguf"), "--json=" + self.path("q.json"), "-q")
        with open(self.path("q.json")) as f:
            report = {t["name"]: t for t in json.load(f)["tensors"]}
        self.close(tensors["w"]["errors"]["q8_0"]["sqnr_db"], report["w"]["measured"]["sqnr_db"], "q8_0", 1e-12)
        self.assertIn("multiple of 32", tensors["odd"]["errors"]["q8_0"]["reason"])
        _, again = self.measure("in.gguf")
        self.assertEqual(again["w"]["errors"], tensors["w"]["errors"])

    def test_no_place(self):
        """What does not fit a scheme, NaN, and rules."""
        x = {"large": np.full((64, 64), 1e6, "f4"), "nan": np.ones((64, 64), "f4"), "b": np.ones(64, "f4") * 2,
             "plain": np.ones((64, 64), "f4")}
        x["nan"][3, 4] = np.nan
        np.savez(self.path("in.npz"), **x)
        _, t = self.measure("in.npz", "--include", "b", "--exclude", "plai*")
        self.assertIn("too large", t["large"]["errors"]["f16"]["reason"])
        self.assertIsNone(t["large"]["errors"]["f16"]["relative"])
        self.assertEqual(t["nan"]["reason"], "1 values not finite")
        self.assertEqual(t["plain"]["reason"], "excluded by 'plai*'")
        self.assertIn("two axes", t["b"]["errors"]["2:4"]["reason"])
        self.check_curve(x["b"], t["b"])

    def test_quantized_input(self):
        """Measured as what the codes stand for."""
        x = np.random.default_rng(9).standard_normal((96, 256)).astype("f4")
        np.savez(self.path("in.npz"), w=x)
        self.vc("quantize", "--int8", self.path("in.npz"), "-o", self.path("q.npz"), "-q")
        self.vc("dequantize", self.path("q.npz"), "-o", self.path("f.npz"), "-q")
        q, f = self.measure("q.npz")[1]["w"], self.measure("f.npz")[1]["w"]
        self.assertEqual((q["dtype"], q["errors"]), ("i8", f["errors"]))

    def test_same_everywhere(self):
        """One thread or many, any CPU, little memory, a deflated file."""
        x = {n: a[:100] if a.shape[0] > 200 else a[:, :270000] if a.ndim == 2 else a for n, a in floats().items()
             if n in ("gauss", "long", "conv", "halves", "double", "small")}
        np.savez(self.path("in.npz"), **x)
        np.savez_compressed(self.path("z.npz"), **x)
        d, _ = self.measure("in.npz")
        for options, env in ((("--threads", "1"), {}), (("--threads", "7"), {}), ((), {"VC_CPU_MASK": "ref"}),
                             (("--max-memory", "40MiB"), {}), (("--threads", "3", "--max-memory", "24MiB"), {})):
            self.assertEqual(self.measure("in.npz", *options, env=env)[0], d, options)
        self.assertEqual(self.measure("z.npz")[0]["tensors"], d["tensors"])

    def test_command_lines(self):
        """Those at the end are parsed and do what they say, whatever the names are."""
        rng = np.random.default_rng(10)
        x = {"w%d" % i: rng.standard_normal((64, 128)).astype("f4") for i in range(9)}
        x["it's [odd] *=\\ $x"] = (rng.choice([-1, 1], (64, 128)) * (1 + .1 * rng.random((64, 128)))).astype("f4")
        x["ramp"] = rng.random((64, 128)).astype("f4") + np.float32(.3)
        x["spikes"] = np.where(rng.random((64, 128)) < .01, 90, rng.standard_normal((64, 128))).astype("f4")
        x["w_nan"] = np.full((64, 128), np.nan, "f4")
        np.savez(self.path("a model's.npz"), **x)
        r = self.vc("sensitivity", "a model's.npz", "--exclude", "w3", cwd=self.dir, env={"LC_ALL": "C.UTF-8"})
        lines = [line for line in r.out.decode().split("\n") if line.startswith("  vcompress ")]
        self.assertEqual([shlex.split(line)[1] for line in lines], ["prune", "quantize", "quantize"])
        picks = json.loads(self.vc("sensitivity", self.path("a model's.npz"), "--exclude", "w3", "--json").out)["advice"]
        for line, n in zip(lines, range(3)):
            words = shlex.split(line)[1:]
            out = self.path("out%d.npz" % n)
            self.vc(*words, "-o", out, "-q", "--json=" + self.path("r.json"), cwd=self.dir)
            with open(self.path("r.json")) as f:
                report = {t["name"]: t for t in json.load(f)["tensors"]}
            self.assertEqual(report["w3"]["action"], "kept")
            self.assertEqual(report["w_nan"]["action"], "kept")
            for pick in picks["prune" if n == 0 else "quantize"]["picks"]:
                t = report[pick["name"]]
                if n == 0 and pick["sparsity"]:
                    self.assertEqual(t["scheme"], "%g%%" % (100 * pick["sparsity"]))
                    self.assertLessEqual(10 ** (-t["measured"]["sqnr_db"] / 20), picks["prune"]["limit"] * (1 + 1e-9))
                elif n < 2:
                    self.assertEqual(t["action"], "kept")
        self.assertEqual({p["name"] for p in picks["prune"]["picks"]}, {"it's [odd] *=\\ $x", "ramp"})
        self.assertEqual({p["name"] for p in picks["quantize"]["picks"]}, {"spikes"})

    def test_drawing(self):
        """Well-formed XML whatever the names are, with a title for each figure, and nothing that a page would fetch or run."""
        rng = np.random.default_rng(11)
        names = ["a<b>&\"'c", "\u00e9\u4e16", "x" * 300, "tab\tline"] + ["layer.%d.w" % i for i in range(520)]
        np.savez(self.path("in.npz"), **{n: rng.standard_normal((64, 64)).astype("f4") for n in names})
        self.vc("sensitivity", self.path("in.npz"), "--svg", self.path("d.svg"), "-q")
        with open(self.path("d.svg"), "rb") as f:
            text = f.read()
        root = ET.fromstring(text)
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertGreater(sum(t.startswith("layer.") for t in titles), 400 * 17)
        self.assertEqual({e.tag.split("}")[1] for e in root.iter()} -
                         {"svg", "title", "style", "text", "g", "rect", "path", "line"}, set())
        self.assertEqual([k for e in root.iter() for k in e.attrib if k.lower().startswith("on") or "href" in k], [])
        few = dict(list(zip(names[:4], range(4))))
        np.savez(self.path("few.npz"), **{n: rng.standard_normal((64, 64)).astype("f4") for n in few})
        self.vc("sensitivity", self.path("few.npz"), "--svg", self.path("d.svg"), "-q")  # replaces the older one
        titles = [t.text for t in ET.parse(self.path("d.svg")).getroot().iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any(t.startswith("a<b>&\"'c, int8/channel: ") for t in titles))
        np.savez(self.path("none.npz"), b=np.ones(4, "f4"))
        self.vc("sensitivity", self.path("none.npz"), "--svg", self.path("n.svg"), "-q")
        ET.parse(self.path("n.svg"))


if __name__ == "__main__":
    main()
