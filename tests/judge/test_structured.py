"""test_structured.py - which units `prune --structured` removes and what it leaves, bit for bit, with NumPy as the judge:
scores, rounding, common orders, every place that a unit may have in a tensor."""
import math
import os
import re
import unittest
from fractions import Fraction

from judge_support import SMALL, SOURCE_DIR, Judge, main, np


def parse_member(text, shapes):
    name, rest = text.rsplit(":", 1)
    makes = rest.endswith("!")
    rest = rest.rstrip("!")
    axis = int(re.match(r"\d+", rest).group())
    block = int((re.search(r"\*(\d+)", rest) or [0, 1])[1])
    share = int((re.search(r"/(\d+)", rest) or [0, 1])[1])
    offset = int((re.search(r"\+(\d+)", rest) or [0, 0])[1])
    return name, axis, block, share, offset, makes


class Group:
    """A line of a couplings file."""

    def __init__(self, line, shapes, units=None):
        self.members = [parse_member(m.strip(), shapes) for m in line.split("=")]
        self.n = units
        if units is None:
            self.n = max(shapes[n][a] // b // (1 if o else 1) for n, a, b, s, o, _ in self.members if not o)
        marked = any(m[5] for m in self.members)
        self.makers = [m for m in self.members if (m[5] if marked else m[1] == 0 and len(shapes[m[0]]) >= 2)]

    def places(self, member, shape, unit):
        """Entries of the axis that belong to the unit."""
        _, axis, block, share, offset, _ = member
        per = self.n // share
        entries = [unit % per] if share > 1 else [unit]
        return [offset + e * block + j for e in entries for j in range(block)]

    def scores(self, arrays, power):
        total = np.zeros(self.n)
        for m in self.makers:
            a = np.abs(np.moveaxis(arrays[m[0]].astype("f8"), m[1], 0).reshape(arrays[m[0]].shape[m[1]], -1)) ** power
            per = a.sum(axis=1)
            s = np.array([per[self.places(m, None, u)].sum() for u in range(self.n)])
            s = np.sqrt(s) if power == 2 else s
            total += s / s.mean()
        return total / len(self.makers)


def lowest(scores, k):
    """The units that go: the lowest scores, of equal ones the later ones."""
    order = sorted(range(len(scores)), key=lambda u: (scores[u], -u))
    return sorted(order[:k])


def cut(arrays, groups, gone):
    out = dict(arrays)
    axes = {}
    for g, units in zip(groups, gone):
        for m in g.members:
            places = axes.setdefault((m[0], m[1]), set())
            for u in units:
                places.update(g.places(m, None, u))
    for (name, axis), places in axes.items():
        keep = [i for i in range(arrays[name].shape[axis]) if i not in places]
        out[name] = np.take(out[name], keep, axis)
    return out


class Structured(Judge):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(7)

    def save(self, **arrays):
        np.savez(self.path("in.npz"), **arrays)
        return arrays

    def normal(self, *shape, dtype="f4"):
        return self.rng.standard_normal(shape).astype(dtype)

    def prune(self, lines, *args, out="out.npz"):
        with open(self.path("c.txt"), "w") as f:
            f.write("".join(line + "\n" for line in lines))
        return self.vc("prune", *args, "--couplings", self.path("c.txt"), self.path("in.npz"), "-o", self.path(out), "-f",
                       "--json").json()

    def expect(self, arrays, out="out.npz"):
        with np.load(self.path(out)) as got:
            names = [n for n in got.files]
            self.assertEqual(sorted(names), sorted(arrays))
            for name in names:
                self.assertEqual(got[name].shape, arrays[name].shape, name)
                self.assertEqual(got[name].tobytes(), np.ascontiguousarray(arrays[name]).tobytes(), name)

    def one(self, arrays, lines, share="0.3", power=2, score="l2", round_to=1, units=None):
        """One run with shares against the definition."""
        self.save(**arrays)
        shapes = {n: a.shape for n, a in arrays.items()}
        groups = [Group(line.split(": ")[-1], shapes, units) for line in lines]
        gone = []
        for g in groups:
            k = math.floor(Fraction(share) * g.n)
            kept = math.ceil((g.n - min(k, g.n - 1)) / round_to) * round_to
            gone.append(lowest(g.scores(arrays, power), max(0, g.n - min(kept, g.n))))
        report = self.prune(lines, "--structured", share, "--score", score, "--round-to", str(round_to))
        self.expect(cut(arrays, groups, gone))
        for g, units, told in zip(groups, gone, report["removal"]["groups"]):
            self.assertEqual(told["removed"], units)
            self.assertEqual((told["before"], told["after"]), (g.n, g.n - len(units)))
        return report

    def test_linear_layers(self):
        arrays = {"fc1.weight": self.normal(128, 75), "fc1.bias": self.normal(128), "fc2.weight": self.normal(10, 128)}
        for share in ("0.3", "0.5", "0.299999999", "0.01", "0.99", "0.9999"):
            self.one(arrays, ["fc1.weight:0 = fc1.bias:0 = fc2.weight:1"], share)
        self.one(arrays, ["fc1.weight:0 = fc1.bias:0 = fc2.weight:1"], "0.3", 1, "l1")
        self.one(arrays, ["fc1.weight:0 = fc1.bias:0 = fc2.weight:1"], "0.3", round_to=8)
        self.one(arrays, ["fc1.weight:0 = fc1.bias:0 = fc2.weight:1!"], "0.3")
        self.one(arrays, ["fc1.weight:0! = fc1.bias:0 = fc2.weight:1!"], "0.3", 1, "l1")

    def test_types(self):
        for dtype in ("f2", "f4", "f8"):
            arrays = {"a": self.normal(40, 33, dtype=dtype), "b": self.normal(9, 40, dtype=dtype),
                      "i": np.arange(40, dtype="i8"), "t": np.arange(40) % 3 == 0}
            self.one(arrays, ["a:0 = b:1 = i:0 = t:0"], "0.4")

    def test_large_tensors(self):
        """Many tiles; rows longer than a tile; columns of both; two cuts in one tensor."""
        arrays = {"a": self.normal(700, 1100), "b": self.normal(900, 700), "c": self.normal(5, 900)}
        self.one(arrays, ["a:0 = b:1", "b:0 = c:1"], "0.3")
        self.one(arrays, ["a:0 = b:1!", "b:0 = c:1!"], "0.3")
        long = {"a": self.normal(5, 300007), "b": self.normal(7, 5), "c": self.normal(300007, 2)}
        self.one(long, ["a:0 = b:1", "c:0 = a:1"], "0.4")
        self.one(long, ["a:0 = b:1", "c:0 = a:1!"], "0.4")

    def test_ties(self):
        """Of equal units the first ones stay."""
        arrays = {"a": np.ones((9, 4), "f4"), "b": self.normal(3, 9)}
        self.one(arrays, ["a:0 = b:1"], "0.5")
        report = self.prune(["a:0 = b:1"], "--structured", "0.5")
        self.assertEqual(report["removal"]["groups"][0]["removed"], [5, 6, 7, 8])

    def test_convolutions(self):
        """Batch norms, a flattened picture, a grouped and a depthwise convolution, a residual join."""
        arrays = {"c1.weight": self.normal(12, 3, 3, 3), "bn.weight": self.normal(12), "bn.bias": self.normal(12),
                  "c2.weight": self.normal(12, 12, 3, 3), "dw.weight": self.normal(12, 1, 3, 3),
                  "fc.weight": self.normal(5, 12 * 49)}
        line = "c1.weight:0 = bn.weight:0 = bn.bias:0 = c2.weight:0 = c2.weight:1 = dw.weight:0 = fc.weight:1*49"
        self.one(arrays, [line], "0.3")
        self.one(arrays, [line], "0.3", 1, "l1")

    def test_packed_heads(self):
        """Key/value heads of 4 with two query heads each, packed into one tensor."""
        arrays = {"qkv.weight": self.normal(6 * 8 + 6 * 4 * 2, 16), "o.weight": self.normal(16, 48)}
        line = "qkv.weight:0*8+0! = qkv.weight:0*4+48! = qkv.weight:0*4+72! = o.weight:1*8"
        self.save(**arrays)
        shapes = {n: a.shape for n, a in arrays.items()}
        group = Group(line, shapes, 6)
        report = self.prune(["heads 6: " + line], "--structured", "0.5", "--dims", "heads")
        gone = lowest(group.scores(arrays, 2), 3)
        self.assertEqual(report["removal"]["groups"][0]["removed"], gone)
        self.expect(cut(arrays, [group], [gone]))

    def test_common_order(self):
        """--scope global: the lowest of all groups together, of each at least one unit stays."""
        arrays = {"a.w": self.normal(30, 20), "b.w": self.normal(20, 30), "c.w": self.normal(4, 20)}
        arrays["a.w"][:25] *= 0.01
        arrays["b.w"][:3] *= 0.01
        self.save(**arrays)
        groups = [Group("a.w:0 = b.w:1", {n: a.shape for n, a in arrays.items()}),
                  Group("b.w:0 = c.w:1", {n: a.shape for n, a in arrays.items()})]
        scores = [g.scores(arrays, 2) for g in groups]
        order = sorted(((s, -g, -u) for g in range(2) for u, s in enumerate(scores[g])))[:int(0.5 * 50)]
        gone = [sorted(-u for _, g, u in order if -g == i) for i in range(2)]
        report = self.prune(["a.w:0 = b.w:1", "b.w:0 = c.w:1"], "--structured", "0.5", "--scope", "global")
        self.assertEqual([g["removed"] for g in report["removal"]["groups"]], gone)
        self.expect(cut(arrays, groups, gone))

    def test_rules(self):
        arrays = self.save(**{"a.w": self.normal(30, 20), "b.w": self.normal(20, 30), "c.w": self.normal(4, 20)})
        lines = ["a.w:0 = b.w:1", "b.w:0 = c.w:1"]
        report = self.prune(lines, "--structured", "0.5", "--set", "a.w=0.1", "--exclude", "c.*")
        self.assertEqual([len(g["removed"]) for g in report["removal"]["groups"]], [3, 0])
        self.assertEqual(report["removal"]["groups"][1]["reason"], "excluded by 'c.*'")
        self.assertEqual((report["totals"]["parameters"], report["totals"]["parameters_after"]), (1280, 1280 - 3 * 40))
        shapes = {t["name"]: t["shape_after"] for t in report["tensors"]}
        self.assertEqual(shapes, {"a.w": [27, 20], "b.w": [20, 27], "c.w": [4, 20]})

    def test_given(self):
        arrays = self.save(**{"a.w": self.normal(30, 20), "b.w": self.normal(20, 30), "c.w": self.normal(4, 20)})
        with open(self.path("r.txt"), "w") as f:
            f.write("# by hand\nb.w:1 3,7,12-14\n\nc.w:1 0, 19\n")
        report = self.prune(["a.w:0 = b.w:1", "b.w:0 = c.w:1"], "--remove", self.path("r.txt"))
        self.assertEqual([g["removed"] for g in report["removal"]["groups"]], [[3, 7, 12, 13, 14], [0, 19]])
        groups = [Group("a.w:0 = b.w:1", {n: a.shape for n, a in arrays.items()}),
                  Group("b.w:0 = c.w:1", {n: a.shape for n, a in arrays.items()})]
        self.expect(cut(arrays, groups, [[3, 7, 12, 13, 14], [0, 19]]))

    def graph(self, text, arrays):
        with open(self.path("g.txt"), "w") as f:
            f.write(text)
        np.savez(self.path("in.npz"), **arrays)

    def test_any_member_beside_groups(self):
        """An axis with units of a group that stays and of one that can go: every member names the latter."""
        shapes = {"a.weight": (8, 3, 1, 1), "a.bias": (8,), "g.weight": (12, 2, 3, 3), "g.bias": (12,), "fc.weight": (5, 12), "fc.bias": (5,)}
        arrays = {k: self.normal(*s) for k, s in shapes.items()}
        self.graph("input x [batch, 3, 6, 6]\nconv a 8 kernel=1\nrelu\nconv g 12 kernel=3 pad=1 groups=4\nglobalavgpool\nflatten\n"
                   "linear fc 5\n", arrays)
        inner = {k: np.delete(arrays[k], np.s_[1::2], 0) for k in ("a.weight", "a.bias")}
        inner["g.weight"] = arrays["g.weight"][:, :1]
        outer = {k: np.delete(arrays[k], np.s_[2::3], 0) for k in ("g.weight", "g.bias")}
        outer["fc.weight"] = np.delete(arrays["fc.weight"], np.s_[2::3], 1)
        for line, some in (("a.weight:0 1", inner), ("a.bias:0 1", inner), ("g.weight:1 1", inner), ("g.weight:0 2", outer),
                           ("g.bias:0 2", outer), ("fc.weight:1 2", outer)):
            with open(self.path("r.txt"), "w") as f:
                f.write(line + "\n")
            self.vc("prune", "--remove", self.path("r.txt"), "--graph", self.path("g.txt"), self.path("in.npz"), "-o", self.path("o.npz"), "--force")
            got = self.load(self.path("o.npz"))
            for k, a in dict(arrays, **some).items():
                self.same_bits(np.asarray(got[k]), np.ascontiguousarray(a), line + ": " + k)

    def test_depthwise(self):
        """Of a list of layers, with one and two outputs for each channel: what is left fits the list, and computes what NumPy
        computes of it."""
        x = self.normal(3, 3, 4, 4)
        np.savez(self.path("x.npz"), x=x)
        for times in (1, 2, 3):
            n = 6 * times
            shapes = {"a.weight": (6, 3, 1, 1), "a.bias": (6,), "d.weight": (n, 1, 1, 1), "d.bias": (n,), "fc.weight": (5, n), "fc.bias": (5,)}
            self.graph("input x [batch, 3, 4, 4]\nconv a 6 kernel=1\nrelu\nconv d %d kernel=1 groups=6\nglobalavgpool\nflatten\nlinear fc 5\n" % n,
                       {k: self.normal(*s) for k, s in shapes.items()})
            self.vc("prune", "--structured", "0.34", "--graph", self.path("g.txt"), self.path("in.npz"), "-o", self.path("o.npz"), "--force")
            p = self.load(self.path("o.npz"))
            left = {1: 1, 2: 2, 3: 2}[times]  # of the outputs of each channel
            self.assertEqual((p["a.weight"].shape[0], p["d.weight"].shape[0], p["fc.weight"].shape[1]), (4, 4 * left, 4 * left))
            self.vc("graph", "--weights", self.path("o.npz"), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "--force", self.path("g.txt"))
            h = np.maximum(np.einsum("oi,bihw->bohw", p["a.weight"][:, :, 0, 0], x) + p["a.bias"][:, None, None], 0)
            h = np.repeat(h, left, 1) * p["d.weight"][:, 0] + p["d.bias"][:, None, None]
            y = h.mean((2, 3)) @ p["fc.weight"].T + p["fc.bias"]
            self.assertLess(np.abs(list(np.load(self.path("y.npz")).values())[0] - y).max(), 1e-4)
            self.vc("run", "--pass", "prune --structured 0.34 --graph " + self.path("g.txt"), "--pass", "distill --epochs 1 --graph "
                    + self.path("g.txt") + " --data " + self.path("x.npz"), self.path("in.npz"), "-o", self.path("t.npz"), "-q", "--force")

    def test_nothing_goes(self):
        """A common order that takes so little of each group that all of it stays, once that is rounded."""
        self.graph("input x [batch, 6]\nlinear a 4\nrelu\nlinear b 8\nrelu\nlinear c 3\n",
                   {"a.weight": self.normal(4, 6), "a.bias": self.normal(4), "b.weight": self.normal(8, 4), "b.bias": self.normal(8),
                    "c.weight": self.normal(3, 8), "c.bias": self.normal(3)})
        for more in ((), ("--scope", "global")):
            self.assertIn("none of", self.refuse(3, "prune", "--structured", "0.1", "--round-to", "8", *more, "--graph", self.path("g.txt"),
                                                 self.path("in.npz"), "-o", self.path("x.npz")))

    def test_norm_scales(self):
        arrays = self.save(**{"c.weight": self.normal(16, 4, 3, 3), "bn.weight": self.normal(16), "bn.bias": self.normal(16),
                              "d.weight": self.normal(3, 16, 1, 1)})
        report = self.prune(["c.weight:0 = bn.weight:0 = bn.bias:0 = d.weight:1"], "--structured", "0.25", "--score", "norm")
        self.assertEqual(report["removal"]["groups"][0]["removed"], lowest(np.abs(arrays["bn.weight"]), 4))

    def layer_of_experts(self, n=12):
        arrays = {"router.weight": self.normal(n, 30), "router.bias": self.normal(n)}
        for u in range(n):
            arrays["experts.%d.up.weight" % u] = self.normal(20, 30)
            arrays["experts.%d.down.weight" % u] = self.normal(30, 20, dtype="f2")
            arrays["experts.%d.down.bias" % u] = self.normal(30)  # in no line: known by its name
        line = "experts: router.weight:0 = router.bias:0 = " + " = ".join(
            "experts.%d.%s.weight@%d" % (u, part, u) for u in range(n) for part in ("up", "down"))
        return arrays, line

    def without_experts(self, arrays, gone, n=12):
        stay = [u for u in range(n) if u not in gone]
        out = {"router.weight": arrays["router.weight"][stay], "router.bias": arrays["router.bias"][stay]}
        for k, a in arrays.items():
            m = re.fullmatch(r"experts\.(\d+)(\..*)", k)
            if m and int(m.group(1)) in stay:
                out["experts.%d%s" % (stay.index(int(m.group(1))), m.group(2))] = a
        return out

    def test_units_that_are_tensors(self):
        """Their score is that of all their elements, part by part; numbers follow, of ten and more, too."""
        arrays, line = self.layer_of_experts()
        self.save(**arrays)
        for score, power in (("l2", 2), ("l1", 1)):
            total = np.zeros(12)
            for part in ("up", "down"):
                s = np.array([(np.abs(arrays["experts.%d.%s.weight" % (u, part)].astype("f8")) ** power).sum() for u in range(12)])
                s = np.sqrt(s) if power == 2 else s
                total += s / s.mean()
            s = (np.abs(arrays["router.weight"].astype("f8")) ** power).sum(axis=1)  # rows of a line without a mark count
            s = np.sqrt(s) if power == 2 else s
            total = (total + s / s.mean()) / 3
            gone = lowest(total, 4)
            report = self.prune([line], "--structured", "0.35", "--dims", "experts", "--score", score)
            self.expect(self.without_experts(arrays, gone))
            self.assertEqual(report["removal"]["groups"][0]["removed"], gone)
            np.testing.assert_allclose(report["removal"]["groups"][0]["scores"]["removed"],
                                       [total[gone].min(), total[gone].max()], rtol=1e-9)
            self.assertIn("experts.11.up.weight@11", report["removal"]["groups"][0]["members"])
            rows = {r["name"]: r for r in report["tensors"]}
            self.assertEqual(rows["experts.%d.up.weight" % gone[0]]["action"], "dropped")
            last = max(u for u in range(12) if u not in gone)
            self.assertEqual(rows["experts.%d.down.bias" % last]["name_after"], "experts.7.down.bias")

    def test_units_that_are_tensors_by_name(self):
        """Given units; quantized ones go and stay without being decoded, with their scales."""
        arrays, line = self.layer_of_experts()
        self.save(**arrays)
        with open(self.path("r.txt"), "w") as f:
            f.write("router.weight:0 0,9-11\n")
        self.prune([line], "--remove", self.path("r.txt"))
        self.expect(self.without_experts(arrays, [0, 9, 10, 11]))
        self.vc("quantize", "--int8", *SMALL, "--exclude", "router*", self.path("out.npz"), "-o",
                self.path("then.npz"), "-f")
        self.vc("quantize", "--int8", *SMALL, "--exclude", "router*", self.path("in.npz"), "-o",
                self.path("codes.npz"), "-f")
        os.replace(self.path("codes.npz"), self.path("in.npz"))
        self.prune([line], "--remove", self.path("r.txt"))
        with np.load(self.path("out.npz")) as a, np.load(self.path("then.npz")) as b:
            self.assertEqual(sorted(a.files), sorted(b.files))
            for k in a.files:
                if k != "vcompress.json":
                    self.assertEqual(a[k].tobytes(), b[k].tobytes(), k)
        said = self.refuse(3, "prune", "--structured", "0.35", "--dims", "experts", "--couplings", self.path("c.txt"),
                           self.path("in.npz"), "-o", self.path("x.npz"))
        self.assertIn("is quantized", said)

    def test_neurons_and_experts_at_once(self):
        arrays, line = self.layer_of_experts(4)
        self.save(**arrays)
        lines = [line] + ["experts.%d.up.weight:0 = experts.%d.down.weight:1" % (u, u) for u in range(4)]
        report = self.prune(lines, "--structured", "0.25", "--dims", "neurons,experts")
        groups = {g["name"]: g["removed"] for g in report["removal"]["groups"]}
        gone = next(r for r in groups.values() if len(r) == 1)
        part = dict(arrays)
        for u in range(4):
            stay = [i for i in range(20) if i not in groups["experts.%d.up.weight:0" % u]]
            self.assertEqual(len(stay), 15)
            part["experts.%d.up.weight" % u] = arrays["experts.%d.up.weight" % u][stay]
            part["experts.%d.down.weight" % u] = arrays["experts.%d.down.weight" % u][:, stay]
        self.expect(self.without_experts(part, gone, 4))

    def test_units_without_numbers(self):
        arrays = {"router.weight": self.normal(3, 4), "a.w": self.normal(4, 4), "b.w": self.normal(4, 4), "c.w": self.normal(4, 4)}
        self.save(**arrays)
        with open(self.path("c.txt"), "w") as f:
            f.write("experts: router.weight:0 = a.w@0 = b.w@1 = c.w@2\n")
        said = self.refuse(3, "prune", "--structured", "0.4", "--dims", "experts", "--couplings", self.path("c.txt"),
                           self.path("in.npz"), "-o", self.path("x.npz"))
        self.assertIn("the number of unit 0 is not where others have it in a.w", said)

    def test_digits(self):
        """The network of examples/digits, as README has it: right answers from the written files."""
        digits = os.path.join(SOURCE_DIR, "examples", "digits")
        with open(os.path.join(digits, "digits.layers.txt")) as f:
            layers = f.read()
        with np.load(os.path.join(digits, "images.npz")) as images:
            labels = images["test_labels"]
        for share, score, right in [("0.3", "l2", 632), ("0.3", "l1", 822), ("0.3", "norm", 846), ("0.5", "l2", 280),
                                    ("0.5", "l1", 518), ("0.5", "norm", 513)]:
            self.vc("prune", "--structured", share, "--score", score, "--graph", os.path.join(digits, "digits.layers.txt"),
                    os.path.join(digits, "digits.npz"), "-o", self.path("small.npz"), "-q", "-f")
            text = layers
            with np.load(self.path("small.npz")) as small:
                for name in ("conv1", "conv2", "conv3", "fc1"):
                    text = re.sub(r"\b%s \d+" % name, "%s %d" % (name, small[name + ".weight"].shape[0]), text)
            with open(self.path("layers.txt"), "w") as f:
                f.write(text)
            self.vc("graph", self.path("layers.txt"), "--weights", self.path("small.npz"), "--data",
                    os.path.join(digits, "images.npz"), "--outputs", self.path("y.npz"), "--force", "-q")
            with np.load(self.path("y.npz")) as y:
                self.assertEqual(int((y[y.files[0]].argmax(1) == labels).sum()), right, (share, score))

    def test_same_whatever_the_threads(self):
        self.save(**{"a": self.normal(700, 1100), "b": self.normal(900, 700), "c": self.normal(5, 900)})
        lines = ["a:0! = b:1!", "b:0! = c:1!"]
        self.prune(lines, "--structured", "0.3", "--threads", "1", out="1.npz")
        for threads in ("2", "4"):
            self.prune(lines, "--structured", "0.3", "--threads", threads, "--max-memory", "64MiB", out="2.npz")
            with open(self.path("1.npz"), "rb") as a, open(self.path("2.npz"), "rb") as b:
                self.assertEqual(a.read(), b.read())

    def test_chains(self):
        """The bytes of a chain are those of its passes through files."""
        self.save(**{"a": self.normal(700, 110), "b": self.normal(90, 700)})
        lines = ["a:0 = b:1"]
        self.prune(lines, "--structured", "0.3", out="1.npz")
        self.vc("quantize", "--int8", "--min-elements", "1", self.path("1.npz"), "-o", self.path("2.npz"), "-q")
        self.vc("run", "--pass", "prune --structured 0.3 --couplings " + self.path("c.txt"), "--pass",
                "quantize --int8 --min-elements 1", self.path("in.npz"), "-o", self.path("3.npz"), "-q")
        with open(self.path("2.npz"), "rb") as a, open(self.path("3.npz"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.vc("quantize", "--int8", "--min-elements", "1", self.path("in.npz"), "-o", self.path("q.npz"), "-q")
        self.vc("prune", "--structured", "0.3", "--dequantize", "--couplings", self.path("c.txt"), self.path("q.npz"),
                "-o", self.path("4.npz"), "-q")
        self.vc("run", "--pass", "quantize --int8 --min-elements 1", "--pass",
                "prune --structured 0.3 --dequantize --couplings " + self.path("c.txt"), self.path("in.npz"), "-o",
                self.path("5.npz"), "-q")
        with np.load(self.path("4.npz")) as a, np.load(self.path("5.npz")) as b:
            for name in ("a", "b"):
                self.assertEqual(a[name].tobytes(), b[name].tobytes())


if __name__ == "__main__":
    main()
