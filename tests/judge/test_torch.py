"""test_torch.py - PyTorch files in and out, with PyTorch as the judge: what it writes is read, what we write it loads.

Skipped where torch cannot be imported. Every output is loaded with weights_only, except training checkpoints under
PyTorch 1.13, whose restricted loader knows no floating-point numbers.
"""
import argparse
import glob
import inspect
import json
import os
import sys
import unittest
import warnings

from judge_support import SMALL, Judge, main, np, read_bytes, sha
from test_safetensors import st_read

try:
    import torch
except ImportError:
    print("SKIPPED: PyTorch is not installed for %s (Debian: python3-torch)" % sys.executable)
    sys.exit(77)

try:
    import safetensors.torch as safetensors_torch
except ImportError:
    safetensors_torch = None
try:
    import gguf
except ImportError:
    gguf = None

warnings.filterwarnings("ignore")
OLD = int(torch.__version__.split(".")[0]) < 2
HAS_WEIGHTS_ONLY = "weights_only" in inspect.signature(torch.load).parameters
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def load(path, weights_only=True):
    return torch.load(path, **({"weights_only": weights_only} if HAS_WEIGHTS_ONLY else {}))


def flat(value, path=""):
    """{"a.b": tensor} of nested dicts and lists."""
    if isinstance(value, torch.Tensor):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    out = {}
    for key, item in items:
        out.update(flat(item, (path + "." if path else "") + str(key)))
    return out


def bits(t):
    t = t.detach().contiguous()
    if t.is_complex():
        t = torch.view_as_real(t).contiguous()
    return t.reshape(-1).view(BITS[t.element_size()]) if t.dtype != torch.bool else t.reshape(-1).to(torch.uint8)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.BatchNorm2d(64), torch.nn.Linear(128, 96))


def training():
    net = network()
    optimizer = torch.optim.Adam(net.parameters())
    for p in net.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    return {"epoch": 3, "model_state_dict": net.state_dict(), "optimizer": optimizer.state_dict(), "loss": 0.25,
            "best": None, "names": ["a", "\u00e4"], "rng": torch.get_rng_state(), "betas": (0.9, 2**40)}


def views():
    w = torch.randn(128, 96)
    return {"w": w, "t": w.t(), "tied": w, "rows": w[::2], "part": w[3:40, 5:50], "all": torch.randn(3, 3),
            "perm": torch.randn(4, 5, 6, 7).permute(2, 0, 3, 1), "expanded": torch.arange(6.0).expand(4, 6),
            "bf16": torch.randn(70, 70).bfloat16(), "half": torch.randn(33, 65).half(), "f64": torch.randn(9, 9).double(),
            "parameter": torch.nn.Parameter(torch.randn(80, 80)), "i": torch.arange(10), "scalar": torch.tensor(2.5),
            "empty": torch.zeros(0, 3), "complex": torch.randn(3, 5, dtype=torch.complex64).t(),
            "bool": torch.tensor([True, False]), "last": torch.randn(8, 64, 5, 5).contiguous(
                memory_format=torch.channels_last)}


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(96, 64)
        self.body = torch.nn.Linear(64, 64)
        self.head = torch.nn.Linear(64, 96, bias=False)
        self.head.weight = self.embed.weight


class Torch(Judge):
    def same(self, got, want):
        """The same tensors: type, shape, bits."""
        self.assertEqual(list(got), list(want))
        for name, t in want.items():
            self.assertEqual((got[name].dtype, tuple(got[name].shape)), (t.dtype, tuple(t.shape)), name)
            self.assertTrue(torch.equal(bits(got[name]), bits(t)), name)

    def through(self, value, weights_only=True, **how):
        """What a copy of the saved value loads as."""
        torch.save(value, self.path("in.pt"), **how)
        self.vc("convert", "--force", self.path("in.pt"), "-o", self.path("out.pt"))
        return load(self.path("out.pt"), weights_only)

    def test_views(self):
        values = views()
        for how in ({}, {"_use_new_zipfile_serialization": False}):
            out = self.through(values, **how)
            self.same(out, values)
            self.assertEqual(out["w"].data_ptr(), out["tied"].data_ptr())
            self.assertIsInstance(out["parameter"], torch.nn.Parameter)
            self.assertTrue(out["parameter"].requires_grad)

    def test_tied_counts_once(self):
        """verify --against has the SQNR of the report: what has two names is one tensor."""
        torch.save(Tied().state_dict(), self.path("tied.pt"))
        self.vc("quantize", "-qf", "--int4", "--min-elements", "0", f"--json={self.path('q.json')}", self.path("tied.pt"), "-o", self.path("tied.int4.pt"))
        self.vc("verify", "-q", f"--json={self.path('v.json')}", self.path("tied.int4.pt"), "--against", self.path("tied.pt"))
        with open(self.path("q.json")) as q, open(self.path("v.json")) as v:
            self.assertEqual(json.load(v)["against"]["sqnr_db"], json.load(q)["totals"]["sqnr_db"])

    def back_from(self, name, want):
        """The same file as .pt, npz and GGUF has all names."""
        self.vc("convert", "-qf", name, "-o", self.path("back.pt"))
        back = load(self.path("back.pt"))
        self.same({k: back[k] for k in want}, want)
        self.assertEqual(back["head.weight"].data_ptr(), back["embed.weight"].data_ptr())
        self.vc("convert", "-qf", name, "-o", self.path("back.npz"))
        with np.load(self.path("back.npz")) as z:
            for n, t in want.items():
                self.same_bits(z[n], t.numpy(), n)
        if gguf is not None:
            self.vc("convert", "-qf", name, "-o", self.path("back.gguf"))
            found = {t.name: t.data for t in gguf.GGUFReader(self.path("back.gguf")).tensors}
            for n, t in want.items():
                self.same_bits(np.array(found[n]).reshape(t.shape), t.numpy(), n)

    def test_tied_through_safetensors(self):
        """Written once, noted as safetensors' own tools do, loaded by them, and there again on the way back."""
        net = Tied()
        want = net.state_dict()
        torch.save(want, self.path("in.pt"))
        for divided in ([], ["--max-shard-size", "20KB"]):
            out = self.path("folder" if divided else "one.safetensors")
            self.vc("convert", "-qf", *divided, self.path("in.pt"), "-o", out)
            files = sorted(glob.glob(out + "/*.safetensors")) if divided else [out]
            metadata = {}
            for file in files:
                tensors, notes = st_read(file)
                self.assertNotIn("head.weight", tensors)
                metadata.update(notes)
            self.assertEqual(metadata["head.weight"], "embed.weight")
            self.assertEqual(len(files) > 1, bool(divided))
            self.back_from(out, want)
            again = self.path("again.safetensors")
            self.vc("convert", "-qf", out, "-o", again)
            self.back_from(again, want)
            if safetensors_torch is not None:
                for file in (again,) if divided else (out, again):
                    other = Tied()
                    safetensors_torch.load_model(other, file)
                    self.same(other.state_dict(), want)
                    self.assertIs(other.head.weight, other.embed.weight)
            for layout in ("plain", "compressed-tensors", "bitsandbytes"):
                q = self.path("q" if divided else "q.safetensors")
                self.vc("quantize", "--int8", "--layout", layout, *SMALL, "-qf", *divided, out, "-o", q)
                self.vc("dequantize", "-qf", q, "-o", self.path("d.safetensors"))
                self.vc("quantize", "--int8", "--layout", layout, *SMALL, "-qf", self.path("in.pt"), "-o",
                        self.path("direct.safetensors"))
                self.vc("dequantize", "-qf", self.path("direct.safetensors"), "-o", self.path("e.safetensors"))
                self.assertEqual(sha(self.path("d.safetensors")), sha(self.path("e.safetensors")), layout)
                tensors = st_read(self.path("d.safetensors"))[0]
                self.assertEqual(set(tensors), set(want) - {"head.weight"})
                values = {n: torch.from_numpy(np.frombuffer(data, np.float32).reshape(shape).copy())
                          for n, (_, shape, data) in tensors.items()}
                values["head.weight"] = values["embed.weight"]
                self.back_from(self.path("d.safetensors"), values)
            self.vc("quantize", "--int8", "--layout", "plain", *SMALL, "--include", "*", "-qf", out, "-o",
                    self.path("q.safetensors"))
            self.vc("dequantize", "-qf", self.path("q.safetensors"), "-o", self.path("q.pt"))
            self.vc("quantize", "--int8", *SMALL, "--include", "*", "-qf", self.path("in.pt"), "-o", self.path("p.pt"))
            self.vc("dequantize", "-qf", self.path("p.pt"), "-o", self.path("r.pt"))
            self.assertNotEqual(read_bytes(self.path("p.pt")), read_bytes(self.path("in.pt")))
            back = load(self.path("q.pt"))
            self.same({n: back[n] for n in want}, load(self.path("r.pt")))
            self.assertEqual(back["head.weight"].data_ptr(), back["embed.weight"].data_ptr())

    def test_names_of_other_tools(self):
        """save_model notes views of other shapes in the same way, so that its notes stay notes."""
        if safetensors_torch is None:
            self.skipTest("safetensors is not installed")
        net = torch.nn.Module()
        net.a = torch.nn.Parameter(torch.randn(64, 64))
        net.t = torch.nn.Parameter(net.a.data.view(32, 128))
        safetensors_torch.save_model(net, self.path("in.safetensors"))
        kept, = st_read(self.path("in.safetensors"))[0]
        self.vc("convert", self.path("in.safetensors"), "-o", self.path("out.pt"))
        self.assertEqual(list(load(self.path("out.pt"))), [kept])
        self.vc("convert", self.path("in.safetensors"), "-o", self.path("out.safetensors"))
        self.assertEqual(st_read(self.path("out.safetensors"))[1],
                         dict(st_read(self.path("in.safetensors"))[1], format="pt"))

    def test_training(self):
        """Protocols 2 to 5 and the legacy format; numbers, texts and lists survive, and what needs code does not."""
        value = training()
        hows = [{"pickle_protocol": k, "_use_new_zipfile_serialization": new} for k in (2, 3, 4, 5)
                for new in (True, False)]
        for how in hows:
            out = self.through(dict(value, args=argparse.Namespace(lr=1)), weights_only=not OLD, **how)
            self.same(flat(out), flat(value))
            self.assertEqual([out[k] for k in ("epoch", "loss", "best", "names", "betas")],
                             [value[k] for k in ("epoch", "loss", "best", "names", "betas")])
            self.assertEqual(out["optimizer"]["param_groups"], value["optimizer"]["param_groups"])
            self.assertEqual(out["model_state_dict"]._metadata, value["model_state_dict"]._metadata)
            self.assertNotIn("args", out)
            network().load_state_dict(out["model_state_dict"])

    def test_same_values(self):
        """What is the same object in several places stays so, and a text in 10,000 of them is written once."""
        inner, text, words = {"a": [1, 2]}, "text" * 5000, ["word %d" % i for i in range(600)]
        value = {"w": torch.ones(3, 4), "x": [inner, inner, (inner, text)], "m": [inner["a"], inner], "o": {text: 1},
                 "t": [text] * 10000, "words": words + words}
        out = self.through(value, weights_only=not OLD)
        self.assertEqual({k: out[k] for k in value if k != "w"}, {k: value[k] for k in value if k != "w"})
        self.assertIs(out["x"][0], out["x"][1])
        self.assertIs(out["x"][0], out["x"][2][0])
        self.assertIs(out["m"][0], out["x"][0]["a"])
        self.assertLess(len(read_bytes(self.path("out.pt"))), len(read_bytes(self.path("in.pt"))) + 4096)

    def test_drop(self):
        torch.save(training(), self.path("in.pt"))
        self.vc("convert", "--drop", "optimizer", self.path("in.pt"), "-o", self.path("a.pt"))
        self.vc("convert", "--drop", "optimizer", "--drop", "other", self.path("in.pt"), "-o", self.path("b.pt"))
        self.assertEqual(list(load(self.path("a.pt"), not OLD)),
                         ["epoch", "model_state_dict", "loss", "best", "names", "rng", "betas"])
        out = load(self.path("b.pt"))
        self.assertEqual(list(out), ["model_state_dict"])
        self.same(out["model_state_dict"], network_after(self.path("in.pt")))

    def test_empty_key(self):
        """A key of no bytes stays one; codes of its tensor are called as the tensor is, which has no other name."""
        for value in ({"": torch.randn(64, 128), "b": torch.randn(64, 128)}, {"": torch.randn(64, 128)}):
            self.same(self.through(value), value)
            self.vc("quantize", "-f", "--int8", self.path("in.pt"), "-o", self.path("q.pt"))
            out = load(self.path("q.pt"))
            self.assertEqual(list(out)[:2], ["tensor.int8", "tensor.scale"])
            self.vc("dequantize", "-f", self.path("q.pt"), "-o", self.path("back.pt"))
            self.assertTrue(torch.equal(load(self.path("back.pt"))["tensor"], out["tensor.int8"].float() * out["tensor.scale"]))

    def test_module(self):
        net = network()
        self.same(self.through(net), net.state_dict())
        self.same(self.through({"model": net, "epoch": 1})["model"], net.state_dict())

    def test_script(self):
        """A TorchScript archive stays one: its program runs with the new weights. What it cannot run with is refused."""
        net, x = network().eval(), torch.randn(2, 3, 5, 130)
        torch.jit.script(net).save(self.path("in.pt"))
        self.vc("convert", self.path("in.pt"), "-o", self.path("out.pt"))
        self.same(torch.jit.load(self.path("out.pt")).state_dict(), net.state_dict())
        for job in (["--sparsity", "0.5"], ["--pattern", "2:4"]):
            self.vc("prune", "-f", *job, self.path("in.pt"), "-o", self.path("out.pt"))
            self.vc("prune", "-f", *job, self.path("in.pt"), "-o", self.path("alone.npz"))
            pruned = torch.jit.load(self.path("out.pt"))
            net.load_state_dict(pruned.state_dict())
            self.assertTrue((net[2].weight == 0).any())
            self.assertTrue(torch.allclose(pruned(x), net(x), atol=1e-6))
            for name, a in np.load(self.path("alone.npz")).items():
                self.same_bits(net.state_dict()[name].numpy(), a, name)
        for job in ("--int8", "--fp16"):
            self.refuse(3, "quantize", job, *SMALL, self.path("in.pt"), "-o", self.path("q.pt"))

    def test_int8(self):
        """Codes and scales, in the dict of the weights, as in an npz of the same weights."""
        state = network().state_dict()
        torch.save({"state_dict": state, "epoch": 1}, self.path("in.pt"))
        self.vc("quantize", "--int8", *SMALL, self.path("in.pt"), "-o", self.path("q.pt"))
        out = load(self.path("q.pt"))["state_dict"]
        np.savez(self.path("in.npz"), **{n: t.numpy() for n, t in state.items()})
        self.vc("quantize", "--int8", *SMALL, self.path("in.npz"), "-o", self.path("q.npz"))
        arrays = self.load(self.path("q.npz"))
        names = {n: n + ".int8" if n + ".scale" in arrays else n for n in arrays}  # a plain loader misses these weights
        self.assertEqual(sorted(out), sorted(names.values()))
        for name, a in arrays.items():
            self.same_bits(out[names[name]].numpy(), a, name)
        self.assertIn("2.weight.scale", out)
        self.vc("dequantize", self.path("q.pt"), "-o", self.path("back.pt"))
        back = load(self.path("back.pt"))["state_dict"]
        self.assertEqual(list(back), list(state))
        decoded = out["2.weight.int8"].float() * out["2.weight.scale"]
        self.assertTrue(torch.equal(bits(back["2.weight"]), bits(decoded)))

    def test_pairs_of_pruning(self):
        """What torch.nn.utils.prune has pruned loads into the plain module, as after its own remove."""
        from torch.nn.utils import prune
        pruned, plain = network(), network()
        prune.l1_unstructured(pruned[0], "weight", amount=0.3)
        prune.random_unstructured(pruned[2], "weight", amount=0.5)
        prune.random_unstructured(pruned[2], "bias", amount=0.25)
        states = {"state": pruned.state_dict(), "checkpoint": {"epoch": 3, "model": pruned.state_dict()}}
        for name, state in states.items():
            torch.save(state, self.path(name + ".pt"))
        prune.remove(pruned[0], "weight"), prune.remove(pruned[2], "weight"), prune.remove(pruned[2], "bias")
        for name in states:
            self.vc("prune", "--make-permanent", self.path(name + ".pt"), "-o", self.path("out.pt"), "--force")
            got = load(self.path("out.pt"))
            if name == "checkpoint":
                self.assertEqual(got["epoch"], 3)
                got = got["model"]
            self.assertEqual(str(plain.load_state_dict(got)), "<All keys matched successfully>")
            for key, value in pruned.state_dict().items():
                self.assertEqual(key, key if key in got else None)
                self.assertTrue(torch.equal(got[key], value), key)
            self.vc("prune", "--scope", "tensor", "--sparsity", "0.5", self.path(name + ".pt"), "-o", self.path("half.safetensors"), "--force")
            if safetensors_torch is not None:
                plain.load_state_dict(safetensors_torch.load_file(self.path("half.safetensors")))
                self.assertEqual(int((plain[2].weight == 0).sum()), plain[2].weight.numel() // 2)

    def test_new_types(self):
        names = [n for n in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "uint16", "uint32", "uint64")
                 if hasattr(torch, n)]
        if not names:
            self.skipTest("this PyTorch has none of them")
        values = {}
        for name in names:
            dtype = getattr(torch, name)
            values[name] = torch.arange(24, dtype=torch.uint8).view(dtype)
        out = self.through(values)
        for name, t in values.items():
            self.assertEqual(out[name].dtype, t.dtype)
            self.assertTrue(torch.equal(out[name].view(torch.uint8), t.view(torch.uint8)), name)

    def test_limited_memory(self):
        """A transposed tensor larger than the limit; the same bytes as with all memory."""
        torch.save({"w": torch.randn(3000, 3000).t()}, self.path("in.pt"))
        self.vc("quantize", "--int8", self.path("in.pt"), "-o", self.path("a.pt"))
        self.vc("quantize", "--int8", "--max-memory", "8MiB", self.path("in.pt"), "-o", self.path("b.pt"))
        self.assertEqual(read_bytes(self.path("a.pt")), read_bytes(self.path("b.pt")))

    def test_others(self):
        """What is no tensor: named in plain words; NumPy arrays alone are no model."""
        value = {"model": {"w": torch.ones(3)}, "set": {1, 2}, "bytes": b"ab", "array": np.arange(3),
                 "half": np.float16(1), "loss": np.float32(0.1), "score": np.float64(-1e300), "best": np.int64(-(1 << 62)),
                 "byte": np.uint8(200), "big": np.uint64(1 << 63), "yes": np.bool_(True)}
        torch.save(value, self.path("in.pt"))
        parts = {p["name"]: p["what"] for p in self.vc("inspect", "--json", self.path("in.pt")).json()["parts"]}
        self.assertEqual(parts, {"model": "dict of 1", "set": "set of 2", "bytes": "bytes", "array": "NumPy array, not read",
                                 "half": "NumPy number, not read", "loss": "float 0.1 (NumPy)",
                                 "score": "float -1e+300 (NumPy)", "best": "int -4611686018427387904 (NumPy)",
                                 "byte": "int 200 (NumPy)", "big": "NumPy number, not read", "yes": "bool True (NumPy)"})
        report = self.vc("convert", self.path("in.pt"), "-o", self.path("out.pt")).out
        self.assertIn(b"array (NumPy array), half (NumPy number), big (NumPy number)", report)
        out = load(self.path("out.pt"), not OLD)
        for name in ("loss", "score", "best", "byte", "yes"):
            self.assertEqual((out[name], type(out[name])), (value[name].item(), type(value[name].item())), name)
        torch.save({"w": np.arange(3)}, self.path("none.pt"))
        self.assertIn("NumPy arrays in it are not read", self.refuse(3, "inspect", self.path("none.pt")))

    def test_refused(self):
        torch.save({"s": torch.eye(4).to_sparse(), "ok": torch.ones(3)}, self.path("in.pt"))
        said = self.refuse(3, "convert", self.path("in.pt"), "-o", self.path("out.pt"))
        self.assertIn("s: is a sparse tensor", said)
        self.assertFalse(os.path.exists(self.path("out.pt")))
        self.assertIn("s: is a sparse tensor", self.refuse(3, "diff", self.path("in.pt"), self.path("in.pt")))
        self.assertIn(b"s (is a sparse tensor", self.vc("inspect", "--stats", self.path("in.pt")).out)
        torch.save({"epoch": 1}, self.path("none.pt"))
        self.assertIn("without any tensor", self.refuse(3, "inspect", self.path("none.pt")))


def network_after(path):
    return load(path, not OLD)["model_state_dict"]


if __name__ == "__main__":
    main()
