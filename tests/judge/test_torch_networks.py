#!/usr/bin/env python3
"""test_torch_networks.py - networks of torch as the commands of Python take them (vcompress.network): exported programs, modules and graphs of
torch.fx. What `graph --data`, `logits` and `evaluate` compute beside torch's own outputs; weights by the names of the state dictionary;
what is not known is refused by name. torch before 2.1 has no torch.export: there modules are traced, and sizes are fixed.

Needs the program, the module with its library (VCOMPRESS_CALL), NumPy and torch."""
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("VCOMPRESS_BUILD_DIR", os.path.join(HERE, "..", "..", "build", "debug"))
os.environ.setdefault("VCOMPRESS_CALL", os.path.join(BUILD, "python", "vcompress_call.so"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
try:
    import numpy
    import torch
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)
if not os.path.exists(os.environ["VCOMPRESS_CALL"]):
    print("SKIPPED: the library of the module is not built (vcompress_call)")
    sys.exit(77)
import vcompress  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

torch.set_num_threads(1)
EXPORTS = hasattr(torch, "export") and hasattr(getattr(torch, "export"), "export")


class Made(nn.Module):
    """A module by a function of its parts."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = forward

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Residual(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)
        self.conv2, self.bn2 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class Decoder(nn.Module):
    """A block with rotary positions, grouped heads and RMS normalization, by hand."""

    def __init__(self, d=16, heads=4, kv=2):
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, d // heads
        self.emb = nn.Embedding(31, d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, n, bias=False) for n in (d, kv * self.size, kv * self.size, d))
        self.norm = nn.Parameter(torch.rand(d) + 0.5)
        self.up, self.down, self.head = nn.Linear(d, 24), nn.Linear(24, d), nn.Linear(d, 31, bias=False)
        self.register_buffer("steps", 1 / 100 ** (torch.arange(0, self.size, 2) / self.size), persistent=False)

    def turn(self, x, angles):
        a, b = x[..., : self.size // 2], x[..., self.size // 2:]
        return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)

    def forward(self, tokens):
        x = self.emb(tokens)
        batch, n = tokens.shape
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm
        angles = torch.arange(n, device=x.device)[:, None] * self.steps[None]
        q = self.turn(self.q(h).view(batch, n, self.heads, self.size).transpose(1, 2), angles)
        k = self.turn(self.k(h).view(batch, n, self.kv, self.size).transpose(1, 2), angles)
        v = self.v(h).view(batch, n, self.kv, self.size).transpose(1, 2)
        k, v = (one[:, :, None].expand(batch, self.kv, self.heads // self.kv, n, self.size).reshape(batch, self.heads, n, self.size) for one in (k, v))
        scores = q @ k.transpose(-1, -2) / self.size ** 0.5
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        y = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(batch, n, -1))
        return self.head(x + self.down(F.silu(self.up(x))))


def floats(*shape):
    return torch.randn(*shape)


def tokens(*shape, n=31):
    return torch.randint(0, n, shape)


def branches(s, x):
    a, b, c = torch.split(s.conv(x), [2, 3, 3], 1)
    y = torch.cat([F.max_pool2d(a, 2), F.avg_pool2d(b, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool2d(c, (4, 4))], 1)
    return F.adaptive_max_pool2d(F.pad(y, (1, 2, 0, 1), value=0.5), 1).flatten(1)


def unet(s, x):
    y = F.hardswish(s.down(x))
    z = F.interpolate(s.up(y), scale_factor=2, mode="bilinear", align_corners=False) + F.interpolate(y, size=(16, 16), mode="nearest")[:, :3]
    return s.shuffle(F.elu(z)).clamp(-1, 1)


def arithmetic(s, x, y):
    z = (x - 1) / (y.abs() + 2) + x.clamp(min=-0.5) ** 2 - 3 * torch.maximum(x, y) + (1 - x)
    z = torch.where(x > y, z, -z) + x.amax(1, keepdim=True) + torch.logsumexp(y, 1, keepdim=True)
    index = z.argmax(1)
    return z.softmax(-1).log(), index, torch.stack([z, x], 1).std(1), torch.einsum("ab,cb->ac", x, s.w) + s.w[[2, 0, 1, 3]].sum(), x[None, :, [0, 3]][:, index % 2, index % 2] + x[index % 3, index % 5], z.gather(1, index[:, None])


def causal(s, x):
    q, k, v = (one.unflatten(-1, (2, 4)).transpose(1, 2) for one in s.qkv(x).chunk(3, -1))
    return s.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def masked(s, x, mask):
    q = s.q(x)
    return F.scaled_dot_product_attention(q, x, x, attn_mask=mask[:, None, :])


def states(s, x):
    y, (h, c) = s.rnn(s.emb(x))
    return s.fc(y[:, -1]), h, c


# name: (module, inputs, the open sizes of each input)
NETWORKS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5)), [floats(4, 8)], [{0: "batch"}]),
    "cnn": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 6, 3, padding="same", dilation=2), nn.LeakyReLU(0.2),
                                  nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4), nn.LogSoftmax(1)), [floats(3, 3, 16, 16)], [{0: "batch"}]),
    "residual": lambda: (nn.Sequential(nn.Conv2d(3, 6, 3), Residual(6), Residual(6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)), [floats(2, 3, 10, 10)], [{0: "batch"}]),
    "depthwise": lambda: (nn.Sequential(nn.Conv2d(4, 12, 1), nn.ReLU6(), nn.Conv2d(12, 12, 3, groups=12, padding=1), nn.Hardswish(), nn.Conv2d(12, 4, 1), nn.SiLU()), [floats(2, 4, 8, 8)], [{0: "batch"}]),
    "group_norm": lambda: (nn.Sequential(nn.Conv1d(4, 8, 5, padding=2), nn.GroupNorm(4, 8), nn.Mish(), nn.InstanceNorm1d(8, affine=True), nn.AvgPool1d(2), nn.PReLU(8)), [floats(2, 4, 12)], [{0: "batch"}]),
    "branches": lambda: (Made(branches, conv=nn.Conv2d(3, 8, 3, padding=1)), [floats(2, 3, 8, 8)], [{0: "batch"}]),
    "up_and_down": lambda: (Made(unet, down=nn.Conv2d(3, 8, 2, stride=2), up=nn.ConvTranspose2d(8, 3, 3, padding=1), shuffle=nn.PixelUnshuffle(2)), [floats(2, 3, 16, 16)], [{0: "batch"}]),
    "encoder": lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, activation="gelu"), 2, enable_nested_tensor=False), [floats(2, 7, 16)], [{0: "batch"}]),
    "norm_first": lambda: (nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, norm_first=True, bias=False) if EXPORTS
                         else nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, norm_first=True), [floats(2, 7, 16)], [{0: "batch", 1: "sequence"}]),
    "causal": lambda: (Made(causal, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8)), [floats(2, 6, 8)], [{0: "batch", 1: "sequence"}]),
    "masked": lambda: (Made(masked, q=nn.Linear(8, 8)), [floats(2, 5, 8), torch.rand(2, 5) > -1], [{0: "batch"}, {0: "batch"}]),
    "decoder": lambda: (Decoder(), [tokens(2, 9)], [{0: "batch", 1: "sequence"}]),
    "bag": lambda: (Made(lambda s, a, b: s.fc(torch.cat([s.emb(a).mean(1), s.side(b)], 1)), emb=nn.Embedding(31, 6), side=nn.Linear(3, 4), fc=nn.Linear(10, 5)),
                  [tokens(3, 7), floats(3, 3)], [{0: "batch"}, {0: "batch"}]),
    "lstm": lambda: (Made(states, emb=nn.Embedding(31, 6), rnn=nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True), fc=nn.Linear(10, 4)), [tokens(2, 6)], [{0: "batch"}]),
    "gru": lambda: (Made(lambda s, x: s.rnn(x)[0], rnn=nn.GRU(4, 5)), [floats(6, 2, 4)], [None]),
    "rnn": lambda: (Made(lambda s, x: s.rnn(x)[1], rnn=nn.RNN(4, 5, nonlinearity="relu", bias=False)), [floats(6, 2, 4)], [None]),
    "weight_norm": lambda: (nn.Sequential(nn.utils.weight_norm(nn.Conv1d(4, 6, 3), dim=2), nn.Tanh(), nn.utils.weight_norm(nn.Linear(7, 3))), [floats(2, 4, 9)], [{0: "batch"}]),
    "windows": lambda: (Made(lambda s, x, i: (x.unfold(1, 4, 2).sinh() + s.w, x.flip(1, 2) + 1, torch.zeros(2, 9, 3).scatter_add(1, i, x)), w=nn.Parameter(floats(4))),
                      [floats(2, 9, 3), torch.arange(54).reshape(2, 9, 3) // 3 % 5], [None, None]),
    "arithmetic": lambda: (Made(arithmetic, w=nn.Parameter(floats(4, 5))), [floats(3, 5), floats(3, 5)], [{0: "batch"}, {0: "batch"}]),
}
OLD = {"causal", "masked"}  # of what torch 1.13 does not have: scaled_dot_product_attention


def program(name):
    torch.manual_seed(sum(map(ord, name)))
    module, inputs, sizes = NETWORKS[name]()
    module.eval()
    for buffer_name, buffer in module.named_buffers():  # statistics that are no zeros and ones
        if buffer_name.endswith("running_mean"):
            buffer.normal_()
        elif buffer_name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
    return module, inputs, sizes


def exported(module, inputs, sizes):
    named = {}
    shapes = tuple({axis: named.setdefault(size, torch.export.Dim(size, min=2, max=500)) for axis, size in one.items()} if one else None for one in sizes)
    if isinstance(module, Made):  # its forward takes *inputs
        shapes = (shapes,)
    return torch.export.export(module, tuple(inputs), dynamic_shapes=shapes, strict=False)


class TorchNetworks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def check(self, network, module, inputs, worst=2e-5):
        """All outputs of the graph, by the engine that every command runs, beside torch's."""
        document = vcompress.graph(network)
        names = [document["values"][k]["name"] for k in document["inputs"]]
        self.assertEqual(len(names), len(inputs))
        numpy.savez(self.path("data.npz"), **{name: x.numpy() for name, x in zip(names, inputs)})
        if os.path.exists(self.path("made.npz")):
            os.remove(self.path("made.npz"))
        vcompress.graph(network, data=self.path("data.npz"), outputs=self.path("made.npz"))
        with torch.no_grad():
            wanted = module(*inputs)
        wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        wanted = [one for part in wanted for one in (part if isinstance(part, tuple) else [part])]
        with numpy.load(self.path("made.npz")) as made:
            self.assertEqual(len(made.files), len(wanted), made.files)
            for k, one in enumerate(wanted):
                own = made[f"output_{k}" if k else "output"]
                self.assertEqual(own.shape, tuple(one.shape))
                far = abs(own.astype("f8") - one.numpy().astype("f8")).max() / max(1, abs(one.numpy()).max())
                self.assertLess(far, worst, f"output {k}")
        return document

    def names_kept(self, network, module):
        """Every parameter is there under its name in the state dictionary."""
        state = module.state_dict()
        tensors = {row["name"] for row in vcompress.inspect(network).tensors}
        wanted = {name for name, value in state.items() if value.ndim > 0}
        self.assertLessEqual(wanted, tensors)

    @unittest.skipUnless(EXPORTS, "this torch has no torch.export")
    def test_exported(self):
        """Each network as a program with open sizes: outputs for the sizes of the export and for others."""
        for name in NETWORKS:
            with self.subTest(name):
                module, inputs, sizes = program(name)
                made = exported(module, inputs, sizes)
                self.check(made, module, inputs)
                self.names_kept(made, module)
                if sizes[0]:
                    more = [torch.cat([x, x.flip(0), x[:1]]) for x in inputs]
                    if "sequence" in sizes[0].values():
                        more = [torch.cat([x, x.flip(1)], 1) for x in more]
                    self.check(made, module, more)

    @unittest.skipUnless(EXPORTS, "this torch has no torch.export")
    def test_decomposed(self):
        """The same programs in the operators of core ATen."""
        for name in NETWORKS:
            if name not in ("lstm", "gru", "rnn"):  # loops there
                with self.subTest(name):
                    module, inputs, sizes = program(name)
                    self.check(exported(module, inputs, sizes).run_decompositions(), module, inputs)

    def test_modules(self):
        """A module with its inputs, in every torch: by torch.export, or traced."""
        for name in NETWORKS:
            if EXPORTS or name not in OLD:
                with self.subTest(name):
                    module, inputs, _ = program(name)
                    made = vcompress.network(module, *inputs)
                    self.check(made, module, inputs)
                    self.names_kept(made, module)

    def test_traced(self):
        """The way without torch.export, which newer versions of torch have, too."""
        from vcompress._network import _of_trace
        for name in ("mlp", "cnn", "residual", "depthwise", "group_norm", "branches", "decoder", "bag"):
            with self.subTest(name):
                module, inputs, _ = program(name)
                self.check(_of_trace(module, inputs), module, inputs)

    def test_fx(self):
        """A graph of torch.fx: with its inputs, and by itself where shapes were noted."""
        from torch import fx
        from torch.fx.passes.shape_prop import ShapeProp
        for name in ("mlp", "cnn", "residual", "depthwise", "branches"):
            with self.subTest(name):
                module, inputs, _ = program(name)
                graph = fx.symbolic_trace(module) if not isinstance(module, Made) else None
                if graph is None:
                    continue
                self.check(vcompress.network(graph, *inputs), module, inputs)
                with self.assertRaisesRegex(TypeError, "says no shapes of its inputs"):
                    vcompress.graph(graph)
                ShapeProp(graph).propagate(*inputs)
                self.check(graph, module, inputs)
                self.names_kept(graph, module)

    def test_commands(self):
        """evaluate, logits, quantize, structured pruning, calibrate, sensitivity, distill and fit take it, and give what the file gives."""
        module, inputs, sizes = program("cnn")
        made = exported(module, inputs, sizes) if EXPORTS else vcompress.network(module, *inputs)
        x = floats(40 if EXPORTS else 3, 3, 16, 16)
        with torch.no_grad():
            wanted = module(x)
        labels = wanted.argmax(1)
        name = vcompress.graph(made)["values"][vcompress.graph(made)["inputs"][0]]["name"]
        numpy.savez(self.path("d.npz"), **{name: x.numpy(), "y": labels.numpy()})
        report = vcompress.evaluate(made, data=self.path("d.npz"))
        self.assertEqual(report["quality"]["accuracy"], 1)
        vcompress.logits(made, self.path("l.npz"), data=self.path("d.npz"))
        with numpy.load(self.path("l.npz")) as found:
            self.assertLess(abs(found["logits"] - wanted.numpy()).max(), 1e-5)
        vcompress.quantize(made, self.path("q.safetensors"), int8=True, min_elements=0, format="safetensors")
        with vcompress.open(self.path("q.safetensors"), framework="pt") as file:
            back = {key: file.get_tensor(key) for key in file.keys()}
        self.assertLessEqual(set(back), set(module.state_dict()))
        copy, _, _ = program("cnn")
        copy.load_state_dict(back, strict=False)
        with torch.no_grad():
            self.assertLess(abs(copy(x) - wanted).max(), 0.1)
        with self.assertRaisesRegex(TypeError, "output= is missing"):
            vcompress.quantize(made, int8=True)
        self.assertTrue(vcompress.quantize(made, int8=True, dry_run=True).ok)
        vcompress.prune(made, self.path("p.onnx"), structured=0.3)
        self.assertLess(os.path.getsize(self.path("p.onnx")), os.path.getsize(self.path("q.safetensors")) * 8)
        self.assertTrue(vcompress.calibrate(made, self.path("c.npz"), data=self.path("d.npz")).ok)
        self.assertTrue(vcompress.sensitivity(made, data=self.path("d.npz"), rows=3).ok)
        self.assertTrue(vcompress.fit(made, memory="1GiB").ok)
        self.assertTrue(vcompress.distill(self.path("s.onnx"), teacher=made, student=made, sparsity=0.5, steps=3, data=self.path("d.npz")).ok)
        report = vcompress.evaluate(self.saved(module), graph=made, data=self.path("d.npz"))  # weights of one file, the network of another
        self.assertEqual(report["quality"]["accuracy"], 1)

    def saved(self, module):
        numpy.savez(self.path("w.npz"), **{k: v.numpy() for k, v in module.state_dict().items()})
        return self.path("w.npz")

    def test_refused(self):
        """What is not known is named, with its module; a program that was exported for training says so."""

        class Odd(nn.Module):
            def forward(self, x):
                return torch.special.bessel_j1(x)

        outer = nn.Sequential(nn.Linear(4, 4), nn.Sequential(Odd()))
        with self.assertRaisesRegex(vcompress.InputError, "bessel_j1"):
            vcompress.network(outer, floats(2, 4))
        if EXPORTS:
            with self.assertRaisesRegex(vcompress.InputError, r"1\.0 \(Odd\): aten.special_bessel_j1.default: this operator is not known"):
                vcompress.graph(torch.export.export(outer, (floats(2, 4),), strict=False))
            with self.assertRaisesRegex(vcompress.InputError, "eval"):
                vcompress.network(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).train(), floats(2, 3, 4, 4))
        with self.assertRaisesRegex(TypeError, "exported program"):
            vcompress.network("model.onnx")

    def test_large(self):
        """Weights of more than a message of protobuf holds lie beside the file."""
        from vcompress import _onnx
        module, inputs, _ = program("mlp")
        before, _onnx.ONE_FILE = _onnx.ONE_FILE, 100
        try:
            vcompress.network(module, *inputs).save(self.path("big.onnx"))
            self.assertTrue(os.path.exists(self.path("big.onnx.data")))
            self.check(self.path("big.onnx"), module, inputs)
            self.check(vcompress.network(module, *inputs), module, inputs)
        finally:
            _onnx.ONE_FILE = before


if __name__ == "__main__":
    unittest.main()
