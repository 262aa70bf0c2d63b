"""test_recurrent.py - RNN, GRU and LSTM that learn, against PyTorch in float64: losses of 20 steps, the gradients of the first one and
the weights at the end agree to 1e-10. nn.RNN, nn.GRU and nn.LSTM judge what PyTorch has (layers, both directions, lengths by row);
ONNX's cells, written out as its operators say and differentiated by autograd, judge the rest: initial states, peepholes, clips,
coupled gates, every function, rows or steps first. With one thread and with three the bytes are the same.
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

ROWS, STEPS, WIDTH, HIDDEN, OUT, BATCH = 24, 7, 5, 6, 3, 8
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# PyTorch's gates in ONNX's order: i, f, g, o are i, o, f, c; r, z, n are z, r, h.
ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}

FUNCTIONS = {
    "Sigmoid": lambda x, a, b: torch.sigmoid(x), "Tanh": lambda x, a, b: torch.tanh(x), "Relu": lambda x, a, b: F.relu(x),
    "HardSigmoid": lambda x, a, b: (a * x + b).clamp(0, 1), "Softsign": lambda x, a, b: F.softsign(x),
    "Softplus": lambda x, a, b: F.softplus(x), "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: F.leaky_relu(x, a), "ThresholdedRelu": lambda x, a, b: F.threshold(x, a, 0.0),
    "ScaledTanh": lambda x, a, b: a * torch.tanh(b * x), "Elu": lambda x, a, b: F.elu(x, a),
}
NUMBERS = {"HardSigmoid": (0.3, 0.45), "Affine": (0.6, 0.05), "LeakyRelu": (0.2,), "ThresholdedRelu": (0.1,), "ScaledTanh": (1.3, 0.7),
           "Elu": (0.8,)}


def numbers_of(names):
    """The lists activation_alpha and activation_beta of these functions, and both numbers of each."""
    of = [NUMBERS.get(n, ()) for n in names]
    return [x[0] for x in of if x], [x[1] for x in of if len(x) > 1], [tuple(x) + (0.0,) * (2 - len(x)) for x in of]


class Cell:
    """ONNX's operator, a step behind the other, all rows at once."""

    def __init__(self, op, direction="forward", functions=None, clip=None, couples=False, resets_last=False):
        self.op, self.clip, self.couples, self.resets_last = op, clip, couples, resets_last
        self.reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        each = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[op]
        self.functions = functions or each * len(self.reverse)
        self.numbers = numbers_of(self.functions)[2]

    def f(self, d, k, x, clips=True):
        n = len(self.functions) // len(self.reverse)
        if self.clip is not None and clips:
            x = x.clamp(-self.clip, self.clip)
        return FUNCTIONS[self.functions[n * d + k]](x, *self.numbers[n * d + k])

    def step(self, d, x, h, c, w, r, b, p):
        size, n = HIDDEN, GATES[self.op] * HIDDEN
        wb, rb = b[:n], b[n:]
        if self.op == "RNN":
            return self.f(d, 0, x @ w.T + h @ r.T + wb + rb), c
        if self.op == "GRU":
            both = x @ w[:2 * size].T + h @ r[:2 * size].T + wb[:2 * size] + rb[:2 * size]
            z, reset = self.f(d, 0, both[:, :size]), self.f(d, 0, both[:, size:])
            new = x @ w[2 * size:].T + wb[2 * size:]
            if self.resets_last:
                new = new + reset * (h @ r[2 * size:].T + rb[2 * size:])
            else:
                new = new + (reset * h) @ r[2 * size:].T + rb[2 * size:]
            return (1 - z) * self.f(d, 1, new) + z * h, c
        i, o, f, g = (x @ w.T + h @ r.T + wb + rb).split(size, 1)
        i = self.f(d, 0, i + p[:size] * c)
        f = 1 - i if self.couples else self.f(d, 0, f + p[2 * size:] * c)
        c = f * c + i * self.f(d, 1, g)
        return self.f(d, 0, o + p[size:2 * size] * c) * self.f(d, 2, c, False), c

    def __call__(self, x, w, r, b, h0, c0, p, lengths):
        """x: [rows, steps, width]. Returns [rows, steps, directions, hidden], last states and cells [directions, rows, hidden]."""
        all_y, hs, cs = [], [], []
        for d, reverse in enumerate(self.reverse):
            rows = []
            for row in range(x.shape[0]):
                h, c, y = h0[d, row:row + 1], c0[d, row:row + 1], {}
                n = int(lengths[row])
                if n == 0:  # onnxruntime: such a row ends with states of 0
                    h, c = h * 0, c * 0
                for step in (range(n - 1, -1, -1) if reverse else range(n)):
                    h, c = self.step(d, x[row:row + 1, step], h, c, w[d], r[d], b[d], p[d])
                    y[step] = h
                rows.append((torch.cat([y.get(k, torch.zeros_like(h)) for k in range(x.shape[1])]), h, c))
            all_y.append(torch.stack([y for y, _, _ in rows]))
            hs.append(torch.cat([h for _, h, _ in rows]))
            cs.append(torch.cat([c for _, _, c in rows]))
        return torch.stack(all_y, 2), torch.stack(hs), torch.stack(cs)


def text(names, inputs, nodes, shapes, constants=""):
    meta = ", ".join('"vcompress.parameter:%s" : "%s"' % (n, n) for n in names)
    arguments = ", ".join(inputs + ["float[%s] %s" % (",".join(map(str, s)), n) for n, s in zip(names, shapes)])
    return '<ir_version: 10, opset_import: ["" : 21], metadata_props: [%s]>\ng (%s) => (float[n, %d] y)%s {\n%s\n}\n' % (
        meta, arguments, OUT, constants, "\n".join(nodes))


class Recurrent(Judge):
    def setUp(self):
        super().setUp()
        torch.manual_seed(3)
        torch.set_num_threads(1)
        rng = np.random.default_rng(5)
        self.x = rng.standard_normal((ROWS, STEPS, WIDTH))
        self.y = rng.standard_normal((ROWS, OUT))
        self.lengths = rng.integers(0, STEPS + 1, ROWS)
        self.lengths[:3] = 0, STEPS, 1

    def learn(self, graph, parameters, of, with_lengths):
        """parameters: tensors of the file by name. of(tensors, rows): the outputs."""
        with open(self.path("net.onnxtxt"), "w") as f:
            f.write(graph)
        np.savez(self.path("start.npz"), **{n: p.detach().numpy() for n, p in parameters.items()})
        np.savez(self.path("data.npz"), x=self.x, y=self.y, **({"lengths": self.lengths} if with_lengths else {}))
        for threads in (1, 3):
            self.vc("distill", "--student", self.path("start.npz"), "--graph", self.path("net.onnxtxt"), "--data", self.path("data.npz"),
                    "-o", self.path("out%d.npz" % threads), "--steps", 20, "--batch", BATCH, "--order", "file", "--optimizer", "momentum",
                    "--lr", 0.05, "--precision", "f64", "--log", self.path("log"), "--dump-gradients", self.path("grad.npz"), "--alpha", 0,
                    "--task", "regression", "--threads", threads, "-q", "-f")
        one, three = (self.load(self.path("out%d.npz" % threads)) for threads in (1, 3))
        for n in parameters:
            self.assertEqual(one[n].tobytes(), three[n].tobytes(), n)
        optimizer = torch.optim.SGD(list(parameters.values()), lr=0.05, momentum=0.9)
        said, first, wanted = [], None, torch.from_numpy(self.y)
        for k in range(20):
            rows = slice(k * BATCH % ROWS, k * BATCH % ROWS + BATCH)
            optimizer.zero_grad()
            loss = F.mse_loss(of(rows), wanted[rows])
            loss.backward()
            first = first or {n: p.grad.numpy().copy() for n, p in parameters.items()}
            optimizer.step()
            said.append(loss.item())
        with open(self.path("log")) as f:
            found = np.array([json.loads(line)["loss"] for line in f])
        self.assertLess(np.abs(found - np.array(said)).max(), 1e-10)
        gradients, weights = self.load(self.path("grad.npz")), self.load(self.path("out1.npz"))
        for n, p in parameters.items():
            self.assertLess(np.abs(gradients[n] - first[n]).max(), 1e-10, n)
            self.assertGreater(np.abs(first[n]).max(), 1e-7, n)
            self.assertLess(np.abs(weights[n] - p.detach().numpy()).max(), 1e-10, n)

    # ---- ONNX's cells ----

    def cell(self, op, direction="forward", functions=None, clip=None, couples=False, resets_last=False, bias=True, states=False,
             peepholes=False, lengths=False, rows_first=True, scale=0.5):
        cell = Cell(op, direction, functions, clip, couples, resets_last)
        d, n, g = len(cell.reverse), HIDDEN, GATES[op]
        shapes = {"w": (d, g * n, WIDTH), "r": (d, g * n, n), "o": (n, OUT), "q": (n, OUT)}
        shapes.update({"b": (d, 2 * g * n)} if bias else {})
        shapes.update({"p": (d, 3 * n)} if peepholes else {})
        shapes.update({"s": (WIDTH, d * n)} if states else {})
        shapes.update({"t": (WIDTH, d * n)} if states and op == "LSTM" else {})
        t = {k: (torch.randn(s, dtype=torch.float64) * scale).requires_grad_() for k, s in shapes.items()}
        attributes = {"hidden_size": n, "direction": '"%s"' % direction, "layout": int(rows_first)}
        if functions:
            alphas, betas, _ = numbers_of(functions)
            attributes["activations"] = "[%s]" % ", ".join('"%s"' % f for f in functions)
            attributes.update({"activation_alpha": alphas} if alphas else {})
            attributes.update({"activation_beta": betas} if betas else {})
        attributes.update({"clip": clip} if clip else {})
        attributes.update({"input_forget": 1} if couples else {})
        attributes.update({"linear_before_reset": 1} if resets_last else {})
        inputs = ["xt" if not rows_first else "x", "w", "r", "b" if bias else "", "lengths" if lengths else "",
                  "h0" if states else ""] + (["c0" if states else "", "p" if peepholes else ""] if op == "LSTM" else [])
        while not inputs[-1]:
            inputs.pop()
        nodes, constants = [], " <int64[1] one = {1}, int64[1] both = {%d}, int64[3] split = {0, %d, %d}>" % (2, d, n)
        if not rows_first:
            nodes.append("xt = Transpose<perm = [1, 0, 2]>(x)")
        for state, weights in (("h0", "s"), ("c0", "t")):
            if weights in t:  # [n, directions, hidden], which steps first turns
                nodes += ["%s1 = ReduceMean<keepdims = 0>(x, one)" % state, "%s2 = MatMul(%s1, %s)" % (state, state, weights)]
                nodes.append("%s3 = Tanh(%s2)" % (state, state))
                nodes.append("%s%s = Reshape(%s3, split)" % (state, "" if rows_first else "4", state))
                nodes += [] if rows_first else ["%s = Transpose<perm = [1, 0, 2]>(%s4)" % (state, state)]
        nodes.append("a, h%s = %s<%s>(%s)" % (", c" if op == "LSTM" else "", op, ", ".join("%s = %s" % i for i in attributes.items()), ", ".join(inputs)))
        # y: steps and directions of a averaged, and the last states (of LSTM cells) beside.
        axes = "[%d, %d]" % ((1, 2) if rows_first else (0, 1))
        nodes += ["aa = ReduceMean<keepdims = 0>(a, dims)", "ha = ReduceMean<keepdims = 0>(%s, dim)" % ("c" if op == "LSTM" else "h"),
                  "y1 = MatMul(aa, o)", "y2 = MatMul(ha, q)", "y = Add(y1, y2)"]
        constants = constants[:-1] + ", int64[2] dims = {%s}, int64[1] dim = {%d}>" % (axes[1:-1], 1 if rows_first else 0)
        x = torch.from_numpy(self.x)

        def of(rows):
            part, k = x[rows], x[rows].shape[0]
            zero = torch.zeros(d, k, n, dtype=torch.float64)

            def state(name):
                return torch.tanh(part.mean(1) @ t[name]).reshape(k, d, n).transpose(0, 1) if name in t else zero

            a, h, c = cell(part, t["w"], t["r"], t["b"] if bias else torch.zeros(d, 2 * g * n, dtype=torch.float64), state("s"), state("t"),
                           t["p"] if peepholes else torch.zeros(d, 3 * n, dtype=torch.float64),
                           self.lengths[rows] if lengths else [STEPS] * k)
            return a.mean((1, 2)) @ t["o"] + (c if op == "LSTM" else h).mean(0) @ t["q"]

        arrays = ["float[n, %d, %d] x" % (STEPS, WIDTH)] + (["int64[n] lengths"] if lengths else [])
        self.learn(text(list(t), arrays, nodes, [tuple(v.shape) for v in t.values()], constants), t, of, lengths)

    # ---- PyTorch's layers ----

    def layers(self, op, lengths):
        """Two layers, both directions."""
        module = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}[op](WIDTH, HIDDEN, 2, batch_first=True, bidirectional=True).double()
        g, n = GATES[op], HIDDEN
        onnx = {}  # what ONNX's file holds, from leaves that PyTorch's parameters are set from in every step
        for layer in range(2):
            for name, kind in (("w", "weight_ih"), ("r", "weight_hh"), ("b", "bias")):
                both = []
                for end in ("", "_reverse"):
                    def turned(key):
                        p = getattr(module, "%s_l%d%s" % (key, layer, end)).detach()
                        return torch.cat([p.reshape(g, n, -1)[k] for k in ORDER[op]]).reshape(p.shape)
                    both.append(turned(kind) if kind != "bias" else torch.cat([turned("bias_ih"), turned("bias_hh")]))
                onnx["%s%d" % (name, layer)] = torch.stack(both).clone().requires_grad_()
        onnx["o"] = (torch.randn(2 * n, OUT, dtype=torch.float64) * 0.5).requires_grad_()
        back = [ORDER[op].index(k) for k in range(g)]

        def of(rows):
            values = {}
            for layer in range(2):
                for d, end in enumerate(("", "_reverse")):
                    def torched(x):
                        return torch.cat([x.reshape(g, n, -1)[k] for k in back]).reshape(x.shape)
                    values["weight_ih_l%d%s" % (layer, end)] = torched(onnx["w%d" % layer][d])
                    values["weight_hh_l%d%s" % (layer, end)] = torched(onnx["r%d" % layer][d])
                    values["bias_ih_l%d%s" % (layer, end)] = torched(onnx["b%d" % layer][d][:g * n])
                    values["bias_hh_l%d%s" % (layer, end)] = torched(onnx["b%d" % layer][d][g * n:])
            x = torch.from_numpy(self.x)[rows]
            flat = [values[name] for name in [name for name, _ in module.named_parameters()]]
            state = torch.zeros(4, x.shape[0], n, dtype=torch.float64)
            states = (state, state) if op == "LSTM" else state
            call = {"RNN": torch.rnn_tanh, "GRU": torch.gru, "LSTM": torch.lstm}[op]
            if not lengths:
                return call(x, states, flat, True, 2, 0.0, False, True, True)[0].mean(1) @ onnx["o"]
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.from_numpy(np.maximum(self.lengths[rows], 1)), batch_first=True, enforce_sorted=False)
            states = tuple(s[:, packed.sorted_indices] for s in states) if op == "LSTM" else states
            out = call(packed.data, packed.batch_sizes, states, flat, True, 2, 0.0, False, True)[0]
            out = nn.utils.rnn.PackedSequence(out, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
            return nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=STEPS)[0].mean(1) @ onnx["o"]

        self.lengths = np.maximum(self.lengths, 1)
        attributes = 'hidden_size = %d, direction = "bidirectional"' % n + (", linear_before_reset = 1" if op == "GRU" else "")
        more = ", lengths" if lengths else ""
        nodes = ["xt = Transpose<perm = [1, 0, 2]>(x)", "a0 = %s<%s>(xt, w0, r0, b0%s)" % (op, attributes, more),
                 "t0 = Transpose<perm = [0, 2, 1, 3]>(a0)", "s0 = Reshape(t0, flat)",
                 "a1 = %s<%s>(s0, w1, r1, b1%s)" % (op, attributes, more), "t1 = Transpose<perm = [2, 0, 1, 3]>(a1)",
                 "s1 = Reshape(t1, flat)", "m = ReduceMean<keepdims = 0>(s1, one)", "y = MatMul(m, o)"]
        arrays = ["float[n, %d, %d] x" % (STEPS, WIDTH)] + (["int64[n] lengths"] if lengths else [])
        constants = " <int64[1] one = {1}, int64[3] flat = {0, 0, -1}>"
        self.learn(text(list(onnx), arrays, nodes, [tuple(v.shape) for v in onnx.values()], constants), onnx, of, lengths)


def add(name, method, *args, **more):
    setattr(Recurrent, "test_" + name, lambda self: getattr(self, method)(*args, **more))


for op in GATES:
    low = op.lower()
    functions = {"RNN": 1, "GRU": 2, "LSTM": 3}[op]
    add(low + "_layers", "layers", op, False)
    add(low + "_layers_lengths", "layers", op, True)
    add(low + "_plain", "cell", op, bias=False, rows_first=False)
    add(low + "_all", "cell", op, "bidirectional", states=True, lengths=True, peepholes=op == "LSTM")
    add(low + "_steps_first", "cell", op, "reverse", states=True, lengths=True, rows_first=False)
    add(low + "_clip", "cell", op, clip=0.4, peepholes=op == "LSTM")
    names = sorted(FUNCTIONS)
    for k in range(0, len(names), 2 * functions):
        add("%s_functions_%d" % (low, k), "cell", op, "bidirectional", functions=(names * 2)[k:k + 2 * functions], scale=0.2)  # some have no bound
add("gru_resets_last", "cell", "GRU", "bidirectional", resets_last=True, states=True, lengths=True)
add("gru_resets_last_plain", "cell", "GRU", resets_last=True, bias=False, clip=0.5)
add("lstm_couples", "cell", "LSTM", couples=True, peepholes=True, states=True)

class Names(Judge):
    """PyTorch's own modules by their state dicts and a list of layers: answers, and what removed hidden units leave."""

    def check(self, kind, layers, both, bias, last, proj=0):
        class Net(nn.Module):
            def __init__(net, hidden, proj):
                super().__init__()
                net.enc = getattr(nn, kind)(WIDTH, hidden, layers, batch_first=True, bidirectional=both, bias=bias, **dict(proj_size=proj) if proj else {})
                net.fc = nn.Linear((proj or hidden) * (1 + both), OUT)

            def forward(net, x):
                y, h = net.enc(x)
                h = h[0] if kind == "LSTM" else h
                return net.fc(y if not last else torch.cat([h[-2], h[-1]], 1) if both else h[-1])

        torch.manual_seed(7)
        net, x = Net(12, proj), torch.randn(9, STEPS, WIDTH)
        torch.save(net.state_dict(), self.path("net.pt"))
        np.savez(self.path("x.npz"), x=x.numpy())
        words = ["bidirectional=yes"] * both + ["bias=no"] * (not bias) + ["last=yes"] * last + ["proj=%d" % proj] * (proj > 0)
        with open(self.path("net.txt"), "w") as f:
            f.write("input x [batch, %d, %d]\n%s enc 12 layers=%d %s\nlinear fc %d\noutput\n" % (STEPS, WIDTH, kind.lower(), layers, " ".join(words), OUT))
        self.vc("prune", "--structured", "0.25", "--round-to", "1", "--graph", self.path("net.txt"), self.path("net.pt"), "-o", self.path("less.pt"), "-f")
        less, state = Net(9, proj - proj // 4), torch.load(self.path("less.pt"))
        less.load_state_dict(state)
        for name, of in ("net.pt", net), ("less.pt", less):
            self.vc("graph", "--weights", self.path(name), "--data", self.path("x.npz"), "--outputs", self.path("y.npz"), "-f", self.path("net.txt"))
            self.assertLess(np.abs(next(iter(self.load(self.path("y.npz")).values())) - of(x).detach().numpy()).max(), 1e-6)

    def test_modules(self):
        for kind, layers, both, bias, last in (("LSTM", 2, True, True, True), ("LSTM", 1, False, False, False), ("GRU", 2, False, True, True),
                                               ("GRU", 1, True, False, False), ("RNN", 2, True, True, False)):
            self.check(kind, layers, both, bias, last)
        self.assertIn("takes [batch, steps, features]", self.refuse_list("input x [batch, 5]\nlstm enc 12\noutput\n"))
        self.assertIn("no tensor 'enc.weight_ih_l2'", self.refuse_list("input x [batch, 7, 5]\nrnn enc 12 layers=3 bidirectional=yes\noutput\n"))
        self.check("LSTM", 1, False, False, False, 4)
        self.check("LSTM", 2, True, True, True, 5)
        self.assertIn("states of 'enc.weight_hr_l0' have projections: proj=P says", self.refuse_list("input x [batch, 7, 5]\nlstm enc 12\noutput\n"))

    def refuse_list(self, text):
        with open(self.path("bad.txt"), "w") as f:
            f.write(text)
        done = run("graph", "--weights", self.path("net.pt"), self.path("bad.txt"))
        self.assertEqual(done.code, 3)
        return done.err


if __name__ == "__main__":
    main()
