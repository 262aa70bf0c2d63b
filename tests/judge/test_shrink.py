"""test_shrink.py - from a limit to a proven file: NumPy decodes the output, computes its answers and those of the model on the
rows to prove, and compares sizes, losses and the recipe's bytes with what shrink says."""
import json
import os
import signal
import subprocess
import time
import unittest

from judge_support import PROGRAM, Judge, main, np, run

NET = "input x [batch, 96]\nlinear fc1 64\nrelu\nlinear fc2 64\nrelu\nlinear fc3 5\n"
N_ROWS = 400


def answers(w, x):
    for layer in ("fc1", "fc2"):
        x = np.maximum(x @ w[layer + ".weight"].T + w[layer + ".bias"], 0)
    return x @ w["fc3.weight"].T + w["fc3.bias"]


class Shrink(Judge):
    def setUp(self):
        super().setUp()
        r = np.random.default_rng(7)
        self.w = {}
        for name, n, k in (("fc1", 64, 96), ("fc2", 64, 64), ("fc3", 5, 64)):
            self.w[name + ".weight"] = (r.standard_normal((n, k)) / np.sqrt(k) * r.lognormal(0, 1, (n, k))).astype("f4")
            self.w[name + ".bias"] = (r.standard_normal(n) * 0.1).astype("f4")
        np.savez(self.path("m.npz"), **self.w)
        self.x = r.standard_normal((N_ROWS, 96)).astype("f4")
        self.y = answers(self.w, self.x.astype("f8")).argmax(1)
        np.savez(self.path("rows.npz"), x=self.x)
        np.savez(self.path("labelled.npz"), x=self.x, y=self.y)
        with open(self.path("net.txt"), "w", encoding="utf-8") as f:
            f.write(NET)
        self.data = ("--graph", "net.txt", "--data", "rows.npz", "--steps", 60)

    def shrink(self, *args, code=0):
        r = run("shrink", *args, "--json=r.json", "-q", "m.npz", cwd=self.dir)
        self.assertEqual(r.code, code, r.err)
        with open(self.path("r.json"), encoding="utf-8") as f:
            return json.load(f)

    def part(self, begin, end, seed=0):
        """The rows of --part, by the answers of vcompress logits to them."""
        self.vc("logits", "--graph", "net.txt", "--data", "rows.npz", "--part", "%d-%d" % (begin, end), "--part-seed", seed, "m.npz",
                "-o", "l.npz", "-f", "-q", cwd=self.dir)
        with np.load(self.path("l.npz")) as z:
            logits = next(z[n] for n in z.files if z[n].ndim == 2 and z[n].shape[1] == 5)
        whole = answers(self.w, self.x.astype("f8"))
        rows = [int(np.abs(whole - one).sum(1).argmin()) for one in logits]
        self.assertLess(np.abs(whole[rows] - logits).max(), 1e-4)
        return rows

    def decoded(self, name):
        self.vc("dequantize", name, "-o", "floats.npz", "-f", "-q", cwd=self.dir)
        with np.load(self.path("floats.npz")) as z:
            return {n: z[n].astype("f8") for n in z.files}

    def repeat(self, document, name):
        """The recipe beside the output makes the same bytes."""
        deflate = ["--deflate"] if document["candidates"][document["chosen"]]["deflate"] else []
        self.vc("run", *deflate, name + ".recipe", "m.npz", "-o", "again.npz", "-f", "-q", cwd=self.dir)
        with open(self.path(name), "rb") as a, open(self.path("again.npz"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def check_proof(self, document, name, rows):
        """Answers of the output on the rows to prove, by NumPy."""
        x = self.x[rows].astype("f8")
        equal = (answers(self.decoded(name), x).argmax(1) == answers(self.w, x).argmax(1)).mean()
        self.assertEqual(document["proof"]["rows"], len(rows))
        self.assertAlmostEqual(document["proof"]["output"]["agreement"], equal, delta=1.01 / len(rows))
        self.assertAlmostEqual(document["proof"]["loss"], 1 - document["proof"]["output"]["agreement"])
        self.assertEqual(document["proof"]["output_bytes"], os.path.getsize(self.path(name)))
        self.assertEqual(document["proof"]["errors"], 0)

    def test_what_cannot_be_refitted(self):
        """prune refuses --reconstruct of f64 alone; zeros and removed units are candidates all the same, without it."""
        np.savez(self.path("m.npz"), **{n: a.astype("f8") for n, a in self.w.items()})
        found = self.shrink("--ratio", "8", *self.data, "-o", "o.npz")["candidates"]
        for what in ("sparsity", "removed"):
            lines = [c["passes"][0] for c in found if what in c["name"]]
            self.assertTrue(lines, what)
            self.assertNotIn("--reconstruct", " ".join(lines))

    def test_parts(self):
        train, choose, prove = self.part(0, 60), self.part(60, 80), self.part(80, 100)
        self.assertEqual((len(train), len(choose), len(prove)), (240, 80, 80))
        self.assertEqual(sorted(train + choose + prove), list(range(N_ROWS)))
        self.assertEqual(train, sorted(train))
        self.assertNotEqual(prove, self.part(80, 100, 1))

    def test_without_data(self):
        before = os.path.getsize(self.path("m.npz"))
        errors = {}
        for bits in (2, 3, 4, 5, 6, 8):
            self.vc("quantize", "--scheme", "int%d" % bits, "--rest", "fp16", "m.npz", "-o", "u.npz", "-f", "-q", cwd=self.dir)
            got = self.decoded("u.npz")
            errors[bits] = (os.path.getsize(self.path("u.npz")), np.sqrt(sum(((got[n] - v) ** 2).sum() for n, v in self.w.items())
                                                                         / sum((v.astype("f8") ** 2).sum() for v in self.w.values())))
        for limit in (("--ratio", 2), ("--ratio", 3.5), ("--bytes", 9000)):
            d = self.shrink(*limit, "-o", "s.npz", "-f")
            most = before / limit[1] if limit[0] == "--ratio" else limit[1]
            self.assertLessEqual(os.path.getsize(self.path("s.npz")), most)
            self.assertEqual(d["proof"]["output_bytes"], os.path.getsize(self.path("s.npz")))
            self.repeat(d, "s.npz")
            chosen = d["candidates"][d["chosen"]]
            got = self.decoded("s.npz")
            error = np.sqrt(sum(((got[n] - v) ** 2).sum() for n, v in self.w.items()) / sum((v.astype("f8") ** 2).sum() for v in self.w.values()))
            if chosen["error"] is not None:
                self.assertAlmostEqual(chosen["error"] / error, 1, delta=0.02)
            # no uniform type within the limit has less error by more than the 3 dB that a mixture has to gain
            self.assertLessEqual(error, 1.01 * min([e for size, e in errors.values() if size <= most]))

    def test_bytes_with_data(self):
        d = self.shrink("--ratio", 9, *self.data, "-o", "s.npz")
        self.assertLessEqual(9 * os.path.getsize(self.path("s.npz")), os.path.getsize(self.path("m.npz")))
        self.repeat(d, "s.npz")
        self.check_proof(d, "s.npz", self.part(80, 100))
        within = [c for c in d["candidates"] if c["within"] and c["divergence"] is not None]
        self.assertEqual(d["candidates"][d["chosen"]]["divergence"], min(c["divergence"] for c in within))
        self.assertTrue(any(c["steps"] for c in within))
        front = [c for c in d["candidates"] if c["front"]]
        for c in front:
            self.assertFalse(any(o["divergence"] is not None and o["file_bytes"] < c["file_bytes"] and o["divergence"] < c["divergence"]
                                 for o in d["candidates"]))

    def test_loss(self):
        np.savez(self.path("eval.npz"), x=self.x[:100], y=self.y[:100])
        d = self.shrink("--max-loss", "10%", "--graph", "net.txt", "--data", "labelled.npz", "--steps", 60, "--eval", "eval.npz", "-o", "s.npz")
        self.repeat(d, "s.npz")
        accuracy = (answers(self.decoded("s.npz"), self.x[:100].astype("f8")).argmax(1) == self.y[:100]).mean()
        self.assertAlmostEqual(d["proof"]["output"]["accuracy"], accuracy, delta=0.011)
        self.assertLessEqual(1 - accuracy, 0.11)
        self.assertEqual((d["proof"]["rows"], d["proof"]["output"]["labels"], d["proof"]["teacher"]["accuracy"]), (100, 100, 1))
        smaller = [c for c in d["candidates"] if c["file_bytes"] and c["loss"] is not None and c["loss"] <= 0.1]
        self.assertEqual(d["candidates"][d["chosen"]]["file_bytes"], min(c["file_bytes"] for c in smaller))

    def test_device(self):
        d = self.shrink("--memory", "600MiB", "--ratio", 5, *self.data, "-o", "s.npz")
        self.assertEqual(d["proof"]["verdict"], "fits")
        self.check_proof(d, "s.npz", self.part(80, 100))
        self.repeat(d, "s.npz")

    def test_missed(self):
        """No file is left where the proof fails; with --keep-going there is one, and the status stays 1."""
        limit = ("--ratio", 9, "--max-loss", "0", *self.data)
        d = self.shrink(*limit, "-o", "s.npz", code=1)
        self.assertIn("loss", d["missed"])
        self.assertEqual(d["written"], False)
        self.assertFalse([n for n in os.listdir(self.dir) if n.startswith("s.npz")])
        d = self.shrink(*limit, "-o", "s.npz", "--keep-going", code=1)
        self.assertEqual(d["written"], True)
        self.repeat(d, "s.npz")

    @staticmethod
    def lines(path):
        """Candidates in a journal, behind its head."""
        if not os.path.exists(path):
            return 0
        with open(path, "rb") as f:
            return sum(not line.startswith(b"#") and line.endswith(b"\n") for line in f)

    def test_resume(self):
        """A search that is killed goes on, and ends with the bytes of one that was not."""
        d = self.shrink("--ratio", 9, *self.data, "-o", "whole.npz")
        for wait in (1, 3, 5):
            child = subprocess.Popen([PROGRAM, "shrink", "--ratio", "9", *map(str, self.data), "-o", "s.npz", "m.npz"]
                                     + (["--resume"] if wait != 1 else []), cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            journal = self.path("s.npz.shrink/journal")
            while child.poll() is None and self.lines(journal) <= wait:
                time.sleep(0.005)
            child.send_signal(signal.SIGKILL if wait == 3 else signal.SIGINT)
            child.wait()
            self.assertFalse(os.path.exists(self.path("s.npz")))
        self.refuse(2, "shrink", "--ratio", 9, *self.data, "-o", "s.npz", "m.npz", cwd=self.dir)
        self.refuse(2, "shrink", "--ratio", 8, *self.data, "-o", "s.npz", "--resume", "m.npz", cwd=self.dir)
        e = self.shrink("--ratio", 9, *self.data, "-o", "s.npz", "--resume")
        with open(self.path("whole.npz"), "rb") as a, open(self.path("s.npz"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertEqual([(c["name"], c["divergence"], c["file_bytes"]) for c in d["candidates"]],
                         [(c["name"], c["divergence"], c["file_bytes"]) for c in e["candidates"]])
        self.assertFalse(os.path.exists(self.path("s.npz.shrink")))

    def interrupt(self, output, *args, lines=2):
        """A search that is killed behind its first candidates."""
        with subprocess.Popen([PROGRAM, "shrink", *map(str, args), "-o", output, "-q"], cwd=self.dir, stderr=subprocess.DEVNULL) as child:
            while child.poll() is None and self.lines(self.path(output + ".shrink/journal")) <= lines:
                time.sleep(0.003)
            child.kill()
        self.assertTrue(os.path.exists(self.path(output + ".shrink/journal")))

    def test_resume_of_refused(self):
        """A candidate that was refused stays so, with its whole sentence; lines that are damaged are measured again."""
        words = ["--ratio", 4, "--graph", "net.txt", "--data", "rows.npz", "--steps", 200, "m.npz"]
        self.interrupt("s.npz", *words, lines=3)
        path = self.path("s.npz.shrink/journal")
        with open(path, encoding="utf-8") as f:
            text = f.read().split("\n")
        head = [line for line in text if line.startswith("#")]
        lines = text[len(head):len(head) + 3]
        fields = [line.split("\t")[0].split(" ", 13) for line in lines]
        self.assertEqual([f[13] for f in fields], ["-", "-", "-"])
        names = [line.split("\t")[1] for line in lines]
        reasons = ["--sparsity: a sentence", "- ", None]
        fields = [f[:13] + [r] if r is not None else f[:13] for f, r in zip(fields, reasons)]
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(head + [" ".join(f + [""] * (14 - len(f))) + "\t" + n for f, n in zip(fields, names)]) + "\n")
        found = {c["name"]: c["reason"] for c in self.shrink(*words[:-1], "-o", "s.npz", "--resume")["candidates"]}
        self.assertEqual([found[name] for name in names], reasons)

    def test_resume_of_another_search(self):
        """Same names and sizes, other values: another model, other rows, other labels or another graph are refused."""
        words = ["--ratio", 9, "--graph", "net.txt", "--data", "rows.npz", "--labels", "y.npy", "--steps", 2000, "m.npz"]
        np.save(self.path("y.npy"), self.y)
        self.interrupt("s.npz", *words)
        others = {"model": ("m.npz", lambda f: np.savez(f, **dict(self.w, **{"fc3.bias": self.w["fc3.bias"] + np.float32(1)}))),
                  "rows": ("rows.npz", lambda f: np.savez(f, x=np.flip(self.x, 0))),
                  "other rows": ("y.npy", lambda f: np.save(f, np.flip(self.y))),
                  "graph": ("net.txt", lambda f: f.write(NET.replace("relu", "tanh").encode()))}
        for word, (name, write) in others.items():
            with open(self.path(name), "rb") as f:
                before = f.read()
            with open(self.path(name), "wb") as f:
                write(f)
            r = run("shrink", *words, "-o", "s.npz", "--resume", "-q", cwd=self.dir)
            self.assertEqual((r.code, word in r.err, "force" in r.err), (2, True, True), r.err)
            with open(self.path(name), "wb") as f:
                f.write(before)
        r = run("shrink", *words[:-2], 1999, "m.npz", "-o", "s.npz", "--resume", "-q", cwd=self.dir)
        self.assertEqual((r.code, "options" in r.err), (2, True), r.err)
        os.rename(self.path("m.npz"), self.path("moved.npz"))  # a name is no identity
        with subprocess.Popen([PROGRAM, "shrink", *map(str, words[:-1]), "moved.npz", "-o", "s.npz", "--resume", "-q"], cwd=self.dir,
                              stderr=subprocess.PIPE, text=True) as child:
            before = self.lines(self.path("s.npz.shrink/journal"))
            while child.poll() is None and self.lines(self.path("s.npz.shrink/journal")) <= before:
                time.sleep(0.003)
            # while it works there, nobody else does, and nothing of it goes
            self.assertIsNone(child.poll())
            for more in ([], ["-f"], ["--resume"]):
                r = run("shrink", *words[:-1], "moved.npz", "-o", "s.npz", "-q", *more, cwd=self.dir)
                self.assertEqual((r.code, "another search" in r.err), (2, True), r.err)
            self.assertTrue(os.path.exists(self.path("s.npz.shrink/journal")))
            child.kill()
        with open(self.path("s.npz.shrink/mine"), "w", encoding="utf-8"):
            pass
        r = run("shrink", "--ratio", 3, "moved.npz", "-o", "s.npz", "-f", "-q", cwd=self.dir)
        self.assertEqual((r.code, "mine" in r.err), (2, True), r.err)
        os.remove(self.path("s.npz.shrink/mine"))
        self.vc("shrink", "--ratio", 3, "moved.npz", "-o", "s.npz", "-f", "-q", cwd=self.dir)
        self.assertEqual(sorted(n for n in os.listdir(self.dir) if n.startswith("s.npz")), ["s.npz", "s.npz.recipe"])

    def test_folder_of_the_input(self):
        """Output and recipe in there are refused before the work, and leave nothing."""
        self.llama()
        before = sorted(os.listdir(self.path("llama")))
        for words in (["-o", "llama/small"], ["-o", "s", "--recipe", "llama/r"], ["-o", "no/where"]):
            r = run("shrink", "--ratio", 3, "llama", "-q", *words, cwd=self.dir)
            self.assertIn(r.code, (2, 4), r.err)
            self.assertEqual((sorted(os.listdir(self.path("llama"))), os.path.exists(self.path("s.shrink"))), (before, False))

    def llama(self, layers=4, idle=2):
        """A folder with a Llama of random weights, in which layer `idle` adds nothing to the hidden state."""
        r = np.random.default_rng(3)
        w = {"model.embed_tokens.weight": r.standard_normal((64, 128)), "model.norm.weight": np.ones(128)}
        for k in range(layers):
            p = "model.layers.%d." % k
            for name, n, m in (("self_attn.q_proj", 128, 128), ("self_attn.k_proj", 64, 128), ("self_attn.v_proj", 64, 128),
                               ("self_attn.o_proj", 128, 128), ("mlp.gate_proj", 256, 128), ("mlp.up_proj", 256, 128), ("mlp.down_proj", 128, 256)):
                w[p + name + ".weight"] = r.standard_normal((n, m)) / np.sqrt(m) * (0 if k == idle and name[-6:] in ("o_proj", "n_proj") else 1)
            w[p + "input_layernorm.weight"] = w[p + "post_attention_layernorm.weight"] = np.ones(128)
        w["lm_head.weight"] = r.standard_normal((64, 128)) / np.sqrt(128)
        os.mkdir(self.path("llama"))
        with open(self.path("llama/config.json"), "w", encoding="utf-8") as f:
            json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64, "hidden_size": 128,
                       "intermediate_size": 256, "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2,
                       "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "hidden_act": "silu"}, f)
        head, data = {}, b""
        for name, values in w.items():
            part = values.astype("<f4").tobytes()
            head[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + len(part)]}
            data += part
        head = json.dumps(head).encode()
        with open(self.path("llama/model.safetensors"), "wb") as f:
            f.write(len(head).to_bytes(8, "little") + head + data)

    def test_layers(self):
        """A layer that adds nothing is the first to go; heads, layers and mixed types are candidates, too."""
        self.llama()
        np.savez(self.path("ids.npz"), input_ids=np.random.default_rng(4).integers(0, 64, (30, 12)))
        self.vc("prune", "--drop-layers", 2, "llama", "-o", "three", cwd=self.dir)
        self.vc("quantize", "--int8", "three", "-o", "three8", cwd=self.dir)
        size = sum(os.path.getsize(self.path("three8/" + n)) for n in os.listdir(self.path("three8")))
        r = run("shrink", "--bytes", size, "--data", "ids.npz", "--steps", 1, "--json=r.json", "-q", "llama", "-o", "s", cwd=self.dir)
        self.assertEqual(r.code, 0, r.err)
        with open(self.path("r.json"), encoding="utf-8") as f:
            d = json.load(f)
        names = [c["name"] for c in d["candidates"]]
        self.assertTrue(names[d["chosen"]].startswith("without layer 2, int8"), names[d["chosen"]])
        self.assertLess(d["proof"]["output"]["divergence"], 1e-3)
        alone = {k: d["candidates"][names.index("without layer %d, as stored" % k)]["divergence"] for k in range(4)}
        self.assertLess(alone[2], 1e-9)
        self.assertGreater(min(alone[k] for k in (0, 1, 3)), 0.01)
        self.assertTrue({"mixed types", "0.5 of the heads removed, int8", "0.5 of the neurons removed, int4"} <= set(names), names)
        order = sorted(alone, key=alone.get)
        self.assertIn("without layers %d,%d, int4" % tuple(order[:2]), names)
        with open(self.path("s/config.json"), encoding="utf-8") as f:
            self.assertEqual(json.load(f)["num_hidden_layers"], 3)
        self.vc("run", "s.recipe", "llama", "-o", "again", "-q", cwd=self.dir)
        for name in os.listdir(self.path("s")):
            with open(self.path("s/" + name), "rb") as a, open(self.path("again/" + name), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)

    def test_layout(self):
        """The command in the recipe repeats the bytes of an output whose layout was asked for."""
        self.llama()
        self.vc("shrink", "--ratio", 3, "--layout", "plain", "llama", "-o", "s", "-q", cwd=self.dir)
        with open(self.path("s.recipe"), encoding="utf-8") as f:
            words = f.read().split("\n")[1].split()
        self.assertEqual(words[:5] + words[-2:], ["#", "vcompress", "run", "--layout", "plain", "-o", "s"])
        self.vc(*words[2:-1], "again", "-q", cwd=self.dir)
        with open(self.path("s/model.safetensors"), "rb") as a, open(self.path("again/model.safetensors"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.refuse(2, "run", "--layout", "plain", "--pass", "quantize --int8 --layout w8a8", "llama", "-o", "n", cwd=self.dir)

    def test_codes_behind_layers(self):
        """Codes are trained in the layout of the folder, under the names of the layers that stay."""
        self.llama(idle=None)
        np.savez(self.path("ids.npz"), input_ids=np.random.default_rng(4).integers(0, 64, (30, 12)))
        with open(self.path("r"), "w", encoding="utf-8") as f:
            f.write("prune --drop-layers 1\nquantize --fp16 --rest fp16\ndistill --data ids.npz --steps 2 --lr 1e-6 --fake-quant int4\n")
        self.vc("run", "r", "llama", "-o", "out", "-q", cwd=self.dir)
        with open(self.path("out/model.safetensors"), "rb") as f:
            names = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        linear = ["self_attn.%s_proj" % n for n in "qkvo"] + ["mlp.%s_proj" % n for n in ("gate", "up", "down")]
        expected = {"model.layers.%d.%s.weight_packed" % (k, n) for k in range(3) for n in linear}
        self.assertEqual({n for n in names if n.endswith("_packed")}, expected)
        self.assertEqual(names["model.embed_tokens.weight"]["dtype"], "F16")
        self.vc("prune", "--drop-layers", 1, "llama", "-o", "three", "-q", cwd=self.dir)
        self.vc("dequantize", "out", "-o", "floats", "-q", cwd=self.dir)
        self.vc("diff", "--min-sqnr", 18, "three", "floats", cwd=self.dir)

    def test_time(self):
        """No candidate is measured in time: the first of the list within the limits is written, and proved."""
        d = self.shrink("--ratio", 7, "--time", "0.001", *self.data, "-o", "s.npz")
        self.assertTrue(d["out_of_time"])
        first = next(k for k, c in enumerate(d["candidates"]) if c["within"])
        self.assertEqual((d["chosen"], d["written"]), (first, True))
        self.assertIn("measured", d["note"])
        self.assertLessEqual(7 * d["proof"]["output_bytes"], d["input_bytes"])
        for c in d["candidates"]:
            self.assertEqual(c["within"] is None, c["file_bytes"] is None and c["reason"] is None, c)

    def test_rule(self):
        """Where mixed types have less error, but not 3 dB less, they are not taken, and a note says so."""
        told = 0
        for ratio in (3, 4.1, 5.2, 6.3):
            d = self.shrink("--ratio", ratio, "-o", "s.npz", "-f")
            chosen = d["candidates"][d["chosen"]]
            less = [c for c in d["candidates"] if c["within"] and c["error"] is not None and c["error"] < chosen["error"]]
            self.assertEqual(bool(less), "safer" in (d["note"] or ""), (chosen, less, d["note"]))
            self.assertIn("is taken", d["note"])
            told += bool(less)
        self.assertGreater(told, 0)


if __name__ == "__main__":
    main()
