"""test_losses.py - every loss of distill against PyTorch in float64: losses of 20 steps, the gradients of the first one and the
weights at the end agree to 1e-10, with a teacher and with y; and the figures of every task against their definitions.
"""
import json

from judge_support import Judge, main, np, run

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    import sys
    print("SKIPPED: PyTorch is not installed for %s (Debian: python3-torch)" % sys.executable)
    sys.exit(77)

NET = """input x [batch, 12]
linear a 24
tanh
linear c 5
"""


class Net(nn.Module):
    def __init__(self, outputs=5):
        super().__init__()
        self.a, self.c = nn.Linear(12, 24), nn.Linear(24, outputs)

    def forward(self, x):
        return self.c(torch.tanh(self.a(x)))


def kl(p, q):
    return F.kl_div(q, p, reduction="batchmean", log_target=True)


def jensen_shannon(t, z):
    p, q = F.softmax(t, 1), F.softmax(z, 1)
    m = ((p + q) / 2).log()
    return (F.kl_div(m, p, reduction="batchmean") + F.kl_div(m, q, reduction="batchmean")) / 2


def entropy(t):
    p = torch.sigmoid(t)
    return F.binary_cross_entropy(p, p)


# Of the student's outputs z, the teacher's t and a temperature.
TEACHER = {
    "kd": lambda z, t, T: T * T * kl(F.log_softmax(t / T, 1), F.log_softmax(z / T, 1)),
    "reverse": lambda z, t, T: T * T * kl(F.log_softmax(z / T, 1), F.log_softmax(t / T, 1)),
    "js": lambda z, t, T: T * T * jensen_shannon(t / T, z / T),
    "bce": lambda z, t, T: T * T * (F.binary_cross_entropy_with_logits(z / T, torch.sigmoid(t / T)) - entropy(t / T)),
    "mse": lambda z, t, T: F.mse_loss(z, t),
    "huber": lambda z, t, T: F.huber_loss(z, t, delta=0.4),
    "cosine": lambda z, t, T: F.cosine_embedding_loss(z, t, torch.ones(len(z), dtype=z.dtype)),
}
Y = {
    "labels": F.binary_cross_entropy_with_logits,
    "mse": F.mse_loss,
    "huber": lambda z, y: F.huber_loss(z, y, delta=0.4),
    "cosine": lambda z, y: F.cosine_embedding_loss(z, y, torch.ones(len(z), dtype=z.dtype)),
}


class Losses(Judge):
    still = None  # a tensor whose gradient is 0

    def setUp(self):
        super().setUp()
        torch.manual_seed(4)
        torch.set_num_threads(1)
        rng = np.random.default_rng(9)
        self.teacher, self.student = Net().double(), Net().double()
        with torch.no_grad():
            self.teacher.c.weight *= 6
        self.x = rng.standard_normal((96, 12))
        self.floats, self.yes = rng.standard_normal((96, 5)), rng.integers(0, 2, (96, 5))
        with open(self.path("net.txt"), "w") as f:
            f.write(NET)
        self.save("teacher.npz", self.teacher)
        self.save("student.npz", self.student)

    def save(self, name, module):
        np.savez(self.path(name), **{n: p.detach().numpy() for n, p in module.state_dict().items()})

    def data(self, **arrays):
        np.savez(self.path("data.npz"), x=self.x, **arrays)

    def torch_run(self, loss_of, steps=20, batch=32):
        optimizer = torch.optim.SGD(self.student.parameters(), lr=0.05, momentum=0.9)
        x, said, first = torch.from_numpy(self.x), [], None
        for k in range(steps):
            rows = slice(k * batch % 96, k * batch % 96 + batch)
            optimizer.zero_grad()
            loss = loss_of(self.student(x[rows]), x[rows], rows)
            loss.backward()
            first = first or {n: p.grad.numpy().copy() for n, p in self.student.named_parameters()}
            optimizer.step()
            said.append(loss.item())
        return np.array(said), first

    def compare(self, loss_of, *options):
        self.vc("distill", "--student", self.path("student.npz"), *(() if "--graph" in options else ("--graph", self.path("net.txt"))), "--data",
                self.path("data.npz"), "-o", self.path("out.npz"), "--steps", 20, "--batch", 32, "--order", "file",
                "--optimizer", "momentum", "--lr", 0.05, "--precision", "f64", "--log", self.path("log"),
                "--dump-gradients", self.path("grad.npz"), "-q", "-f", *options)
        wanted, first = self.torch_run(loss_of)
        with open(self.path("log")) as f:
            found = np.array([json.loads(line)["loss"] for line in f])
        self.assertLess(np.abs(found - wanted).max(), 1e-10)
        gradients, weights = self.load(self.path("grad.npz")), self.load(self.path("out.npz"))
        for n, p in self.student.named_parameters():
            self.assertLess(np.abs(gradients[n] - first[n]).max(), 1e-10, n)
            self.assertTrue(np.abs(first[n]).max() > 1e-6 or n == self.still, n)
            self.assertLess(np.abs(weights[n] - p.detach().numpy()).max(), 1e-10, n)

    def with_teacher(self, loss):
        self.data()

        def of(z, x, rows):
            with torch.no_grad():
                t = self.teacher(x)
            return TEACHER[loss](z, t, 3.0)

        options = ("--temperature", 3) if loss in ("kd", "reverse", "js", "bce") else ()
        options += ("--huber-delta", 0.4) if loss == "huber" else ()
        self.compare(of, "--teacher", self.path("teacher.npz"), "--loss", loss, *options)

    def with_y(self, loss, y, *options):
        self.data(y=y)
        t = torch.from_numpy(y.astype("f8"))
        self.compare(lambda z, x, rows: Y[loss](z, t[rows]), "--alpha", 0, *options)

    def test_both(self):
        """The teacher's term and that of y, with a share each."""
        self.data(y=self.yes)
        y = torch.from_numpy(self.yes.astype("f8"))

        def of(z, x, rows):
            with torch.no_grad():
                t = self.teacher(x)
            return 0.3 * TEACHER["bce"](z, t, 2.0) + 0.7 * Y["labels"](z, y[rows])

        self.compare(of, "--teacher", self.path("teacher.npz"), "--alpha", 0.3)

    def test_schedules(self):
        """Temperature and the teacher's share on lines from the first step to the last."""
        y = np.random.default_rng(2).integers(0, 5, 96)
        self.data(y=y)
        labels, steps = torch.from_numpy(y), iter(range(20))

        def of(z, x, rows):
            part = next(steps) / 19
            alpha, temperature = 0.9 + (0.2 - 0.9) * part, 5 + (1.5 - 5) * part
            with torch.no_grad():
                t = self.teacher(x)
            return alpha * TEACHER["kd"](z, t, temperature) + (1 - alpha) * F.cross_entropy(z, labels[rows])

        self.compare(of, "--teacher", self.path("teacher.npz"), "--alpha", 0.9, "--alpha-end", 0.2, "--temperature", 5, "--temperature-end", 1.5)

    def test_cross_entropy(self):
        """Smoothing, weights of classes and a label that is ignored, alone and together, with a teacher beside."""
        y = np.random.default_rng(2).integers(0, 5, 96)
        weights = torch.tensor([1.0, 2.5, 0.0, 4.0, 0.5], dtype=torch.float64)
        words, start = "1,2.5,0,4,0.5", {n: p.detach().clone() for n, p in self.student.state_dict().items()}
        for smoothing, weighted, ignored, alpha in ((0.2, False, None, 0), (0, True, None, 0), (0.1, True, 3, 0), (0.1, True, 3, 0.4)):
            self.student.load_state_dict(start)
            self.data(y=y)
            labels = torch.from_numpy(y)

            def of(z, x, rows):
                ce = F.cross_entropy(z, labels[rows], weight=weights if weighted else None, label_smoothing=smoothing,
                                     ignore_index=-100 if ignored is None else ignored)
                with torch.no_grad():
                    t = self.teacher(x)
                return alpha * TEACHER["kd"](z, t, 2.0) + (1 - alpha) * ce

            options = ["--alpha", alpha] + (["--teacher", self.path("teacher.npz")] if alpha else [])
            options += ["--label-smoothing", smoothing] if smoothing else []
            options += ["--class-weights", words] if weighted else []
            options += ["--ignore-label", ignored] if ignored is not None else []
            self.compare(of, *options)

    # ---- figures ----

    def evaluate(self, y, *options):
        self.data(y=y)
        self.vc("evaluate", "--graph", self.path("net.txt"), "--data", self.path("data.npz"), "--precision", "f64", "-q",
                "--json=" + self.path("e.json"), *options, self.path("student.npz"))
        with open(self.path("e.json")) as f:
            document = json.load(f)
        return document, self.student(torch.from_numpy(self.x)).detach().numpy()

    def near(self, a, b):
        self.assertLess(abs(a - b), 1e-10)

    def test_regression(self):
        d, z = self.evaluate(self.floats)
        e, q = z - self.floats, d["quality"]
        self.assertEqual((d["task"], d["metric"], d["options"]["loss"]), ("regression", "r2", "mse"))
        self.near(q["squared_error"], (e ** 2).mean())
        self.near(q["absolute_error"], np.abs(e).mean())
        self.near(q["r2"], 1 - (e ** 2).sum() / ((self.floats - self.floats.mean(0)) ** 2).sum())
        self.near(d["value"], q["r2"])
        whole = (self.floats * 10).astype("i4")  # below 0, too, which are no labels here
        self.assertLess(whole.min(), 0)
        self.assertEqual(*(self.evaluate(y, "--task", "regression")[0]["quality"] for y in (whole, whole.astype("f8"))))

    def test_labels(self):
        d, z = self.evaluate(self.yes)
        yes, q = z > 0, d["quality"]
        self.assertEqual((d["task"], d["metric"], d["options"]["loss"]), ("labels", "f1", "bce"))
        self.near(q["f1"], 2 * (yes & (self.yes == 1)).sum() / (yes.sum() + self.yes.sum()))
        self.near(q["cross_entropy"], float(Y["labels"](torch.from_numpy(z), torch.from_numpy(self.yes.astype("f8")))))

    def test_embeddings(self):
        d, z = self.evaluate(self.floats, "--task", "embeddings")
        self.assertEqual((d["task"], d["metric"], d["options"]["loss"]), ("embeddings", "cosine", "cosine"))
        norms = np.linalg.norm(z, axis=1) * np.linalg.norm(self.floats, axis=1)
        self.near(d["quality"]["cosine"], ((z * self.floats).sum(1) / norms).mean())

    def test_maps(self):
        """A class for each place: gradients against PyTorch, accuracy and IoU against their definitions."""
        class Map(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.c = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 4, 1)

            def forward(self, x):
                return self.c(torch.tanh(self.a(x)))

        self.student = Map().double()
        self.save("student.npz", self.student)
        with open(self.path("net.txt"), "w") as f:
            f.write("input x [batch, 2, 5, 7]\nconv a 6 kernel=3 pad=1\ntanh\nconv c 4 kernel=1\n")
        rng = np.random.default_rng(1)
        self.x, y = rng.standard_normal((96, 2, 5, 7)), rng.integers(0, 4, (96, 5, 7))
        labels = torch.from_numpy(y)
        d, z = self.evaluate(y)
        answers, q = z.argmax(1), d["quality"]
        self.assertEqual((d["task"], d["metric"], d["options"]["loss"], d["outputs"]), ("maps", "iou", "kd", 4))
        self.near(q["accuracy"], (answers == y).mean())
        self.near(q["iou"], np.mean([((answers == c) & (y == c)).sum() / ((answers == c) | (y == c)).sum() for c in range(4)]))
        self.near(d["value"], q["iou"])
        self.near(q["cross_entropy"], float(F.cross_entropy(torch.from_numpy(z), labels)))
        start = {n: p.detach().clone() for n, p in self.student.state_dict().items()}
        self.compare(lambda z, x, rows: F.cross_entropy(z, labels[rows], ignore_index=3), "--alpha", 0, "--ignore-label", 3)
        self.student.load_state_dict(start)
        self.teacher = Map().double()
        self.save("teacher.npz", self.teacher)

        def both(z, x, rows):  # a loss of classes, of each place where the output has places
            with torch.no_grad():
                t = self.teacher(x)
            z_, t_ = (v.permute(0, 2, 3, 1).reshape(-1, 4) for v in (z, t))
            return 0.5 * TEACHER["js"](z_, t_, 2.0) + 0.5 * F.cross_entropy(z, labels[rows])

        self.compare(both, "--alpha", 0.5, "--loss", "js", "--temperature", 2, "--teacher", self.path("teacher.npz"))
        self.data(y=np.full_like(y, -1))
        self.assertIn("data.npz: all labels are below 0, or ignored", self.refuse(
            2, "evaluate", "--graph", self.path("net.txt"), "--data", self.path("data.npz"), self.path("student.npz")))

    def test_single_numbers(self):
        """An ONNX file as the graph of another checkpoint: a bias of one number learns, and numbers beside weights are the checkpoint's."""
        try:
            import onnx
        except ImportError:
            self.skipTest("onnx is not installed")
        onnx.save(onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> g (float[batch, 12] x) => (float[batch, 1] y) '
            '<float[12, 1] w = {%s}, float[1] b = {0}, float[1, 1] shift = {0.5}, float scale = {2}, float low = {-100}> '
            '{ d = MatMul (x, w) e = Add (d, b) f = Mul (e, scale) h = Add (f, shift) y = Clip (h, low) }' % ", ".join("1" * 12)), self.path("one.onnx"))
        w, b = np.random.default_rng(0).standard_normal((12, 1)), np.array([0.25])
        y = self.x @ np.ones((12, 1)) + 3
        np.savez(self.path("student.npz"), w=w, b=b, shift=np.array([[1.5]]), scale=np.array(3.0), low=np.array(-100.0))
        self.data(y=y)
        self.vc("distill", "--student", self.path("student.npz"), "--graph", self.path("one.onnx"), "--data", self.path("data.npz"), "--alpha", 0, "--batch", 96,
                "--steps", 1, "--optimizer", "sgd", "--lr", 0.01, "--precision", "f64", "-q", "-f", "-o", self.path("out.npz"))
        e, out = 3 * (self.x @ w + b) + 1.5 - y, self.load(self.path("out.npz"))
        self.near(out["b"][0], b[0] - 0.01 * 2 * 3 * e.mean())
        self.near(np.abs(out["w"] - (w - 0.01 * 6 * self.x.T @ e / 96)).max(), 0)
        self.assertEqual((out["shift"][0, 0], out["scale"], out["low"]), (1.5, 3, -100))

    # ---- spans ----

    def spans(self, rng, n, length):
        """Starts and ends, some of them beyond the row: as texts that were cut have them."""
        first = rng.integers(0, length, n)
        y = np.stack([first, np.minimum(first + rng.integers(0, 4, n), length + 1)], 1)
        y[::7] = (length, length + 5)
        return y

    def check_spans(self, d, start, end, y):
        """Figures by their definitions; spans of positions, one by one."""
        length, q = start.shape[1], d["quality"]
        inside, answers = (y < length).all(1), np.stack([start.argmax(1), end.argmax(1)], 1)
        f1 = []
        for (a, b), (c, e) in zip(answers[inside], y[inside]):
            is_, wanted = set(range(a, b + 1)), set(range(c, e + 1))
            both = len(is_ & wanted)
            f1.append(2 * both / (len(is_) + len(wanted)) if both else 0)
        self.assertEqual((d["task"], d["metric"], d["options"]["loss"], d["outputs"]), ("spans", "exact-match", "kd", length))
        self.assertEqual((q["rows"], q["labels"]), (len(y), inside.sum()))
        self.near(q["exact_match"], (answers == y)[inside].all(1).mean())
        self.near(q["f1"], np.mean(f1))
        self.near(d["value"], q["exact_match"])
        self.near(q["accuracy"], q["exact_match"])
        self.assertGreater(q["f1"], 0)

    def test_spans(self):
        """One output [rows, positions, 2]: the mean of both cross-entropies, each over the rows that have such an end."""
        self.student, self.teacher, self.still = Net(2).double(), Net(2).double(), "c.bias"  # the same for all positions
        self.save("student.npz", self.student)
        self.save("teacher.npz", self.teacher)
        with open(self.path("net.txt"), "w") as f:
            f.write("input x [batch, 9, 12]\nlinear a 24\ntanh\nlinear c 2\n")
        rng = np.random.default_rng(1)
        self.x, y = rng.standard_normal((96, 9, 12)), self.spans(rng, 96, 9)
        labels = torch.from_numpy(y).clamp(0, 9)

        def ce(z, rows):  # as transformers has it
            return (F.cross_entropy(z[..., 0], labels[rows, 0], ignore_index=9) + F.cross_entropy(z[..., 1], labels[rows, 1], ignore_index=9)) / 2

        d, z = self.evaluate(y)
        self.check_spans(d, z[..., 0], z[..., 1], y)
        self.near(d["quality"]["cross_entropy"], float(ce(torch.from_numpy(z), slice(0, 96)).detach()))
        start = {n: p.detach().clone() for n, p in self.student.state_dict().items()}
        self.compare(lambda z, x, rows: ce(z, rows), "--alpha", 0)
        self.student.load_state_dict(start)

        def both(z, x, rows):
            with torch.no_grad():
                t = self.teacher(x)
            return 0.3 * (TEACHER["kd"](z[..., 0], t[..., 0], 2.0) + TEACHER["kd"](z[..., 1], t[..., 1], 2.0)) / 2 + 0.7 * ce(z, rows)

        self.compare(both, "--teacher", self.path("teacher.npz"), "--alpha", 0.3)

    def test_spans_of_transformers(self):
        """Two outputs, found by the class in config.json; start_positions and end_positions of the data."""
        try:
            from transformers import BertConfig, BertForQuestionAnswering
        except ImportError:
            self.skipTest("transformers is not installed")
        config = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, vocab_size=50, max_position_embeddings=16)
        net = BertForQuestionAnswering(BertConfig(**config)).eval()
        net.save_pretrained(self.path("qa"))
        rng = np.random.default_rng(3)
        ids, y = rng.integers(1, 50, (40, 12)), self.spans(rng, 40, 12)
        mask = (np.arange(12) < rng.integers(6, 13, (40, 1))).astype("i8")
        np.savez(self.path("data.npz"), input_ids=ids, attention_mask=mask, start_positions=y[:, 0], end_positions=y[:, 1])
        with torch.no_grad():
            said = net(*(torch.from_numpy(v) for v in (ids, mask)), start_positions=torch.from_numpy(y[:, 0]), end_positions=torch.from_numpy(y[:, 1]))
        for command, more in (("evaluate", ("--json=" + self.path("e.json"),)), ("logits", ("-o", self.path("l.npz"), "-f"))):
            out = self.vc(command, "--data", self.path("data.npz"), *more, self.path("qa"))
            self.assertIn(b": spans: 40 rows, exact match ", out.out)
        with open(self.path("e.json")) as f:
            d = json.load(f)
        self.check_spans(d, said.start_logits.numpy(), said.end_logits.numpy(), y)
        self.assertLess(abs(d["quality"]["cross_entropy"] - said.loss.item()), 1e-5)
        logits = self.load(self.path("l.npz"))["logits"]
        self.assertLess(np.abs(logits - np.stack([said.start_logits.numpy(), said.end_logits.numpy()], 1)).max(), 1e-5)
        np.savez(self.path("data.npz"), input_ids=ids, attention_mask=mask, y=np.sort(logits.argmax(2)))  # no worse than chance
        out = self.vc("distill", "--student", self.path("qa"), "--teacher", self.path("l.npz"), "--data", self.path("data.npz"), "-o",
                      self.path("out"), "--steps", 3, "--alpha", 0.5)
        self.assertIn(b"spans: 12 values for each end of a span", out.out)
        y[[5, 7]] = (4, 3), (-1, 3)  # an end without a start is one; before its start it is none
        np.savez(self.path("data.npz"), input_ids=ids, attention_mask=mask, start_positions=y[:, 0], end_positions=y[:, 1])
        self.assertIn("data.npz: row 5 has a span from 4 to 3, which ends before it starts", self.refuse(2, "evaluate", "--data", self.path("data.npz"), self.path("qa")))

    # ---- several outputs ----

    def heads(self, name, kinds=4, prices=1):
        """A classifier and numbers of one network: NAME.npz and its graph, NAME.onnxtxt."""
        class Heads(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.c, self.d = nn.Linear(12, 24), nn.Linear(24, kinds), nn.Linear(24, prices)

            def forward(self, x):
                t = torch.tanh(self.a(x))
                return self.c(t), self.d(t)

        made = Heads().double()
        self.save(name + ".npz", made)
        shapes = {n: ", ".join(map(str, p.shape)) for n, p in made.named_parameters()}
        with open(self.path(name + ".onnxtxt"), "w") as f:
            f.write('<ir_version: 10, opset_import: ["" : 21], metadata_props: [%s]>\n' % ", ".join('"vcompress.parameter:%s" : "%s"' % (n, n) for n in shapes))
            f.write("g (float[batch, 12] x, %s) => (float[batch, %d] kind, float[batch, %d] price) {\n" % (", ".join('float[%s] "%s"' % (shapes[n], n) for n in shapes), kinds, prices))
            f.write('h = Gemm <transB = 1> (x, "a.weight", "a.bias")\nt = Tanh (h)\n')
            f.write('kind = Gemm <transB = 1> (t, "c.weight", "c.bias")\nprice = Gemm <transB = 1> (t, "d.weight", "d.bias")\n}\n')
        return made

    def test_outputs_refused(self):
        """Tasks that no output has, labels that are no classes of an output, and teachers whose outputs lie elsewhere."""
        self.heads("s", 4, 3), self.heads("t", 3, 4)
        rng = np.random.default_rng(2)
        kind, price = rng.integers(0, 4, 96), rng.standard_normal((96, 3))
        self.data(kind=kind, price=price)
        np.savez(self.path("x.npz"), x=self.x)
        np.savez(self.path("y.npz"), x=self.x, y=kind)
        np.savez(self.path("large.npz"), x=self.x, kind=np.where(np.arange(96) == 90, 9, kind), price=price)
        net, data, s = ("--graph", self.path("s.onnxtxt")), ("--data", self.path("data.npz")), self.path("s.npz")
        for options, sentence in (
                (("--task", "kind=classes", "--task", "kind=labels"), "--task: the output kind has two tasks"),
                (("--task", "knd=classes"), "s.npz: the graph has no output knd; its outputs are kind, price"),
                (("--task", "classes"), "--task is for one output; of several each is named: OUTPUT=TASK"),
                (("--task", "kind=classes", "--task", "classes"), "--task is for one output; of several each is named: OUTPUT=TASK"),
                (("--loss", "mse"), "--loss is for one output; of several each has the loss of its task"),
                *((("--task", word), "--task: '%s' is not OUTPUT=TASK, OUTPUT=TASK:WEIGHT or" % word) for word in (
                    "kind=classes:0", "kind=classes:-1", "kind=classes:nan", "kind=classes:1:inf", "kind=classes:", "kind=classes:1:",
                    "kind=classes:1:0", "kind=classes:1:2:3", "kind=classes: 2", "kind=clases", "=classes", "kind=")),
                (("--data", self.path("y.npz"), "--task", "kind=classes"), "y.npz: y belongs to a network with one output; of several each has the array"),
                (("--data", self.path("x.npz"), "--task", "kind=classes"), "x.npz: there are neither labels (arrays with the names of the outputs) nor a teacher"),
                (("--data", self.path("large.npz")), "large.npz: row 90 of kind has the label 9; there are 4 classes, 0 to 3"),
                (("--data", self.path("x.npz"), "--task", "kind=classes", "--task", "price=regression", "--teacher", self.path("t.npz"), "--teacher-graph",
                  self.path("t.onnxtxt")), "the outputs of the teacher are kind 3, price 4 for each row, those of the network kind 4, price 3")):
            self.assertIn(sentence, self.refuse(2, "evaluate", *net, *data, *options, s))
        # y of one output, by --array; labels of one output alone are left out
        self.vc("evaluate", *net, "--data", self.path("y.npz"), "--array", "kind=y", s)
        self.vc("evaluate", *net, *data, "--ignore-label", 3, "-q", "--json=" + self.path("e.json"), s)
        with open(self.path("e.json")) as f:
            self.assertEqual([p["labels"] for p in json.load(f)["quality"]["outputs"]], [(kind != 3).sum(), 0])
        # answers in files: the same outputs in the same order
        swapped = "--task", "price=regression", "--task", "kind=classes"
        self.vc("logits", *net, *data, *swapped, "-q", "-o", self.path("l.npz"), s)
        distill = "distill", *net, *data, "--student", s, "--steps", 2, "-f", "-o", self.path("o.npz")
        self.vc(*distill, *swapped, "--teacher", self.path("l.npz"), "--alpha", 0.5)
        for options, has in ((), "kind 4, price 3"), (swapped[2:], "kind 4"), (swapped[:2], "price 3"):
            self.assertIn("l.npz: has answers of price 3, kind 4 for each row, the student has %s: the same outputs" % has,
                          self.refuse(2, *distill, *options, "--teacher", self.path("l.npz"), "--alpha", 0.5))
        np.savez(self.path("kind.npz"), x=self.x, kind=kind)
        self.assertIn("kind.npz: there are no labels for the output price, and with --alpha 0 it learns from no teacher",
                      self.refuse(2, *distill, "--data", self.path("kind.npz"), *swapped, "--alpha", 0))
        self.assertIn("x.npz: there are no labels: --alpha 0.5 needs arrays with the names of the outputs; with --alpha 1 the student",
                      self.refuse(2, *distill, "--data", self.path("x.npz"), *swapped, "--teacher", s, "--alpha", 0.5))
        # the accuracy of an output is one that gates know; a control is of one output
        evaluated = *distill, "--alpha", 0.5, "--teacher", s, "--eval", self.path("data.npz")
        said = self.vc(*evaluated, "--min-accuracy", 0.01, "--max-drop", 0.9, "--control").out.decode()
        self.assertIn("no control run: a control compares answers of one output, and several have a task", said)
        self.assertIn("is below --min-accuracy 0.99", run(*evaluated, "--min-accuracy", 0.99).err)

    def test_outputs(self):
        """A classifier and a number of one network: weights on lines, a teacher's share, figures of each."""
        self.student, self.teacher = self.heads("student"), self.heads("teacher")
        rng = np.random.default_rng(5)
        kind, price = rng.integers(0, 4, 96), rng.standard_normal((96, 1))
        kind[::9] = -1
        self.data(kind=kind, price=price)
        labels, values, steps = torch.from_numpy(kind), torch.from_numpy(price), iter(range(20))
        net, data = self.path("student.onnxtxt"), self.path("data.npz")

        def of(z, x, rows):
            part = next(steps) / 19
            with torch.no_grad():
                t = self.teacher(x)
            first = 0.3 * TEACHER["kd"](z[0], t[0], 2.0) + 0.7 * F.cross_entropy(z[0], labels[rows], ignore_index=-1)
            second = 0.3 * F.mse_loss(z[1], t[1]) + 0.7 * F.mse_loss(z[1], values[rows])
            return (2 + (0.5 - 2) * part) * first + 0.25 * second

        self.vc("evaluate", "--graph", net, "--data", data, "--precision", "f64", "--teacher", self.path("teacher.npz"), "-q",
                "--json=" + self.path("e.json"), self.path("student.npz"))
        with open(self.path("e.json")) as f:
            one, two = json.load(f)["quality"]["outputs"]
        with torch.no_grad():
            z, t = ([v.numpy() for v in m(torch.from_numpy(self.x))] for m in (self.student, self.teacher))
        self.assertEqual([(p["output"], p["task"], p["metric"]) for p in (one, two)], [("kind", "classes", "accuracy"), ("price", "regression", "r2")])
        self.near(one["value"], (z[0].argmax(1) == kind)[kind >= 0].mean())
        self.near(one["agreement"], (z[0].argmax(1) == t[0].argmax(1)).mean())
        self.near(two["value"], 1 - ((z[1] - price) ** 2).sum() / ((price - price.mean()) ** 2).sum())
        self.near(two["divergence"], ((z[1] - t[1]) ** 2).mean())
        start = {n: p.detach().clone() for n, p in self.student.state_dict().items()}
        self.compare(of, "--graph", net, "--task", "kind=classes:2:0.5", "--task", "price=regression:0.25", "--teacher", self.path("teacher.npz"), "--alpha", 0.3)
        self.vc("logits", "--graph", net, "--data", data, "--precision", "f64", "--dtype", "f64", "-q", "-o", self.path("l.npz"), self.path("teacher.npz"))
        self.student.load_state_dict(start)  # the same teacher in a file; y of one output alone
        self.data(kind=kind)

        def alone(z, x, rows):
            with torch.no_grad():
                t = self.teacher(x)
            return 0.4 * (TEACHER["kd"](z[0], t[0], 2.0) + F.mse_loss(z[1], t[1])) + 0.6 * F.cross_entropy(z[0], labels[rows], ignore_index=-1)

        self.compare(alone, "--graph", net, "--task", "kind=classes", "--task", "price=regression", "--teacher", self.path("l.npz"), "--alpha", 0.4)
        self.data(kind=kind, price=price)
        r = self.vc("shrink", "--graph", net, "--data", data, "--ratio", 1.1, "--max-loss", 0.9, "--steps", 4, "-f", "-o", self.path("small.npz"),
                    "--json=" + self.path("e.json"), self.path("student.npz"))
        self.assertRegex(r.out.decode(), r"proof: 2\d rows that steered nothing: kind: classes, accuracy 0\.\d+ of 0\.\d+; price: regression, r2 ")
        with open(self.path("e.json")) as f:
            proof = json.load(f)["proof"]
        self.assertEqual([(p["output"], p["metric"]) for p in proof["output"]["outputs"]], [("kind", "accuracy"), ("price", "r2")])
        for part, of in zip(proof["output"]["outputs"], proof["teacher"]["outputs"]):
            self.assertIn("%s %.4f of %.4f" % (part["metric"], part["value"], of["value"]), r.out.decode())

    def test_constant(self):
        """R2 of a constant and F1 without a yes are told."""
        d, _ = self.evaluate(np.full((96, 5), 3.25))
        self.assertIsNone(d["value"])
        self.assertEqual(d["quality"]["undefined"], "R2 is not defined: y is the same in all rows")
        with torch.no_grad():
            self.student.c.bias -= 100
        self.save("student.npz", self.student)
        d, _ = self.evaluate(np.zeros((96, 5)), "--task", "labels")
        self.assertIsNone(d["value"])
        self.assertIn("F1 is not defined", d["quality"]["undefined"])


for each in TEACHER:
    setattr(Losses, "test_teacher_" + each, lambda self, each=each: self.with_teacher(each))
setattr(Losses, "test_y_labels", lambda self: self.with_y("labels", self.yes))
setattr(Losses, "test_y_mse", lambda self: self.with_y("mse", self.floats))
setattr(Losses, "test_y_huber", lambda self: self.with_y("huber", self.floats, "--loss", "huber", "--huber-delta", 0.4))
setattr(Losses, "test_y_cosine", lambda self: self.with_y("cosine", self.floats, "--task", "embeddings"))

if __name__ == "__main__":
    main()
