"""test_sensitivity_data.py - what the outputs of the digits network lose, measured with data, against NumPy, which computes
the network in f64 and makes each change itself; and how well figures from the weights alone predict it.
"""
import os
import unittest

from judge_support import Judge, main, np, run

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits")
ROWS = 8


def conv3x3(x, w):
    """[n, c, h, w] with a border of one zero."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    h, width = x.shape[2:]
    return sum(np.einsum("nchw,oc->nohw", padded[:, :, i:i + h, j:j + width], w[:, :, i, j])
               for i in range(3) for j in range(3))


def norm(x, w, p):
    scale = w[p + ".weight"] / np.sqrt(w[p + ".running_var"] + 1e-5)
    return x * scale[:, None, None] + (w[p + ".bias"] - w[p + ".running_mean"] * scale)[:, None, None]


def pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def logits(w, images):
    x = images.reshape(-1, 1, 8, 8) * 0.0625
    x = np.maximum(norm(conv3x3(x, w["conv1.weight"]), w, "bn1"), 0)
    x = pool(np.maximum(norm(conv3x3(x, w["conv2.weight"]), w, "bn2"), 0))
    x = pool(np.maximum(norm(conv3x3(x, w["conv3.weight"]), w, "bn3"), 0))
    x = np.maximum(x.reshape(len(x), -1) @ w["fc1.weight"].T + w["fc1.bias"], 0)
    return x @ w["fc2.weight"].T + w["fc2.bias"]


def smallest_to_zero(a, percent):
    flat = a.copy().reshape(-1)
    flat[np.argsort(np.abs(flat), kind="stable")[:a.size * percent // 100]] = 0
    return flat.reshape(a.shape)


def two_of_four(a):
    """Along the input channels: of each four the two smallest go."""
    moved = np.moveaxis(a, 1, -1).copy()
    groups = moved.reshape(-1, 4) if moved.shape[-1] % 4 == 0 else None
    if groups is None:  # conv1 has one input channel
        return a
    for row in groups:
        row[np.argsort(np.abs(row), kind="stable")[:2]] = 0
    return np.moveaxis(groups.reshape(moved.shape), -1, 1)


def int8_channel(a):
    scale = (np.abs(a).reshape(len(a), -1).max(1) / np.float32(127)).astype("f4").reshape((-1,) + (1,) * (a.ndim - 1))
    return np.clip(np.rint(a / scale), -127, 127).astype("f4") * scale


def ranks(x):
    x = np.asarray(x)
    return np.array([(x < v).sum() + ((x == v).sum() - 1) / 2 for v in x])


def spearman(x, y):
    return np.corrcoef(ranks(x), ranks(y))[0, 1]


class Digits(Judge):
    @classmethod
    def setUpClass(cls):
        with np.load(os.path.join(FOLDER, "digits.npz")) as z:
            cls.weights = {n: z[n] for n in z.files}
        with np.load(os.path.join(FOLDER, "images.npz")) as z:
            cls.images = z["test_images"].astype("f8")

    def measure(self, *more, rows=ROWS):
        r = self.vc("sensitivity", os.path.join(FOLDER, "digits.npz"), "--graph", os.path.join(FOLDER, "digits.layers.txt"),
                    "--data", os.path.join(FOLDER, "images.npz"), "--rows", rows, "--json", "-q", *more)
        return r.json()

    def change(self, changed, rows=ROWS):
        """Norm of the change over norm of the outputs, and the share of other answers."""
        images = self.images[:rows]
        was = logits({n: a.astype("f8") for n, a in self.weights.items()}, images)
        now = logits({n: changed.get(n, a).astype("f8") for n, a in self.weights.items()}, images)
        return np.linalg.norm(now - was) / np.linalg.norm(was), (now.argmax(1) != was.argmax(1)).mean()

    def same(self, found, expected, what):
        relative, answers = expected
        self.assertIsNone(found["reason"], what)
        self.assertLessEqual(abs(found["relative"] - relative), 2e-4 * relative + 2e-6, "%s: %r, %r" % (what, found, expected))
        self.assertAlmostEqual(found["answers"], answers, msg=what)

    def test_tensors(self):
        found = {t["name"]: t["outputs"] for t in self.measure()["tensors"]}
        candidates = {"50%": lambda a: smallest_to_zero(a, 50), "70%": lambda a: smallest_to_zero(a, 70),
                "90%": lambda a: smallest_to_zero(a, 90), "2:4": two_of_four, "int8/channel": int8_channel,
                "f16": lambda a: a.astype("f2").astype("f4")}
        for name in ("conv1.weight", "conv2.weight", "conv3.weight", "fc1.weight", "fc2.weight"):
            for candidate, make in candidates.items():
                self.same(found[name][candidate], self.change({name: make(self.weights[name])}), "%s, %s" % (name, candidate))
        self.assertIsNone(found["fc1.bias"])
        self.assertEqual(found["conv1.weight"]["q8_0"]["relative"], None)

    def test_groups(self):
        groups = {g["name"]: g for g in self.measure()["data"]["groups"]}
        w = self.weights
        columns = {"conv1.weight": "conv2.weight", "conv2.weight": "conv3.weight", "conv3.weight": "fc1.weight",
                   "fc1.weight": "fc2.weight"}
        for made, read in columns.items():
            name = made + ":0"
            score = np.square(w[made].astype("f8")).reshape(len(w[made]), -1).sum(1)
            for removed, percent in zip(groups[name]["removed"], (50, 70, 90)):
                gone = np.argsort(score, kind="stable")[:len(score) * percent // 100]
                less = w[read].copy().reshape(w[read].shape[0], len(score), -1)
                less[:, gone] = 0
                self.assertEqual(removed["units"], len(gone))
                self.close(removed["weights"], np.sqrt(score[gone].sum() / score.sum()), name)
                self.same(removed["outputs"], self.change({read: less.reshape(w[read].shape)}), "%s %d" % (name, percent))

    def test_agreement(self):
        d = self.measure()
        rows = [t for t in d["tensors"] if t["outputs"]]
        for candidate, found in d["data"]["agreement"].items():
            pairs = [(t["errors"][candidate]["relative"], t["outputs"][candidate]["relative"]) for t in rows
                     if t["errors"][candidate]["relative"] is not None]
            if len(pairs) < 3:
                self.assertIsNone(found)
            else:
                self.assertAlmostEqual(found, spearman(*zip(*pairs)), places=9, msg=candidate)

    def test_threads(self):
        """The same figures with other numbers of threads."""
        self.assertEqual(self.measure("--threads", 3), self.measure("--threads", 1))

    def test_rows(self):
        d = self.measure("--exclude", "*", "--include", "fc2.weight", rows=50)
        self.assertEqual(d["data"]["rows"], 50)
        found = [t for t in d["tensors"] if t["name"] == "fc2.weight"][0]["outputs"]
        self.same(found["90%"], self.change({"fc2.weight": smallest_to_zero(self.weights["fc2.weight"], 90)}, 50), "50 rows")


MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "graph", "goldens")


class Removed(Judge):
    """The figures of groups are those of the files that `prune --structured` writes, one group and share at a time: the same
    units go, and what they did is gone, be it by zeros, by experts that are never chosen, or by channels of the hidden size that
    are really removed. The lines of `graph --couplings` say to prune which group is meant."""

    SHARES = ("0.5", "0.7", "0.9")

    def outputs(self, model, inputs, graph, rows):
        of = (graph[1], "--weights", model) if graph else (model,)
        self.vc("graph", *of, "-q", "-f", "--data", inputs, "--outputs", self.path("y.npz"))
        with np.load(self.path("y.npz")) as z:
            return [z[n][:rows].astype("f8") for n in z.files if z[n].dtype.kind == "f"]

    def couplings(self, model, graph):
        """The line of each group, by its name."""
        lines = {}
        for line in self.vc("graph", graph[1] if graph else model, "--couplings").out.decode().split("\n"):
            if line and not line.startswith("#"):
                first = line.split(" = ")[0].split(": ")[-1]
                lines[first.rstrip("!").split("*")[0].split("/")[0].split("+")[0].split("@")[0]] = line
        return lines

    def change(self, was, now):
        relative = np.sqrt(sum(np.square(a - b).sum() for a, b in zip(now, was)) / sum(np.square(b).sum() for b in was))
        return relative, (now[0].argmax(-1) != was[0].argmax(-1)).mean()

    def agrees(self, model, inputs, rows, graph=()):
        """Every group that both measure and prune can do. Returns kinds of units, one for each file compared."""
        found = self.vc("sensitivity", model, *graph, "--data", inputs, "--rows", rows, "--json", "-q").json()
        lines, was, done = self.couplings(model, graph), self.outputs(model, inputs, graph, rows), []
        end = os.path.splitext(model)[1]
        for group in found["data"]["groups"]:
            if group["reason"] is not None:
                continue
            with open(self.path("one.txt"), "w") as f:
                f.write(lines[group["name"]] + "\n")
            for share, removed in zip(self.SHARES, group["removed"]):
                r = run("prune", "--structured", share, "--dims", group["unit"], "--couplings", self.path("one.txt"), "-q", "-f", model,
                        "-o", self.path("less" + end))
                if removed["units"] == 0 or removed["outputs"]["reason"] is not None or r.code == 3:
                    continue
                self.assertEqual((r.code, r.err), (0, ""), (model, group["name"]))
                said = (model, group["name"], share, removed)
                fewer = self.narrower(graph, group, removed)
                relative, answers = self.change(was, self.outputs(self.path("less" + end), inputs, fewer, rows))
                self.assertLessEqual(abs(removed["outputs"]["relative"] - relative), 2e-5 * relative, (said, relative))
                self.assertAlmostEqual(removed["outputs"]["answers"], answers, msg=said)
                done.append(group["unit"])
        return done

    def narrower(self, graph, group, removed):
        """The list of layers with as many units as are left."""
        if not graph:
            return graph
        layer = group["name"].split(".")[0]
        with open(graph[1]) as f:
            lines = [line.split("#")[0].split() for line in f]
        for words in lines:
            if words[1:2] == [layer]:
                words[2] = str(int(words[2]) - removed["units"])
        with open(self.path("less.layers.txt"), "w") as f:
            f.write("\n".join(" ".join(words) for words in lines) + "\n")
        return (graph[0], self.path("less.layers.txt"))

    def folder(self, name, *more):
        """A model of one layer, since a config.json has one number for all."""
        one = self.path(name)
        self.vc("prune", "--keep-layers", "0", *more, os.path.join(MODELS, name), "-o", one)
        np.savez(self.path("ids.npz"), input_ids=np.random.default_rng(7).integers(0, 23, (6, 11)))
        return one

    def test_digits(self):
        with np.load(os.path.join(FOLDER, "images.npz")) as z:  # `graph --data` computes all rows that there are
            np.savez(self.path("images.npz"), **{n: z[n][:ROWS] for n in z.files})
        digits = (self.path("images.npz"), ROWS, ("--graph", os.path.join(FOLDER, "digits.layers.txt")))
        done = self.agrees(os.path.join(FOLDER, "digits.npz"), *digits)
        self.assertEqual(done, 12 * ["neurons"])

    def test_equal_scores(self):
        """Rows of equal norms, of which the later go; f64, f16."""
        text = "input x [batch, 6]\nlinear a 12\nrelu\nlinear b 10\nrelu\nlinear c 4\n"
        with open(self.path("net.layers.txt"), "w") as f:
            f.write(text)
        rng = np.random.default_rng(5)
        np.savez(self.path("x.npz"), x=rng.standard_normal((8, 6)).astype("f4"))
        for kind in ("f4", "f8", "f2"):
            w = {}
            for name, shape in (("a", (12, 6)), ("b", (10, 12)), ("c", (4, 10))):
                w[name + ".weight"] = rng.choice([-1.0, 1.0], shape).astype(kind)
                w[name + ".bias"] = rng.choice([-0.5, 0.5], shape[:1]).astype(kind)
            np.savez(self.path("ties.npz"), **w)
            done = self.agrees(self.path("ties.npz"), self.path("x.npz"), 8, ("--graph", self.path("net.layers.txt")))
            self.assertEqual(done, 6 * ["neurons"], kind)

    def test_nan(self):
        """What prune refuses has that as its reason."""
        with open(self.path("net.layers.txt"), "w") as f:
            f.write("input x [batch, 2]\nlinear a 3\nlinear b 2\n")
        w = {"a.weight": np.ones((3, 2), "f4"), "a.bias": np.ones(3, "f4"), "b.weight": np.ones((2, 3), "f4"), "b.bias": np.ones(2, "f4")}
        w["a.weight"][1, 1] = np.inf
        np.savez(self.path("w.npz"), **w)
        np.savez(self.path("x.npz"), x=np.zeros((2, 2), "f4"))
        graph = ("--graph", self.path("net.layers.txt"))
        found = self.vc("sensitivity", self.path("w.npz"), *graph, "--data", self.path("x.npz"), "--json", "-q").json()
        group, = [g for g in found["data"]["groups"] if g["name"] == "a.weight:0"]
        said = self.refuse(3, "prune", "--structured", "0.5", *graph, self.path("w.npz"), "-o", self.path("o.npz"))
        self.assertIn("NaN or infinite values", group["reason"])
        self.assertIn(group["reason"], said)

    def test_llama(self):
        """Gates and values make the neurons together; heads share keys; channels of the hidden size have a norm."""
        done = self.agrees(self.folder("llama"), self.path("ids.npz"), 6)
        self.assertGreaterEqual(set(done), {"neurons", "heads", "hidden"})

    def test_bert(self):
        self.assertIn("neurons", self.agrees(self.folder("bert-sequence"), self.path("ids.npz"), 6))

    def test_gemma(self):
        self.assertIn("neurons", self.agrees(self.folder("gemma2", "--layers", "model.layers"), self.path("ids.npz"), 6))

    def test_mixtral(self):
        self.assertIn("experts", self.agrees(self.folder("mixtral"), self.path("ids.npz"), 6))

    def test_qwen(self):
        self.assertIn("experts", self.agrees(self.folder("qwen3-moe"), self.path("ids.npz"), 6))


if __name__ == "__main__":
    main()
