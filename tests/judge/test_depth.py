"""test_depth.py - layers that are left out: names, values, configurations and divisions of what is written, in every format.

The judges are NumPy with readers of a page for each format, and where they can be imported torch, the `gguf` package, and
transformers: a small random model of several families is loaded from the folder that was written, and its outputs are
those of the whole model with the same layers taken out in torch.
"""
import json
import os
import re
import struct
import unittest

from judge_support import SMALL, SOURCE_DIR, Judge, main, np, read_bytes, run, write_bytes
from test_gguf import ARCHITECTURE, U32, gguf, gguf_arrays, gguf_read, pair_u32, string
from test_safetensors import st_arrays, st_read, st_write
from test_shards import INDEX, tree

try:
    import torch
except ImportError:
    torch = None

LIST = "model.layers"
CONFIG = {"model_type": "llama", "num_hidden_layers": 12, "hidden_size": 32,
          "layer_types": ["full_attention", "sliding_attention"] * 6, "stop": list(range(12))}


def arrays(n=12, name=LIST, size=32):
    """A model with n layers, sorted by name as writers leave them: 0, 1, 10, 11, 2, ..."""
    rng = np.random.default_rng(n)
    some = {"embed.weight": (50, size), "norm.weight": (size,)}
    for k in range(n):
        some.update({"%s.%d.attn.q_proj.weight" % (name, k): (size, size), "%s.%d.ln.weight" % (name, k): (size,),
                     "%s.%d.mlp.up_proj.weight" % (name, k): (2 * size, size)})
    return {t: rng.standard_normal(some[t]).astype("f4") for t in sorted(some)}


def without(tensors, gone, name=LIST):
    """The tensors of the other layers, as they are called then."""
    out = {}
    for t, a in tensors.items():
        m = re.match(re.escape(name) + r"\.(\d+)\.(.*)", t)
        if m is None:
            out[t] = a
        elif int(m[1]) not in gone:
            out["%s.%d.%s" % (name, int(m[1]) - sum(g < int(m[1]) for g in gone), m[2])] = a
    return out


class Depth(Judge):
    def folder(self, name="in", n_shards=1, tensors=None, config=None, metadata=None):
        folder = self.path(name)
        tensors = tensors or arrays()
        os.makedirs(folder)
        names = sorted(tensors, key=lambda t: [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", t)])
        where = {}
        for k in range(n_shards):
            file = "model-%05d-of-%05d.safetensors" % (k + 1, n_shards) if n_shards > 1 else "model.safetensors"
            part = names[k * len(names) // n_shards:(k + 1) * len(names) // n_shards]
            st_arrays(os.path.join(folder, file), {t: tensors[t] for t in part}, metadata=metadata or {"format": "pt"})
            where.update({t: file for t in part})
        if n_shards > 1:
            write_bytes(os.path.join(folder, INDEX), json.dumps({"metadata": {}, "weight_map": where}).encode())
        write_bytes(os.path.join(folder, "config.json"), json.dumps(config or CONFIG, indent=2).encode())
        return folder

    def read_folder(self, folder):
        """All tensors; every file that the index names is there, and holds what it says."""
        found, where = {}, {}
        for file in sorted(f for f in os.listdir(folder) if f.endswith(".safetensors")):
            for t, (dtype, shape, data) in st_read(os.path.join(folder, file))[0].items():
                found[t] = np.frombuffer(data, "f4").reshape(shape) if dtype == "F32" else data
                where[t] = file
        if os.path.exists(os.path.join(folder, INDEX)):
            self.assertEqual(json.loads(read_bytes(os.path.join(folder, INDEX)))["weight_map"], where)
        return found, where

    def same(self, got, want):
        self.assertEqual(sorted(got), sorted(want))
        for t, a in want.items():
            self.same_bits(np.asarray(got[t]), a, t)

    # ---- layers that the answers miss least ----

    def test_least(self):
        """The figure of each layer is what evaluate says of the model without it, and the least go."""
        r, size, n = np.random.default_rng(2), 32, 4
        tensors = {"model.embed_tokens.weight": r.standard_normal((64, size)), "model.norm.weight": np.ones(size), "lm_head.weight": r.standard_normal((64, size))}
        for k, share in enumerate((1, 0.2, 0.05, 0.4)):  # of what a layer adds to the stream
            names = {"mlp.gate_proj": (64, size), "mlp.up_proj": (64, size), "mlp.down_proj": (size, 64),
                     **{"self_attn.%s_proj" % c: (size, size) for c in "qkvo"}}
            for t, shape in names.items():
                by = share if t.endswith(("down_proj", "o_proj")) else 1
                tensors["%s.%d.%s.weight" % (LIST, k, t)] = by * r.standard_normal(shape) / shape[1] ** 0.5
            for t in ("input_layernorm", "post_attention_layernorm"):
                tensors["%s.%d.%s.weight" % (LIST, k, t)] = np.ones(size)
        folder = self.folder(tensors={t: a.astype("f4") for t, a in tensors.items()}, config={
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": size, "intermediate_size": 64, "num_hidden_layers": n,
            "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 64, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False})
        np.savez(self.path("ids.npz"), input_ids=r.integers(0, 64, (24, 16)))
        data = ("--data", self.path("ids.npz"))
        losses = []
        for k in range(n):
            self.vc("prune", "--drop-layers", k, folder, "-o", self.path("one"), "-f")
            losses.append(self.vc("evaluate", *data, "--teacher", folder, "--json", self.path("one")).json()["quality"]["divergence"])
        order = sorted(range(n), key=losses.__getitem__)
        self.assertEqual(order[0], 2)
        for count in (1, 2):
            report = self.vc("prune", "--drop-layers", "least:%d" % count, *data, "--json", folder, "-o", self.path("least"), "-f").json()
            self.assertEqual(report["totals"]["layers"]["left_out"], sorted(order[:count]))
            self.assertEqual(report["command"], "prune --drop-layers " + ",".join(map(str, order[:count])))
            self.assertEqual(report["note"], "divergence without one layer alone: " + ", ".join("%d %.3g" % (k, losses[k]) for k in order))
            self.vc("prune", "--drop-layers", ",".join(map(str, order[:count])), folder, "-o", self.path("given"), "-f")
            self.assertEqual(tree(self.path("least")), tree(self.path("given")))
        args = (folder, "-o", self.path("n"))
        self.assertIn("needs --data", self.refuse(2, "prune", "--drop-layers", "least:1", *args))
        self.assertIn("least:2", self.refuse(2, "prune", "--drop-layers", "1", *data, *args))
        self.assertIn("from 1 to 4 can", self.refuse(2, "prune", "--drop-layers", "least:5", *data, *args))
        np.savez(self.path("w.npz"), **arrays())
        self.assertIn("does not say what", self.refuse(3, "prune", "--drop-layers", "least:1", *data, self.path("w.npz"), "-o", self.path("n")))

    # ---- formats ----

    def test_npz(self):
        np.savez(self.path("in.npz"), **arrays())
        for options, gone in ((("--drop-layers", "0"), [0]), (("--drop-layers", "9-11,2"), [2, 9, 10, 11]),
                              (("--keep-layers", "1,3-5"), [0, 2, 6, 7, 8, 9, 10, 11])):
            self.vc("prune", *options, self.path("in.npz"), "-o", self.path("o.npz"), "--force")
            self.same(self.load(self.path("o.npz")), without(arrays(), gone))
        self.vc("prune", "--drop-layers", "1", "--deflate", self.path("in.npz"), "-o", self.path("d.npz"))
        self.same(dict(np.load(self.path("d.npz"))), without(arrays(), [1]))

    def test_safetensors(self):
        st_arrays(self.path("in.safetensors"), arrays())
        self.vc("prune", "--drop-layers", "10,3", self.path("in.safetensors"))
        got = st_read(self.path("in.pruned.safetensors"))[0]
        self.same({t: np.frombuffer(v[2], "f4").reshape(v[1]) for t, v in got.items()}, without(arrays(), [3, 10]))
        for to in ("o.npz", "o.gguf"):  # and into others
            self.vc("prune", "--drop-layers", "10,3", self.path("in.safetensors"), "-o", self.path(to))
        self.same(self.load(self.path("o.npz")), without(arrays(), [3, 10]))
        self.assertEqual(sorted(gguf_read(self.path("o.gguf"))[0]), sorted(without(arrays(), [3, 10])))

    def test_gguf(self):
        """Arrays with an entry per layer lose theirs; lists of other things of that length stay."""
        def array(key, kind, values):
            return string(key) + struct.pack("<IIQ", 9, kind, len(values)) + b"".join(values)
        heads = array("llama.attention.head_count_kv", U32, [struct.pack("<I", k) for k in range(12)])
        window = array("llama.attention.sliding_window_pattern", 7, [bytes([k % 2]) for k in range(12)])
        rope = array("llama.rope.sections", U32, [struct.pack("<I", k) for k in range(12)])
        pairs = (ARCHITECTURE, pair_u32("llama.block_count", 12), heads, window, rope, pair_u32("other.block_count", 12))
        tensors = arrays(name="blk")
        gguf_arrays(self.path("in.gguf"), tensors, pairs=pairs)
        self.vc("prune", "--drop-layers", "1,4,10", self.path("in.gguf"), "-o", self.path("o.gguf"))
        got, said = gguf_read(self.path("o.gguf"))
        want = without(tensors, [1, 4, 10], "blk")
        self.same({t: np.frombuffer(v[2], "f4").reshape(v[1]) for t, v in got.items()}, want)
        left = [k for k in range(12) if k not in (1, 4, 10)]
        self.assertEqual(said["llama.block_count"][1], struct.pack("<I", 9))
        self.assertEqual(said["other.block_count"][1], struct.pack("<I", 12))
        self.assertEqual(said["llama.attention.head_count_kv"][1], struct.pack("<IQ9I", U32, 9, *left))
        self.assertEqual(said["llama.attention.sliding_window_pattern"][1],
                         struct.pack("<IQ", 7, 9) + bytes(k % 2 for k in left))
        self.assertEqual(said["llama.rope.sections"][1], struct.pack("<IQ12I", U32, 12, *range(12)))
        if gguf is not None:
            reader = gguf.GGUFReader(self.path("o.gguf"))
            self.assertEqual(sorted(t.name for t in reader.tensors), sorted(want))
        # what most elements are may be another type without the layers: a statement that was true stays true, others stay
        mixed = {n: a if re.match(r"blk\.([1-9]|10)\.", n) else a.astype("f2") for n, a in tensors.items()}
        for stated, left in ((0, 1), (1, 1), (15, 15)):
            gguf_arrays(self.path("t.gguf"), mixed, pairs=(ARCHITECTURE, pair_u32("llama.block_count", 12), pair_u32("general.file_type", stated)))
            self.vc("prune", "--force", "--drop-layers", "1-10", self.path("t.gguf"), "-o", self.path("o.gguf"))
            self.assertEqual(gguf_read(self.path("o.gguf"))[1]["general.file_type"], (U32, struct.pack("<I", left)))
        gguf_arrays(self.path("n.gguf"), tensors, pairs=(ARCHITECTURE, pair_u32("llama.block_count", 11)))
        said = self.refuse(3, "prune", "--drop-layers", "1", self.path("n.gguf"), "-o", self.path("x.gguf"))
        self.assertIn("no key of the metadata says that the number of layers is 12, which becomes 11", said)

    def test_gguf_in_files(self):
        """A file whose layers are all left out goes, and the others are numbered anew; the first has the metadata."""
        tensors = arrays(name="blk")
        size = max(sum(a.nbytes for n, a in tensors.items() if n.startswith("blk.%d." % k)) for k in range(12))
        gguf_arrays(self.path("in.gguf"), tensors, pairs=(ARCHITECTURE, pair_u32("llama.block_count", 12)))
        self.vc("convert", "--max-shard-size", str(size), self.path("in.gguf"), "-o", self.path("parts"))
        gone = [2, 3, 4, 9]
        self.vc("prune", "--drop-layers", "2-4,9", self.path("parts"), "-o", self.path("left"))
        before, after = (sorted(f for f in os.listdir(self.path(d)) if f.endswith(".gguf")) for d in ("parts", "left"))
        self.assertLess(len(after), len(before))
        prefix = after[0][:after[0].index("-00001-of-")]
        self.assertEqual(after, ["%s-%05d-of-%05d.gguf" % (prefix, k + 1, len(after)) for k in range(len(after))])
        got = {}
        for k, name in enumerate(after):
            own, said = gguf_read(self.path(os.path.join("left", name)))
            self.assertTrue(own or k == 0, name)
            self.assertEqual((said["split.no"][1], said["split.count"][1]),
                             (struct.pack("<H", k), struct.pack("<H", len(after))))
            got.update(own)
        self.same({t: np.frombuffer(v[2], "f4").reshape(v[1]) for t, v in got.items()}, without(tensors, gone, "blk"))
        self.vc("verify", "--data", self.path("left"))

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch(self):
        flat = {t: torch.from_numpy(a) for t, a in arrays().items()}
        torch.save({"epoch": 3, "model": flat, "names": ["a"]}, self.path("in.pt"))
        self.vc("prune", "--drop-layers", "1,10", self.path("in.pt"), "-o", self.path("o.pt"))
        got = torch.load(self.path("o.pt"))
        self.assertEqual((got["epoch"], got["names"]), (3, ["a"]))
        self.same({t: a.numpy() for t, a in got["model"].items()}, without(arrays(), [1, 10]))
        self.vc("run", "--pass", "prune --drop-layers 1,10", "--pass", " ".join(("quantize", "--int8") + SMALL),
                self.path("in.pt"), "-o", self.path("q.pt"))
        self.vc("dequantize", self.path("q.pt"), "-o", self.path("b.pt"))
        self.assertEqual(sorted(torch.load(self.path("b.pt"))["model"]), sorted(without(arrays(), [1, 10])))
        self.assertIn("model.layers.9.attn.q_proj.weight.int8", torch.load(self.path("q.pt"))["model"])
        # The number is no part of a key here.
        tree_of = {"model": {"layers": [{"w": torch.ones(2)} for _ in range(3)], "head": torch.ones(2)}}
        torch.save(tree_of, self.path("list.pt"))
        said = self.refuse(3, "prune", "--drop-layers", "0", self.path("list.pt"), "-o", self.path("x.pt"))
        self.assertIn("what has the number is no key of a tensor", said)
        self.vc("prune", "--drop-layers", "0", self.path("list.pt"), "-o", self.path("list.npz"))
        self.assertEqual(len(self.load(self.path("list.npz"))), 3)
        torch.save([torch.ones(2), torch.ones(2)], self.path("items.pt"))
        self.refuse(3, "prune", "--drop-layers", "0", self.path("items.pt"), "-o", self.path("x.pt"))

    # ---- folders ----

    def test_config(self):
        folder = self.folder()
        self.vc("prune", "--drop-layers", "1,2", folder, "-o", self.path("o"))
        want = dict(CONFIG, num_hidden_layers=10, layer_types=[t for k, t in enumerate(CONFIG["layer_types"]) if k not in (1, 2)])
        self.assertEqual(json.loads(read_bytes(self.path("o/config.json"))), want)
        self.same(self.read_folder(self.path("o"))[0], without(arrays(), [1, 2]))
        for config, says in (({"num_hidden_layers": 11}, "no key of it says that the number of layers is 12"),
                             ({"num_hidden_layers": 12, "quantization_config": {"modules": ["model.layers.1.mlp"]}},
                              "names layers by their numbers")):
            other = self.folder("c%d" % len(os.listdir(self.dir)), config=config,
                                tensors=dict(arrays(), **({"model.layers.0.mlp.qweight": np.zeros((1, 1), "f4")}
                                                          if "quantization_config" in config else {})))
            self.assertIn(says, self.refuse(3, "prune", "--drop-layers", "1", "--layers", LIST, other, "-o", self.path("x")))
        self.assertFalse(os.path.exists(self.path("x")))

    def test_shards(self):
        """The division stays; a file that nothing is left in is gone, and the others are numbered anew."""
        folder = self.folder(n_shards=4)
        self.vc("prune", "--drop-layers", "0,11", folder, "-o", self.path("o"))
        got, where = self.read_folder(self.path("o"))
        self.same(got, without(arrays(), [0, 11]))
        self.assertEqual(sorted(set(where.values())), ["model-%05d-of-00004.safetensors" % k for k in range(1, 5)])
        before = self.read_folder(folder)[1]
        shard = before["model.layers.4.ln.weight"]
        layers = sorted({int(t.split(".")[2]) for t, f in before.items() if f == shard})
        self.assertTrue(all(t.startswith(LIST) for t, f in before.items() if f == shard))
        gone = ",".join(map(str, layers))
        self.vc("prune", "--drop-layers", gone, folder, "-o", self.path("p"))
        got, where = self.read_folder(self.path("p"))
        self.same(got, without(arrays(), layers))
        self.assertEqual(sorted(set(where.values())), ["model-%05d-of-00003.safetensors" % k for k in range(1, 4)])
        self.vc("prune", "--drop-layers", gone, folder, "-o", self.path("m"), "--max-shard-size", "20KB")
        self.same(self.read_folder(self.path("m"))[0], without(arrays(), layers))
        for i in (1, 2):  # workers, then the index
            self.vc("prune", "--drop-layers", gone, "--shard", "%d/2" % i, folder, "-o", self.path("w"))
        self.vc("index", self.path("w"))
        self.assertEqual(tree(self.path("w")), tree(self.path("p")))

    def test_tied(self):
        """A second name of a tensor of a layer that goes is a tensor; others are renamed."""
        some = arrays(3)
        del some["model.layers.2.ln.weight"], some["model.layers.2.attn.q_proj.weight"]
        names = {"model.layers.2.ln.weight": "model.layers.0.ln.weight",
                 "model.layers.2.attn.q_proj.weight": "model.layers.1.attn.q_proj.weight"}
        st_arrays(self.path("in.safetensors"), some, metadata=dict(names, **{"vcompress.names": json.dumps(names)}))
        whole = dict(some, **{a: some[b] for a, b in names.items()})
        for gone in (0, 1, 2):
            self.vc("prune", "--drop-layers", gone, self.path("in.safetensors"), "-o", self.path("o.npz"), "--force")
            self.same(self.load(self.path("o.npz")), without(whole, [gone]))
            self.vc("prune", "--drop-layers", gone, self.path("in.safetensors"), "-o", self.path("o.safetensors"), "--force")
            self.vc("convert", self.path("o.safetensors"), "-o", self.path("p.npz"), "--force")
            self.same(self.load(self.path("p.npz")), without(whole, [gone]))
        self.vc("prune", "--drop-layers", 0, self.path("in.safetensors"), "-o", self.path("o.safetensors"), "--force")
        self.assertEqual(json.loads(st_read(self.path("o.safetensors"))[1]["vcompress.names"]),
                         {"model.layers.1.attn.q_proj.weight": "model.layers.0.attn.q_proj.weight"})
        said = self.refuse(3, "run", "--pass", "prune --sparsity 0.5", "--pass", "prune --drop-layers 1",
                           self.path("in.safetensors"), "-o", self.path("x.safetensors"))
        self.assertIn("leave out layers first", said)

    def test_graph(self):
        """What a GGUF file computes without its first layer is what the folder with the same weights computes."""
        parts = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
                 "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
                 "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
                 "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
        goldens = os.path.join(SOURCE_DIR, "tests", "graph", "goldens")
        model = os.path.join(goldens, "llama-gguf", "model.gguf")
        config = json.loads(read_bytes(os.path.join(goldens, "llama", "config.json")))
        tensors = {}
        for name, (_, shape, data) in gguf_read(model)[0].items():
            values = np.frombuffer(data, "f4").reshape(shape)
            *blk, part, end = name.split(".")
            if part in ("attn_q", "attn_k"):  # neighbours there are the halves of a head here
                pairs = values.reshape(-1, config["head_dim"] // 2, 2, shape[1])
                values = np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(shape)
            tensors[".".join((["model.layers", blk[1]] if blk else []) + [parts[part], end])] = values
        found = []
        for source, out in ((self.folder("whole", tensors=tensors, config=config), "f"), (model, "g.gguf")):
            self.vc("prune", "--drop-layers", "0", "-q", source, "-o", self.path(out))
            self.vc("graph", "--data", os.path.join(goldens, "llama-gguf.safetensors"), "--array", "input_ids=input.input_ids",
                    self.path(out), "--outputs", self.path(out + ".npz"))
            found.append(np.load(self.path(out + ".npz"))["logits"])
        self.assertLess(np.abs(found[0] - found[1]).max(), 1e-5 * np.abs(found[0]).max())
        whole = st_read(os.path.join(goldens, "llama-gguf.safetensors"))[0]["output.logits"]
        self.assertGreater(np.abs(found[0] - np.frombuffer(whole[2], "f8").reshape(whole[1])).max(), 1e-3)

    # ---- chains ----

    def chain(self, source, suffix, *passes):
        """One run, and a run for each pass: the same bytes."""
        one = self.path("one" + suffix)
        self.vc("run", *[w for p in passes for w in ("--pass", p)], source, "-o", one, "--force")
        for k, p in enumerate(passes):
            to = self.path("step%d%s" % (k, suffix))
            self.vc(*p.split(), source, "-o", to, "--force")
            source = to
        if os.path.isdir(one):
            self.assertEqual(tree(one), tree(source), passes)
        else:
            self.assertEqual(read_bytes(one), read_bytes(source), passes)
        return one

    def test_chains(self):
        int8 = " ".join(("quantize --int8",) + SMALL)
        np.savez(self.path("in.npz"), **arrays())
        st_arrays(self.path("in.safetensors"), arrays())
        gguf_arrays(self.path("in.gguf"), arrays(name="blk"), pairs=(ARCHITECTURE, pair_u32("llama.block_count", 12)))
        sources = [(self.path("in.npz"), ".npz"), (self.path("in.safetensors"), ".safetensors"),
                   (self.path("in.gguf"), ".gguf"), (self.folder(n_shards=3), "")]
        for source, suffix in sources:
            for passes in (("prune --drop-layers 1,10", int8), ("prune --drop-layers 1,10", "prune --drop-layers 0,9"),
                           ("prune --drop-layers 2", "prune --sparsity 0.5 --scope global"),
                           ("prune --sparsity 0.5 --scope global", "prune --drop-layers 2"),
                           ("prune --keep-layers 5-10", int8 + " --exclude *.0.* --include *.1.attn*")):
                self.chain(source, suffix, *passes)
        for source, suffix in sources[:2]:
            self.chain(source, suffix, int8, "prune --drop-layers 3,11")

    def test_one_command(self):
        """Layers first, then zeros; masks have the names of what is left."""
        np.savez(self.path("in.npz"), **arrays())
        self.vc("prune", "--drop-layers", "1,10", "--pattern", "2:4", self.path("in.npz"), "-o", self.path("o.npz"),
                "--mask-out", self.path("m.npz"))
        self.vc("prune", "--drop-layers", "1,10", self.path("in.npz"), "-o", self.path("d.npz"))
        self.vc("prune", "--pattern", "2:4", self.path("d.npz"), "-o", self.path("p.npz"), "--mask-out", self.path("n.npz"))
        for a, b in (("o", "p"), ("m", "n")):
            self.assertEqual(read_bytes(self.path(a + ".npz")), read_bytes(self.path(b + ".npz")))
        self.vc("prune", "--drop-layers", "1,10", "--mask", self.path("m.npz"), self.path("in.npz"), "-o", self.path("k.npz"))
        self.same(self.load(self.path("k.npz")), self.load(self.path("p.npz")))

    def test_loader_names(self):
        """Lists of modules in a loader's configuration have the numbers of the output."""
        config = dict(CONFIG, architectures=["LlamaForCausalLM"])
        tensors = arrays(size=64)
        rename = {".attn.": ".self_attn.", ".ln.": ".input_layernorm.", "embed.": "model.embed_tokens."}
        for a, b in rename.items():
            tensors = {t.replace(a, b): v for t, v in tensors.items()}
        folder = self.folder(tensors=tensors, config=config)
        keep = "quantize --int8 --exclude model.layers.3.* --layout compressed-tensors --min-elements 1"
        one = self.chain(folder, "", "prune --drop-layers 1,10", keep)
        ignored = json.loads(read_bytes(os.path.join(one, "config.json")))["quantization_config"]["ignore"]
        self.assertIn("model.layers.3.mlp.up_proj", ignored)
        self.assertEqual([t for t in ignored if ".layers." in t and ".3." not in t], [])
        # Of a folder that is quantized already: the list follows.
        back = self.chain(one, "-b", "prune --drop-layers 0,5 --layers model.layers")
        ignored = json.loads(read_bytes(os.path.join(back, "config.json")))["quantization_config"]["ignore"]
        self.assertEqual([t for t in ignored if ".layers." in t and ".2." not in t], [])
        self.assertIn("model.layers.2.mlp.up_proj", ignored)
        self.vc("verify", back)

    # ---- the report, what is refused ----

    def test_report(self):
        np.savez(self.path("in.npz"), **arrays())
        r = self.vc("prune", "--drop-layers", "1,10", "--dry-run", "--json", self.path("in.npz")).json()
        before = sum(a.size for a in arrays().values())
        after = sum(a.size for a in without(arrays(), [1, 10]).values())
        t = r["totals"]
        self.assertEqual(t["layers"], {"list": LIST, "before": 12, "after": 10, "left_out": [1, 10]})
        self.assertEqual((t["parameters"], t["parameters_after"]), (before, after))
        self.assertEqual((t["host"]["before"], t["host"]["after"], t["bits_per_weight"]), (4 * before, 4 * after, 32))
        rows = {row["name"]: row for row in r["tensors"]}
        self.assertEqual(rows["model.layers.11.ln.weight"]["name_after"], "model.layers.9.ln.weight")
        self.assertEqual(rows["model.layers.11.ln.weight"]["action"], "kept")
        self.assertEqual(rows["model.layers.10.ln.weight"]["action"], "dropped")
        self.assertNotIn("name_after", rows["model.layers.0.ln.weight"])
        self.assertEqual(len(without(arrays(), [1, 10])), sum(row["action"] == "kept" for row in rows.values()))
        text = self.vc("prune", "--keep-layers", "0-7,11", "--dry-run", self.path("in.npz")).out.decode()
        self.assertRegex(text, r"layers: model\.layers 12 .* 9, without 8 to 10; parameters ")

    def test_refused(self):
        two = dict(arrays(2, "encoder.block"), **arrays(3, "decoder.block"))
        np.savez(self.path("two.npz"), **two)
        np.savez(self.path("in.npz"), **arrays())
        said = self.refuse(3, "prune", "--drop-layers", "0", self.path("two.npz"))
        self.assertIn("2 lists of layers: decoder.block, encoder.block; --layers says which", said)
        self.vc("prune", "--drop-layers", "0", "--layers", "encoder.block", self.path("two.npz"), "-o", self.path("o.npz"))
        self.same(self.load(self.path("o.npz")), without(two, [0], "encoder.block"))
        for options, says in ((("--drop-layers", "0-11"), "--drop-layers: no layer of model.layers would be left"),
                              (("--keep-layers", "12"), "--keep-layers: there is no layer 12: model.layers has 12"),
                              (("--drop-layers", "a"), "--drop-layers: 'a' is no list of layers"),
                              (("--drop-layers", "1", "--keep-layers", "2"), "one of --drop-layers and --keep-layers"),
                              (("--layers", "x"), "--layers works with --drop-layers or --keep-layers only")):
            self.assertIn(says, self.refuse(2, "prune", *options, self.path("in.npz"), "-o", self.path("x.npz")))
        self.assertFalse(os.path.exists(self.path("x.npz")))


# ---- transformers ---------------------------------------------------------------------------------------------------
try:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    import transformers
    for missing in ("float8_e4m3fn", "float8_e5m2"):
        if not hasattr(torch, missing):
            setattr(torch, missing, torch.float64)
except ImportError:
    transformers = None

TEXT = dict(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4)
IDS = dict(max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GROUPED = dict(TEXT, num_key_value_heads=2, **IDS)
# Class of the model, of its configuration, its sizes, where the layers are.
KINDS = {"llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, "model.layers"),
         "gpt2": ("GPT2LMHeadModel", "GPT2Config",
                  dict(vocab_size=99, n_embd=32, n_layer=4, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2),
                  "transformer.h"),
         "bert": ("BertModel", "BertConfig", TEXT, "encoder.layer"),
         "vit": ("ViTModel", "ViTConfig", dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
                                               image_size=32, patch_size=8), "encoder.layer"),
         "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(GROUPED, head_dim=8), "model.layers"),
         "phi3": ("Phi3ForCausalLM", "Phi3Config", dict(GROUPED, original_max_position_embeddings=64), "model.layers"),
         "mixtral": ("MixtralForCausalLM", "MixtralConfig", dict(GROUPED, num_local_experts=4), "model.layers"),
         "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(GROUPED, head_dim=8, sliding_window=4), "model.layers"),
         "gpt_neo": ("GPTNeoForCausalLM", "GPTNeoConfig",
                     dict(vocab_size=99, hidden_size=32, num_layers=4, num_heads=4, intermediate_size=48, window_size=4,
                          max_position_embeddings=64, attention_types=[[["global", "local"], 2]], bos_token_id=1, eos_token_id=2),
                     "transformer.h")}


@unittest.skipIf(transformers is None, "transformers is not installed")
class Loaded(Judge):
    def outputs(self, model, kind):
        with torch.no_grad():
            if kind == "vit":
                torch.manual_seed(3)
                return model(pixel_values=torch.randn(2, 3, 32, 32))[0]
            return model(input_ids=torch.arange(1, 21).reshape(1, 20), **({} if kind == "bert" else {"use_cache": False}))[0]

    def take_out(self, model, path, gone):
        """The model with the other layers, each as it was."""
        *way, last = path.split(".")
        parent = model
        for word in way:
            parent = getattr(parent, word)
        kept = [layer for k, layer in enumerate(getattr(parent, last)) if k not in gone]
        setattr(parent, last, torch.nn.ModuleList(kept))
        for k, layer in enumerate(kept):
            for module in layer.modules():
                if hasattr(module, "layer_idx"):
                    module.layer_idx = k
        if getattr(model.config, "layer_types", None):
            model.config.layer_types = [t for k, t in enumerate(model.config.layer_types) if k not in gone]
        model.config.num_hidden_layers = len(kept)

    def one(self, kind, gone):
        name, config, sizes, path = KINDS[kind]
        cls = getattr(transformers, name)
        torch.manual_seed(1)
        source = self.path(kind)
        if not os.path.exists(source):
            cls(getattr(transformers, config)(**sizes)).eval().save_pretrained(source)
        whole = cls.from_pretrained(source).eval()
        if kind == "vit" and hasattr(whole, "layers"):
            path = "layers"
        out = self.path("%s-%s" % (kind, "-".join(map(str, gone))))
        r = run("prune", "--drop-layers", ",".join(map(str, gone)), source, "-o", out)
        self.assertEqual(r.code, 0, r.err)
        if kind == "gemma2" and not getattr(whole.config, "layer_types", None) and gone == [0]:
            with open(os.path.join(out, "config.json")) as f:  # transformers before 4.50 reads no such list
                self.assertEqual(len(json.load(f)["layer_types"]), whole.config.num_hidden_layers - 1)
            return
        found, info = cls.from_pretrained(out, output_loading_info=True)
        self.assertEqual([list(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")], [[], [], []], kind)
        self.take_out(whole, path, gone)
        want = self.outputs(whole, kind)
        self.assertLess((self.outputs(found.eval(), kind) - want).abs().max().item(), 1e-5 * want.abs().max().item(), kind)

    def test_outputs(self):
        for kind, row in KINDS.items():
            if not all(hasattr(transformers, c) for c in row[:2]):
                print("no judge for this: transformers %s has no %s" % (transformers.__version__, row[0]))
                continue
            for gone in ([0], [1, 2], [2, 3]):
                with self.subTest(kind=kind, gone=gone):
                    self.one(kind, gone)


if __name__ == "__main__":
    main()
