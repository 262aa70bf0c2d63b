"""test_sensitivity_data.py - what the outputs of the digits network lose, measured with data, against NumPy, which computes
the network in f64 and makes each change itself; and how well figures from the weights alone predict it.
"""
import os
import unittest

from judge_support import Judge, main, np

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
        ways = {"50%": lambda a: smallest_to_zero(a, 50), "70%": lambda a: smallest_to_zero(a, 70),
                "90%": lambda a: smallest_to_zero(a, 90), "2:4": two_of_four, "int8/channel": int8_channel,
                "f16": lambda a: a.astype("f2").astype("f4")}
        for name in ("conv1.weight", "conv2.weight", "conv3.weight", "fc1.weight", "fc2.weight"):
            for way, make in ways.items():
                self.same(found[name][way], self.change({name: make(self.weights[name])}), "%s, %s" % (name, way))
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
        for way, found in d["data"]["agreement"].items():
            pairs = [(t["errors"][way]["relative"], t["outputs"][way]["relative"]) for t in rows
                     if t["errors"][way]["relative"] is not None]
            if len(pairs) < 3:
                self.assertIsNone(found)
            else:
                self.assertAlmostEqual(found, spearman(*zip(*pairs)), places=9, msg=way)

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
    """Units that are not removed by zeros: experts, which are never chosen, and channels of the hidden size, which a
    normalization counts. Both against models that prune has removed them from."""

    def outputs(self, model):
        self.vc("graph", model, "-q", "-f", "--data", self.path("ids.npz"), "--outputs", self.path("y.npz"))
        with np.load(self.path("y.npz")) as z:
            return z["logits"].astype("f8")

    def measure(self, model, unit):
        np.savez(self.path("ids.npz"), input_ids=np.random.default_rng(7).integers(0, 23, (6, 11)))
        found = self.vc("sensitivity", model, "--data", self.path("ids.npz"), "--rows", 6, "--json", "-q").json()
        self.was = self.outputs(model)
        group, = [g for g in found["data"]["groups"] if g["unit"] == unit]
        self.assertIsNone(group["reason"])
        return group

    def check(self, model, removed, line, gone):
        with open(self.path("remove.txt"), "w") as f:
            f.write("%s %s\n" % (line, ",".join(str(u) for u in sorted(gone))))
        self.assertEqual(len(gone), removed["units"])
        self.vc("prune", "--remove", self.path("remove.txt"), "-q", "-f", model, "-o", self.path("less"))
        now = self.outputs(self.path("less"))
        relative = np.linalg.norm(now - self.was) / np.linalg.norm(self.was)
        self.assertLessEqual(abs(removed["outputs"]["relative"] - relative), 2e-5 * relative, removed)
        self.assertAlmostEqual(removed["outputs"]["answers"], (now.argmax(-1) != self.was.argmax(-1)).mean())

    def experts(self, model, router, experts):
        """Of the first layer alone, since a config.json has one number of experts for all."""
        one = self.path(model)
        self.vc("prune", "--keep-layers", "0", os.path.join(MODELS, model), "-o", one)
        self.vc("convert", one, "-o", self.path(model + ".npz"))
        group = self.measure(one, "experts")
        score = np.zeros(group["units"])
        with np.load(self.path(model + ".npz")) as z:
            for name in z.files:
                for expert in range(group["units"]):
                    if (experts % expert) in name:
                        score[expert] += np.square(z[name].astype("f8")).sum()
        done = 0
        for removed in group["removed"]:
            gone = np.argsort(score, kind="stable")[:removed["units"]]
            self.close(removed["weights"], np.sqrt(score[gone].sum() / score.sum()), router)
            if removed["outputs"]["reason"] is None:
                self.check(one, removed, router + ":0", gone)
                done += 1
            else:
                self.assertEqual(removed["outputs"]["reason"], "fewer would stay than a token is given to")
        self.assertGreater(done, 0)

    def test_hidden(self):
        model = os.path.join(MODELS, "llama")
        group = self.measure(model, "hidden")
        score = np.zeros(group["units"])
        self.vc("convert", model, "-o", self.path("llama.npz"))
        with np.load(self.path("llama.npz")) as z:
            for name in z.files:
                if "embed_tokens" in name:  # what makes the stream: columns of the embedding, rows of what adds to it
                    score += np.square(z[name].astype("f8")).sum(0)
                elif "o_proj" in name or "down_proj" in name:
                    score += np.square(z[name].astype("f8")).sum(1)
        half = group["removed"][0]
        gone = np.argsort(score, kind="stable")[:half["units"]]
        self.close(half["weights"], np.sqrt(score[gone].sum() / score.sum()), "hidden")
        self.check(model, half, group["name"], gone)

    def test_mixtral(self):
        self.experts("mixtral", "model.layers.0.block_sparse_moe.gate.weight", ".experts.%d.")

    def test_qwen(self):
        self.experts("qwen3-moe", "model.layers.0.mlp.gate.weight", ".mlp.experts.%d.")


if __name__ == "__main__":
    main()
