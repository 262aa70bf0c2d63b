#!/usr/bin/env python3
"""quality.py - what networks that are no classifiers of pictures reach here and in PyTorch with the same settings: a table.

usage: PYTHON quality.py VCOMPRESS [--seeds 5] [--only regression,diabetes,...]        PYTHON has torch and numpy; of diabetes also scikit-learn

Both train the same first weights (torch's, by seed) on the same rows in the same order with Adam, f32, one thread, and are judged on
rows that neither has seen: R2, F1, accuracy of tokens, mean IoU, accuracy. `difference` is ours minus PyTorch's with the same seed,
mean and standard deviation over the seeds; `noise` is the standard deviation of PyTorch's own figure.

regression  120 + 880 rows of 10 numbers: a sum of products and sines with noise;  layers of 32 and 1
diabetes    442 patients, 10 measures and how the disease went on in a year, in standard deviations (scikit-learn ships it); 100 are kept to judge
labels      12 numbers, 6 labels of each of 2000 rows by planes that a fifth of the labels ignore
tokens      16 tokens of 30 words, 4 classes that depend on the words before and behind: a GRU in both directions
spans       24 tokens, the first of which asks for one of three kinds of runs; start and end of that run: the same GRU
maps        digits of 8 x 8 (examples/digits) in pictures of 20 x 20: a class for each pixel, three convolutions
sensor      40 steps of 3 sensors, 5 movements with noise: a GRU, its last state
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BATCH, RATE = 500, 32, 0.003


def onnx(name, inputs, shapes, output, constants, nodes):
    """A graph in ONNX's textual form, whose parameters are the tensors of these shapes."""
    meta = ", ".join('"vcompress.parameter:%s" : "%s"' % (n, n) for n in shapes)
    values = ", ".join([inputs] + ["float[%s] %s" % (",".join(map(str, s)), n) for n, s in shapes.items()])
    return '<ir_version: 10, opset_import: ["" : 21], metadata_props: [%s]>\n%s (%s) => (%s) <%s> {\n%s\n}\n' % (
        meta, name, values, output, constants, "\n".join(nodes))


def turned(x, order):
    """Rows of gates in another order."""
    return torch.cat([x.chunk(len(order))[k] for k in order])


class Gru(nn.Module):
    """A GRU and a layer behind its last state, or behind every step."""
    def __init__(self, width, hidden, outputs, tokens=None):
        super().__init__()
        self.ways = 2 if tokens else 1
        self.table = nn.Embedding(tokens, width) if tokens else None
        self.gru = nn.GRU(width, hidden, batch_first=True, bidirectional=tokens is not None)
        self.last = nn.Linear(self.ways * hidden, outputs)
        self.sizes = width, hidden, outputs

    def forward(self, x):
        y = self.gru(self.table(x) if self.table else x)[0]
        return self.last(y if self.table else y[:, -1])

    def tensors(self):
        ends, order = ["", "_reverse"][:self.ways], (1, 0, 2)  # z, r, h
        t = {"w": torch.stack([turned(getattr(self.gru, "weight_ih_l0" + e), order) for e in ends]),
             "r": torch.stack([turned(getattr(self.gru, "weight_hh_l0" + e), order) for e in ends]),
             "b": torch.stack([torch.cat([turned(getattr(self.gru, n + "_l0" + e), order) for n in ("bias_ih", "bias_hh")]) for e in ends]),
             "o": self.last.weight.T, "p": self.last.bias}
        return {**t, "e": self.table.weight} if self.table else t

    def text(self, length):
        shapes = {n: tuple(t.shape) for n, t in self.tensors().items()}
        attributes = "hidden_size = %d, linear_before_reset = 1, layout = 1" % self.sizes[1]
        if self.table:
            nodes = ["v = Gather(e, x)", 'a = GRU<%s, direction = "bidirectional">(v, w, r, b)' % attributes, "f = Reshape(a, flat)",
                     "m = MatMul(f, o)", "y = Add(m, p)"]
            return onnx("tokens", "int64[n, %d] x" % length, shapes, "float[n, %d, %d] y" % (length, self.sizes[2]),
                        "int64[3] flat = {0, 0, -1}", nodes)
        nodes = ["a, h = GRU<%s>(x, w, r, b)" % attributes, "s = Squeeze(h, one)", "m = MatMul(s, o)", "y = Add(m, p)"]
        return onnx("sensor", "float[n, %d, %d] x" % (length, self.sizes[0]), shapes, "float[n, %d] y" % self.sizes[2],
                    "int64[1] one = {1}", nodes)


class Layers(nn.Sequential):
    """Linear layers or convolutions, as a list of layers has them."""
    def __init__(self, text, names, *layers):
        super().__init__(*layers)
        self.said, self.names = text, names

    def tensors(self):
        mine = [m for m in self if isinstance(m, (nn.Linear, nn.Conv2d))]
        return {"%s.%s" % (n, k): getattr(m, k) for n, m in zip(self.names, mine) for k in ("weight", "bias")}

    def text(self, length):
        return self.said


def r2(z, y):
    return 1 - ((z - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()


def regression(rng):
    x = rng.standard_normal((1000, 10)).astype("f4")
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] + 0.3 * rng.standard_normal(1000)
    net = Layers("input x [n, 10]\nlinear a 32\ntanh\nlinear b 1\n", "ab", nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    return net, x, y.astype("f4")[:, None], 880, F.mse_loss, "r2", r2


def diabetes(rng):
    from sklearn.datasets import load_diabetes
    x, y = load_diabetes(return_X_y=True)
    order = rng.permutation(len(x))
    x, y = (x / x.std(0))[order].astype("f4"), ((y - y.mean()) / y.std())[order].astype("f4")[:, None]
    net = Layers("input x [n, 10]\nlinear a 16\nrelu\nlinear b 1\n", "ab", nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    return net, x, y, 342, F.mse_loss, "r2", r2


def labels(rng):
    x = rng.standard_normal((2000, 12)).astype("f4")
    y = (x @ rng.standard_normal((12, 6)) + 0.7 * rng.standard_normal((2000, 6)) > 0.5).astype("i8")
    net = Layers("input x [n, 12]\nlinear a 24\nrelu\nlinear b 6\n", "ab", nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6))

    def f1(z, y):
        yes = z > 0
        return 2 * (yes & (y == 1)).sum() / (yes.sum() + y.sum())
    return net, x, y, 1500, lambda z, y: F.binary_cross_entropy_with_logits(z, y.float()), "f1", f1


def tokens(rng):
    x = rng.integers(0, 30, (1200, 16))
    before, behind = np.roll(x, 1, 1), np.roll(x, -1, 1)
    before[:, 0] = behind[:, -1] = 0
    y = (x % 2) * 2 + ((before + behind) % 3 == 0)
    y = np.where(rng.random(y.shape) < 0.05, rng.integers(0, 4, y.shape), y)
    return (Gru(12, 24, 4, 30), x, y.astype("i8"), 900, lambda z, y: F.cross_entropy(z.flatten(0, 1), y.flatten()), "accuracy",
            lambda z, y: (z.argmax(-1) == y).mean())


def spans(rng):
    x, y = rng.integers(3, 20, (1800, 24)), np.zeros((1800, 2), "i8")
    for k in range(1800):
        x[k, 0] = rng.integers(3)
        for place, kind in zip((1, 9, 17), rng.permutation(3)):
            first = place + rng.integers(0, 3)
            last = first + rng.integers(0, 4)
            x[k, first:last + 1] = 20 + 3 * kind + rng.integers(0, 3, last + 1 - first)
            if kind == x[k, 0]:
                y[k] = first, last
    return (Gru(12, 24, 2, 30), x, y, 1500, lambda z, y: (F.cross_entropy(z[..., 0], y[:, 0]) + F.cross_entropy(z[..., 1], y[:, 1])) / 2,
            "exact match", lambda z, y: (z.argmax(1) == y).all(1).mean())


def maps(rng):
    with np.load(os.path.join(HERE, "..", "examples", "digits", "images.npz")) as f:
        images, numbers = f["train_images"], f["train_labels"]
    x, y = np.zeros((600, 1, 20, 20), "f4"), np.zeros((600, 20, 20), "i8")
    for k in range(600):
        for _ in range(2):
            one, (i, j) = rng.integers(len(images)), rng.integers(0, 13, 2)
            ink = images[one] / 16.0 > 0.3
            x[k, 0, i:i + 8, j:j + 8] = np.where(ink, images[one] / 16.0, x[k, 0, i:i + 8, j:j + 8])
            y[k, i:i + 8, j:j + 8] = np.where(ink, numbers[one] % 3 + 1, y[k, i:i + 8, j:j + 8])
    x += (0.1 * rng.standard_normal(x.shape)).astype("f4")
    net = Layers("input x [n, 1, 20, 20]\nconv a 12 kernel=5 pad=2\nrelu\nconv b 16 kernel=5 pad=2\nrelu\nconv c 4 kernel=1\n", "abc",
                 nn.Conv2d(1, 12, 5, padding=2), nn.ReLU(), nn.Conv2d(12, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 4, 1))

    def iou(z, y):
        said = z.argmax(1)
        each = [((said == c) & (y == c)).sum() / max(1, ((said == c) | (y == c)).sum()) for c in range(4) if ((said == c) | (y == c)).any()]
        return np.mean(each)
    return net, x, y, 450, F.cross_entropy, "iou", iou


def sensor(rng):
    y = rng.integers(0, 5, 1000)
    t, phase = np.arange(40)[None, :, None], rng.uniform(0, 6.28, (1000, 1, 3))
    rate = (0.15 + 0.1 * np.arange(5))[y][:, None, None] * np.array([1.0, 0.5, 2.0])
    x = np.sin(rate * t + phase) * rng.uniform(0.5, 1.5, (1000, 1, 1)) + 0.4 * rng.standard_normal((1000, 40, 3))
    return (Gru(3, 24, 5), x.astype("f4"), y.astype("i8"), 750, F.cross_entropy, "accuracy", lambda z, y: (z.argmax(-1) == y).mean())


def theirs(net, x, y, n, loss_of):
    adam, x, y = torch.optim.Adam(net.parameters(), lr=RATE), torch.from_numpy(x), torch.from_numpy(y)
    for k in range(STEPS):
        rows = torch.arange(k * BATCH, (k + 1) * BATCH) % n
        adam.zero_grad()
        loss_of(net(x[rows]), y[rows]).backward()
        adam.step()
    with torch.no_grad():
        return net(x[n:]).numpy()


def ours(program, folder, net, x, y, n, task):
    at = lambda name: os.path.join(folder, name)
    np.savez(at("start.npz"), **{k: t.detach().numpy() for k, t in net.tensors().items()})
    graph = net.text(x.shape[1])
    with open(at("net.onnxtxt" if graph.startswith("<") else "net.txt"), "w") as f:
        f.write(graph)
        name = f.name
    rows = np.arange(STEPS * BATCH) % n  # every step has a whole batch, as PyTorch's script takes it
    np.savez(at("train.npz"), x=x[rows], y=y[rows])
    np.savez(at("test.npz"), x=x[n:], y=y[n:])
    run = [program, "distill", "--student", at("start.npz"), "--graph", name, "--data", at("train.npz"), "--alpha", "0", "--task", task,
           "--steps", str(STEPS), "--batch", str(BATCH), "--order", "file", "--optimizer", "adam", "--lr", str(RATE), "--threads", "1",
           "-q", "--force", "-o", at("out.npz")]
    subprocess.run(run, check=True)
    said = subprocess.run([program, "evaluate", "--graph", name, "--data", at("test.npz"), "--task", task, "--json", at("out.npz")],
                          check=True, stdout=subprocess.PIPE).stdout
    return json.loads(said)["value"]


TASKS = {"regression": (regression, "regression"), "diabetes": (diabetes, "regression"), "labels": (labels, "labels"), "tokens": (tokens, "tokens"), "spans": (spans, "spans"),
         "maps": (maps, "maps"),
         "sensor": (sensor, "classes")}


def main():
    say = argparse.ArgumentParser()
    say.add_argument("program")
    say.add_argument("--seeds", type=int, default=5)
    say.add_argument("--only", default=",".join(TASKS))
    args = say.parse_args()
    torch.set_num_threads(1)
    print("| network | figure | vcompress | PyTorch %s | difference | noise |\n|---|---|---|---|---|---|" % torch.__version__.split("+")[0])
    for name in args.only.split(","):
        both = []
        for seed in range(args.seeds):
            torch.manual_seed(seed)
            net, x, y, n, loss_of, figure, judge = TASKS[name][0](np.random.default_rng(seed))
            with tempfile.TemporaryDirectory() as folder:
                mine = ours(os.path.abspath(args.program), folder, net, x, y, n, TASKS[name][1])
            both.append((mine, float(judge(theirs(net, x, y, n, loss_of), y[n:]))))
        a, b = zip(*both)
        d = [p - q for p, q in both]
        print("| %s | %s | %.4f | %.4f | %+.4f +- %.4f | %.4f |" % (name, figure, statistics.mean(a), statistics.mean(b), statistics.mean(d),
                                                                 statistics.stdev(d), statistics.stdev(b)), flush=True)


main()
