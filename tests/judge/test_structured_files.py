"""test_structured_files.py - units removed in every kind of file: what is deflated, PyTorch's, in shards, by several workers,
tied, beside an optimizer, in a pipeline; with every number of threads and little memory. NumPy says what is left."""
import json
import os
import unittest
import zipfile

from judge_support import Judge, main, np, read_bytes, write_bytes
from test_gguf import gguf_arrays
from test_safetensors import st_arrays, st_read
from test_shards import INDEX, tree

try:
    import torch
except ImportError:
    torch = None

N, GONE = 6, [0, 4]  # experts, and those that go


def arrays(size=24, n=N):
    rng = np.random.default_rng(5)
    some = {"embed.weight": (40, size), "layers.0.mlp.gate.weight": (n, size), "fc1.weight": (size, 30), "fc1.bias": (size,)}
    for u in range(n):
        some.update({"layers.0.mlp.experts.%d.up.weight" % u: (16, size), "layers.0.mlp.experts.%d.down.weight" % u: (size, 16)})
    return {k: (rng.standard_normal(some[k]) * (0.1 if any("experts.%d." % u in k for u in GONE) else 1)).astype("f4")
            for k in sorted(some)}


def couplings(n=N):
    experts = " = ".join("layers.0.mlp.experts.%d.%s.weight@%d!" % (u, p, u) for u in range(n) for p in ("up", "down"))
    lines = ["experts: layers.0.mlp.gate.weight:0 = " + experts]
    lines += ["layers.0.mlp.experts.%d.up.weight:0 = layers.0.mlp.experts.%d.down.weight:1" % (u, u) for u in range(n)]
    return "\n".join(lines) + "\n"


def lowest(a, k):
    norms = (a.astype("f8") ** 2).sum(axis=1)
    return sorted(sorted(range(len(norms)), key=lambda u: (norms[u], -u))[:k])


def expected(some):
    """A third of the experts, and a quarter of the neurons of the others."""
    out, stay = {}, [u for u in range(N) if u not in GONE]
    for k, a in some.items():
        if ".experts." in k:
            u = int(k.split(".")[4])
            rows = lowest(some["layers.0.mlp.experts.%d.up.weight" % u], 4)
            if u in stay:
                out[k.replace("experts.%d." % u, "experts.%d." % stay.index(u))] = np.delete(a, rows, 0 if ".up." in k else 1)
        else:
            out[k] = a[stay] if ".gate." in k else a
    return out


CONFIG = {"num_experts": N, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
OPTIONS = ("prune", "--structured", "0.34", "--set", "*.up.*=0.25", "--set", "*.gate.*=0.34", "--dims", "neurons,experts")


class Files(Judge):
    def setUp(self):
        super().setUp()
        with open(self.path("c.txt"), "w") as f:
            f.write(couplings())
        self.options = (*OPTIONS, "--couplings", self.path("c.txt"))

    def same(self, got, want):
        self.assertEqual(sorted(got), sorted(want))
        for k, a in want.items():
            self.same_bits(np.asarray(got[k]), np.ascontiguousarray(a), k)

    def read(self, path):
        return {k: np.frombuffer(v[2], "f4").reshape(v[1]) for k, v in st_read(path)[0].items()}

    def test_npz(self):
        """Stored and deflated."""
        np.savez(self.path("a.npz"), **arrays())
        np.savez_compressed(self.path("b.npz"), **arrays())
        for name in ("a", "b"):
            self.vc(*self.options, self.path(name + ".npz"), "-o", self.path(name + ".out.npz"))
            self.same(self.load(self.path(name + ".out.npz")), expected(arrays()))
            self.vc(*self.options, self.path(name + ".npz"), "-o", self.path(name + ".d.npz"), "--deflate")
            self.same(dict(np.load(self.path(name + ".d.npz"))), expected(arrays()))
        self.assertEqual(read_bytes(self.path("a.out.npz")), read_bytes(self.path("b.out.npz")))

    def test_other_formats(self):
        st_arrays(self.path("a.safetensors"), arrays())
        self.vc(*self.options, self.path("a.safetensors"), "-o", self.path("o.safetensors"))
        self.same(self.read(self.path("o.safetensors")), expected(arrays()))
        gguf_arrays(self.path("a.gguf"), arrays())
        for source in ("a.safetensors", "a.gguf"):
            self.vc(*self.options, "--layout", "plain", self.path(source), "-o", self.path("o.npz"), "--force")
            self.same(self.load(self.path("o.npz")), expected(arrays()))

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch(self):
        """Keys of a dictionary; views of one storage; the state of an optimizer."""
        some = {k: torch.from_numpy(a) for k, a in arrays().items()}
        some["fc1.weight"] = some["fc1.weight"].t().contiguous().t()
        torch.save({"epoch": 3, "model": some}, self.path("in.pt"))
        self.vc(*self.options, self.path("in.pt"), "-o", self.path("o.pt"))
        got = torch.load(self.path("o.pt"))
        self.assertEqual(got["epoch"], 3)
        self.same({k: a.numpy() for k, a in got["model"].items()}, expected(arrays()))
        net = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 3))
        optimizer = torch.optim.Adam(net.parameters())
        net(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, self.path("train.pt"))
        with open(self.path("n.txt"), "w") as f:
            f.write("model.0.weight:0 = model.0.bias:0 = model.2.weight:1\n")
        names = list(self.vc("inspect", "--json", self.path("train.pt")).json()["tensors"])
        prefix = "model." if any(t["name"].startswith("model.0") for t in names) else ""
        with open(self.path("n.txt"), "w") as f:
            f.write("{0}0.weight:0 = {0}0.bias:0 = {0}2.weight:1\n".format(prefix))
        command = ("prune", "--structured", "0.5", "--couplings", self.path("n.txt"), self.path("train.pt"), "-o", self.path("small.pt"))
        self.assertIn("is state of the optimizer", self.refuse(3, *command))
        self.vc(*command, "--drop", "optimizer")
        small = torch.load(self.path("small.pt"))["model"]
        rows = [u for u in range(12) if u not in lowest(net[0].weight.detach().numpy(), 6)]
        self.assertTrue(torch.equal(small["0.weight"], net[0].weight[rows]))
        self.assertTrue(torch.equal(small["0.bias"], net[0].bias[rows]))
        self.assertTrue(torch.equal(small["2.weight"], net[2].weight[:, rows]))

    def test_tied(self):
        """Two names of one tensor: it is cut once, under both, whichever the couplings name."""
        rng = np.random.default_rng(1)
        some = {"embed.weight": rng.standard_normal((50, 16)).astype("f4"), "fc.weight": rng.standard_normal((16, 30)).astype("f4")}
        names = {"head.weight": "embed.weight"}
        st_arrays(self.path("in.safetensors"), some, metadata=dict(names, **{"vcompress.names": json.dumps(names)}))
        rows = lowest(some["fc.weight"], 4)
        for line in ("fc.weight:0 = embed.weight:1 = head.weight:1\n", "fc.weight:0 = head.weight:1\n", "fc.weight:0 = embed.weight:1\n"):
            with open(self.path("t.txt"), "w") as f:
                f.write(line)
            self.vc("prune", "--structured", "0.25", "--couplings", self.path("t.txt"), self.path("in.safetensors"), "-o",
                    self.path("o.safetensors"), "--force")
            got, metadata = st_read(self.path("o.safetensors"))[:2]
            self.assertEqual(json.loads(metadata["vcompress.names"]), names)
            self.same(self.read(self.path("o.safetensors")), {"embed.weight": np.delete(some["embed.weight"], rows, 1),
                                                             "fc.weight": np.delete(some["fc.weight"], rows, 0)})
            self.vc("prune", "--structured", "0.25", "--couplings", self.path("t.txt"), self.path("in.safetensors"), "-o",
                    self.path("o.npz"), "--force")
            self.assertEqual(self.load(self.path("o.npz"))["head.weight"].tobytes(),
                             np.delete(some["embed.weight"], rows, 1).tobytes())
        # An expert that is another name of one that goes is a tensor then.
        some, n = arrays(), "layers.0.mlp.experts.%d.up.weight"
        some[n % 5] = some[n % GONE[1]]
        names = {n % 5: n % GONE[1]}
        st_arrays(self.path("in.safetensors"), {k: a for k, a in some.items() if k not in names},
                  metadata=dict(names, **{"vcompress.names": json.dumps(names)}))
        with open(self.path("r.txt"), "w") as f:
            f.write("layers.0.mlp.gate.weight:0 %s\n" % ",".join(map(str, GONE)))
        self.vc("prune", "--remove", self.path("r.txt"), "--couplings", self.path("c.txt"), self.path("in.safetensors"), "-o",
                self.path("o.npz"), "--force")
        self.assertEqual(self.load(self.path("o.npz"))[n % 3].tobytes(), some[n % GONE[1]].tobytes())

    def folder(self, name, n_shards, config=None):
        some, folder = arrays(), self.path(name)
        os.makedirs(folder)
        names, where = sorted(some), {}
        for k in range(n_shards):
            file = "model-%05d-of-%05d.safetensors" % (k + 1, n_shards)
            part = names[k * len(names) // n_shards:(k + 1) * len(names) // n_shards]
            st_arrays(os.path.join(folder, file), {t: some[t] for t in part}, metadata={"format": "pt"})
            where.update({t: file for t in part})
        write_bytes(os.path.join(folder, INDEX), json.dumps({"metadata": {}, "weight_map": where}).encode())
        write_bytes(os.path.join(folder, "config.json"), json.dumps(config or CONFIG).encode())
        return folder

    def test_shards_and_workers(self):
        """A folder of four files; one run and three workers, of which each scores what it needs."""
        folder = self.folder("in", 4)
        self.vc(*self.options, folder, "-o", self.path("o"))
        got = {}
        for file in sorted(os.listdir(self.path("o"))):
            if file.endswith(".safetensors"):
                got.update(self.read(os.path.join(self.path("o"), file)))
        self.same(got, expected(arrays()))
        with open(os.path.join(self.path("o"), "config.json")) as f:
            self.assertEqual(json.load(f), dict(CONFIG, num_experts=4, moe_intermediate_size=12))
        for k in (1, 2, 3):
            self.vc(*self.options, "--shard", "%d/3" % k, folder, "-o", self.path("w"))
        self.vc("index", self.path("w"))
        self.assertEqual(tree(self.path("w")), tree(self.path("o")))
        self.vc("verify", self.path("o"))

    def test_same_bytes(self):
        """Whatever the threads and the memory."""
        folder = self.folder("in", 2)
        self.vc(*self.options, "--threads", "1", folder, "-o", self.path("o"))
        for threads in ("2", "3", "8"):
            for memory in ("1GiB", "24MiB"):
                self.vc(*self.options, "--threads", threads, "--max-memory", memory, folder, "-o", self.path("p"), "--force")
                self.assertEqual(tree(self.path("p")), tree(self.path("o")), (threads, memory))

    def test_refused(self):
        folder = self.folder("few", 1, dict(CONFIG, num_experts_per_tok=5))
        self.assertIn('"num_experts_per_tok" is 5, and 4 of 6 experts would be left', self.refuse(3, *self.options, folder, "-o", self.path("x")))
        folder = self.folder("parts", 1, dict(CONFIG, n_group=2))
        self.assertIn('"n_group" divides the experts', self.refuse(3, *self.options, folder, "-o", self.path("x")))
        pipeline = self.path("pipeline")
        os.makedirs(os.path.join(pipeline, "unet"))
        write_bytes(os.path.join(pipeline, "model_index.json"), b'{"_class_name": "P", "unet": ["diffusers", "U"], "vae": ["diffusers", "A"]}')
        for part in ("unet", "vae"):
            os.makedirs(os.path.join(pipeline, part), exist_ok=True)
            st_arrays(os.path.join(pipeline, part, "diffusion_pytorch_model.safetensors"), arrays())
            write_bytes(os.path.join(pipeline, part, "config.json"), b'{"_class_name": "U"}')
        self.assertIn("there is no such tensor", self.refuse(3, *self.options, pipeline, "-o", self.path("x")))
        said = self.refuse(3, "prune", "--structured", "0.3", pipeline, "-o", self.path("x"))
        self.assertIn("has several models", said)
        self.assertFalse(os.path.exists(self.path("x")))

    def test_contradictions_before_data(self):
        """All of them, though a value of the file is damaged, which a run would find."""
        np.savez(self.path("in.npz"), **arrays())
        with zipfile.ZipFile(self.path("in.npz")) as z:
            at = z.getinfo("embed.weight.npy").header_offset
        data = bytearray(read_bytes(self.path("in.npz")))
        data[at + 400] ^= 1
        write_bytes(self.path("in.npz"), bytes(data))
        with open(self.path("bad.txt"), "w") as f:
            f.write("fc1.weight:0 = fc1.bias:0 = embed.weight:0\nfc1.weight:2\nnobody:0 = fc1.bias:0\nfc1.weight:1*7\n"
                    "experts: layers.0.mlp.experts.9.up.weight@9\nembed.weight:1 = fc1.bias:0 = fc1.weight:0\n")
        said = self.refuse(3, "prune", "--structured", "0.3", "--couplings", self.path("bad.txt"), self.path("in.npz"), "-o", self.path("x.npz"))
        for line in (1, 2, 3, 4, 5):
            self.assertIn("line %d: " % line, said)
        self.refuse(3, *self.options, self.path("in.npz"), "-o", self.path("x.npz"))
        self.assertFalse(os.path.exists(self.path("x.npz")))


if __name__ == "__main__":
    main()
