"""test_match.py - values inside networks that learn from values inside a teacher (--match), step by step against PyTorch
in float64: every loss of 100 steps and every weight at the end agree to 1e-10, also through projectors, whose first
numbers are read from a checkpoint.
"""
import json

from judge_support import Judge, main, np

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    import sys
    print("SKIPPED: PyTorch is not installed for %s (Debian: python3-torch)" % sys.executable)
    sys.exit(77)

CNN = """input x [batch, 1, 12, 12]
conv conv1 %d kernel=3 pad=1
relu
maxpool kernel=2
conv conv2 %d kernel=3 pad=1
relu
flatten
linear fc1 %d
relu
linear fc2 6
"""

TOKENS = """input x [batch, 5, 8]
linear a %d
relu
linear b 6
"""

CLASSIFIER = """<ir_version: 8, opset_import: ["" : 13],
 metadata_props: ["vcompress.parameter:a.weight" : "a.weight", "vcompress.parameter:a.bias" : "a.bias",
                  "vcompress.parameter:b.weight" : "b.weight", "vcompress.parameter:b.bias" : "b.bias",
                  "vcompress.optional:attention_mask" : "1"]>
classifier (float[batch, 5, 8] x, int64[batch, 5] attention_mask,
            float[%d, 8] "a.weight", float[%d] "a.bias", float[6, %d] "b.weight", float[6] "b.bias") => (float[batch, 6] b)
<int64[1] one = {1}, int64[1] two = {2}>
{
    aw = Transpose<perm = [1, 0]> ("a.weight")
    am = MatMul (x, aw)
    a = Add (am, "a.bias")
    r = Relu (a)
    there = Cast<to = 1> (attention_mask)
    of = Unsqueeze (there, two)
    kept = Mul (r, of)
    pooled = ReduceSum<keepdims = 0> (kept, one)
    b = Gemm<transB = 1> (pooled, "b.weight", "b.bias")
}
"""


class Cnn(nn.Module):
    def __init__(self, a, b, c):
        super().__init__()
        self.conv1 = nn.Conv2d(1, a, 3, padding=1)
        self.conv2 = nn.Conv2d(a, b, 3, padding=1)
        self.fc1 = nn.Linear(36 * b, c)
        self.fc2 = nn.Linear(c, 6)
        self.text = CNN % (a, b, c)

    def forward(self, x):
        """All values by their names, the logits last."""
        v = {"conv1": self.conv1(x)}
        v["conv2"] = self.conv2(F.max_pool2d(F.relu(v["conv1"]), 2))
        v["fc1"] = self.fc1(F.relu(v["conv2"]).flatten(1))
        v["fc2"] = self.fc2(F.relu(v["fc1"]))
        return v


class Tokens(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(8, width), nn.Linear(width, 6)
        self.text = TOKENS % width

    def forward(self, x):
        v = {"a": self.a(x)}
        v["b"] = self.b(F.relu(v["a"]))
        return v


class Classifier(nn.Module):
    """One answer for each row of tokens; those that attention_mask calls padding add nothing to it."""
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(8, width), nn.Linear(width, 6)
        self.text = CLASSIFIER % (width, width, width)

    def forward(self, x, attention_mask):
        v = {"a": self.a(x)}
        v["pooled"] = (F.relu(v["a"]) * attention_mask[:, :, None]).sum(1)
        v["b"] = self.b(v["pooled"])
        return v


def directions(x):
    """Of all pairs of rows, with the length 1; 0 from a row to itself."""
    e = x[None] - x[:, None]
    return e / torch.where((e == 0).all(2, keepdim=True), torch.ones_like(e[..., :1]), (e ** 2).sum(2, keepdim=True)).sqrt()


def relation(kind, s, t):
    """Of the rows that count, [n, numbers], as the papers' code has it."""
    if kind == "distances":
        def scaled(x):
            squares = ((x[:, None] - x[None]) ** 2).sum(2)
            d = torch.where(squares > 0, squares, torch.ones_like(squares)).sqrt() * (squares > 0)
            return d / d[d > 0].mean()
        return F.smooth_l1_loss(scaled(s), scaled(t))
    if kind == "angles":
        a, b = (directions(x) for x in (s, t))
        return F.smooth_l1_loss(a @ a.transpose(1, 2), b @ b.transpose(1, 2))
    return ((F.normalize(s @ s.T, dim=1, eps=0) - F.normalize(t @ t.T, dim=1, eps=0)) ** 2).mean()


def term(kind, s, t, mask):
    """s and t as [rows, points, channels]; mask [rows, points]."""
    if kind in ("distances", "angles", "gram"):
        of = mask.any(1)
        return relation(kind, s[of].flatten(1), t[of].flatten(1))
    if kind == "mse":
        return ((s - t) ** 2).mean(2)[mask].mean()
    if kind == "cosine":
        return (1 - F.cosine_similarity(s, t, dim=2, eps=0))[mask].mean()
    s, t = (((x ** 2).sum(2) * mask)[mask.any(1)] for x in (s, t))
    return ((F.normalize(s, dim=1, eps=0) - F.normalize(t, dim=1, eps=0)) ** 2).sum(1).mean()


class Match(Judge):
    def setUp(self):
        super().setUp()
        torch.manual_seed(7)
        torch.set_num_threads(1)

    def make(self, teacher, student, shape, rows, mask=None, tokens=None):
        self.teacher, self.student = teacher.double(), student.double()
        self.x = np.random.default_rng(3).standard_normal((rows,) + shape)
        self.mask, self.tokens = mask, tokens
        sides = {"mask": mask, "attention_mask": tokens}
        np.savez(self.path("data.npz"), x=self.x, **{n: side for n, side in sides.items() if side is not None})
        for name, module in (("teacher", teacher), ("student", student)):
            with open(self.path(name + ".txt"), "w") as f:
                f.write(module.text)
            np.savez(self.path(name + ".npz"), **{n: p.detach().numpy() for n, p in module.state_dict().items()})

    def run_ours(self, pairs, *options, steps, batch, accum=1):
        said = self.vc("distill", "--teacher", self.path("teacher.npz"), "--student", self.path("student.npz"), "--graph",
                       self.path("student.txt"), "--teacher-graph", self.path("teacher.txt"), "--data", self.path("data.npz"),
                       "-o", self.path("out.npz"), "--steps", steps, "--batch", batch, "--accum", accum, "--order", "file",
                       "--precision", "f64", "--log", self.path("log"), "--dump-gradients", self.path("grad.npz"), "--force",
                       "--temperature", 3, "--json=" + self.path("report.json"),
                       *(() if "--threads" in options else ("--threads", 1)), *options,
                       *[x for t, s, kind, weight in pairs for x in ("--match", "%s=%s:%s:%s" % (t, s, kind, ":".join("%g" % w for w in np.atleast_1d(weight))))])
        with open(self.path("log")) as f:
            lines = [json.loads(line) for line in f]
        return said, np.array([[line[k] for k in ["loss", "kd", "grad_norm"] + ["match.%d" % i for i in range(len(pairs))]]
                               for line in lines])

    def projectors(self, pairs):
        """Those that the first step begins with: behind a step of SGD, plus what it took away."""
        self.run_ours(pairs, "--optimizer", "sgd", "--lr", "0.001", "--checkpoint", self.path("state.npz"),
                      "--checkpoint-every", 1, steps=1, batch=16)
        behind, gradients = self.load(self.path("state.npz")), self.load(self.path("grad.npz"))
        out = {}
        for k in range(len(pairs)):
            name = "match.%d." % k
            if name + "weight" in gradients:
                w, b = (behind["weight." + name + n] + 0.001 * gradients[name + n] for n in ("weight", "bias"))
                self.assertLess(np.abs(w).max(), 1 / np.sqrt(w.shape[1]))
                self.assertGreater(np.abs(w).max(), 0.8 / np.sqrt(w.shape[1]))
                out[k] = nn.Linear(w.shape[1], w.shape[0]).double()
                with torch.no_grad():
                    out[k].weight.copy_(torch.from_numpy(w))
                    out[k].bias.copy_(torch.from_numpy(b))
        return out

    def train(self, optimizer, pairs, projectors, steps, batch):
        x, said, first = torch.from_numpy(self.x), [], None
        for k in range(steps):
            at = k * batch % len(x)
            rows = slice(at, at + batch)
            optimizer.zero_grad()
            given, terms = [x[rows]], []
            if self.tokens is not None:
                given.append(torch.from_numpy(self.tokens[rows]))
            s = self.student(*given)
            with torch.no_grad():
                t = self.teacher(*given)
            z, a = list(s.values())[-1], list(t.values())[-1]
            points = z.shape[1] if z.dim() == 3 else 1
            mask = torch.ones(len(z), points, dtype=torch.bool)
            if self.mask is not None:
                mask = torch.from_numpy(self.mask[rows].reshape(len(z), points) != 0)
            kd = F.kl_div(F.log_softmax(z / 3, -1), F.softmax(a / 3, -1), reduction="none").sum(-1).reshape(mask.shape)
            kd = 9 * kd[mask].mean()
            for i, (name_t, name_s, kind, _) in enumerate(pairs):
                v, w = ([y.flatten(2).transpose(1, 2) if y.dim() == 4 else y if y.dim() == 3 else y[:, None]][0]
                        for y in (s[name_s], t[name_t]))
                of = mask if mask.shape[1] == v.shape[1] else mask.any(1)[:, None].expand(-1, v.shape[1])
                if self.tokens is not None and v.shape[1] == self.tokens.shape[1]:
                    of = of & (given[1] != 0)
                terms.append(term(kind, projectors[i](v) if i in projectors else v, w, of))
            loss = kd + sum(np.interp(k, [0, steps - 1], [np.atleast_1d(p[3])[i] for i in (0, -1)]) * y for p, y in zip(pairs, terms))
            loss.backward()
            every = list(self.student.parameters()) + [p for m in projectors.values() for p in m.parameters()]
            norm = float(torch.nn.utils.clip_grad_norm_(every, 1e30))
            if first is None:
                first = {n: p.grad.numpy().copy() for n, p in self.student.named_parameters()}
                for i, m in projectors.items():
                    first.update({"match.%d.%s" % (i, n): p.grad.numpy().copy() for n, p in m.named_parameters()})
            optimizer.step()
            said.append([float(y.detach()) for y in [loss, kd]] + [norm] + [float(y.detach()) for y in terms])
        return np.array(said), first

    def compare(self, pairs, n_projectors, batch=16, steps=100):
        projectors = self.projectors(pairs)
        self.assertEqual(len(projectors), n_projectors)
        every = list(self.student.parameters()) + [p for m in projectors.values() for p in m.parameters()]
        _, found = self.run_ours(pairs, "--optimizer", "adam", "--lr", "2e-3", steps=steps, batch=batch)
        wanted, first = self.train(torch.optim.Adam(every, lr=2e-3), pairs, projectors, steps, batch)
        self.assertLess(np.abs(found - wanted).max(), 1e-10)
        gradients, out = self.load(self.path("grad.npz")), self.load(self.path("out.npz"))
        self.assertEqual(set(gradients), set(first))
        for n, g in first.items():
            self.assertLess(np.abs(gradients[n] - g).max(), 1e-13, n)
        self.assertEqual(set(out), set(self.student.state_dict()))  # projectors are not written
        for n, w in self.student.state_dict().items():
            self.assertLess(np.abs(out[n] - w.numpy()).max(), 1e-10, n)
        return found

    def test_same_widths(self):
        self.make(Cnn(5, 7, 20), Cnn(5, 7, 20), (1, 12, 12), 80)
        begin = {n: w.clone() for n, w in self.student.state_dict().items()}
        for pairs in ([("conv2", "conv2", "mse", 0.3), ("conv2", "conv2", "attention", 3), ("fc1", "fc1", "cosine", 0.5)],
                      [("fc2", "fc2", "mse", 0.1), ("conv1", "conv1", "cosine", 0.2)]):  # fc2: the logits themselves
            self.student.load_state_dict(begin)
            self.compare(pairs, 0)

    def test_relations(self):
        """Of rows, whose widths and shapes may differ, with no projector; of rows that a mask leaves."""
        self.make(Cnn(5, 6, 12), Cnn(3, 4, 7), (1, 12, 12), 48)
        self.compare([("fc1", "fc1", "distances", 2.0), ("conv2", "fc1", "angles", 0.5), ("conv2", "conv2", "gram", 3.0)], 0)
        mask = (np.random.default_rng(5).random((32, 5)) < 0.4).astype("i8")
        mask[3], mask[0, 0] = 0, 1
        self.make(Tokens(9), Tokens(4), (5, 8), 32, mask)
        self.compare([("a", "a", "distances", 1.0), ("b", "a", "gram", 1.0), ("a", "b", "angles", 1.0)], 0)

    def test_projectors(self):
        self.make(Cnn(8, 9, 24), Cnn(5, 7, 20), (1, 12, 12), 80)
        self.compare([("conv1", "conv1", "mse", (0.3, 0)), ("conv2", "conv2", "attention", 2), ("fc1", "fc1", "cosine", (0, 0.5))], 2)
        with open(self.path("report.json")) as f:
            said = json.load(f)["matches"]
        self.assertEqual([m["projected"] for m in said], [True, False, True])
        self.assertEqual([(m["weight"], m["weight_end"]) for m in said], [(0.3, 0), (2, 2), (0, 0.5)])
        self.assertTrue(all(m["last"] < m["first"] for m in said))

    def test_positions(self):
        """Tokens with masks; a row of which nothing counts."""
        mask = (np.random.default_rng(1).random((48, 5)) < 0.7).astype("u1")
        mask[3] = 0
        self.make(Tokens(12), Tokens(9), (5, 8), 48, mask)
        self.compare([("a", "a", "mse", 1), ("a", "a", "attention", 1), ("a", "a", "cosine", 1)], 2)

    def test_tokens_of_a_classifier(self):
        """Padding does not count, nor a row of padding alone, nor a row that the mask of the rows leaves out."""
        tokens = (np.arange(5) < np.random.default_rng(1).integers(1, 6, 48)[:, None]).astype("i8")
        tokens[3] = 0
        mask = np.ones(48, "u1")
        mask[[5, 20]] = 0
        pairs = [("a", "a", "mse", 1), ("a", "a", "attention", 1), ("a", "a", "cosine", 1), ("pooled", "pooled", "mse", 0.5)]
        self.make(Classifier(12), Classifier(9), (5, 8), 48, mask, tokens)
        self.compare(pairs, 3)
        _, one = self.run_ours(pairs, steps=9, batch=16)
        _, four = self.run_ours(pairs, "--threads", 2, steps=9, batch=4, accum=4)
        self.assertLess(np.abs(one - four).max(), 1e-12)
        self.make(self.teacher, self.student, (5, 8), 48, mask)  # without an array every token counts
        _, full = self.run_ours(pairs, steps=9, batch=16)
        self.make(self.teacher, self.student, (5, 8), 48, mask, np.ones_like(tokens))
        _, ones = self.run_ours(pairs, steps=9, batch=16)
        self.assertLess(np.abs(full - ones).max(), 1e-12)
        self.assertGreater(np.abs(one - full)[0, 3:].min(), 1e-4)

    def test_parts(self):
        """Four batches of 4 rows are one of 16; threads, recomputation and an interruption change nothing."""
        mask = (np.random.default_rng(1).random((48, 5)) < 0.6).astype("u1")
        self.make(Tokens(12), Tokens(9), (5, 8), 48, mask)
        pairs = [("a", "a", "mse", 1), ("a", "a", "attention", 1), ("a", "a", "cosine", 1)]
        _, one = self.run_ours(pairs, "--threads", 1, steps=20, batch=16)
        out = self.load(self.path("out.npz"))
        _, four = self.run_ours(pairs, steps=20, batch=4, accum=4)
        self.assertLess(np.abs(one - four).max(), 1e-12)
        for n, w in self.load(self.path("out.npz")).items():
            self.assertLess(np.abs(out[n] - w).max(), 1e-12)
        self.run_ours(pairs, "--threads", 3, "--recompute", "every:1", "--checkpoint", self.path("state.npz"),
                      "--checkpoint-every", 7, steps=10, batch=16)
        self.run_ours(pairs, "--resume", self.path("state.npz"), steps=20, batch=16)
        for n, w in self.load(self.path("out.npz")).items():
            self.same_bits(w, out[n], n)

    def test_memory(self):
        self.make(Cnn(8, 9, 24), Cnn(5, 7, 20), (1, 12, 12), 80)
        self.run_ours([("conv1", "conv1", "mse", 0.3), ("fc1", "fc1", "cosine", 0.5)], "--clip", 1, steps=4, batch=16)
        with open(self.path("report.json")) as f:
            memory = json.load(f)["memory"]
        self.assertEqual(memory["peak"], memory["planned"])


if __name__ == "__main__":
    main()
