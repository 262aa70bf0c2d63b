"""test_qat.py - training with fake quantization, and with masks that grow, step by step against PyTorch:
a straight-through function with NumPy's definition of the scheme, and torch.topk for what is pruned. In float64 all losses and weights
agree to 1e-10, in float32 ten losses to 1e-5. Codes are NumPy's, one by one; what int4 and float codes of a file say is told by dequantize.
"""
import json
import math

from definition import INTS, float_group, float_value, int_value, ints, nvfp4_divisor
from judge_support import Judge, main, np

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    import sys
    print("SKIPPED: PyTorch is not installed for %s (Debian: python3-torch)" % sys.executable)
    sys.exit(77)

NET = "input x [batch, 20]\nlinear a 32\nrelu\nlinear b 24\nrelu\nlinear c 6\n"
NAMES = ("a", "b", "c")
SEARCHES = 9  # steps


def int8(w, axis, group, asymmetric):
    """What int8 codes of an array say, by docs/numerics.md: one scale for all, per row, or per group of a row. Also the codes."""
    x = w.astype("f4")
    group = group or x.shape[1]
    parts = [x.reshape(1, -1)] if axis is None else [x[:, i:i + group] for i in range(0, x.shape[1], group)]
    values, codes = [], []
    for p in parts:
        if asymmetric:
            pos, neg = np.maximum(p.max(1, keepdims=True), 0), np.maximum(-p.min(1, keepdims=True), 0)
            s = (pos + neg).astype("f4") / np.float32(255)
            z = np.clip(np.rint(np.float32(-128) + neg / s), -128, 127)
            q = np.clip(np.rint(p / s) + z, -128, 127)
        else:
            s = np.abs(p).max(1, keepdims=True) / np.float32(127)
            s, z = np.where(s == 0, np.float32(1), s), np.float32(0)
            q = np.clip(np.rint(p / s), -127, 127)
        values.append((q - z).astype("f4") * s)
        codes.append(q.astype("i1"))
    return np.concatenate(values, 1).reshape(w.shape), np.concatenate(codes, 1).reshape(w.shape)


def searched(scheme, group):
    """What codes with searched scales say of an array: a function of it."""
    def on_grid(w):
        x = w.astype("f4")
        if scheme in INTS:
            q, _, s, _ = ints(x, group, scheme)
            return int_value(q, s, group)
        q, _, s = float_group(scheme, x, group, divisor=nvfp4_divisor([x]) if scheme == "nvfp4" else np.float32(1))
        return float_value(scheme, q, s, group)
    return on_grid


def cast(w, to):
    mantissa, exponent = np.frexp(w)
    return (w.astype("f2") if to == "fp16" else np.ldexp(np.rint(mantissa * 256) / 256, exponent)).astype("f4")


class Through(torch.autograd.Function):
    """The rounded weights forward, the gradient as it is backward."""
    @staticmethod
    def forward(ctx, w, on_grid):
        return torch.from_numpy(on_grid(w.detach().numpy())).to(w.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Learned(torch.autograd.Function):
    """Scales that are a share of what the largest magnitudes give: docs/distillation.md has the gradients. Arrays are
    [scales, weights of one]."""
    @staticmethod
    def forward(ctx, w, share, group):
        x = w.detach().numpy().astype("f4").reshape(-1, group or w.numel())
        limit = (share.detach().numpy()[:, None] * np.abs(x).max(1, keepdims=True).astype("f8")).astype("f4")
        s = limit / np.float32(127)
        q = np.clip(np.rint(x / s), -127, 127)
        y = q.astype("f4") * s
        ctx.inside = torch.from_numpy(np.abs(x) <= limit).to(w.dtype)
        ctx.save_for_backward(torch.from_numpy(x).double(), torch.from_numpy(y).double(), torch.from_numpy(limit).double() / 127,
                              share.detach().double())
        return torch.from_numpy(y).to(w.dtype).reshape(w.shape)

    @staticmethod
    def backward(ctx, grad):
        x, y, s, share = ctx.saved_tensors
        g = grad.double().reshape(x.shape)
        to_share = (g * (y - ctx.inside * x)).sum(1) * share / (s[:, 0] ** 2 * math.sqrt(127 * x.shape[1]))
        return (g * ctx.inside).reshape(grad.shape).to(grad.dtype), to_share.to(grad.dtype), None


def lsq(m, share, group):
    """The same by PyTorch's own derivatives, as the paper writes it: step size s, passed through the rounding."""
    x = m.reshape(-1, group or m.numel())
    s1 = x.detach().abs().amax(1, keepdim=True) / 127
    scaled = share[:, None] / (s1 ** 2 * math.sqrt(127 * x.shape[1]))  # a gradient of s, in units of s1, times 1 / sqrt(n Q)
    s = s1 * ((share[:, None] - scaled).detach() + scaled)
    v = torch.clamp(x / s, -127, 127)
    return (((torch.round(v) - v).detach() + v) * s).reshape(m.shape)


class Qat(Judge):
    def setUp(self):
        super().setUp()
        torch.manual_seed(5)
        torch.set_num_threads(1)

    def make(self, dtype):
        shapes = ((32, 20), (24, 32), (6, 24))
        rng = np.random.default_rng(3)
        nets = [{n + end: rng.uniform(-0.3, 0.3, s if end == ".weight" else s[:1]).astype("f4")
                 for n, s in zip(NAMES, shapes) for end in (".weight", ".bias")} for _ in range(2)]
        self.x = rng.standard_normal((64, 20)).astype("f8" if dtype is torch.float64 else "f4")
        np.savez(self.path("data.npz"), x=self.x)
        with open(self.path("net.txt"), "w") as f:
            f.write(NET)
        for name, net in zip(("teacher.npz", "student.npz"), nets):
            np.savez(self.path(name), **net)
        self.teacher, self.student = [{n: torch.from_numpy(w).to(dtype) for n, w in net.items()} for net in nets]

    def answers(self, net, x, on_grid=None):
        for n in NAMES:
            w = net[n + ".weight"]
            if n + ".share" in net:
                w = Learned.apply(w, net[n + ".share"], on_grid(n))
            elif on_grid:
                w = Through.apply(w, on_grid)
            x = F.linear(x, w, net[n + ".bias"])
            x = F.relu(x) if n != "c" else x
        return x

    def train(self, steps, on_grid, sparsity=None, schedule=None):
        """PyTorch's losses; self.student becomes the masters."""
        net = {n: w.clone().requires_grad_() for n, w in self.student.items()}
        optimizer = torch.optim.Adam(net.values(), lr=0.01)
        x, said, keep = torch.from_numpy(self.x), [], {}
        for k in range(steps):
            if schedule and schedule[0] <= k <= schedule[1] and (k == schedule[1] or (k - schedule[0]) % schedule[2] == 0):
                left = 0 if k == schedule[1] else 1 - (k - schedule[0]) / (schedule[1] - schedule[0])
                for n in NAMES:
                    w = net[n + ".weight"].detach().view(-1)
                    end = int(sparsity * len(w) + 1e-9)
                    go = torch.topk(w.abs(), end - math.ceil(end * left ** 3), largest=False).indices
                    keep[n] = torch.ones(len(w), dtype=w.dtype).index_fill_(0, go, 0)
                    w.mul_(keep[n])
            rows = x[k * 16 % 64:][:16]
            optimizer.zero_grad()
            t, z = self.answers(self.teacher, rows), self.answers(net, rows, on_grid)
            loss = F.kl_div(F.log_softmax(z / 2, 1), F.softmax(t / 2, 1), reduction="batchmean") * 4
            loss.backward()
            for n, mask in keep.items():
                net[n + ".weight"].grad.view(-1).mul_(mask)
            optimizer.step()
            for n in net:
                if n.endswith(".share"):
                    net[n].detach().clamp_(1 / 128, 1)
            for n, mask in keep.items():  # momentum would revive it
                net[n + ".weight"].detach().view(-1).mul_(mask)
                for state in ("exp_avg", "exp_avg_sq"):
                    optimizer.state[net[n + ".weight"]][state].view(-1).mul_(mask)
            said.append(float(loss.detach()))
        self.student = {n: w.detach() for n, w in net.items()}
        return np.array(said)

    def ours(self, *options, steps, student="student.npz"):
        self.vc("distill", "--teacher", self.path("teacher.npz"), "--student", self.path(student), "--graph",
                self.path("net.txt"), "--data", self.path("data.npz"), "-o", self.path("out.npz"), "--steps", steps, "--batch", 16,
                "--order", "file", "--optimizer", "adam", "--lr", 0.01, "--log", self.path("log"), "-q", "--force", *options)
        with open(self.path("log")) as f:
            return np.array([json.loads(line)["loss"] for line in f])

    def values(self, name):
        """The weights of a file as floats, whatever codes it has."""
        self.vc("dequantize", "--include", "*.weight", self.path(name), "-o", self.path("values.npz"), "--force", "-q")
        return self.load(self.path("values.npz"))

    def check(self, option, on_grid, more=(), codes=False, most=40, **kwargs):
        for dtype, steps, bound in ((torch.float64, most, 1e-10), (torch.float32, min(10, most), 1e-5)):
            self.make(dtype)
            theirs = self.train(steps, on_grid, **kwargs)
            ours = self.ours("--fake-quant", option, "--include", "*.weight", "--exclude", "*.bias", "--precision",
                             "f64" if dtype is torch.float64 else "f32", *more, steps=steps)
            self.assertLess(np.abs(ours - theirs).max(), bound)
            if dtype is torch.float64:
                found = self.values("out.npz") if codes else self.load(self.path("out.npz"))
                for n in NAMES:
                    wanted = on_grid(self.student[n + ".weight"].numpy())
                    np.testing.assert_array_equal(found[n + ".weight"], wanted)  # nothing but what codes can say

    def test_tensor(self):
        self.check("int8/tensor", lambda w: int8(w, None, None, False)[0])

    def test_channel(self):
        self.check("int8", lambda w: int8(w, 0, None, False)[0])

    def test_group(self):
        self.check("int8/group:9", lambda w: int8(w, 0, 9, False)[0])

    def test_searched(self):
        """Scales of int4 and float codes are searched before every step; the gradient passes as if there were none. Few steps:
        NumPy's search takes a hundred times as long as one of int8's scales, and each step has new weights."""
        for option, scheme, group in (("int4/group:8", "int4", 8), ("int6/group:128", "int6", 128), ("ternary/group:8", "ternary", 8), ("nf4/group:16", "nf4", 16),
                                      ("fp4", "fp4", 64), ("mxfp4", "mxfp4", 32), ("mxfp8", "mxfp8", 32), ("nvfp4", "nvfp4", 16)):
            with self.subTest(option):
                self.check(option, searched(scheme, group), codes=True, most=SEARCHES)

    def test_searched_codes(self):
        """A student with such codes: its masters begin as what its codes say, and so does its network."""
        for flag, scheme, group in (("--int4", "int4", 8), ("--scheme=int6", "int6", 8), ("--nf4", "nf4", 8), ("--nvfp4", "nvfp4", 16)):
            with self.subTest(flag):
                self.make(torch.float64)
                more = [] if scheme == "nvfp4" else ["--granularity", "group:%d" % group]
                self.vc("quantize", flag, *more, "--include", "*.weight", self.path("student.npz"), "-o", self.path("codes.npz"),
                        "--force", "-q")
                on_grid = searched(scheme, group)
                begun = [self.student[n + ".weight"] for n in NAMES]
                for w in begun:
                    w.copy_(torch.from_numpy(on_grid(w.numpy())))
                first = [w.numpy().copy() for w in begun]

                def once(w):  # of the first step: no search is done on values that codes said
                    if first:
                        return first.pop(0).astype("f4")
                    return on_grid(w)

                theirs = self.train(SEARCHES, once)
                ours = self.ours("--precision", "f64", student="codes.npz", steps=SEARCHES)
                self.assertLess(np.abs(ours - theirs).max(), 1e-10)
                found = self.values("out.npz")
                for n in NAMES:
                    np.testing.assert_array_equal(found[n + ".weight"], on_grid(self.student[n + ".weight"].numpy()))

    def test_learned_gradients(self):
        rng = np.random.default_rng(1)
        m, g = (torch.from_numpy(rng.standard_normal((8, 30))) for _ in range(2))
        for group in (0, 10):
            n_scales = 240 // group if group else 1
            found = []
            for how in (Learned.apply, lsq):
                leaf = m.clone().requires_grad_()
                share = torch.from_numpy(np.linspace(0.4, 0.95, n_scales)).requires_grad_()
                (how(leaf, share, group) * g).sum().backward()
                found.append((leaf.grad, share.grad))
            np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-14)
            self.assertLess(((found[0][1] - found[1][1]) / found[1][1].abs().max()).abs().max(), 1e-4)

    def learn(self, option, groups, dtype, steps, student="student.npz", fake=True):
        for n in NAMES:
            w = self.student[n + ".weight"]
            self.student[n + ".share"] = torch.ones(w.numel() // (groups(n) or w.numel()), dtype=dtype)
        theirs = self.train(steps, groups)
        more = ["--fake-quant", option, "--include", "*.weight", "--exclude", "*.bias"] if fake else []
        ours = self.ours("--learn-scales", "--precision", "f64" if dtype is torch.float64 else "f32", *more, steps=steps, student=student)
        return np.abs(ours - theirs).max()

    def wanted(self, n, groups):
        """Values and scales in the end."""
        w, share = self.student[n + ".weight"], self.student[n + ".share"]
        x = np.abs(w.numpy().astype("f4").reshape(len(share), -1)).max(1).astype("f8")
        return Learned.apply(w, share, groups(n)).numpy(), (share.numpy() * x).astype("f4") / np.float32(127)

    def test_learned_scales(self):
        rows, moved = {"a": 20, "b": 32, "c": 24}, 0
        for option, groups in (("int8/tensor", lambda n: 0), ("int8", rows.get), ("int8/group:4", lambda n: 4)):
            for dtype, steps, bound in ((torch.float64, 40, 1e-10), (torch.float32, 10, 1e-5)):
                self.make(dtype)
                self.assertLess(self.learn(option, groups, dtype, steps), bound)
            self.make(torch.float64)
            self.learn(option, groups, torch.float64, 40)
            found = self.load(self.path("out.npz"))
            for n in NAMES:
                values, scales = self.wanted(n, groups)
                np.testing.assert_array_equal(found[n + ".weight"], values)
                moved += (self.student[n + ".share"] < 0.99).sum()
            self.vc("quantize", "--int8", "--granularity", "channel" if option == "int8" else option[5:], "--include", "*.weight",
                    self.path("out.npz"), "-o", self.path("codes.npz"), "--force", "-q")  # has the learned scales
            codes = self.load(self.path("codes.npz"))
            for n in NAMES:
                np.testing.assert_array_equal(codes[n + ".weight.scale"].reshape(-1), self.wanted(n, groups)[1])
        self.assertGreater(moved, 0)

    def test_learned_codes(self):
        for granularity, groups in (("tensor", lambda n: 0), ("group:4", lambda n: 4)):
            self.make(torch.float64)
            self.vc("quantize", "--int8", "--granularity", granularity, "--include", "*.weight", self.path("student.npz"), "-o",
                    self.path("codes.npz"), "--force", "-q")
            for n in NAMES:
                w = self.student[n + ".weight"]
                w.copy_(torch.from_numpy(int8(w.numpy().reshape(-1, groups(n) or w.numel()), 0, None, False)[0]).reshape(w.shape))
            self.assertLess(self.learn(None, groups, torch.float64, 40, "codes.npz", fake=False), 1e-10)
            found = self.load(self.path("out.npz"))
            for n in NAMES:
                values, scales = self.wanted(n, groups)
                q = found[n + ".weight"].reshape(len(scales), -1)
                np.testing.assert_array_equal(found[n + ".weight.scale"].reshape(-1), scales)
                np.testing.assert_array_equal((q.astype("f4") * scales[:, None]).reshape(values.shape), values)

    def test_casts(self):
        for to in ("fp16", "bf16"):
            self.check(to, lambda w: cast(w, to))

    def test_masks_that_grow(self):
        self.check("int8/tensor", lambda w: int8(w, None, None, False)[0], sparsity=0.7, schedule=(1, 8, 3),
                   more=("--sparsity", "0.7", "--prune-steps", "1:8:3"))

    def test_student_with_codes(self):
        for granularity, axis, group in (("tensor", None, None), ("channel", 0, None), ("group:9", 0, 9)):
            for asymmetric in (False, True):
                self.make(torch.float64)
                self.vc("quantize", "--int8", "--granularity", granularity, *["--asymmetric"] * asymmetric, "--include", "*.weight",
                        self.path("student.npz"), "-o", self.path("codes.npz"), "--force", "-q")
                for n in NAMES:  # masters begin as what the codes say
                    w = self.student[n + ".weight"]
                    w.copy_(torch.from_numpy(int8(w.numpy(), axis, group, asymmetric)[0]))
                begun, first = {n: self.student[n + ".weight"].clone() for n in NAMES}, [True] * 3

                def on_grid(w):  # in the first step the student is what its file says
                    for i, n in enumerate(NAMES):
                        if first[i] and w.shape == begun[n].shape:
                            first[i] = False
                            return w.astype("f4")
                    return int8(w, axis, group, asymmetric)[0]

                theirs = self.train(40, on_grid)
                ours = self.ours("--precision", "f64", student="codes.npz", steps=40)
                self.assertLess(np.abs(ours - theirs).max(), 1e-10)
                found = self.load(self.path("out.npz"))
                for n in NAMES:
                    np.testing.assert_array_equal(found[n + ".weight"],
                                                  int8(self.student[n + ".weight"].numpy(), axis, group, asymmetric)[1])


if __name__ == "__main__":
    main()
