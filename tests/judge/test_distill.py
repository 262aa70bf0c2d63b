"""test_distill.py - training, step by step, against PyTorch with the same weights, rows and options: in float64 every loss
of 100 steps and every weight at the end agree to 1e-10; in float32 the losses of 10 steps and the gradients of the first
one to 1e-5, which is what any two float32 implementations can agree to (docs/distillation.md).
"""
import json

from definition import dynamic_map
from judge_support import Judge, main, np

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    import sys
    print("SKIPPED: PyTorch is not installed for %s (Debian: python3-torch)" % sys.executable)
    sys.exit(77)

CNN = """input x [batch, 1, 14, 14]
conv conv1 16 kernel=3 pad=1
relu
maxpool kernel=2
conv conv2 32 kernel=3 pad=1
relu
maxpool kernel=2
flatten
linear fc1 128
relu
linear fc2 10
"""

MLP = """input x [batch, 20]
linear a 32
relu
linear b 24
relu
linear c 6
"""


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(288, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(20, 32), nn.Linear(32, 24), nn.Linear(24, 6)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.a(x)))))


def losses(z, t, y, alpha, temperature):
    """The two terms, as PyTorch has them: means over rows."""
    ce = F.cross_entropy(z, y) if y is not None else torch.zeros((), dtype=z.dtype)
    kd = torch.zeros((), dtype=z.dtype)
    if t is not None:
        kd = F.kl_div(F.log_softmax(z / temperature, 1), F.softmax(t / temperature, 1),
                      reduction="batchmean") * temperature ** 2
    return alpha * kd + (1 - alpha) * ce, kd, ce


def code_and_back(x, numbers, look=lambda both: None):
    """A state as codes, in blocks of 256, and what is left of it. look((codes, factors)) sees both."""
    flat = np.zeros(-(-x.numel() // 256) * 256)
    flat[:x.numel()] = x.numpy().ravel()
    factors = np.abs(flat.reshape(-1, 256)).max(1).astype("f4")[:, None]
    safe = np.where(factors > 0, factors, np.float32(1))
    scaled = flat.reshape(-1, 256).astype("f4") / safe
    borders = (numbers[1:] + numbers[:-1]) / np.float32(2)
    codes = np.where(scaled < 0, np.searchsorted(borders, scaled, "right"), np.searchsorted(borders, scaled, "left"))
    codes = np.where((scaled < 0) & (numbers[codes] == 0), codes - 1, codes)
    look((codes.reshape(-1)[:x.numel()], factors))
    back = numbers[codes].astype("f8") * factors.astype("f8")
    return torch.from_numpy(back.reshape(-1)[:x.numel()].reshape(tuple(x.shape)).copy())


class Rounded(torch.autograd.Function):
    """A value and its gradient as 16 bits hold them."""
    @staticmethod
    def forward(ctx, x, kind):
        ctx.kind = kind
        return x.to(kind).float()

    @staticmethod
    def backward(ctx, g):
        return g.to(ctx.kind).float(), None


class Copied(torch.autograd.Function):
    """A weight as 16 bits hold it; its gradient is that of the weight."""
    @staticmethod
    def forward(ctx, x, kind):
        return x.to(kind).float()

    @staticmethod
    def backward(ctx, g):
        return g, None


def in_half(mlp, x, kind):
    """The logits, where every node's result is rounded: a product, its bias, ReLU."""
    x = Rounded.apply(x, kind)
    for k, layer in enumerate((mlp.a, mlp.b, mlp.c)):
        x = Rounded.apply(x @ Copied.apply(layer.weight, kind).t(), kind)
        x = Rounded.apply(x + Copied.apply(layer.bias, kind), kind)
        x = Rounded.apply(F.relu(x), kind) if k < 2 else x
    return x


class OwnScaler:
    """torch.amp.GradScaler, for versions whose one does nothing on a CPU."""
    def __init__(self):
        self.value, self.good = 65536.0, 0

    def get_scale(self):
        return self.value

    def scale(self, loss):
        return loss * self.value

    def step(self, optimizer):
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        for g in grads:
            g.div_(self.value)
        self.finite = all(torch.isfinite(g).all() for g in grads)
        if self.finite:
            optimizer.step()

    def update(self):
        self.good = self.good + 1 if self.finite else 0
        self.value *= 0.5 if not self.finite else 2 if self.good == 2000 else 1
        self.good %= 2000


def grad_scaler():
    try:
        return torch.amp.GradScaler("cpu")
    except (AttributeError, TypeError):
        return OwnScaler()


def exact(module):
    """Parts that transformers computes in float32 in every model, as double."""
    def norm(x):
        return module.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)

    def rotary(x, position_ids, *_, **__):
        size = module.config.hidden_size // module.config.num_attention_heads
        by = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angle = position_ids[..., None].double() * by
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)

    name = type(module).__name__
    module.forward = norm if name == "LlamaRMSNorm" else rotary if name == "LlamaRotaryEmbedding" else module.forward


class Distill(Judge):
    def setUp(self):
        super().setUp()
        torch.manual_seed(5)
        torch.set_num_threads(1)

    def save(self, name, module):
        np.savez(self.path(name), **{n: p.detach().numpy() for n, p in module.state_dict().items()})

    def make(self, kind, shape, rows, classes, dtype):
        self.teacher, self.student = kind().to(dtype), kind().to(dtype)
        rng = np.random.default_rng(3)
        self.x = rng.standard_normal((rows,) + shape).astype("f8" if dtype is torch.float64 else "f4")
        self.y = rng.integers(0, classes, rows)
        np.savez(self.path("data.npz"), x=self.x, y=self.y)
        with open(self.path("net.txt"), "w") as f:
            f.write(CNN if kind is Cnn else MLP)
        self.save("teacher.npz", self.teacher)
        self.save("student.npz", self.student)

    def train(self, optimizer, steps, batch, alpha, temperature, schedule=None, clip=None, masks=None, accum=1):
        """PyTorch's losses, its gradients of the first step, and its weights at the end."""
        x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        per, said, first = batch * accum, [], None
        for k in range(steps):
            at = k * per % len(x)
            rows = slice(at, at + per)
            if schedule is not None:
                for group in optimizer.param_groups:
                    group["lr"] = schedule(k)
            optimizer.zero_grad()
            with torch.no_grad():
                t = self.teacher(x[rows])
            loss, kd, ce = losses(self.student(x[rows]), t if alpha else None, y[rows], alpha, temperature)
            loss.backward()
            for name, mask in (masks or {}).items():
                self.student.get_parameter(name).grad.mul_(mask)
            norm = float(torch.nn.utils.clip_grad_norm_(self.student.parameters(), clip if clip else 1e30))
            if first is None:
                first = {n: p.grad.numpy().copy() for n, p in self.student.named_parameters()}
            optimizer.step()
            said.append((float(loss), float(kd), float(ce), norm))
        return np.array(said), first

    def ours(self, *options, steps, batch, accum=1):
        self.vc("distill", "--student", self.path("student.npz"), "--graph", self.path("net.txt"), "--data",
                self.path("data.npz"), "-o", self.path("out.npz"), "--steps", steps, "--batch", batch, "--accum", accum,
                "--order", "file", "--log", self.path("log"), "--dump-gradients", self.path("grad.npz"), "-q", "--force",
                *options)
        with open(self.path("log")) as f:
            lines = [json.loads(line) for line in f]
        self.assertEqual([line["step"] for line in lines], list(range(1, steps + 1)))
        nan = float("nan")
        return np.array([[nan if line[k] is None else line[k] for k in ("loss", "kd", "ce", "grad_norm")]
                         for line in lines])

    def compare_weights(self, bound):
        found = self.load(self.path("out.npz"))
        wanted = {n: p.detach().numpy() for n, p in self.student.state_dict().items()}
        self.assertEqual(list(found), list(wanted))
        worst = 0
        for n, w in wanted.items():
            self.assertEqual((found[n].dtype, found[n].shape), (w.dtype, w.shape), n)
            worst = max(worst, np.abs(found[n] - w).max())
        self.assertLess(worst, bound)

    def teacher_of(self, alpha, temperature):
        return ("--teacher", self.path("teacher.npz"), "--alpha", alpha, "--temperature", temperature)

    def test_cnn_f64(self):
        """100 steps of the CNN with the teacher and Adam."""
        self.make(Cnn, (1, 14, 14), 320, 10, torch.float64)
        wanted, first = self.train(torch.optim.Adam(self.student.parameters(), lr=1e-3), 100, 32, 0.9, 4)
        found = self.ours(*self.teacher_of(0.9, 4), "--optimizer", "adam", "--lr", "1e-3", "--precision", "f64", steps=100,
                          batch=32)
        self.assertLess(np.abs(found - wanted).max(), 1e-10)
        self.compare_weights(1e-10)
        gradients = self.load(self.path("grad.npz"))
        for n, g in first.items():
            self.assertLess(np.abs(gradients[n] - g).max(), 1e-14, n)

    def test_cnn_f32(self):
        self.make(Cnn, (1, 14, 14), 320, 10, torch.float32)
        wanted, first = self.train(torch.optim.Adam(self.student.parameters(), lr=1e-3), 10, 32, 0.9, 4)
        found = self.ours(*self.teacher_of(0.9, 4), "--optimizer", "adam", "--lr", "1e-3", steps=10, batch=32)
        self.assertLess(np.abs(found - wanted)[:, :3].max(), 1e-5)
        gradients = self.load(self.path("grad.npz"))
        for n, g in first.items():
            self.assertLess(np.abs(gradients[n] - g).max(), 1e-5 * np.abs(g).max(), n)

    def check_mlp(self, make_optimizer, options, alpha=0.5, temperature=2.0, accum=1, **kwargs):
        self.make(Mlp, (20,), 160, 6, torch.float64)
        wanted, _ = self.train(make_optimizer(self.student.parameters()), 60, 16, alpha, temperature, accum=accum, **kwargs)
        teacher = self.teacher_of(alpha, temperature) if alpha else ("--alpha", "0")
        found = self.ours(*teacher, *options, "--precision", "f64", steps=60, batch=16, accum=accum)
        columns = [0, 1, 2, 3] if alpha else [0, 2, 3]
        self.assertLess(np.abs(found - wanted)[:, columns].max(), 1e-10)
        self.compare_weights(1e-10)

    def test_sgd_labels(self):
        self.check_mlp(lambda p: torch.optim.SGD(p, lr=0.1), ("--optimizer", "sgd", "--lr", "0.1"), alpha=0)

    def test_momentum_nesterov_decay(self):
        self.check_mlp(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
                       ("--optimizer", "momentum", "--lr", "0.05", "--nesterov", "--weight-decay", "0.01", "--decay-1d"))

    def test_adamw(self):
        self.check_mlp(lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
                       ("--optimizer", "adamw", "--lr", "0.01", "--betas", "0.8,0.95", "--eps", "1e-6", "--weight-decay",
                        "0.1", "--decay-1d"), alpha=1.0, temperature=3.0)

    def test_adam8bit(self):
        """Adam with states of 8 bits against its formula, where every step rounds the states to codes."""
        self.make(Cnn, (1, 14, 14), 128, 10, torch.float64)
        maps, b1, b2, eps, lr, decay = (dynamic_map(True), dynamic_map(False)), 0.9, 0.999, 1e-8, 1e-3, 0.1
        states = {n: [torch.zeros_like(p), torch.zeros_like(p)] for n, p in self.student.named_parameters()}
        wanted = []
        for step in range(1, 21):
            rows = slice((step - 1) * 32 % 128, (step - 1) * 32 % 128 + 32)
            x, y = torch.from_numpy(self.x[rows]), torch.from_numpy(self.y[rows])
            self.student.zero_grad()
            loss = losses(self.student(x), self.teacher(x).detach(), y, 0.5, 2)[0]
            loss.backward()
            wanted.append(loss.item())
            with torch.no_grad():
                for n, p in self.student.named_parameters():
                    m, v = states[n]
                    m.mul_(b1).add_(p.grad * (1 - b1))
                    v.mul_(b2).add_(p.grad ** 2 * (1 - b2))
                    p.mul_(1 - lr * (decay if p.dim() > 1 else 0))
                    p.sub_(lr / (1 - b1 ** step) * m / (v.sqrt() / (1 - b2 ** step) ** 0.5 + eps))
                    if p.numel() >= 4096:
                        states[n] = [code_and_back(m, maps[0]), code_and_back(v, maps[1])]
        found = self.ours(*self.teacher_of(0.5, 2), "--optimizer", "adam8bit", "--lr", lr, "--weight-decay", decay,
                          "--precision", "f64", steps=20, batch=32)
        self.assertLess(np.abs(found[:, 0] - wanted).max(), 1e-10)
        self.compare_weights(1e-10)

    def test_adam8bit_bitsandbytes(self):
        """Maps, codes and factors are those of its functions for the CPU."""
        try:
            import bitsandbytes.functional as functional
        except ImportError:
            self.skipTest("bitsandbytes is not installed")
        for signed in (True, False):
            code = functional.create_dynamic_map(signed)
            self.assertTrue(np.array_equal(code.numpy(), dynamic_map(signed)))
            x = torch.randn(40000) ** 3
            x = x if signed else x ** 2
            theirs, state = functional.quantize_blockwise(x, code=code, blocksize=256)
            codes = []
            code_and_back(x.double(), dynamic_map(signed), codes.append)
            ours, factors = codes[0]
            self.assertTrue(np.array_equal(state.absmax.numpy(), factors.ravel()))
            # Its functions for the CPU look numbers up in cells of one size, so small ones get codes that are not the nearest;
            # and our codes keep the sign of what is below 0, as those of its optimizers do.
            scaled = x.numpy() / np.repeat(factors.ravel(), 256)[:x.numel()]
            numbers, ours = dynamic_map(signed), ours.ravel()
            kept = (scaled < 0) & (numbers[theirs.numpy()] == 0)
            far = np.abs(numbers[ours] - scaled) > np.abs(numbers[theirs.numpy()] - scaled) + 1e-7
            self.assertEqual((far & ~kept).sum(), 0)
            self.assertLess(((ours != theirs.numpy()) & (np.abs(scaled) > 0.01)).sum(), 200)

    def test_no_decay_of_biases(self):
        def groups(_):
            flat = [p for p in self.student.parameters() if p.dim() == 1]
            rest = [p for p in self.student.parameters() if p.dim() > 1]
            return torch.optim.AdamW([{"params": rest, "weight_decay": 0.1}, {"params": flat, "weight_decay": 0}], lr=0.01)
        self.check_mlp(groups, ("--lr", "0.01", "--weight-decay", "0.1"))

    def test_accumulation(self):
        """Four batches of 4 rows are one of 16."""
        self.make(Mlp, (20,), 160, 6, torch.float64)
        one = self.ours(*self.teacher_of(0.5, 2), "--precision", "f64", steps=40, batch=16)
        first = self.load(self.path("out.npz"))
        four = self.ours(*self.teacher_of(0.5, 2), "--precision", "f64", steps=40, batch=4, accum=4)
        self.assertLess(np.abs(one - four).max(), 1e-12)
        for n, w in self.load(self.path("out.npz")).items():
            self.assertLess(np.abs(first[n] - w).max(), 1e-12)

    def test_schedule_and_clip(self):
        steps, warmup = 60, 10

        def cosine(k):
            if k < warmup:
                return 0.02 * (k + 1) / warmup
            return 0.02 * (1 + np.cos(np.pi * (k - warmup) / (steps - warmup))) / 2
        self.check_mlp(lambda p: torch.optim.Adam(p, lr=0.02),
                       ("--optimizer", "adam", "--lr", "0.02", "--schedule", "cosine", "--warmup", warmup, "--clip", "0.3"),
                       schedule=cosine, clip=0.3)

    def test_masks(self):
        """Weights that are zero stay zero, through momentum and decay; the others are as in PyTorch with the same masks."""
        self.make(Mlp, (20,), 160, 6, torch.float64)
        rng, masks = np.random.default_rng(9), {}
        with torch.no_grad():
            for n, p in self.student.named_parameters():
                if p.dim() > 1:
                    masks[n] = torch.from_numpy((rng.random(tuple(p.shape)) > 0.8).astype("f8"))
                    p.mul_(masks[n])
        self.save("student.npz", self.student)
        optimizer = torch.optim.SGD(self.student.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
        wanted, _ = self.train(optimizer, 50, 16, 0.5, 2, masks=masks)
        found = self.ours(*self.teacher_of(0.5, 2), "--optimizer", "momentum", "--lr", "0.05", "--weight-decay", "0.01",
                          "--decay-1d", "--precision", "f64", "--keep-sparsity", steps=50, batch=16)
        self.assertLess(np.abs(found - wanted).max(), 1e-10)
        self.compare_weights(1e-10)
        for n, w in self.load(self.path("out.npz")).items():
            if n in masks:
                self.assertTrue(np.array_equal(w != 0, masks[n].numpy() != 0), n)

    def in_half(self, kind, steps, lr, alpha, batch=16, quiet=()):
        """Losses and scales of training with SGD in 16 bits; kind None: in float32. quiet: steps that move nothing."""
        optimizer = torch.optim.SGD(self.student.parameters(), lr=lr)
        torch.set_num_threads(1)
        scaler = grad_scaler() if kind is torch.float16 else None
        said, scales = [], []
        for k in range(steps):
            at = k * batch % len(self.x)
            x, y = torch.from_numpy(self.x[at:at + batch]), torch.from_numpy(self.y[at:at + batch])
            optimizer.zero_grad()
            if k in quiet:
                loss = 0 * self.student.c.bias.sum()
            else:
                z = self.student(x) if kind is None else in_half(self.student, x, kind)
                loss = losses(z, self.teacher(x).detach() if alpha else None, y, alpha, 2)[0]
            said.append(loss.item())
            scales.append(scaler.get_scale() if scaler else 1)
            (scaler.scale(loss) if scaler else loss).backward()
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
        return np.array(said), scales

    def test_half(self):
        """Every loss of 60 steps, and the scales. Where a sum lies at the border of two numbers of 16 bits, the order of its
        terms decides, and a value of one of the 16 rows moves by its last digit: u of a loss of 16 rows. In float32 the same
        run is further away than that."""
        for kind, name, u in ((torch.bfloat16, "bf16", 2 ** -8), (torch.float16, "fp16", 2 ** -11)):
            said = []
            for wanted in (kind, None):
                torch.manual_seed(5)
                self.make(Mlp, (20,), 160, 6, torch.float32)
                said.append(self.in_half(wanted, 60, 0.05, 0.5))
            found = self.ours(*self.teacher_of(0.5, 2), "--optimizer", "sgd", "--lr", "0.05", "--precision", name, steps=60,
                              batch=16)[:, 0]
            with open(self.path("log")) as f:
                self.assertEqual([json.loads(line)["scale"] for line in f], said[0][1])
            distance = [np.abs(found - losses).max() for losses, _ in said]
            self.assertLess(distance[0], u / 16)
            self.assertLess(4 * distance[0], distance[1])

    def test_scale_of_the_loss(self):
        """The scale of GradScaler, and the steps that it leaves out: halved where gradients are beyond fp16, doubled after
        2000 good steps, halved again. Rates are so small that the steps between are all alike."""
        self.make(Mlp, (20,), 160, 6, torch.float32)
        with torch.no_grad():
            self.student.c.weight.mul_(300)
        self.save("student.npz", self.student)
        wanted, scales = self.in_half(torch.float16, 2020, 1e-6, 0, quiet=range(40, 1990))
        self.ours("--alpha", "0", "--optimizer", "sgd", "--lr", "1e-6", "--precision", "fp16", steps=2020, batch=16)
        with open(self.path("log")) as f:
            lines = [json.loads(line) for line in f]
        self.assertEqual([line["scale"] for line in lines], scales)
        self.assertEqual(["skipped" in line for line in lines[:-1]], [b < a for a, b in zip(scales, scales[1:])])
        self.assertGreater(scales[0], 2 * scales[10])
        self.assertIn(2 * scales[10], scales[2000:])
        self.assertLess(np.abs(np.array([line["loss"] for line in lines[:40]]) / wanted[:40] - 1).max(), 2 ** -11)

    def test_unlabelled_rows(self):
        """Rows without a label count for the teacher's term only, masked ones for none."""
        self.make(Mlp, (20,), 96, 6, torch.float64)
        self.y[::3] = -1
        mask = np.ones(96, "u1")
        mask[5::7] = 0
        np.savez(self.path("data.npz"), x=self.x, y=self.y, mask=mask)
        found = self.ours(*self.teacher_of(0.5, 2), "--precision", "f64", steps=1, batch=96)
        x, y, keep = torch.from_numpy(self.x), torch.from_numpy(self.y), torch.from_numpy(mask != 0)
        z, t = self.student(x[keep]), self.teacher(x[keep])
        has = y[keep] >= 0
        ce = F.cross_entropy(z[has], y[keep][has])
        _, kd, _ = losses(z, t, None, 1, 2)
        self.assertLess(np.abs(found[0, :3] - [float(0.5 * kd + 0.5 * ce), float(kd), float(ce)]).max(), 1e-12)

    def test_last_rows_of_an_epoch(self):
        """25 rows in batches of 8 and steps of 16: 16 rows, then 9, then the next epoch; and the bits of any threads."""
        self.make(Mlp, (20,), 25, 6, torch.float64)
        x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        optimizer, wanted = torch.optim.SGD(self.student.parameters(), lr=0.1), []
        for rows in (slice(0, 16), slice(16, 25)) * 2:
            optimizer.zero_grad()
            loss = F.cross_entropy(self.student(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            wanted.append(float(loss))
        options = ("--alpha", "0", "--optimizer", "sgd", "--lr", "0.1", "--precision", "f64")
        found = self.ours(*options, "--threads", "1", steps=4, batch=8, accum=2)
        self.assertLess(np.abs(found[:, 0] - wanted).max(), 1e-12)
        one = self.load(self.path("out.npz"))
        self.ours(*options, "--threads", "3", steps=4, batch=8, accum=2)
        for n, w in self.load(self.path("out.npz")).items():
            self.same_bits(w, one[n], n)

    def test_squared_error(self):
        self.make(Mlp, (20,), 32, 6, torch.float64)
        found = self.ours("--teacher", self.path("teacher.npz"), "--loss", "mse", "--precision", "f64", steps=1, batch=32)
        x = torch.from_numpy(self.x)
        self.assertLess(abs(found[0, 0] - float(F.mse_loss(self.student(x), self.teacher(x)))), 1e-13)

    def test_types(self):
        """A student comes back in the types of its file, its values those of the run rounded once."""
        self.make(Mlp, (20,), 64, 6, torch.float32)
        for dtype in ("f2", "f4", "f8"):
            np.savez(self.path("student.npz"), **{n: p.detach().numpy().astype(dtype)
                                                  for n, p in self.student.state_dict().items()}, extra=np.arange(3))
            self.ours(*self.teacher_of(1, 2), steps=5, batch=64)
            out = self.load(self.path("out.npz"))
            self.assertEqual({out[n].dtype for n in out if n != "extra"}, {np.dtype(dtype)})
            self.same_bits(out["extra"], np.arange(3))

    def test_evaluate(self):
        """Accuracy, cross-entropy, agreement and divergence of the written file."""
        self.make(Mlp, (20,), 100, 6, torch.float64)
        said = self.vc("evaluate", "--graph", self.path("net.txt"), "--data", self.path("data.npz"), "--teacher",
                       self.path("teacher.npz"), "--precision", "f64", "--batch", "32", self.path("student.npz")).out.decode()
        x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        with torch.no_grad():
            z, t = self.student(x), self.teacher(x)
        right = int((z.argmax(1) == y).sum())
        same = int((z.argmax(1) == t.argmax(1)).sum())
        _, kd, ce = losses(z, t, y, 0.5, 2)
        self.assertEqual(said, "%s: classes: 100 rows, accuracy %.2f %% (%d of 100), cross-entropy %.4f, agreement with the teacher "
                         "%.2f %%, divergence %.4f\n" % (self.path("student.npz"), right, right, ce, same, kd))

    # ---- transformers ----

    def tokens(self, kind, rows, length, dtype):
        """Teacher and student of two layers with random weights in folders, and rows of tokens that end in padding."""
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        if kind in ("bert", "hidden"):
            config = transformers.BertConfig(vocab_size=31, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                                             intermediate_size=40, max_position_embeddings=16, num_labels=5,
                                             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            make = transformers.BertForSequenceClassification if kind == "bert" else transformers.BertModel
        else:
            config = transformers.LlamaConfig(vocab_size=31, hidden_size=24, num_hidden_layers=2, num_attention_heads=6,
                                              num_key_value_heads=2, intermediate_size=40, max_position_embeddings=32,
                                              tie_word_embeddings=kind == "tied")
            make = transformers.LlamaForCausalLM
        config._attn_implementation = "eager"
        softmax = F.softmax
        F.softmax = lambda x, dim=None, **_: softmax(x, dim=dim)  # that of eager attention is in float32
        self.addCleanup(setattr, F, "softmax", softmax)
        self.teacher, self.student = make(config).to(dtype).eval(), make(config).to(dtype).eval()
        for module in (*self.teacher.modules(), *self.student.modules()):
            exact(module)
        for module, name in ((self.teacher, "teacher"), (self.student, "student")):
            with torch.no_grad():
                for p in module.parameters():  # larger than the initializer's, so that answers differ
                    p.add_(0.1 * torch.randn_like(p))
            module.save_pretrained(self.path(name), safe_serialization=True)
        rng = np.random.default_rng(3)
        self.ids = rng.integers(1, 31, (rows, length))  # 0 is padding, whose embedding PyTorch does not train
        ends = rng.integers(2, length + 1, rows)
        self.mask = (np.arange(length) < ends[:, None]).astype("i8")
        self.types = rng.integers(0, 2, (rows, length))
        self.y = rng.integers(0, 5, rows)
        arrays = dict(input_ids=self.ids, attention_mask=self.mask)
        if kind in ("bert", "hidden"):
            arrays.update(token_type_ids=self.types)
        if kind == "bert":
            arrays.update(y=self.y)
        np.savez(self.path("data.npz"), **arrays)

    def logits_of(self, module, rows):
        given = dict(input_ids=torch.from_numpy(self.ids[rows]), attention_mask=torch.from_numpy(self.mask[rows]))
        if module.config.model_type == "bert":
            given["token_type_ids"] = torch.from_numpy(self.types[rows])
        out = module(**given)
        return out.logits if hasattr(out, "logits") else out.last_hidden_state

    def terms(self, rows, alpha, temperature):
        """Loss and its terms; of a decoder over positions that count, and those of them with a next token."""
        z = self.logits_of(self.student, rows)
        with torch.no_grad():
            t = self.logits_of(self.teacher, rows)
        if z.dim() == 2:
            return losses(z, t, torch.from_numpy(self.y[rows]), alpha, temperature)
        ids, mask = torch.from_numpy(self.ids[rows]), torch.from_numpy(self.mask[rows]) != 0
        _, kd, _ = losses(z[mask], t[mask], None, 1, temperature)
        has = mask[:, :-1] & mask[:, 1:]
        ce = F.cross_entropy(z[:, :-1][has], ids[:, 1:][has])
        return alpha * kd + (1 - alpha) * ce, kd, ce

    def check_transformer(self, kind, dtype, steps, batch=8, rows=40):
        self.tokens(kind, rows, 9, dtype)
        f64 = dtype is torch.float64
        optimizer, wanted, first = torch.optim.Adam(self.student.parameters(), lr=1e-3), [], None
        for k in range(steps):
            at = k * batch % rows
            optimizer.zero_grad()
            loss, kd, ce = self.terms(slice(at, at + batch), 0.7, 2)
            loss.backward()
            first = first or {n: p.grad.numpy().copy() for n, p in self.student.named_parameters()}
            optimizer.step()
            wanted.append([float(term.detach()) for term in (loss, kd, ce)])
        self.vc("distill", "--student", self.path("student"), "--teacher", self.path("teacher"), "--alpha", 0.7,
                "--temperature", 2, "--data", self.path("data.npz"), "-o", self.path("out"), "--steps", steps, "--batch",
                batch, "--order", "file", "--optimizer", "adam", "--lr", "1e-3", "--precision", "f64" if f64 else "f32",
                "--log", self.path("log"), "--dump-gradients", self.path("grad.npz"), "-q", "--force")
        with open(self.path("log")) as f:
            found = np.array([[line[k] for k in ("loss", "kd", "ce")] for line in map(json.loads, f)])
        self.assertLess(np.abs(found - wanted).max(), 1e-10 if f64 else 1e-5)
        gradients = self.load(self.path("grad.npz"))
        largest = max(np.abs(g).max() for g in first.values())
        for n, g in first.items():
            bound = 1e-5 * (largest if n.endswith("key.bias") else np.abs(g).max())
            self.assertLess(np.abs(gradients[n] - g).max(), 1e-13 if f64 else bound, n)
        from safetensors.numpy import load_file
        return load_file(self.path("out/model.safetensors"))

    def check_final(self, out):
        for n, p in self.student.named_parameters():
            if not n.endswith("attention.self.key.bias"):  # moves all scores of a row: its gradient is noise
                self.assertLess(np.abs(out[n] - p.detach().numpy()).max(), 1e-10, n)

    def test_encoder_f64(self):
        """100 steps of an encoder of two layers, with padding, token types and labels of sequences."""
        self.check_final(self.check_transformer("bert", torch.float64, 100))

    def test_encoder_hidden(self):
        """An encoder without a head: its answers are the hidden states, and its pooler, a second output, is left alone."""
        self.tokens("hidden", 40, 9, torch.float64)
        before = self.student.pooler.dense.weight.detach().numpy().copy()
        optimizer, wanted = torch.optim.Adam(self.student.parameters(), lr=1e-3), []
        for k in range(10):
            at, mask = slice(k % 5 * 8, k % 5 * 8 + 8), torch.from_numpy(self.mask[k % 5 * 8:k % 5 * 8 + 8]) != 0
            optimizer.zero_grad()
            with torch.no_grad():
                t = self.logits_of(self.teacher, at)
            loss = ((self.logits_of(self.student, at) - t) ** 2)[mask].mean()
            loss.backward()
            optimizer.step()
            wanted.append(float(loss.detach()))
        said = self.vc("distill", "--student", self.path("student"), "--teacher", self.path("teacher"), "--loss", "mse",
                       "--data", self.path("data.npz"), "-o", self.path("out"), "--steps", 10, "--batch", 8, "--order",
                       "file", "--optimizer", "adam", "--lr", "1e-3", "--precision", "f64", "--log", self.path("log"))
        self.assertIn(b"2 tensors are not trained: no logit depends on them", said.out)
        with open(self.path("log")) as f:
            found = [json.loads(line)["loss"] for line in f]
        self.assertLess(np.abs(np.array(found) - wanted).max(), 1e-12)
        from safetensors.numpy import load_file
        out = load_file(self.path("out/model.safetensors"))
        self.check_final(out)
        np.testing.assert_array_equal(out["pooler.dense.weight"], before)

    def test_encoder_f32(self):
        self.check_transformer("bert", torch.float32, 10)

    def test_decoder_f64(self):
        """The same of a decoder with groups of heads; labels are the next tokens."""
        self.check_final(self.check_transformer("llama", torch.float64, 100))

    def test_decoder_f32(self):
        self.check_transformer("llama", torch.float32, 10)

    def test_tied_decoder(self):
        """The table of tokens is the last matrix, too."""
        self.check_final(self.check_transformer("tied", torch.float64, 20))

    def test_perplexity(self):
        self.tokens("llama", 10, 9, torch.float64)
        said = self.vc("evaluate", "--data", self.path("data.npz"), "--teacher", self.path("teacher"), "--precision", "f64",
                       "--batch", "4", self.path("student")).out.decode()
        with torch.no_grad():
            _, kd, ce = self.terms(slice(0, 10), 0.5, 2)
        self.assertIn("cross-entropy %.4f, perplexity %.4f," % (ce, np.exp(float(ce))), said)
        self.assertIn("divergence %.4f" % kd, said)
        self.assertIn(": %d tokens" % self.mask.sum(), said)


if __name__ == "__main__":
    main()
